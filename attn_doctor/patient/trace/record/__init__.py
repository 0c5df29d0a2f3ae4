"""Records which call, on which line, gives each tensor its dtype, while a program runs."""
