"""Turns a diagnosis into a plan: chooses a remedy for each finding, and predicts the findings of the planned packages.

Changes nothing; fix/ carries plans out.
"""
