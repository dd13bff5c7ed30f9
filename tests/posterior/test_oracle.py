"""Self-checks of tests/support/oracle.py against closed forms, direct integration and Monte Carlo from the prior."""

import numpy as np
import oracle
import pytest
from oracle import exact_posterior, feature_tables, log_channel, log_marginal_kernel
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammainc, gammaln

PRIOR = {"mean": 0.4, "mean_precision": 0.3, "shape": 2.5, "scale": 1.7}
Z = np.array([[-1.3], [-0.9], [0.2], [1.9], [2.3]])
X = np.linspace(-4, 5, 7)[:, None]


def nig_update(z, mean, mean_precision, shape, scale):
    """Conjugate update of the normal-inverse-gamma prior and the log marginal likelihood of z."""
    n = len(z)
    k, a = mean_precision + n, shape + n / 2
    m = (mean_precision * mean + np.sum(z)) / k
    # sequential form of the quadratic term: no subtraction of large squares
    b, m_run, k_run = scale, mean, mean_precision
    for value in z:
        b += 0.5 * k_run / (k_run + 1) * (value - m_run) ** 2
        m_run, k_run = (k_run * m_run + value) / (k_run + 1), k_run + 1
    log_m = 0.5 * np.log(mean_precision / k) - 0.5 * n * np.log(2 * np.pi)
    log_m += shape * np.log(scale) - a * np.log(b) + gammaln(a) - gammaln(shape)
    return (m, k, a, b), log_m


def student(x, mean, mean_precision, shape, scale):
    """Predictive density of a normal-inverse-gamma."""
    return stats.t.pdf(x, 2 * shape, mean, np.sqrt(scale / shape * (1 + 1 / mean_precision)))


@pytest.mark.parametrize(
    "hyper",
    [PRIOR, {"mean": -3, "mean_precision": 0.01, "shape": 0.7, "scale": 0.2},
     {"mean": 1, "mean_precision": 20, "shape": 60, "scale": 90},
     {"mean": 0, "mean_precision": 1, "shape": 1, "scale": 1e-6}],
)  # fmt: skip
@pytest.mark.parametrize("z", [Z[:, 0], np.array([1.0, 1.0, 1.0]), np.array([0.0, 1e-4, 500.0])])
def test_tables_match_the_closed_form_without_noise(hyper, z):
    log_m, predictive = feature_tables(z, X[:, 0], None, None, None, **hyper)
    for mask in range(2 ** len(z)):
        post, expected = nig_update(z[[mask >> i & 1 == 1 for i in range(len(z))]], **hyper)
        assert abs(log_m[mask] - expected) < 1e-10
        np.testing.assert_allclose(predictive[mask], student(X[:, 0], *post), rtol=1e-9)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("bounds", [None, (-1.0, 2.0), (-0.01, 0.01)])
@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 20.0])
def test_marginal_kernel_matches_direct_integration(noise, bounds, scale):
    for z in (-1.5, -1.0, 0.002, 0.7, 6.0):
        for mu in (-4.0, 0.0, 0.9, 2.3):
            for sigma in (1e-3, 0.05, 1.0, 40.0):
                value = log_marginal_kernel(z, np.array([mu]), np.array([sigma]), noise, scale, bounds)[0]
                # Gauss-Legendre panels graded towards every place where the integrand can be narrow
                lo, hi = (-np.inf, np.inf) if bounds is None else bounds
                centres = [z, mu, (mu * scale**2 + z * sigma**2) / (sigma**2 + scale**2)]
                centres += [c for c in (mu + sigma**2 / scale, mu - sigma**2 / scale, lo, hi) if np.isfinite(c)]
                offsets = np.append(0, np.geomspace(1e-4, 40, 16))
                offsets = np.concatenate([-offsets, offsets])
                cuts = [c + s * offsets for c in centres for s in (sigma, scale)]
                cuts = np.unique(np.clip(np.concatenate([*cuts, [lo, hi]]), max(lo, mu - 1e3), min(hi, mu + 1e3)))
                cuts = cuts[np.isfinite(cuts)]
                node, weight = np.polynomial.legendre.leggauss(20)
                half = 0.5 * np.diff(cuts)[:, None]
                y = cuts[:-1, None] + half * (1 + node)
                log_f = log_channel(z, y, noise, scale) + stats.norm.logpdf(y, mu, sigma) + np.log(half * weight)
                parts = [np.logaddexp.reduce(log_f.ravel())]
                if bounds is not None:
                    parts.append(log_channel(z, lo, noise, scale) + stats.norm.logcdf(lo, mu, sigma))
                    parts.append(log_channel(z, hi, noise, scale) + stats.norm.logsf(hi, mu, sigma))
                assert abs(value - np.logaddexp.reduce(parts)) < 1e-9, (z, mu, sigma)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_marginal_kernel_is_a_density(noise):
    for bounds in (None, (-1.0, 2.0)):

        def density(z, bounds=bounds):
            return np.exp(log_marginal_kernel(z, 0.8, 1.3, noise, 0.6, bounds))

        assert quad(density, -30, 30, points=[-1, 2, 0.8], epsabs=1e-10, limit=200)[0] == pytest.approx(1, abs=1e-8)


def test_marginal_kernel_limits_at_extreme_widths():
    wide = np.array([1e6, 1e10, 1e14])
    for noise in ("laplace", "gaussian"):
        flat = log_marginal_kernel(0.3, 0.0, wide, noise, 0.01)
        np.testing.assert_allclose(flat, -np.log(wide) - 0.5 * np.log(2 * np.pi), rtol=1e-10)
        clamped = log_marginal_kernel(0.3, 0.0, wide, noise, 0.01, (0.0, 1.0))  # interior mass plus both bounds' spill
        inner = 1 - 0.5 * np.exp(-30) - 0.5 * np.exp(-70) if noise == "laplace" else 1.0
        edge = np.logaddexp(log_channel(0.3, 0.0, noise, 0.01), log_channel(0.3, 1.0, noise, 0.01)) - np.log(2)
        np.testing.assert_allclose(clamped, np.logaddexp(flat + np.log(inner), edge), rtol=1e-8)
        point = log_marginal_kernel(0.3, 0.2, np.array([1e-9]), noise, 0.5, (0.0, 1.0))
        np.testing.assert_allclose(point, log_channel(0.3, 0.2, noise, 0.5), rtol=1e-8)


@pytest.mark.parametrize("alpha", [1e-6, 0.7])
def test_one_record_is_a_two_term_mixture(alpha):
    result = exact_posterior([[1.9]], concentration=alpha, x=X, **PRIOR)
    post, _ = nig_update(np.array([1.9]), **PRIOR)
    expected = (student(X[:, 0], *post) + alpha * student(X[:, 0], **PRIOR)) / (1 + alpha)
    np.testing.assert_allclose(result.predictive, expected, rtol=1e-10)
    np.testing.assert_allclose(result.n_clusters_pmf, [0, 1])


@pytest.mark.parametrize("discount", [0.0, 0.4])
def test_two_records_in_two_features_by_hand(discount):
    alpha, x = 0.8, np.array([[0.0, 1.0], [2.0, -1.0]])
    z = np.array([[0.5, -1.0], [1.4, 0.3]])
    hyper = {"mean": np.array([0.4, -0.2]), "mean_precision": 0.3, "shape": np.array([2.5, 1.5]), "scale": 1.7}
    each = [dict(zip(hyper, np.broadcast_arrays(*hyper.values()), strict=True)) for _ in range(2)]
    each = [{name: value[j] for name, value in h.items()} for j, h in enumerate(each)]

    def marginal(rows):
        return np.exp(sum(nig_update(z[rows, j], **each[j])[1] for j in range(2)))

    def predictive(rows):
        return np.prod([student(x[:, j], *nig_update(z[rows, j], **each[j])[0]) for j in range(2)], axis=0)

    one = (1 - discount) * marginal([0, 1])
    two = (alpha + discount) * marginal([0]) * marginal([1])
    p = one / (one + two)
    f0 = predictive([])
    expected = p * ((2 - discount) * predictive([0, 1]) + (alpha + discount) * f0)
    expected += (1 - p) * ((1 - discount) * (predictive([0]) + predictive([1])) + (alpha + 2 * discount) * f0)
    result = exact_posterior(z, concentration=alpha, discount=discount, x=x, **hyper)
    np.testing.assert_allclose(result.n_clusters_pmf, [0, p, 1 - p], rtol=1e-9)
    np.testing.assert_allclose(result.p_together, [[1, p], [p, 1]], rtol=1e-9)
    np.testing.assert_allclose(result.predictive, expected / (alpha + 2), rtol=1e-9)


def monte_carlo(rng, size, z, x, hyper, noise, noise_scale, bounds=None, alpha=1.0, discount=0.0, prior=None, eta=None):
    """Weighted draws from the prior of (n_clusters, p_together, predictive), weights prod q(z_i | y_i).

    Shares no formula with the oracle: records are drawn from the generalised Chinese restaurant, and the unseen
    cluster's density comes from the closed Student form, or from a fresh draw of G0 with the convolved kernel.
    """
    n, d = z.shape
    alpha = np.full(size, alpha) if prior is None else rng.gamma(prior[0], 1 / prior[1], size)
    label, count, k = np.zeros((size, n), int), np.zeros((size, n)), np.zeros(size, int)
    rows = np.arange(size)
    for i in range(n):
        p = np.where(count > 0, count - discount, 0)
        cumulative = np.cumsum(p, axis=1)
        u = rng.random(size) * (alpha + i)
        label[:, i] = np.where(u < cumulative[:, -1], (u[:, None] >= cumulative).sum(axis=1), k)
        count[rows, label[:, i]] += 1
        k = np.maximum(k, label[:, i] + 1)
    h = {name: np.broadcast_to(np.asarray(value, float), (d,)) for name, value in hyper.items()}
    total = h["scale"] / rng.gamma(h["shape"], size=(size, n + 1, d))  # one atom more: the unseen cluster
    if eta is not None:
        for j in range(d):  # by rejection
            while len(low := np.nonzero(total[..., j] < eta**2)[0]):
                total[total[..., j] < eta**2, j] = h["scale"][j] / rng.gamma(h["shape"][j], size=len(low))
    mu = h["mean"] + rng.standard_normal(total.shape) * np.sqrt(total / h["mean_precision"])
    sigma = np.sqrt(total - (0 if eta is None else eta**2))
    log_weight = np.zeros(size)
    for i in range(n):
        y = mu[rows, label[:, i]] + sigma[rows, label[:, i]] * rng.standard_normal((size, d))
        y = y if bounds is None else np.clip(y, *np.broadcast_to(bounds, (d, 2)).T)
        q = stats.laplace if noise == "laplace" else stats.norm
        log_weight += q.logpdf(z[i], y, np.broadcast_to(noise_scale, n)[i]).sum(axis=1)
    weight = np.exp(log_weight - log_weight.max())
    draws = [k == j for j in range(n + 1)]
    draws += [label[:, i] == label[:, j] for i in range(n) for j in range(n)]
    for point in x:
        f = np.exp(-0.5 * ((point - mu) / sigma) ** 2).prod(axis=2) / (np.sqrt(2 * np.pi) * sigma).prod(axis=2)
        f0 = f[:, n]
        if eta is None:
            f0 = np.prod([student(point[j], *(h[name][j] for name in h)) for j in range(d)])
        seen = np.where(count > 0, (count - discount) * f[:, :n], 0).sum(axis=1)
        draws.append((seen + (alpha + k * discount) * f0) / (alpha + n))
    draws = np.array(draws, float)
    weight /= weight.sum()
    estimate = draws @ weight
    error = np.sqrt(((draws - estimate[:, None]) ** 2) @ weight**2)
    return estimate, error, 1 / np.sum(weight**2)


TWO = {"mean": [0.0, 1.0], "mean_precision": [0.5, 1.0], "shape": [3.0, 2.0], "scale": [2.0, 1.5]}
CASES = {
    "laplace": {"noise": "laplace", "noise_scale": 0.8},
    "laplace, own scales, clamped": {"noise": "laplace", "noise_scale": [0.5, 1.0, 2.0], "bounds": (-1.0, 1.5)},
    "gaussian, Pitman-Yor": {"noise": "gaussian", "noise_scale": 0.7, "discount": 0.3, "alpha": 0.6},
    "gaussian, clamped, small negative concentration": {
        "noise": "gaussian", "noise_scale": 0.9, "bounds": (-1.0, 1.5), "discount": 0.5, "alpha": -0.2},
    "gamma prior": {"noise": "laplace", "noise_scale": 0.8, "prior": (1.5, 0.8)},
    "two features": {
        "noise": "laplace", "noise_scale": [0.9, 1.0, 1.5], "bounds": [(-2.0, 2.0), (-1.0, 3.0)], "hyper": TWO},
    "convolved": {"noise": "gaussian", "noise_scale": 0.8, "eta": 0.8},
    "convolved, two features": {"noise": "gaussian", "noise_scale": 1.2, "eta": 1.2, "hyper": TWO},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_monte_carlo_from_the_prior(name):
    case = {"hyper": PRIOR, **CASES[name]}
    two = case["hyper"] is TWO
    z = np.array([[-0.8, 0.3], [1.2, 1.1], [1.8, 2.9]])[:, : 1 + two]
    x = np.array([[-1.5, 0.5], [0.3, 1.2], [1.6, 2.5]])[:, : 1 + two]
    rng = np.random.default_rng(20240 + list(CASES).index(name))
    estimate, error, effective = monte_carlo(rng, 300_000, z, x, **case)
    assert effective > 10_000
    exact = exact_posterior(
        z, noise=case["noise"], noise_scale=case["noise_scale"], bounds=case.get("bounds"), x=x,
        concentration=case.get("alpha", 1.0), concentration_prior=case.get("prior"), discount=case.get("discount", 0.0),
        kernel="normal" if "eta" not in case else "convolved", **case["hyper"],
    )  # fmt: skip
    exact = np.concatenate([exact.n_clusters_pmf, exact.p_together.ravel(), exact.predictive])
    assert np.all(error < 0.05 * np.maximum(estimate, 0.1))  # the comparison has power
    assert np.all(np.abs(exact - estimate) <= 4.5 * error + 1e-12), (exact - estimate) / np.maximum(error, 1e-12)


@pytest.mark.parametrize("eta", [0.01, 0.5, 6.0])
def test_convolved_marginals_match_the_incomplete_gamma_form(eta):
    log_m, predictive = oracle.convolved_tables(Z[:, 0], X[:, 0], eta, **PRIOR)
    for mask in range(32):
        (_, _, a, b), expected = nig_update(Z[[mask >> i & 1 == 1 for i in range(5)], 0], **PRIOR)
        expected += np.log(gammainc(a, b / eta**2)) - np.log(gammainc(PRIOR["shape"], PRIOR["scale"] / eta**2))
        assert abs(log_m[mask] - expected) < 1e-9
    if eta == 0.01:  # and then the release's predictive is nearly the record's
        np.testing.assert_allclose(predictive[0], student(X[:, 0], **PRIOR), rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0])
@pytest.mark.parametrize("noise_scale", [1e-4, 0.01, 3.0])
def test_narrow_clusters_under_gaussian_noise(scale, noise_scale):
    """Given sigma, releases are jointly normal: one plain integral over log sigma^2 is left, on a dense grid.

    Their covariance is diag(v) + 2 sigma^2 11', which Sherman and Morrison invert.
    """
    z, x = np.array([1.0, 1.002, 1.015]), np.array([0.98, 1.004, 1.7])
    hyper = {"mean": 0.7, "mean_precision": 0.5, "shape": 2.0, "scale": scale}
    noise = noise_scale * np.array([1.0, 0.5, 2.0])
    log_m, predictive = feature_tables(z, x, "gaussian", noise, None, **hyper)
    u = np.linspace(np.log(scale) - 5, 40, 60_001)
    log_prior = 2 * np.log(scale) - gammaln(2) - 2 * u - scale * np.exp(-u) + np.log(u[1] - u[0])

    def log_marginal(values, sd):
        v, common, r = np.exp(u)[:, None] + sd**2, np.exp(u) / 0.5, values - 0.7
        grown, centre = 1 + common * (1 / v).sum(axis=1), common * (r / v).sum(axis=1)
        square = (r * (r - (centre / grown)[:, None]) / v).sum(axis=1)
        log_f = -0.5 * (square + np.log(grown) + np.log(v).sum(axis=1) + len(values) * np.log(2 * np.pi))
        return np.logaddexp.reduce(log_f + log_prior)

    for mask in (1, 3, 7):
        rows = [i for i in range(3) if mask >> i & 1]
        expected = log_marginal(z[rows], noise[rows])
        assert abs(log_m[mask] - expected) < 1e-7
        for j in range(3):
            with_x = log_marginal(np.append(z[rows], x[j]), np.append(noise[rows], 0.0))
            assert abs(np.log(predictive[mask, j]) - (with_x - expected)) < 1e-7


@pytest.mark.parametrize("channel", [{"noise": "laplace", "bounds": (-1, 2)}, {"noise": "gaussian"}, {"noise": None}])
def test_alpha_near_zero_is_one_cluster(channel):
    channel = channel if channel["noise"] is None else {**channel, "noise_scale": 0.4}
    result = exact_posterior(Z, concentration=1e-6, x=X, **channel, **PRIOR)
    assert result.n_clusters_pmf[1] == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(result.p_together, 1, atol=1e-3)
    if channel["noise"] is None:
        post, _ = nig_update(Z[:, 0], **PRIOR)
        np.testing.assert_allclose(result.predictive, student(X[:, 0], *post), rtol=1e-3)
    # the share of more than one cluster is proportional to alpha
    smaller = exact_posterior(Z, concentration=1e-7, **channel, **PRIOR)
    assert smaller.n_clusters_pmf[2] / result.n_clusters_pmf[2] == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_no_noise_and_all_noise_are_limits(noise):
    clean = exact_posterior(Z, x=X, **PRIOR)
    for scale, tolerance in ((1e-2, 1e-3), (1e-6, 1e-8)):
        result = exact_posterior(Z, noise=noise, noise_scale=scale, x=X, **PRIOR)
        for got, expected in zip(result, clean, strict=True):
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    blind = exact_posterior(
        Z, noise=noise, noise_scale=1e7, bounds=(-3, 3), concentration=0.8, discount=0.2, x=X, **PRIOR
    )
    np.testing.assert_allclose(blind.predictive, student(X[:, 0], **PRIOR), rtol=1e-5)
    expected = np.full((5, 5), 0.8 / 1.8)
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(blind.p_together, expected, rtol=1e-5)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_wide_bounds_do_nothing_and_records_are_exchangeable(noise):
    scale = np.array([0.2, 0.5, 1.0, 0.01, 3.0])
    free = exact_posterior(Z, noise=noise, noise_scale=scale, x=X, **PRIOR)
    wide = exact_posterior(Z, noise=noise, noise_scale=scale, bounds=(-1e9, 1e9), x=X, **PRIOR)
    order = np.array([3, 0, 4, 2, 1])
    mixed = exact_posterior(Z[order], noise=noise, noise_scale=scale[order], x=X, **PRIOR)
    for a, b, c in zip(free, wide, mixed, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(a[np.ix_(order, order)] if a.ndim == 2 else a, c, rtol=1e-9, atol=1e-15)


def test_outputs_are_consistent():
    grid = np.linspace(-40, 40, 2001)[:, None]
    result = exact_posterior(Z[:3], noise="laplace", noise_scale=0.5, bounds=(-1, 2), x=grid, **PRIOR)
    assert np.trapezoid(result.predictive, grid[:, 0]) == pytest.approx(1, abs=2e-3)  # a Student tail is cut
    assert result.n_clusters_pmf.sum() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(result.p_together, result.p_together.T)
    np.testing.assert_allclose(np.diag(result.p_together), 1)


def test_a_sharp_concentration_prior_is_a_fixed_concentration():
    kwargs = {"noise": "laplace", "noise_scale": 0.5, "x": X, **PRIOR}
    fixed = exact_posterior(Z, concentration=1.7, **kwargs)
    sharp = exact_posterior(Z, concentration_prior=(1e6, 1e6 / 1.7), **kwargs)
    for a, b in zip(fixed, sharp, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_gamma_prior_by_direct_integration():
    prior = stats.gamma(1.3, scale=1 / 0.6)
    kwargs = {"noise": "gaussian", "noise_scale": 0.5, "x": X, **PRIOR}
    log_m, f = feature_tables(Z[:2, 0], X[:, 0], "gaussian", np.full(2, 0.5), None, **PRIOR)
    one, two = np.exp(log_m[3]), np.exp(log_m[1] + log_m[2])

    def mean(function):
        return quad(lambda v: function(v) * prior.pdf(v), 0, 1, epsabs=1e-13)[0] + quad(
            lambda v: function(v) * prior.pdf(v), 1, 60, epsabs=1e-13)[0]  # fmt: skip

    evidence = mean(lambda v: (one + v * two) / (1 + v))
    p = mean(lambda v: one / (1 + v)) / evidence
    expected = mean(lambda v: one / (1 + v) / (v + 2)) * 2 * f[3]
    expected += mean(lambda v: v * two / (1 + v) / (v + 2)) * (f[1] + f[2])
    expected += mean(lambda v: (one + v * two) / (1 + v) * v / (v + 2)) * f[0]
    result = exact_posterior(Z[:2], concentration_prior=(1.3, 0.6), **kwargs)
    np.testing.assert_allclose(result.n_clusters_pmf, [0, p, 1 - p], rtol=1e-8)
    np.testing.assert_allclose(result.predictive, expected / evidence, rtol=1e-8)


def test_partitions_are_counted_by_bell_numbers():
    assert [len(oracle.set_partitions(n)) for n in range(1, 6)] == [1, 2, 5, 15, 52]
    assert len({tuple(sorted(map(int, p))) for p in oracle.set_partitions(5)}) == 52


@pytest.mark.parametrize("kernel", ["normal", "convolved"])
def test_the_accuracy_check_can_fail(kernel, monkeypatch):
    kwargs = {"noise": "gaussian", "noise_scale": 0.01, "x": X, "kernel": kernel, **PRIOR}
    exact_posterior(Z, **kwargs)
    monkeypatch.setattr(oracle, "RTOL", 1e-18)
    with pytest.raises(ValueError, match="not accurate"):
        exact_posterior(Z, **kwargs)


def test_a_grid_too_small_is_refused(monkeypatch):
    monkeypatch.setattr(oracle, "_TAIL", 1e-2)
    with pytest.raises(ValueError, match="not accurate"):
        exact_posterior(Z, noise="laplace", noise_scale=0.5, bounds=(-1, 2), **PRIOR)


@pytest.mark.parametrize(
    "kwargs",
    [{"noise": "cauchy", "noise_scale": 1}, {"noise": "laplace"}, {"bounds": (0, 1)}, {"discount": 1.0},
     {"discount": 0.2, "concentration_prior": (1, 1)}, {"kernel": "convolved"},
     {"kernel": "convolved", "noise": "gaussian", "noise_scale": [1, 1, 1, 1, 2]},
     {"kernel": "convolved", "noise": "gaussian", "noise_scale": 1, "bounds": (-1, 1)}],
)  # fmt: skip
def test_unusable_arguments_are_refused(kwargs):
    with pytest.raises(ValueError):
        exact_posterior(Z, **kwargs, **PRIOR)
