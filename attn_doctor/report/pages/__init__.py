"""Pages for a browser: one self-contained file each, readable without a script."""
