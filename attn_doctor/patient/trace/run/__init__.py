"""What is run, by whose rules, and how that ended."""
