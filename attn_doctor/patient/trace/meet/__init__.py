"""Recognizes attention calls, and examines them there."""
