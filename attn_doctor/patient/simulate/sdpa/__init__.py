"""scaled_dot_product_attention for a GPU that is not there: which backend it takes, and why not the others."""
