"""pip and uv as a target has them: which one works, what it would take, what it is told to do."""
