"""A run of `fix`: what is written down before each change, and how the run is finished, proven or taken back."""
