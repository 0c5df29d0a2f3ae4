"""What is said, before a format dresses it."""
