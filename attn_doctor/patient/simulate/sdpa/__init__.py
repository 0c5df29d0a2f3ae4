"""scaled_dot_product_attention on a simulated GPU: the backend that it chooses, and why not the others."""
