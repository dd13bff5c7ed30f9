"""Whether ranks are uniform: exact tests, and a band (Säilynoja, Bürkner, Vehtari 2022)."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, gammaln, xlogy

from .._base.parameters import check_level, numbers, positive_integer

PRECISION = 1e-9  # relative precision of the band's tail probability


@dataclass(frozen=True, eq=False)
class RankUniformity:
    """What :func:`rank_uniformity` found.

    Attributes
    ----------
    n_simulations, n_draws : int
        How many ranks there are, and the largest possible rank.
    ks_statistic : float
        Kolmogorov–Smirnov: largest distance of the ranks' distribution function from the uniform one.
    ks_pvalue : float
        P(a statistic at least as large) for uniform ranks.
    level : float
        Uniform ranks stay within the band, at all points, with at least this probability.
    inside : bool
        Whether these ranks stay within the band.
    pvalue : float
        p-value of the band's test: these ranks are inside the bands whose level is above 1 - pvalue, and outside the
        others.
    pointwise_level : float
        Level at each single point which makes the band hold jointly; 1 - γ in the paper.
    points : ndarray of shape (n_points,)
        Where the distribution function is evaluated: multiples of 1/(n_draws + 1), increasing, between 0 and 1.
    ecdf, lower, upper : ndarray of shape (n_points,)
        Fraction of the ranks below ``points`` · (n_draws + 1), and the band for it, both ends included.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.metrics import rank_uniformity
    >>> found = rank_uniformity(np.arange(200) % 20, n_draws=19)
    >>> found.inside, found.ecdf.shape == found.lower.shape == found.points.shape
    (True, True)
    """

    n_simulations: int
    n_draws: int
    ks_statistic: float
    ks_pvalue: float
    level: float
    inside: bool
    pvalue: float
    pointwise_level: float
    points: np.ndarray = field(repr=False)
    ecdf: np.ndarray = field(repr=False)
    lower: np.ndarray = field(repr=False)
    upper: np.ndarray = field(repr=False)


def rank_uniformity(
    ranks: ArrayLike, n_draws: int, *, level: float = 0.95, n_points: int | None = None
) -> RankUniformity:
    """Test whether ranks are uniform on 0, ..., n_draws, with a band in which to plot their distribution function.

    Nothing is simulated: both p-values are exact for discrete ranks, P(p ≤ α) ≤ α, with equality at each value that p
    can take.  (SciPy's test takes ranks as continuous, and its p-values are too large.)  The band's intervals are
    binomial with the same two-sided level at all points, the lowest level that holds jointly.  The band is narrow
    towards 0 and 1, where that of Kolmogorov–Smirnov is as wide as in the middle, so it detects posteriors that are too
    narrow or too wide sooner.

    Parameters
    ----------
    ranks : array-like of int, of shape (n_simulations,)
        Ranks of one quantity, from independent simulations.  For several, call this once per column, and adjust the
        level.
    n_draws : int
        Number of draws among which the truth was ranked, which is the largest possible rank.
    level : float in (0, 1), default=0.95
        Joint level of the band.
    n_points : int, optional
        Number of evenly spaced points (or one more) at which the band is checked.  None: the smallest of ``n_draws``,
        ``n_simulations`` and 200.  The Kolmogorov–Smirnov test uses all points.

    Returns
    -------
    uniformity : RankUniformity

    Raises
    ------
    ValueError
        For ranks that are not integers between 0 and ``n_draws``, and for numbers outside their range.

    Notes
    -----
    The numbers of uniform ranks below increasing points are a Markov chain, and the probability that it leaves a band
    comes from one pass over the points, as in the paper's optimisation; the steps here are those of a Poisson process,
    which has the same distribution given its end and makes each step a convolution.  With very few simulations no ranks
    can leave the band: check ``lower`` and ``upper`` before you trust ``inside``.

    References
    ----------
    Säilynoja, Bürkner, Vehtari (2022), Graphical test for discrete uniformity and its applications, Statistics and
    Computing 32:32.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.metrics import rank_uniformity
    >>> rng = np.random.default_rng(0)
    >>> rank_uniformity(rng.integers(0, 100, size=500), 99, level=0.999).inside
    True
    >>> narrow = rank_uniformity(np.floor(100 * rng.beta(0.8, 0.8, size=500)), 99, level=0.999)  # often at either end
    >>> narrow.inside, narrow.pvalue < narrow.ks_pvalue
    (False, True)
    """
    n_draws = positive_integer("n_draws", n_draws, most=2**53)
    level = check_level(level)
    ranks = _check_ranks(ranks, n_draws)
    n, n_ranks = len(ranks), n_draws + 1
    if n_points is None:
        n_points = min(n_draws, n, 200)
    n_points = min(positive_integer("n_points", n_points), n_draws)

    every = np.arange(1, n_ranks)
    counts = np.cumsum(np.bincount(ranks, minlength=n_ranks))[:-1]  # of ranks below each
    gap = np.abs(counts * n_ranks - n * every).max()  # in integers, where equal gaps are equal
    ks_pvalue = _leaving(n, n_ranks, every, (n * every - gap) // n_ranks + 1, -((n * every + gap) // -n_ranks) - 1)

    at = _points(n_ranks, n_points)
    counts, z = counts[at - 1], at / n_ranks
    found = min(bdtr(counts, n, z).min(), bdtr(n - counts[::-1], n, z).min())  # P(X ≥ k) is P(n - X ≤ n - k)
    tail = _joint_tail(n, n_ranks, n_points, level)
    low, high = _band(n, z, tail)
    return RankUniformity(
        n_simulations=n,
        n_draws=n_draws,
        ks_statistic=float(gap / (n * n_ranks)),
        ks_pvalue=ks_pvalue,
        level=level,
        inside=bool(np.all((low <= counts) & (counts <= high))),
        pvalue=_leaving(n, n_ranks, at, *_band(n, z, found)),
        pointwise_level=1.0 - 2.0 * tail,
        points=z,
        ecdf=counts / n,
        lower=low / n,
        upper=high / n,
    )


def _points(n_ranks, n_points):
    """Return about n_points of 1, ..., n_ranks - 1, evenly spaced, and symmetric so that the band is."""
    half = np.rint(np.arange(1, (n_points + 1) // 2 + 1) * n_ranks / (n_points + 1)).astype(np.int64)
    return np.union1d(half, n_ranks - half)


def _band(n, z, tail):
    """Return the lowest and the highest count whose binomial tail outwards is above ``tail`` < 1.

    By bisection on the tails themselves: SciPy's quantiles fail for the smallest ones, and here equal tails stay equal.
    """
    low, top = np.zeros(len(z), dtype=np.int64), np.full(len(z), n)
    while np.any(low < top):
        middle = (low + top) // 2
        above = bdtr(middle, n, z) > tail
        low, top = np.where(above, low, middle + 1), np.where(above, middle, top)
    return low, n - low[::-1]  # the points are symmetric


@lru_cache(maxsize=128)  # a study needs the same band once per quantity
def _joint_tail(n, n_ranks, n_points, level):
    """Return the largest tail probability, to ``PRECISION``, whose band uniform ranks leave with P ≤ 1 - level."""
    at = _points(n_ranks, n_points)
    inner, outer = 0.5 * (1.0 - level) / len(at), 1.0  # by Bonferroni's inequality; an empty band
    while outer > inner * (1.0 + PRECISION):
        tail = np.sqrt(inner * outer)
        if _leaving(n, n_ranks, at, *_band(n, at / n_ranks, tail)) <= 1.0 - level:
            inner = tail
        else:
            outer = tail
    return float(inner)


def _leaving(n, n_ranks, at, low, high):
    """Return P(the number of n uniform ranks below ``at`` leaves low, ..., high at one of the points or more).

    It sums over the first point outside, so that small probabilities keep their digits.
    """
    log_factorial = gammaln(np.arange(n + 1) + 1.0)

    def poisson(count, mean):
        return np.exp(xlogy(count, mean) - mean - log_factorial[count])

    gaps = np.diff(at, prepend=0)
    steps = {gap: np.trim_zeros(poisson(np.arange(n + 1), n * gap / n_ranks), "b") for gap in np.unique(gaps).tolist()}
    mass, first, left = np.ones(1), 0, 0.0  # mass[k] = P(count is first + k, inside so far), of the Poisson process
    for gap, point, lowest, highest in zip(gaps.tolist(), at.tolist(), low.tolist(), high.tolist()):
        mass = np.convolve(mass, steps[gap])[: n + 1 - first]
        count = np.arange(first, first + len(mass))
        start = min(max(lowest - first, 0), len(mass))
        stop = max(min(highest + 1 - first, len(mass)), start)
        outside = np.r_[0:start, stop : len(mass)]
        left += mass[outside] @ poisson(n - count[outside], n * (n_ranks - point) / n_ranks)
        mass, first = mass[start:stop], first + start
        if not len(mass):
            break
    return float(min(left / poisson(n, n), 1.0))


def _check_ranks(ranks, n_draws):
    """Return ranks as integers of shape (n_simulations,)."""
    array = numbers(ranks)
    if array is None:
        raise ValueError(f"ranks must be an array of integers, got {ranks!r}: pass what posterior_ranks returns")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"ranks must have shape (n_simulations,), the ranks of one quantity, got shape {array.shape}: pass one "
            "column at a time"
        )
    wrong = ~((array >= 0) & (array <= n_draws) & (array == np.floor(array)))
    if np.any(wrong):
        raise ValueError(
            f"ranks must be integers from 0 to n_draws={n_draws}, got {array[wrong][0]:g}: a rank is the number of "
            "draws below the truth; check n_draws"
        )
    return array.astype(np.int64)
