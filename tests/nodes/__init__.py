"""Reports recorded on real machines; machine names and UUIDs are blanked. What the doctor must still say of them."""
