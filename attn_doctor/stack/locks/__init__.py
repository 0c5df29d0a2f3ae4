"""Reads lock files and manifests: which releases they would install, and in which line that is said."""
