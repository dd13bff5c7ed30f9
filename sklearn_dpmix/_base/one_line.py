"""How components are written, in errors and by ``print``."""

from copy import copy

import numpy as np
from sklearn.base import BaseEstimator

LONG = 40  # entries of an array or a list beyond which its size stands for it


class _Size(str):
    """What stands for an array, written without quotation marks."""

    __repr__ = str.__str__


def _size(value):
    """The size of a long array or list; None of others.  A list is not made an array: its rows may differ in length."""
    if isinstance(value, np.ndarray) and value.size > LONG:
        return _Size(f"<array of shape {value.shape}>")
    if isinstance(value, (list, tuple)) and len(value) > LONG:
        return _Size(f"<{type(value).__name__} of {len(value)}>")
    return None


class OneLine(BaseEstimator):
    """A scikit-learn object that is written on one line, with the size of a long array, such as ε of each record."""

    def __repr__(self, N_CHAR_MAX=700):
        shown = copy(self)
        for name, value in self.get_params(deep=False).items():
            if (size := _size(value)) is not None:
                setattr(shown, name, size)
        return " ".join(BaseEstimator.__repr__(shown, N_CHAR_MAX).split())
