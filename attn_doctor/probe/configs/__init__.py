"""Training configurations and launch scripts, read as settings with their lines."""
