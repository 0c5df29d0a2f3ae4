"""Reads training configurations and launch scripts as settings with their lines."""
