"""Checks of confidential records: an error states their shapes, and nothing that they hold.

That there is an error at all still says that some record is not what it should be.  scikit-learn's own checks quote
what they were given (text, a list of numbers), and its check of labels warns about how many there are.
"""

import numpy as np

from .._base.parameters import check_array, check_X_y


def check_confidential(estimator, X, y=None, *, y_numeric=False, ensure_2d=True):
    """scikit-learn's ``check_array(X)`` or ``check_X_y(X, y)``, of finite numbers, with errors that quote nothing.

    With ``y_numeric=True`` y is converted to floats.
    """
    options = {"dtype": np.float64, "order": "C", "ensure_2d": ensure_2d, "estimator": estimator}
    try:
        with np.errstate(all="ignore"):
            if y is None:
                return check_array(X, **options)
            return check_X_y(X, y, y_numeric=y_numeric, **options)
    except Exception:  # raised below: not even as its context
        pass
    shapes = f"X of shape {_shape(X)}" + ("" if y is None else f" and y of shape {_shape(y)}")
    raise ValueError(
        f"{type(estimator).__name__}: X must be a table of finite numbers, one row per "
        f"record{'' if y is None else ', and y one finite number or one label per record'}; got {shapes}; what is "
        "wrong is not quoted, since it is confidential: encode text and categories, impute or drop missing values"
    )


def _shape(array):
    try:
        return tuple(np.shape(array))
    except Exception:
        return "unknown (rows of different lengths?)"


def encode_labels(y, labels):
    """y as integers 0..K-1: its positions in the K public ``labels``, which are in increasing order."""
    try:
        codes = np.searchsorted(labels, y).clip(0, len(labels) - 1)
        is_known = np.array_equal(labels[codes], y)
    except TypeError:  # of labels that cannot be compared
        is_known = False
    if not is_known:
        raise ValueError(
            f"y must hold the labels {labels.tolist()} and no others: pass classes= for others, which are then public"
        )
    return codes
