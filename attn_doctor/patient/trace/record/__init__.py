"""Records, while a program runs, which call on which line gives each tensor its dtype."""
