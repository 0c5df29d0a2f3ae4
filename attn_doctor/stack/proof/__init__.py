"""Opens wheels before anything is installed: what their compiled libraries need, and which GPUs they hold code for."""
