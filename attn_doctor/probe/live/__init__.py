"""Starts scripts in the patient's interpreter (patient/) and makes facts of their answers."""
