"""Benchmarks: speed, size and start-up beside other ways to do the same job.

Each `bench_<name>.py` states what is measured and how to read it, makes its data from a seed (`prepare`), and names
its contenders in `CONTENDERS`: functions that take the data's folder and return figures. Every contender runs in a
process of its own, in turn with the others, so that a noisy machine disturbs them all alike: compare within one run,
by ratios and CPU time. `make bench` runs all; `python -m benchmarks text_pairs --rounds 5` one.
"""
