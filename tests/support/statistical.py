"""Statements about Monte Carlo draws, with tolerances from the effective sample size: never a hand-set atol.

Each check fails with :class:`Disagreement` where the draws contradict what is expected, at level ``alpha`` for each
number that it compares, and with :class:`TooFewDraws` where they cannot tell: constant draws, too few effective ones.
So no check passes because it saw nothing, and the test of a broken twin can ask for a disagreement, not for any
failure.
"""

import numpy as np
from arviz_stats.base import array_stats
from scipy import stats

ALPHA = 1e-6
MIN_ESS = 2000  # fewer effective draws than that, and the test must run longer
MIN_PROBABILITY = 0.01  # rarer values are pooled with their neighbours: the normal approximation of a count


class Disagreement(AssertionError):
    """The draws contradict what is expected."""


class TooFewDraws(AssertionError):
    """The draws cannot tell."""


def assert_frequency(count, n, p):
    """The count is Binomial(n, p)."""
    assert stats.binomtest(int(count), n, p).pvalue >= ALPHA, f"{count} of {n}, expected a fraction of {p:.4g}"


def effective_sample_size(draws, min_ess=MIN_ESS, what="draws"):
    """Smaller of the bulk and the mean's effective sample size of draws (n_chains, n_draws), at most their number.

    Chains that disagree have a small one, so that its lower limit is a check of convergence as well.
    """
    draws = np.asarray(draws, dtype=np.float64)
    if not np.all(np.isfinite(draws)):
        raise Disagreement(f"{what}: not finite")
    if np.ptp(draws) == 0:
        raise TooFewDraws(f"{what}: constant draws say nothing")
    has_two = np.all((draws == draws.min()) | (draws == draws.max()))  # their normal scores are these two, rescaled
    methods = ("mean",) if has_two else ("bulk", "mean")
    ess = min(array_stats.ess(draws, chain_axis=0, draw_axis=1, method=method) for method in methods)
    if not ess >= min_ess:
        raise TooFewDraws(f"{what}: {ess:.0f} effective draws of {draws.size}, {min_ess} are needed: run longer")
    return min(float(ess), draws.size)


def _columns(draws, n):
    """Draws of shape (n_chains, n_draws) or (n_chains, n_draws, n) as n arrays (n_chains, n_draws)."""
    draws = np.asarray(draws, dtype=np.float64)
    draws = draws[..., None] if draws.ndim == 2 else draws
    if draws.ndim != 3 or draws.shape[2] != n:
        raise ValueError(f"draws of shape {draws.shape} for {n} expected value(s)")
    return np.moveaxis(draws, 2, 0)


def _judge(what, found, expected, error, alpha, note):
    z = (found - expected) / error
    if not abs(z) <= stats.norm.isf(alpha / 2):
        raise Disagreement(f"{what}: {found:.5g}, expected {expected:.5g}: {z:+.1f} standard errors ({note})")


def assert_mean_close(draws, expected, *, alpha=ALPHA, min_ess=MIN_ESS, what="mean"):
    """The mean of the draws is ``expected``.

    Parameters
    ----------
    draws : array-like of shape (n_chains, n_draws) or (n_chains, n_draws, n_quantities)
    expected : float or array-like of shape (n_quantities,)
    """
    expected = np.atleast_1d(np.asarray(expected, dtype=np.float64))
    for j, (column, value) in enumerate(zip(_columns(draws, len(expected)), expected, strict=True)):
        name = f"{what}[{j}]"
        ess = effective_sample_size(column, min_ess, name)
        _judge(name, column.mean(), value, column.std() / np.sqrt(ess), alpha, f"{ess:.0f} effective draws")


def assert_pmf_close(draws, pmf, *, alpha=ALPHA, min_ess=MIN_ESS, what="number of clusters"):
    """Integer draws have the probabilities ``pmf[0], pmf[1], ...``; the standard error is that of these probabilities.

    Values of small probability are pooled with the next one, and so is the upper tail.
    """
    draws, pmf = np.asarray(draws), np.asarray(pmf, dtype=np.float64)
    if draws.min() < 0 or draws.max() >= len(pmf) or np.any(pmf[np.unique(draws)] == 0):
        raise Disagreement(f"{what}: values from {draws.min()} to {draws.max()} are not all possible")
    cells, left = [], 0
    for k in range(len(pmf)):
        if pmf[left : k + 1].sum() >= MIN_PROBABILITY and pmf[k + 1 :].sum() >= MIN_PROBABILITY:
            cells.append((left, k))
            left = k + 1
    cells.append((left, len(pmf) - 1))
    if len(cells) < 2:
        raise TooFewDraws(f"{what}: one value has nearly all of the probability, which says nothing")
    for low, high in cells:
        p, inside, name = pmf[low : high + 1].sum(), (draws >= low) & (draws <= high), f"P({what} in {low}..{high})"
        if np.all(inside) or not np.any(inside):
            raise Disagreement(f"{name}: always or never, expected {p:.4g} of {draws.size} draws")
        ess = effective_sample_size(inside, min_ess, name)
        _judge(name, inside.mean(), p, np.sqrt(p * (1 - p) / ess), alpha, f"{ess:.0f} effective draws")


def assert_means_agree(draws, others, *, alpha=ALPHA, min_ess=MIN_ESS, what="mean"):
    """Two sets of draws, of shapes (n_chains, n_draws[, n_quantities]), have the same means."""
    n = 1 if np.ndim(draws) == 2 else np.shape(draws)[2]
    for j, (a, b) in enumerate(zip(_columns(draws, n), _columns(others, n), strict=True)):
        name = f"{what}[{j}]"
        error_a = a.std() / np.sqrt(effective_sample_size(a, min_ess, name))
        error_b = b.std() / np.sqrt(effective_sample_size(b, min_ess, name))
        _judge(name, a.mean(), b.mean(), np.hypot(error_a, error_b), alpha, "two samplers")


def ranks(truth, draws, rng):
    """Ranks of true values among draws, ties broken at random: uniform on 0..n_draws where all are exchangeable.

    Parameters
    ----------
    truth : ndarray of shape (n_replicates,)
    draws : ndarray of shape (n_replicates, n_draws)
    rng : numpy.random.Generator
    """
    below, equal = (draws < truth[:, None]).sum(axis=1), (draws == truth[:, None]).sum(axis=1)
    return below + rng.integers(0, equal + 1)


def assert_ranks_uniform(truth, draws, rng, *, n_bins=20, alpha=ALPHA, max_autocorrelation=0.15, what="ranks"):
    """Simulation-based calibration: ranks of the truth among posterior draws are uniform, by chi-square and by KS.

    Draws must be thinned until neighbours are nearly uncorrelated: the ranks of a correlated chain are not uniform.
    """
    truth, draws = np.asarray(truth, dtype=np.float64), np.asarray(draws, dtype=np.float64)
    n_replicates, n_draws = draws.shape
    if (n_draws + 1) % n_bins or n_replicates < 20 * n_bins:
        raise ValueError(f"{n_draws} + 1 ranks, {n_replicates} replicates and {n_bins} bins do not fit")
    centred = draws - draws.mean(axis=1, keepdims=True)
    variance = np.mean(centred**2)
    if not variance > 0:
        raise TooFewDraws(f"{what}: constant draws say nothing")
    autocorrelation = np.mean(centred[:, 1:] * centred[:, :-1]) / variance
    if not abs(autocorrelation) < max_autocorrelation:
        raise TooFewDraws(f"{what}: autocorrelation {autocorrelation:.2f} of neighbouring draws: thin more")
    rank = ranks(truth, draws, rng)
    counts = np.bincount(rank * n_bins // (n_draws + 1), minlength=n_bins)
    p_chi_square = stats.chisquare(counts).pvalue
    p_ks = stats.kstest((rank + rng.random(n_replicates)) / (n_draws + 1), "uniform").pvalue
    if not min(p_chi_square, p_ks) >= alpha:
        raise Disagreement(f"{what}: p = {p_chi_square:.1e} (chi-square), {p_ks:.1e} (KS), counts {counts.tolist()}")
