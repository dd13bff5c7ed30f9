"""Benchmarks: ratios within one run; ``make bench`` prints them and writes docs/benchmarks.md."""
