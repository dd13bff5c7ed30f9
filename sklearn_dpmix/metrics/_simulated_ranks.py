"""Simulation-based calibration: where the truth is among the draws of a posterior (Cook, Gelman, Rubin 2006)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binomtest

from .._base.generators import as_generator
from .._base.parameters import as_floats, in_unit_interval
from .._base.typing import Array, Seed

ROUNDING = 1e-9  # rounding of (1 - level)/2 times the number of draws, such as 0.05 · 20 - 1


def posterior_ranks(draws: ArrayLike, truth: ArrayLike, *, random_state: Seed = None) -> Array:
    """Return the rank of each true value among its posterior draws: the number of draws below it.

    Simulate parameters from the prior, records and a release given them, and draws of the posterior given the release.
    If the posterior is right, ranks are uniform on 0, ..., n_draws; see :func:`rank_uniformity`.  This needs draws that
    are nearly independent, so thin the chains first.  Ties, which discrete quantities have, are broken at random.

    Parameters
    ----------
    draws : array-like of shape (n_simulations, n_draws) or (n_simulations, n_draws, n_quantities)
        Draws of each simulation's posterior; several chains go one after the other.  They may be infinite.
    truth : array-like of shape (n_simulations,) or (n_simulations, n_quantities)
        The values that the simulated records come from.
    random_state : None, int, Generator or RandomState
        Breaks ties; it does not matter if there are none.

    Returns
    -------
    ranks : ndarray of int, of the shape of ``truth``

    Raises
    ------
    ValueError
        For NaN and for shapes that do not fit.

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari, Gelman (2018), Validating Bayesian inference algorithms with simulation-based
    calibration, Algorithm 1.

    Examples
    --------
    >>> from sklearn_dpmix.metrics import posterior_ranks
    >>> posterior_ranks([[0.1, 0.4, 0.3], [1.2, 2.0, 0.7]], [0.35, 0.0])
    array([2, 0])
    """
    draws, truth = _simulations(draws, truth)
    rng = as_generator(random_state)
    below = np.count_nonzero(draws < truth[:, None], axis=1)
    return below + rng.integers(0, np.count_nonzero(draws == truth[:, None], axis=1) + 1)


@dataclass(frozen=True, eq=False)
class Coverage:
    """What :func:`coverage` found.

    Attributes
    ----------
    levels : ndarray of shape (n_levels,)
    coverage : ndarray of shape (n_levels,) or (n_levels, n_quantities)
        Fraction of the simulations whose central interval contains the truth.
    standard_error : ndarray of shape (n_levels,)
        Standard error of that fraction if the posterior is right: √(level (1 - level) / n_simulations).
    lower, upper : ndarray of the shape of ``coverage``
        Exact (Clopper–Pearson) interval for the probability behind the fraction.
    confidence : float
        Level of that interval.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.metrics import coverage
    >>> rng = np.random.default_rng(0)
    >>> found = coverage(rng.normal(size=(400, 99)), rng.normal(size=400), levels=0.9)
    >>> bool(found.lower[0] < 0.9 < found.upper[0]), found.standard_error.round(3)
    (True, array([0.015]))
    """

    levels: np.ndarray
    coverage: np.ndarray
    standard_error: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    confidence: float


def coverage(
    draws: ArrayLike, truth: ArrayLike, levels: ArrayLike = (0.5, 0.8, 0.9, 0.95), *, confidence: float = 0.95
) -> Coverage:
    """Return how often central posterior intervals contain the truth, at each level.

    An interval ends at quantiles of the draws, both ends included; the p-quantile is the (n_draws + 1) p-th lowest
    draw.  If (n_draws + 1) p is whole, the right posterior covers a continuous quantity with probability ``level`` for
    any n_draws; otherwise two draws are averaged, and it nearly does.  A discrete quantity is covered more often.

    Parameters
    ----------
    draws : array-like of shape (n_simulations, n_draws) or (n_simulations, n_draws, n_quantities)
        Draws of each simulation's posterior, nearly independent.
    truth : array-like of shape (n_simulations,) or (n_simulations, n_quantities)
        The values that the simulated records come from.
    levels : float or array-like of shape (n_levels,), in (0, 1), default=(0.5, 0.8, 0.9, 0.95)
        Levels of the posterior intervals; each needs n_draws ≥ 2/(1 - level) - 1.
    confidence : float in (0, 1), default=0.95
        Level of the interval around each coverage that was found.

    Returns
    -------
    coverage : Coverage

    Raises
    ------
    ValueError
        For values that are not finite, shapes that do not fit, and levels outside (0, 1) or too high for so few draws.

    References
    ----------
    Cook, Gelman, Rubin (2006), Validation of software for Bayesian models using posterior quantiles; Clopper, Pearson
    (1934).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.metrics import coverage
    >>> rng = np.random.default_rng(0)
    >>> truth, draws = rng.normal(size=1000), rng.normal(size=(1000, 99))
    >>> found = coverage(draws, truth, levels=[0.5, 0.9], confidence=0.999)
    >>> (found.lower < found.levels) & (found.levels < found.upper)
    array([ True,  True])
    >>> coverage(0.5 * draws, truth, levels=0.9).upper < 0.7  # a posterior too narrow
    array([ True])
    """
    draws, truth = _simulations(draws, truth)
    for name, array in (("draws", draws), ("truth", truth)):
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}: intervals end between draws")
    levels = np.atleast_1d(in_unit_interval("levels", levels, 1))
    confidence = float(in_unit_interval("confidence", confidence, 0))
    n, n_draws = draws.shape[:2]
    tails = 0.5 * (1.0 - levels)
    if tails.min() * (n_draws + 1) < 1.0 - ROUNDING:
        needed = np.ceil(1.0 / tails.min() - ROUNDING) - 1
        raise ValueError(
            f"levels={levels.max():g} needs at least {needed:.0f} draws per simulation, got draws of shape "
            f"{draws.shape}: draw more, or leave that level out"
        )
    low, high = _interval_ends(draws, tails * (n_draws + 1))
    hits = np.count_nonzero((low <= truth) & (truth <= high), axis=1)
    ends = [binomtest(k, n).proportion_ci(confidence, method="exact") for k in hits.ravel().tolist()]
    ends = np.reshape(ends, (*hits.shape, 2))
    return Coverage(levels, hits / n, np.sqrt(levels * (1.0 - levels) / n), ends[..., 0], ends[..., 1], confidence)


def _interval_ends(draws, ranks):
    """Return the lowest and the highest draw of each rank, (n_levels, n_simulations[, n_quantities]) both.

    A rank that is whole but for rounding, or lies between equal draws, gives a draw exactly: a discrete truth may be
    equal to it.
    """
    whole = np.rint(ranks)
    ranks = np.where(np.abs(ranks - whole) < ROUNDING * ranks, whole, ranks)
    k, draws = ranks.astype(np.int64), np.moveaxis(np.sort(draws, axis=1), 1, 0)
    share = np.reshape(ranks - k, (-1,) + (1,) * (draws.ndim - 1))
    following = np.minimum(k, len(draws) - 1)
    low, high = draws[k - 1], draws[-k]
    return low + share * (draws[following] - low), high - share * (high - draws[-1 - following])


def _simulations(draws, truth):
    """Return draws (n_simulations, n_draws[, n_quantities]) and truth (n_simulations[, n_quantities]) as floats."""
    length = ", all rows of one length"
    draws, truth = as_floats("draws", draws, length), as_floats("truth", truth, length)
    if draws.ndim not in (2, 3) or draws.size == 0:
        raise ValueError(
            "draws must have shape (n_simulations, n_draws) or (n_simulations, n_draws, n_quantities), none of them "
            f"0, got shape {draws.shape}: one row per simulation"
        )
    expected = draws.shape[:1] + draws.shape[2:]
    if truth.shape != expected:
        raise ValueError(
            f"truth must have shape {expected}, one value for each simulation and quantity of draws of shape "
            f"{draws.shape}, got shape {truth.shape}"
        )
    for name, array in (("draws", draws), ("truth", truth)):
        if np.any(np.isnan(array)):
            raise ValueError(f"{name} must not be NaN, got {np.isnan(array).sum()} of them: a NaN has no rank")
    return draws, truth
