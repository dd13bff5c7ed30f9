"""The benchmarks of this folder's parent as asv runs them over commits: times and memory, where those give ratios."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2]))  # for `benchmarks`; last, so that the installed package is met
