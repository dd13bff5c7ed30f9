"""The square wave mechanism (Li et al. 2020)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import hyp1f1

from ._window import WindowChannel, WindowOfScales


class SquareWaveMechanism(WindowChannel):
    r"""Release a number in [-b, 1 + b] for a record in [0, 1], more probably within b of it than elsewhere.

    The density is p if abs(z - x) <= b, and q = p e^-ε elsewhere on [-b, 1 + b], with p = e^ε/(2b e^ε + 1) and b = (ε
    e^ε - e^ε + 1)/(2 e^ε (e^ε - 1 - ε)), which maximises a bound on the mutual information of record and release.  b is
    1/2 for small ε and goes to 0 for large ε.  Two densities of one release differ by a factor of 1 or e^ε, so it is
    exactly ε-DP.  For other ``bounds``, both record and release are in their unit, b times as long.  A record of d
    features spends ε/d on each, and records outside the bounds are moved to the bound.

    Inference is exact for every kernel with a distribution function.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,)
        Privacy loss of a record; an array gives every record its own.
    bounds : pair (lo, hi) or array of shape (n_features, 2), default=(0, 1)
        Public bounds, to be passed unless records are within the default ones: all others are moved to a bound.

    Raises
    ------
    ValueError
        On use, for a parameter out of range, or an ε so large that the window is almost a point (about 28 on (0, 1));
        for releases outside [-b, 1 + b].

    References
    ----------
    Li, Wang, Lopuhaä-Zwakenberg, Škorić, Li (2020), Estimating numerical distributions under local differential
    privacy, §5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import SquareWaveMechanism
    >>> mechanism = SquareWaveMechanism(epsilon=1.0)
    >>> mechanism.privatize(np.array([[0.1], [0.5], [0.9]]), random_state=0).shape
    (3, 1)
    >>> round(mechanism.half_width(), 4)  # b
    0.2561
    >>> mechanism.guarantee().epsilon
    1.0
    """

    noised_kernels = frozenset({"beta", "normal", "truncated_normal"})
    _of_scales = WindowOfScales

    def __init__(self, epsilon: ArrayLike | None = None, bounds: ArrayLike | None = (0, 1)) -> None:
        self.epsilon = epsilon
        self.bounds = bounds

    def half_width(self, n_features: int = 1) -> float:
        """Return b, as a share of the bounds' width; for the largest ε if each record has its own."""
        _, _, h = self._windows(np.asarray(self.epsilon).size, n_features)
        return 0.5 * float(np.min(h))

    def _window(self, epsilon):
        """b = f(-ε)/(2 f(ε)), f(x) = e^x - 1 - x, which is x²/2 times 1F1(1; 3; x)."""
        near = np.minimum(epsilon, 1.0)
        small = hyp1f1(1, 3, -near) / hyp1f1(1, 3, near)
        far = np.maximum(epsilon, 1.0)
        return np.ones_like(epsilon), np.where(epsilon < 1.0, small, (far + np.expm1(-far)) / (np.expm1(far) - far))
