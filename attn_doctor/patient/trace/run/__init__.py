"""Runs the target under the chosen rules and classifies how it ended."""
