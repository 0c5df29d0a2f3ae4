"""torch.cuda for a GPU that is not there."""
