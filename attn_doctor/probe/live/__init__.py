"""Starts the patient's interpreter (patient/) and makes facts of its answers."""
