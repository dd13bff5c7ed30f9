"""How components are written, in errors and by ``print``."""

from copy import copy

import numpy as np
from sklearn.base import BaseEstimator

LONG = 40  # entries of an array beyond which its shape stands for it


class _Shape(tuple):
    def __repr__(self):
        return f"<array of shape {tuple(self)}>"


class OneLine(BaseEstimator):
    """A scikit-learn object that is written on one line, with the shape of a long array, such as ε of each record."""

    def __repr__(self, N_CHAR_MAX=700):
        shown = copy(self)
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, (list, tuple, np.ndarray)) and np.size(value) > LONG:
                setattr(shown, name, _Shape(np.shape(value)))
        return " ".join(BaseEstimator.__repr__(shown, N_CHAR_MAX).split())
