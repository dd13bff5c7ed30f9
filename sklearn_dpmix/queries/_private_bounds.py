"""Bounds for a query from a private quantile, if none are public (Smith 2011; Kaplan, Schnapp & Stemmer 2022)."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax

from .._base.generators import as_generator
from .._base.parameters import check_bounds, numbers, positive_number
from .._base.typing import Seed
from ..privacy import PrivacyGuarantee


def private_quantile(
    x: ArrayLike, q: float, epsilon: float, bounds: ArrayLike, *, random_state: Seed = None
) -> tuple[float, PrivacyGuarantee]:
    """Draw a quantile of confidential numbers by the exponential mechanism.

    A point t of the bounds has density proportional to ``exp(-ε |#{x_i < t} - qn| / 2)``: replacing a record changes
    the count by at most 1, so it changes the density, its normaliser included, by a factor of at most e^ε.  There is no
    room between equal records: if many are equal, the answer falls into the gaps next to them.  The guarantee holds in
    exact arithmetic.  There is no ``secure``: the draw is NumPy's, and its floating-point values may reveal more.

    Parameters
    ----------
    x : array-like of shape (n_records,)
        Confidential numbers; those outside the bounds count as at the bound.
    q : float in [0, 1]
        0.5 is the median.
    epsilon : float
        What the draw spends.
    bounds : pair (lo, hi)
        Public and generous bounds: the answer lies between them, and
        their width costs accuracy, 2 ln(width / spacing of the records) / ε ranks.
    random_state : int, Generator, RandomState or None
        For simulation.  A seed that made a release is a secret; None takes fresh entropy from the operating system.

    Returns
    -------
    value : float
    guarantee : PrivacyGuarantee
        What was spent.

    Raises
    ------
    ValueError
        For numbers that are not finite, or a parameter out of range.

    References
    ----------
    Smith (2011), "Privacy-preserving statistical estimation with optimal convergence rates", Algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.queries import private_quantile
    >>> x = np.random.default_rng(0).normal(50, 10, size=2000)
    >>> value, guarantee = private_quantile(x, 0.5, epsilon=1.0, bounds=(0, 1000), random_state=1)
    >>> bool(48 < value < 52), guarantee.epsilon
    (True, 1.0)
    """
    edges, probability = _interval_probabilities(x, q, epsilon, bounds)
    rng = as_generator(random_state)
    k = rng.choice(len(probability), p=probability)
    return float(edges[k] + (edges[k + 1] - edges[k]) * rng.random()), PrivacyGuarantee.pure(float(epsilon))


def private_bounds(
    x: ArrayLike, epsilon: float, bounds: ArrayLike, *, coverage: float = 0.95, random_state: Seed = None
) -> tuple[tuple[float, float], PrivacyGuarantee]:
    """Draw bounds that hold about a share ``coverage`` of confidential numbers: two private quantiles, ε/2 each.

    As for :func:`private_quantile`, there is no ``secure``: the draws are NumPy's.

    Parameters
    ----------
    x : array-like of shape (n_records,)
    epsilon : float
        What both draws spend together.
    bounds : pair (lo, hi)
        Public and generous bounds, as in :func:`private_quantile`.
    coverage : float in (0, 1), default=0.95
    random_state : as in :func:`private_quantile`

    Returns
    -------
    bounds : pair (lo, hi) of float
        For ``SufficientStatistics(family, bounds)`` and the like.
    guarantee : PrivacyGuarantee
        What was spent; the release that uses the bounds is extra.

    Raises
    ------
    ValueError
        As :func:`private_quantile`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.queries import private_bounds
    >>> x = np.random.default_rng(0).exponential(3.0, size=5000)
    >>> (lo, hi), guarantee = private_bounds(x, epsilon=1.0, bounds=(0, 1e4), random_state=1)
    >>> bool(lo < 1.0 < 8.0 < hi), guarantee.epsilon
    (True, 1.0)
    """
    share = numbers(coverage)
    if share is None or share.ndim or not 0 < share < 1:
        raise ValueError(f"coverage must be between 0 and 1, got coverage={coverage!r}")
    rng = as_generator(random_state)
    half = 0.5 * positive_number("epsilon", epsilon)
    ends = [private_quantile(x, q, half, bounds, random_state=rng)[0] for q in (0.5 - 0.5 * share, 0.5 + 0.5 * share)]
    return (min(ends), max(ends)), PrivacyGuarantee.pure(float(epsilon))


def _interval_probabilities(x, q, epsilon, bounds):
    """(edges, probability of each interval between two of them); the density is flat on each interval."""
    x, share = numbers(x), numbers(q)
    if x is None or x.ndim != 1 or not len(x) or not np.all(np.isfinite(x)):
        given = "other values" if x is None or x.ndim == 1 else f"shape {x.shape}"
        raise ValueError(f"x must be finite numbers of shape (n_records,), at least one, got {given}")
    if share is None or share.ndim or not 0 <= share <= 1:
        raise ValueError(f"q must be between 0 and 1, got q={q!r}")
    epsilon = positive_number("epsilon", epsilon)
    lo, hi = check_bounds(bounds, 1)[0]
    edges = np.concatenate([[lo], np.sort(np.clip(x, lo, hi)), [hi]])
    below = np.arange(len(x) + 1)  # records below the k-th interval
    with np.errstate(divide="ignore"):
        log_weight = np.log(np.diff(edges)) - 0.5 * epsilon * np.abs(below - share * len(x))
    return edges, softmax(log_weight)
