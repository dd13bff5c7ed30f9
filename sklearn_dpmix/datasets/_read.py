"""Reading the packaged tables."""

import gzip
from importlib.resources import files

import numpy as np


def read(name, dtype=np.float64):
    """The numbers of a table with one line of names: (n_rows,), or (n_rows, n_columns) if there are several."""
    with files(__package__).joinpath(name).open("rb") as packed, gzip.open(packed, "rt", encoding="ascii") as text:
        return np.loadtxt(text, skiprows=1, delimiter=",", dtype=dtype)
