"""pip and uv for a target: which one works, what it would install, and its command lines."""
