"""torch.cuda for a simulated GPU."""
