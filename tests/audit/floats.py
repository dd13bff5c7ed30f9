"""Events that floating-point noise tells two records apart by, though on paper it does not.

Two neighbours' exact values are 0 and 1.  *Multiples*: noise added to 1 lands within ±½ on a multiple of 2⁻⁵³ only, as
1 + e is exact there and e has that spacing; noise on 0 need not.  *Attainable*: NumPy makes Laplace noise of a uniform
number, a multiple of 2⁻⁵³, so that from a given value only some doubles can be released (Mironov 2012).
"""

from math import exp, log

import numpy as np

from .measure import shown_epsilon

GRID = 2.0**-53


def is_off_grid(z):
    """Whether a release within ±½ is no multiple of 2⁻⁵³: impossible from 1."""
    z = np.asarray(z)
    return (np.abs(z) < 0.5) & (np.rint(z / GRID) * GRID != z)


def attainable(z, value, scale):
    """Whether NumPy's Laplace noise of that scale takes ``value`` to z exactly."""
    return np.array([_attainable(one, value, scale) for one in np.ravel(z).tolist()])


def _attainable(z, value, scale):
    """The uniform number that would do it, and those next to it."""
    e = z - value
    near = round(0.5 * exp(-abs(e) / scale) / GRID)
    for k in range(near - 16, near + 17):
        u = k * GRID
        if 0.0 < u <= 0.5:
            size = scale * log(u + u)  # negative
            if value + size == z or value - size == z:
                return True
    return False


def shown_by_multiples(first, second):
    """ε that the event shows, from releases of 0 and of 1."""
    return shown_epsilon(is_off_grid(first), is_off_grid(second))


def shown_by_attainable_sets(first, second, scale):
    """ε that "attainable from 0, and not from 1" shows."""
    events = [attainable(z, 0.0, scale) & ~attainable(z, 1.0, scale) for z in (first, second)]
    return shown_epsilon(*events)


def shown_by_snapping(first, second, scale):
    """The larger of what "attainable from 0" and "attainable from 1" show."""
    one = shown_epsilon(*(attainable(z, 0.0, scale) for z in (first, second)))
    return max(one, shown_epsilon(*(attainable(z, 1.0, scale) for z in (second, first))))
