"""Where attention kernels take over from the model's own ops, and what is looked at there."""
