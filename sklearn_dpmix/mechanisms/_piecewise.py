"""The piecewise mechanism (Wang et al. 2019)."""

import numpy as np
from numpy.typing import ArrayLike

from ._window import WindowChannel, WindowOfScales


class PiecewiseMechanism(WindowChannel):
    r"""Release an unbiased number in [-C, C] for a record t in [-1, 1], more probably near t than elsewhere.

    C = (e^(ε/2) + 1)/(e^(ε/2) - 1).  The density is p = (e^ε - e^(ε/2))/(2 e^(ε/2) + 2) on [l(t), l(t) + C - 1], with
    l(t) = (C + 1) t/2 - (C - 1)/2, and p e^-ε elsewhere on [-C, C].  Two densities of one release differ by a factor of
    1 or e^ε, so it is exactly ε-DP.  The release has mean t and variance t²/(e^(ε/2) - 1) + (e^(ε/2) + 3)/(3 (e^(ε/2) -
    1)²).  For other ``bounds``, both record and release are in their unit.  A record of d features spends ε/d on each,
    and records outside the bounds are moved to the bound.

    Inference is exact for every kernel with a distribution function.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,)
        Privacy loss of a record; an array gives every record its own.
    bounds : pair (lo, hi) or array of shape (n_features, 2), default=(-1, 1)
        Public bounds, to be passed unless records are within the default ones: all others are moved to a bound.

    Raises
    ------
    ValueError
        On use, for a parameter out of range, or an ε so large that the window is almost a point (about 50 on (-1, 1));
        for releases outside [-C, C].

    References
    ----------
    Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu (2019), Collecting and analyzing multidimensional data with local
    differential privacy, Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import PiecewiseMechanism
    >>> mechanism = PiecewiseMechanism(epsilon=1.0, bounds=(0, 10))
    >>> Z = mechanism.privatize(np.full((100_000, 1), 7.0), random_state=0)
    >>> bool(abs(Z.mean() - 7.0) < 0.2)
    True
    >>> mechanism.guarantee().epsilon
    1.0
    """

    noised_kernels = frozenset({"beta", "normal", "truncated_normal"})
    _of_scales = WindowOfScales

    def __init__(self, epsilon: ArrayLike | None = None, bounds: ArrayLike | None = (-1, 1)) -> None:
        self.epsilon = epsilon
        self.bounds = bounds

    def _window(self, epsilon):
        """(C + 1)/2 and (C - 1)/2."""
        return -1.0 / np.expm1(-0.5 * epsilon), 1.0 / np.expm1(0.5 * epsilon)
