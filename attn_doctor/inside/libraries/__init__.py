"""The attention libraries: one file for each, with everything that attn-doctor knows of it."""
