"""Weights that were kept: checkpoints and their means, vectors trained elsewhere, the names of another program."""
