"""Reads and checks recipe files into `Recipe` records; evaluates nothing."""
