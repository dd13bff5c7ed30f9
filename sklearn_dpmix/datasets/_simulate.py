"""Simulated data of section 4.1 of Beraha, Favaro and Rao, *MCMC for Bayesian nonparametric mixture modeling under
differential privacy*.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from .._base.generators import as_generator
from .._base.parameters import numbers, positive_integer
from .._base.typing import Array, Floats, Seed

MEANS = np.array([-5.0, 0.0, 5.0])
BOUNDS = (-10.0, 10.0)


def make_three_normals(n_records: int = 1000, *, random_state: Seed = None) -> tuple[Floats, Array]:
    """Records of an equal mixture of three normals, the confidential data of Beraha et al., section 4.1.

    The components are N(-5, 1), N(0, 1) and N(5, 1), each truncated to [-10, 10] and with weight 1/3.

    Parameters
    ----------
    n_records : int, default=1000
        How many records to draw, at least 1. The paper has 50, 200, 500 and 1000.
    random_state : None, int, SeedSequence, Generator or RandomState, default=None
        Where the draws come from; None takes fresh entropy.

    Returns
    -------
    X : ndarray of shape (n_records, 1)
        The records, inside [-10, 10].
    labels : ndarray of shape (n_records,), integers
        The component of each record: 0, 1, 2 for the means -5, 0, 5.

    Raises
    ------
    ValueError
        If `n_records` is not a positive integer.

    See Also
    --------
    three_normals_density : The density that these records have.

    Examples
    --------
    >>> from sklearn_dpmix.datasets import make_three_normals
    >>> X, labels = make_three_normals(200, random_state=0)
    >>> X.shape, labels.shape
    ((200, 1), (200,))
    >>> bool(abs(X).max() <= 10)
    True
    """
    positive_integer("n_records", n_records, most=2**53)
    rng = as_generator(random_state)
    labels = rng.integers(MEANS.size, size=n_records)
    X = _truncated_normal_quantile(rng.random(n_records), MEANS[labels])
    return X[:, np.newaxis], labels


def three_normals_density(x: ArrayLike) -> Floats:
    """Density of the records that `make_three_normals` draws.

    Parameters
    ----------
    x : array-like of any shape
        Where to evaluate it.

    Returns
    -------
    density : ndarray of the same shape as `x`
        The density, 0 outside [-10, 10].

    Examples
    --------
    >>> from sklearn_dpmix.datasets import three_normals_density
    >>> three_normals_density([-5.0, 0.0, 2.5, 11.0]).round(3)
    array([0.133, 0.133, 0.012, 0.   ])
    """
    values = numbers(x)
    if values is None:
        raise ValueError(f"x must be numbers, got x={x!r}")
    x = values
    low, high = BOUNDS
    normal = np.exp(-0.5 * (x[..., np.newaxis] - MEANS) ** 2) / np.sqrt(2 * np.pi)
    density = np.mean(normal / (ndtr(high - MEANS) - ndtr(low - MEANS)), axis=-1)
    return np.where((x < low) | (x > high), 0.0, density)


def _truncated_normal_quantile(u, mean):
    """Quantile of N(mean, 1) truncated to the bounds, at u in [0, 1]."""
    low, high = BOUNDS
    below = ndtr(low - mean)
    x = mean + ndtri(below + u * (ndtr(high - mean) - below))
    return np.clip(x, low, high)  # only rounding: the ends are exact except for the last digits
