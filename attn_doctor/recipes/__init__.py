"""recipes/ -> Recipe. Reads and checks recipe files; judges nothing."""
