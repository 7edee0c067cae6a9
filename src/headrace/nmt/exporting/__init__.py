"""Models as programs that run without headrace, and how to run them."""
