"""The oracle of test_exact_channels.py against itself: closed forms, limits, and weighted draws from the prior."""

from functools import cache

import grid_oracle as oracle
import numpy as np
import oracle as normal_oracle
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaln

X = np.array([0.08, 0.35, 0.6, 0.93])
PRIOR = (2.0, 0.5)
NORMAL = {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 0.1}
PSI = oracle.haar_coefficients(1)
Z = PSI[[0, 1, 3]] + 0.3 * np.sin(np.arange(1, 10)).reshape(3, 3)


def flat(result):
    return np.concatenate([result.n_clusters_pmf, result.p_together.ravel(), result.predictive])


def chinese_restaurant(rng, size, n, concentration, discount):
    """Labels (size, n), counts (size, n) and numbers of clusters, seat after seat."""
    label, count, k, rows = np.zeros((size, n), int), np.zeros((size, n)), np.zeros(size, int), np.arange(size)
    for i in range(n):
        share = np.cumsum(np.where(count > 0, count - discount, 0.0), axis=1)
        u = rng.random(size) * (concentration + i)
        label[:, i] = np.where(u < share[:, -1], (u[:, None] >= share).sum(axis=1), k)
        count[rows, label[:, i]] += 1
        k = np.maximum(k, label[:, i] + 1)
    return label, count, k


def weighted(log_weight, label, count, k, f, concentration, discount):
    """Estimate and standard error of (pmf, co-clustering, predictive); f (size, n + 1, n_points), unseen last."""
    n = label.shape[1]
    seen = np.where(count > 0, count - discount, 0.0)
    mean = np.einsum("sk,skp->sp", seen, f[:, :n]) + (concentration + discount * k)[:, None] * f[:, n]
    draws = [k == j for j in range(n + 1)]
    draws += [label[:, i] == label[:, j] for i in range(n) for j in range(n)]
    draws = np.array([*draws, *(mean.T / (concentration + n))], dtype=float)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    estimate = draws @ weight
    return estimate, np.sqrt((draws - estimate[:, None]) ** 2 @ weight**2)


def beta_draws(rng, size, n):
    """Densities at X of n + 1 prior clusters, and a function that draws a record of each label's cluster."""
    a, b = rng.gamma(PRIOR[0], 1 / PRIOR[1], (2, size, n + 1))
    rows, shapes = np.arange(size), np.stack([a - 1, b - 1], axis=-1)
    f = np.exp(shapes @ np.log([X, 1 - X]) - betaln(a, b)[..., None])
    return f, lambda label: rng.beta(a[rows, label], b[rows, label])


def normal_draws(rng, size, n):
    sigma = np.sqrt(NORMAL["scale"] / rng.gamma(NORMAL["shape"], size=(size, n + 1)))
    mu = NORMAL["mean"] + sigma * rng.standard_normal(sigma.shape) / np.sqrt(NORMAL["mean_precision"])
    rows = np.arange(size)
    return stats.norm.pdf(X, mu[..., None], sigma[..., None]), lambda label: rng.normal(
        mu[rows, label], sigma[rows, label]
    )


def categorical_draws(rng, size, n):
    p = rng.dirichlet([0.6, 0.6, 0.6], (size, n + 1))
    rows = np.arange(size)
    return p, lambda label: (rng.random(size)[:, None] > np.cumsum(p[rows, label], axis=1)[:, :-1]).sum(axis=1)


def haar_weight(Y):
    """From the definition of the wavelets, records clamped, coefficient by coefficient."""
    y, column, total = np.clip(Y, 0, 1 - 1e-12), 0, 0.0
    for j in range(2):
        for k in range(2**j):
            u = 2**j * y - k
            psi = 2 ** (j / 2) * (np.where((u >= 0) & (u < 0.5), 1.0, 0.0) - np.where((u >= 0.5) & (u < 1), 1.0, 0.0))
            total = total + stats.laplace.logpdf(Z[:, column], psi, 2 * (1 + np.sqrt(2)) / 5.0).sum(axis=1)
            column += 1
    return total


def count(Y, m):
    return ((Y * m).astype(int)[..., None] == np.arange(m)).sum(axis=1)


def smoothed_weight(Y):
    delta = 3 / (3 + 3 * np.expm1(9.0 / len(SMOOTHED)))
    return np.log((1 - delta) * count(Y, 3)[:, (SMOOTHED * 3).astype(int)] + delta).sum(axis=1)  # m / n = 1


def perturbed_weight(Y):
    return stats.laplace.logpdf(COUNTS, count(Y, 3), 2 / 4.0).sum(axis=1)


def integer_weight(Y):
    return stats.dlaplace.logpmf(np.round(COUNTS) - count(Y, 3), 4.0 / 2).sum(axis=1)


def laplace_weight(Y):
    return stats.laplace.logpdf(RELEASES, Y, 1 / 6.0).sum(axis=1)


def binomial_weight(Y):
    p = np.exp(1.5) / (1 + np.exp(1.5)) * Y + (1 - Y) / (1 + np.exp(1.5))
    return stats.binom.logpmf(SUCCESSES, 4, p).sum(axis=1)


def response_weight(Y):
    keep = np.exp(1.5) / (np.exp(1.5) + 2)
    return np.log(np.where(Y == ANSWERS, keep, (1 - keep) / 2)).sum(axis=1)


SMOOTHED, COUNTS = np.array([0.1, 0.15, 0.7, 0.95]), np.array([1.6, -0.4, 1.2])
RELEASES, ANSWERS, SUCCESSES = np.array([-0.2, 0.15, 0.8]), np.array([0, 0, 2]), np.array([0, 3, 4])
BETA, COARSE, WIDE = oracle.BetaGrid(*PRIOR), oracle.BetaGrid(*PRIOR, step=0.16), oracle.NormalGrid(**NORMAL)


def haar(grid, *mixing):
    return oracle.local_posterior(grid, oracle.binned_log_g(grid, oracle.log_haar(Z, PSI, 5.0)), X, *mixing)


def by_counts(log_density, *mixing):
    return oracle.histogram_posterior(
        BETA, lambda bins: log_density(np.bincount(bins, minlength=3)).sum(), 3, 3, X, *mixing
    )


@cache
def log_laplace():
    return np.array([COARSE.log_laplace(z, 1 / 6.0) for z in RELEASES])


def laplace(*mixing):
    return oracle.local_posterior(COARSE, log_laplace(), X, *mixing)


CASES = {
    "haar, beta": (beta_draws, haar_weight, lambda *mixing: haar(BETA, *mixing)),
    "haar, normal": (normal_draws, haar_weight, lambda *mixing: haar(WIDE, *mixing)),
    "smoothed": (
        beta_draws,
        smoothed_weight,
        lambda *mixing: by_counts(lambda c: oracle.log_smoothed_histogram(SMOOTHED, c, 9.0), *mixing),
    ),
    "perturbed": (
        beta_draws,
        perturbed_weight,
        lambda *mixing: by_counts(lambda c: oracle.log_perturbed_histogram(COUNTS, c, 4.0), *mixing),
    ),
    "perturbed, integers": (
        beta_draws,
        integer_weight,
        lambda *mixing: by_counts(
            lambda c: oracle.log_perturbed_histogram(np.round(COUNTS), c, 4.0, "discrete_laplace"), *mixing
        ),
    ),
    "laplace": (beta_draws, laplace_weight, laplace),
    "binomial": (
        beta_draws,
        binomial_weight,
        lambda *mixing: oracle.local_posterior(BETA, [BETA.log_binomial(z, 6.0, 4) for z in SUCCESSES], X, *mixing),
    ),
    "categories": (
        categorical_draws,
        response_weight,
        lambda *mixing: oracle.categorical_posterior(
            oracle.log_randomized_response(ANSWERS[:, None], 1.5, 3), 0.6, np.arange(3)[:, None], *mixing
        ),
    ),
}


@pytest.mark.parametrize("mixing", [(1.4, 0.0), (-0.1, 0.35)], ids=["Dirichlet", "Pitman-Yor"])
@pytest.mark.parametrize("name", CASES)
def test_weighted_draws_from_the_prior(name, mixing):
    """Catches a wrong integral, partition or channel of the oracle: a simulation that shares no formula with it."""
    draw, log_weight, exact = CASES[name]
    rng, size, n = np.random.default_rng(list(CASES).index(name)), 250_000, 3
    label, counts, k = chinese_restaurant(rng, size, n, *mixing)
    f, record = draw(rng, size, n)
    Y = np.column_stack([record(label[:, i]) for i in range(n)])
    estimate, error = weighted(log_weight(Y), label, counts, k, f, *mixing)
    assert np.all(error < 0.05 * np.maximum(estimate, 0.2))  # the comparison has power
    np.testing.assert_array_less(np.abs(flat(exact(*mixing)) - estimate), 4.9 * error + 1e-12)


@pytest.mark.parametrize("mixing", [(1.4, 0.0), (-0.1, 0.35)])
def test_bins_enumerated_or_summed(mixing):
    """Catches a mistake in either of the two ways to sum over the bins of records that were released one by one."""
    log_q = oracle.log_haar(Z, PSI, 5.0)
    enumerated = oracle.histogram_posterior(
        BETA, lambda bins: sum(log_q[i, j] for i, j in enumerate(bins)), 3, 4, X, *mixing
    )
    np.testing.assert_allclose(flat(enumerated), flat(haar(BETA, *mixing)), rtol=1e-9)


@pytest.mark.parametrize("scale", [0.05, 0.4])
@pytest.mark.parametrize("z", [-0.4, 0.02, 0.6, 1.3])
def test_marginal_of_a_laplace_release(z, scale):
    """Catches a mistake at the ends, where the beta density is unbounded for a < 1: adaptive quadrature in y^a."""
    grid = oracle.BetaGrid(*PRIOR, step=0.5)
    g = np.exp(grid.log_laplace(z, scale))
    for i, j in ((6, 14), (14, 6), (16, 18), (20, 10), (10, 10), (24, 18), (26, 24)):
        a, b = grid.a[i, 0], grid.b[j]

        def half(a, b, z, log_beta=grid.log_beta[i, j]):  # over y < 1/2, in t = y^a
            def integrand(t):
                y = t ** (1 / a)
                return (1 - y) ** (b - 1) * stats.laplace.pdf(z, y, scale) / a / np.exp(log_beta)

            kink = [z**a] if 0 < z < 0.5 else None
            return quad(integrand, 0, 0.5**a, points=kink, epsabs=1e-13, limit=400)[0]

        assert g[i, j] == pytest.approx(half(a, b, z) + half(b, a, 1 - z), rel=1e-6)


def test_noise_free_normal_records_as_in_the_other_oracle():
    """Catches a mistake in partitions, predictive density or normal grid: the other oracle has its own of each."""
    y = np.array([0.1, 0.2, 0.9])
    ours = oracle.local_posterior(WIDE, np.array([WIDE.log_density(v) for v in y]), X, 0.7, 0.2)
    theirs = normal_oracle.exact_posterior(y, x=X, concentration=0.7, discount=0.2, **NORMAL)
    np.testing.assert_allclose(flat(ours), flat(theirs), rtol=1e-6)


def test_one_record_without_noise():
    """Catches a lost normaliser of the beta kernel: E[f(x) f(y)] / E[f(y)] by plain quadrature in a and b."""
    y, x = 0.3, 0.6
    nodes, weights = np.polynomial.laguerre.laggauss(60)
    a, w = nodes / PRIOR[1], weights * nodes
    f = [stats.beta.pdf(v, a[:, None], a) for v in (y, x)]
    expected = (w @ (f[0] * f[1]) @ w / (w @ f[0] @ w) + 0.5 * (w @ f[1] @ w)) / 1.5
    result = oracle.local_posterior(BETA, np.array([BETA.log_density(y)]), [x], 0.5)
    np.testing.assert_allclose(result.predictive, expected, rtol=1e-4)
    moved = oracle.BetaGrid(*PRIOR, bounds=(-1.0, 3.0))
    moved = oracle.local_posterior(moved, np.array([moved.log_density(4 * y - 1)]), [4 * x - 1], 0.5)
    np.testing.assert_allclose(moved.predictive, result.predictive / 4, rtol=1e-9)


def test_categories_without_noise():
    """Catches a wrong Dirichlet-multinomial: two equal and two different records by hand."""
    for second, joint in ((0, 0.6 * 1.6 / (1.8 * 2.8)), (1, 0.6 * 0.6 / (1.8 * 2.8))):
        log_q = oracle.log_randomized_response([[0], [second]], None, 3)
        together = joint / (joint + 2.0 / 9)  # concentration 2
        result = oracle.categorical_posterior(log_q, 0.6, [[0]], 2.0)
        np.testing.assert_allclose(result.n_clusters_pmf, [0, together, 1 - together], rtol=1e-12)
        other = 1.6 / 2.8 if second == 0 else 0.6 / 2.8
        both = together * 2 * (2.6 if second == 0 else 1.6) / 3.8 + (1 - together) * (1.6 / 2.8 + other)
        np.testing.assert_allclose(result.predictive, [(both + 2.0 / 3) / 4], rtol=1e-12)


def test_no_information_gives_the_prior():
    """Catches urn probabilities that do not add up: with epsilon near 0 the partition is the urn's."""
    urn = oracle.partitions(4, 0.8, 0.3)
    assert len(urn) == 15
    pmf = np.bincount([len(clusters) for clusters, _ in urn], [p for _, p in urn])
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    blind = oracle.local_posterior(
        BETA, oracle.binned_log_g(BETA, oracle.log_haar(Z[[0, 1, 2, 0]], PSI, 1e-9)), X, 0.8, 0.3
    )
    np.testing.assert_allclose(blind.n_clusters_pmf, pmf, rtol=1e-6)
    np.testing.assert_allclose(blind.p_together[0, 1], 0.7 / 1.8, rtol=1e-6)


def test_the_accuracy_checks_can_fail(monkeypatch):
    """Catches checks of the quadrature that look at nothing."""
    with pytest.raises(ValueError, match="not accurate"):
        haar(oracle.BetaGrid(*PRIOR, step=1.5))
    with pytest.raises(ValueError, match="not accurate"):
        BETA.log_additive(0.3, lambda y: np.exp(-5 * abs(0.3 - y)), lambda y: np.sign(0.3 - y), step=0.5)
    with pytest.raises(ValueError, match="smallest parameter"):
        oracle.BetaGrid(0.5, 1.0)
    with pytest.raises(ValueError, match="records"):
        oracle.categorical_posterior(np.zeros((5, 1, 2)), 1.0, [[0]])
    monkeypatch.setattr(oracle, "LOW", 1e-2)
    with pytest.raises(ValueError, match="not accurate"):
        haar(oracle.BetaGrid(*PRIOR))
