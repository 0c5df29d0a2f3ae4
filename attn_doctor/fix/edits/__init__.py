"""File edits, one file for each form of edit."""
