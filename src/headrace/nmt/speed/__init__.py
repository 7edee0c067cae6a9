"""The same numbers in less time: what a computer is spared. The model and its layers know nothing of it."""
