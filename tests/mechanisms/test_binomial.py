"""The binomial mechanism: its law, its privacy by brute force, its closed form with a beta kernel by quadrature.

Its posteriors are in ``test_exact_channels.py``.  Compiled methods run here as the plain Python that they are.
"""

import itertools
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betaincinv, betaln
from sklearn.base import clone

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix._releases.misfits import misfits
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import BetaKernel, NormalKernel
from sklearn_dpmix.mechanisms import BinomialMechanism, LaplaceMechanism
from sklearn_dpmix.samplers import Auto, Cells, Interweaved, MixingMeasure

mpmath = pytest.importorskip("mpmath")

ALPHA = 1e-6
FAR = 1e-20  # a twin is rejected by a margin


def log_law(z, u, epsilon, m):
    """log q(z | u), from the definition; ``epsilon`` is the feature's share."""
    high = np.exp(epsilon / m) / (1 + np.exp(epsilon / m))
    return stats.binom.logpmf(z, m, (1 - high) * (1 - u) + high * u)


# --- law and guarantee ------------------------------------------------------------------------------------------------


def p_value(Z, u, epsilon, m):
    """Of the frequencies of released counts against the law."""
    expected = len(Z) * np.exp(log_law(np.arange(m + 1), u, epsilon, m))
    rare = expected < 5
    seen = np.bincount(Z.astype(int), minlength=m + 1)
    seen, expected = ([*counts[~rare], counts[rare].sum()] for counts in (seen, expected))
    return stats.chisquare(seen, expected).pvalue if expected[-1] else stats.chisquare(seen[:-1], expected[:-1]).pvalue


@pytest.mark.parametrize("secure", [False, True])
def test_law_of_a_release(secure):
    """Catches success for failure, bounds or a split over features that are forgotten, another number of trials."""
    n = 10_000 if secure else 30_000
    mechanism = BinomialMechanism(6.0, 5, bounds=[(0, 1), (-2, 6)])
    X = np.repeat([[0.1, 7.0], [2.0, 1.2], [0.7, -2.0]], n, axis=0)
    Z = mechanism.privatize(X, secure=True) if secure else mechanism.privatize(X, random_state=1)
    assert Z.shape == X.shape and Z.dtype == np.float64
    for record, u in enumerate([(0.1, 1.0), (1.0, 0.4), (0.7, 0.0)]):
        for j in range(2):
            column = Z[n * record : n * (record + 1), j]
            assert p_value(column, u[j], 3.0, 5) > ALPHA
            assert p_value(column, u[j], 6.0, 5) < FAR or u[j] == 0.4  # the whole budget for each feature
            assert p_value(5 - column, u[j], 3.0, 5) < FAR


def test_a_secure_release_keeps_its_promise_to_the_last_bit(monkeypatch):
    """Catches a threshold of the coin that is rounded against privacy: every level that records can have."""
    levels = []

    class Level(int):
        def __lt__(self, other):
            levels.append(other)
            return False

    monkeypatch.setattr("secrets.randbelow", lambda n: Level(0))
    for epsilon in (1e-3, 1.0, 5.0, 120.0):
        levels.clear()
        BinomialMechanism(epsilon, 3).privatize([[0.0], [1e-17], [0.5], [1.0]], secure=True)
        least, most = min(levels), max(levels)
        assert 0 < least and most == 2**60 - least
        with mpmath.workdps(50):
            loss = mpmath.log(mpmath.mpf(most) / least)
            assert min(0.999 * epsilon / 3, 41) < loss <= mpmath.mpf(epsilon) / 3


def largest_loss(mechanism, records, releases):
    """Over all pairs of records and all releases."""
    table = np.array([mechanism.log_density(releases, np.tile(x, (len(releases), 1))) for x in records])
    np.testing.assert_allclose(np.exp(table).sum(axis=1), 1.0, rtol=1e-12)  # all releases there are
    return np.ptp(table, axis=0).max()


@pytest.mark.parametrize(("epsilon", "m"), [(0.3, 1), (2.0, 5), (10.0, 20), (60.0, 3)])
def test_privacy_loss_by_brute_force(epsilon, m):
    """Catches a larger loss than is promised, and a smaller one than is paid for."""
    records, releases = np.linspace(-1.5, 2.5, 41)[:, None], np.arange(m + 1.0)[:, None]
    mechanism = BinomialMechanism(epsilon, m, bounds=(-1, 2))
    assert mechanism.guarantee().epsilon == epsilon
    assert mechanism.guarantee().rho == epsilon**2 / 2
    assert largest_loss(mechanism, records, releases) == pytest.approx(epsilon, rel=1e-12)
    one_more = np.ptp([log_law(np.arange(m + 2), u, epsilon * (m + 1) / m, m + 1) for u in (0, 1)], axis=0)
    assert one_more.max() > 1.04 * epsilon  # the twin: a trial more at the same rate


def test_features_share_the_budget():
    """Catches ε spent on each feature; bounds of another feature."""
    mechanism = BinomialMechanism(3.0, 2, bounds=[(0, 1), (-1, 4)])
    records = list(itertools.product((0.0, 0.3, 1.0), (-2.0, 1.0, 5.0)))
    releases = np.array(list(itertools.product(range(3), repeat=2)), dtype=float)
    assert largest_loss(mechanism, records, releases) == pytest.approx(3.0, rel=1e-12)
    channel = mechanism._lower(n_records=9, n_features=2, kernel=NormalKernel())
    for x in records:
        found = [sum(channel.log_channel(releases, i, j, x[j]) for j in range(2)) for i in range(9)]
        np.testing.assert_allclose(found, mechanism.log_density(releases, np.tile(x, (9, 1))), rtol=1e-12)


def test_log_density():
    """Catches a wrong coefficient, rate or clamp, in Python and in the channel that samplers see."""
    for epsilon in (4.0, np.linspace(0.5, 9.0, 63)):
        Z, u = np.array(list(itertools.product(range(9), [-1.0, 0.0, 0.01, 0.4, 0.8, 1.0, 1.3]))).T
        mechanism = BinomialMechanism(epsilon, 8, bounds=(-3.0, 7.0))
        expected = log_law(Z, np.clip(u, 0, 1), epsilon, 8)
        X, Z = 10 * u[:, None] - 3, Z[:, None]
        np.testing.assert_allclose(mechanism.log_density(Z, X), expected, rtol=1e-12)
        for kernel in (BetaKernel(), NormalKernel()):
            channel = mechanism._lower(n_records=63, n_features=1, kernel=kernel)
            found = [channel.log_channel(Z, i, 0, X[i, 0]) for i in range(63)]
            np.testing.assert_allclose(found, expected, rtol=1e-12)


# --- closed form with a beta kernel -----------------------------------------------------------------------------------

BOUNDS = (-1.0, 3.0)
SHAPES = [(0.7, 2.3), (0.05, 0.4), (12.0, 3.0), (400.0, 900.0)]


def closed_form(mechanism, a, b, n_records=1):
    """(channel, kernel, theta) of one cluster."""
    channel = mechanism._lower(n_records=n_records, n_features=1)
    kernel = BetaKernel(bounds=mechanism.bounds)._lower(n_features=1)
    theta = np.zeros((1, 4 + channel.last_cell + 1))
    kernel.put_params(theta, 0, a, b)
    channel.cache(kernel, theta, 0)
    return channel, kernel, theta


def integral(z, epsilon, m, a, b):
    """∫ q(z | u) Beta(u | a, b) du: the end points' powers are the quadrature's weight, or there are none."""
    if min(a, b) < 1:
        value, _ = quad(
            lambda u: np.exp(log_law(z, u, epsilon, m)), 0, 1, weight="alg", wvar=(a - 1, b - 1), epsabs=0, limit=400
        )
        return value / np.exp(betaln(a, b))
    width = np.sqrt(a * b / (a + b + 1)) / (a + b)
    cuts = np.clip(a / (a + b) + width * np.arange(-40, 41, 4), 0, 1)
    return sum(
        quad(lambda u: np.exp(log_law(z, u, epsilon, m)) * stats.beta.pdf(u, a, b), lo, hi, epsabs=0)[0]
        for lo, hi in itertools.pairwise(cuts) if lo < hi
    )  # fmt: skip


@pytest.mark.parametrize(("epsilon", "m"), [(1.0, 1), (8.0, 6), (30.0, 40)])
@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_marginal_is_the_integral(epsilon, m, a, b):
    """Catches a wrong table, beta-binomial or scale, and one that counts failures."""
    channel, kernel, theta = closed_form(BinomialMechanism(epsilon, m, bounds=BOUNDS), a, b)
    z = np.unique([0, m // 3, m // 2, m])
    found = [channel.log_marginal(kernel, np.array([[float(v)]]), 0, 0, theta, 0) for v in z]
    expected = np.log([integral(v, epsilon, m, a, b) for v in z])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)
    assert np.max(np.abs(found - expected[::-1])) > 0.05  # the twin
    everything = [channel.log_marginal(kernel, np.array([[float(v)]]), 0, 0, theta, 0) for v in range(m + 1)]
    assert np.exp(everything).sum() == pytest.approx(1.0, rel=1e-12)


def test_marginal_where_nothing_may_underflow():
    """Catches products that vanish: the largest ε, the most trials, kernels that all but exclude the release."""
    for epsilon, m, a, b in ((700.0, 1, 1e6, 1e-3), (700.0, 400, 1e-3, 1e6), (700.0, 300, 1e6, 1e6), (1e-9, 400, 2, 2)):
        channel, kernel, theta = closed_form(BinomialMechanism(epsilon, m), a, b)
        everything = [channel.log_marginal(kernel, np.array([[float(v)]]), 0, 0, theta, 0) for v in range(m + 1)]
        assert np.all(np.isfinite(everything))
        assert np.logaddexp.reduce(everything) == pytest.approx(0.0, abs=1e-8)
        at_ends = [channel.impute(np.random.default_rng(0), kernel, np.array([[z]]), 0, 0, theta, 0) for z in (0.0, m)]
        assert np.all(np.isfinite(at_ends)) and 0.0 <= min(at_ends) and max(at_ends) <= 1.0


class OneTooMany(BinomialMechanism):
    """Wrong: given k heads a record is Beta(a + k + 1, b + m - k - 1)."""

    @compiled
    def draw_within(self, rng, kernel, theta, k, c):
        return kernel.draw_binomial(rng, theta, k, 0, self.last_cell, min(c + 1, self.last_cell))


class Swapped(BinomialMechanism):
    """Wrong: heads succeed as seldom as tails should."""

    @compiled
    def weight(self, Z, i, c):
        return self.table[int(Z[i, 0]) * (self.last_cell + 1) + self.last_cell - c]


def imputed(cls, z, epsilon, m, a, b, n=4000):
    """p-value of draws of the record against its law, by quadrature in the kernel's probability v = F(u | a, b)."""
    bounds = BOUNDS if a > 0.5 else (0.0, 4.0)  # records next to a bound that is not 0 would be rounded to it
    channel, kernel, theta = closed_form(cls(epsilon, m, bounds=bounds), a, b)
    rng, Z = np.random.default_rng(4), np.array([[float(z)]])
    draws = np.array([channel.impute(rng, kernel, Z, 0, 0, theta, 0) for _ in range(n)])
    v = np.linspace(0, 1, 20_001)
    u = betaincinv(a, b, 0.5 * (v[1:] + v[:-1]))
    cdf = np.concatenate([[0], np.cumsum(np.exp(log_law(z, u, epsilon, m)))])
    law = stats.beta(a, b, loc=bounds[0], scale=4.0)
    return stats.kstest(draws, lambda y: np.interp(law.cdf(y), v, cdf / cdf[-1])).pvalue


@pytest.mark.parametrize(("a", "b"), SHAPES[:3])
@pytest.mark.parametrize(("z", "epsilon", "m"), [(1, 3.0, 1), (4, 8.0, 6), (9, 30.0, 30)])
def test_imputed_records_have_the_exact_law(z, epsilon, m, a, b):
    """Catches a wrong number of heads, or a wrong law of the record given it."""
    assert imputed(BinomialMechanism, z, epsilon, m, a, b) > ALPHA


@pytest.mark.parametrize("wrong", [OneTooMany, Swapped])
def test_wrong_imputed_records_are_rejected(wrong):
    assert imputed(wrong, 5, 8.0, 6, *SHAPES[0]) < FAR


def test_each_record_has_its_own_epsilon():
    """Catches a table of another record's ε."""
    epsilon = np.array([5.0, 0.5, 5.0, 9.0])
    Z, mechanism = np.array([[2.0], [0.0], [3.0], [1.0]]), BinomialMechanism(epsilon, 3)
    assert mechanism.guarantee().epsilon == 9.0
    channel, kernel, theta = closed_form(mechanism, 0.7, 2.3, n_records=4)
    for i in range(4):
        alone, _, _ = closed_form(BinomialMechanism(epsilon[i], 3), 0.7, 2.3)
        expected = alone.log_marginal(kernel, Z[i : i + 1], 0, 0, theta, 0)
        assert channel.log_marginal(kernel, Z, i, 0, theta, 0) == pytest.approx(expected, rel=1e-13)
    with pytest.raises(ValueError, match=r"epsilon has shape \(4,\), but there are 3 records"):
        mechanism.privatize(np.full((3, 1), 0.5))


# --- where chains start -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("u", [0.0, 0.3, 1.0])
def test_estimates_are_unbiased(u):
    """Catches an estimate that is shrunk or of p, and a second moment that forgets the trials' own variance."""
    z = np.arange(7)
    first, second = BinomialMechanism(4.0, 6)._estimates(z[:, None].astype(float))
    weight = np.exp(log_law(z, u, 4.0, 6))
    assert weight @ first[:, 0] == pytest.approx(u, abs=1e-13)
    assert weight @ second[:, 0] == pytest.approx(u**2, abs=1e-13)
    assert weight @ first[:, 0] ** 2 > u**2 + 0.05  # the twin


@pytest.mark.parametrize(("epsilon", "m"), [(2.0, 3), (9.0, 2), (np.linspace(1.0, 4.0, 500), 5)])
def test_the_error_of_the_variance_is_that_of_releases(epsilon, m):
    """Of 500 equal records, over 800 releases; the tolerance is six standard errors of a standard deviation."""
    mechanism, n, found = BinomialMechanism(epsilon, m), 500, []
    for seed in range(800):
        u, u_squared = mechanism._estimates(mechanism.privatize(np.full((n, 1), 0.7), random_state=seed))
        found.append(u_squared.mean() - u.mean() ** 2)
    expected, tolerance = mechanism._noise_error(np.array([0.7]), n), 6.0 / np.sqrt(1600)
    assert np.std(found) == pytest.approx(expected, rel=tolerance)
    assert np.std(found) != pytest.approx(mechanism._noise_error(np.array([0.7]), n / 2), rel=tolerance)  # a twin


def share_too_narrow(n_releases=400):
    """How often the default prior's variance is below that of the records."""
    rng, mechanism, found = np.random.default_rng(0), BinomialMechanism(2.0, 3, bounds=(0.0, 10.0)), []
    for _ in range(n_releases):
        Z = mechanism.privatize(10.0 * rng.beta(4.0, 6.0, (500, 1)), random_state=rng)
        found.append(Release(Z, mechanism).moments()[1][0] < 100.0 * stats.beta(4.0, 6.0).var())
    return np.mean(found)


def test_a_default_prior_is_wide_where_noise_hides_the_spread(monkeypatch):
    """One standard error above: too narrow in one of six, and not in half of the cases, the broken twin."""
    bound = 0.16 + 5 * np.sqrt(0.16 * 0.84 / 400)
    assert share_too_narrow() < bound
    monkeypatch.setattr(BinomialMechanism, "_noise_error", lambda self, mean, n: 0.0)
    assert share_too_narrow() > bound


@pytest.mark.parametrize(("epsilon", "m"), [(1e-160, 4), (0.01, 6), (10.0, 5), (3.0, 1), (700.0, 1000)])
def test_a_start_is_where_records_can_be(epsilon, m):
    """Catches negative variances, infinite guesses, records on a bound; with much information, wrong moments."""
    bounds = np.array([(-1.0, 3.0), (10.0, 11.0)])
    X = bounds[:, 0] + np.diff(bounds).T * np.random.default_rng(0).beta([2, 6], [5, 2], size=(4000, 2))
    mechanism = BinomialMechanism(epsilon, m, bounds=bounds.tolist())
    for n in (1, 2, 4000):
        Z = mechanism.privatize(X[:n], random_state=2)
        release = Release(Z, mechanism)
        (mean, variance), guess = release.moments(), release.guess()
        assert np.all((mean >= bounds[:, 0]) & (mean <= bounds[:, 1]))
        assert np.all(variance >= 0.0024 * np.diff(bounds)[:, 0] ** 2)
        assert guess.shape == Z.shape and np.all((guess > bounds[:, 0]) & (guess < bounds[:, 1]))
        assert list(misfits(release)) == []
    if epsilon >= 10:
        error = np.diff(bounds)[:, 0] / (2 * np.tanh(epsilon / 4 / m) * np.sqrt(m * 4000))  # half of ε for a feature
        np.testing.assert_array_less(np.abs(mean - X.mean(axis=0)), 5 * error)
        np.testing.assert_allclose(variance, X.var(axis=0), rtol=0.5)


# --- parts that go together, and wrong input --------------------------------------------------------------------------


def fit(mechanism, Z, **params):
    return PrivateDPMixture(mechanism, n_chains=1, n_warmup=5, n_draws=5, random_state=0, **params).fit(Z)


def test_what_auto_does():
    """Catches a closed form that is not used, or used with a kernel that has none."""
    mechanism, others = BinomialMechanism(5.0, 3), BinomialMechanism(np.array([5.0, 2.0]), 3)
    for kernel, other in ((BetaKernel(), Cells), (NormalKernel(), Interweaved)):
        chosen = Auto().resolve(mechanism, kernel)
        assert isinstance(chosen.sized(100, 1), MixingMeasure)
        assert all(isinstance(chosen.sized(100, d), other) for d in (2, 3))  # the walk's table is of one feature
        assert [MixingMeasure().takes_features(mechanism, kernel, d) for d in (1, 2)] == [True, False]
        assert isinstance(Auto().resolve(others, kernel), other)
    with pytest.raises(ValueError, match=r"no closed form.*piece_shape='binomial'.*use sampler='auto' or 'neal5'"):
        fit(mechanism, [[1.0]], kernel="normal", sampler="conditional")
    assert MixingMeasure().takes_features(LaplaceMechanism(scale=1.0), NormalKernel(), 2)
    with pytest.raises(ValueError, match="records on an interval of one feature, but these have 2"):
        fit(mechanism, [[1.0, 2.0], [3.0, 1.0]], kernel="normal", sampler="mixing_measure")


def test_several_features_are_fitted_by_default():
    """Catches a sampler chosen for two normal features that takes one only under counts."""
    Z = BinomialMechanism(5.0, 3).privatize(np.random.default_rng(0).random((30, 2)), random_state=1)
    for kernel in ("normal", "truncated_normal"):
        assert not isinstance(fit(BinomialMechanism(5.0, 3), Z, kernel=kernel).sampler_, MixingMeasure)


@pytest.mark.nightly
def test_clusters_predictions_and_scores():
    """Catches labels or scores of another channel, and new releases whose own ε is forgotten."""
    mechanism = BinomialMechanism(60.0, 27, bounds=(-1, 3))
    Z = mechanism.privatize(np.repeat([[-0.6], [2.7]], 60, axis=0), random_state=3)
    model = PrivateDPMixture(mechanism, kernel="beta", n_chains=1, n_warmup=500, n_draws=2000, random_state=0).fit(Z)
    assert np.mean(model.labels_[:60] == model.labels_[0]) > 0.9
    assert np.mean(model.labels_[60:] != model.labels_[0]) > 0.9
    assert abs(model.moment_draws().mean.mean() - 1.05) < 0.3
    for epsilon in (60.0, 3.0):
        scores = [model.score_release([[z]], epsilon=[epsilon]) for z in range(28)]
        assert np.exp(scores).sum() == pytest.approx(1.0, rel=1e-9)
    assert scores[5] < scores[13]  # little is left of the two modes
    assert model.predict(Z[:2], epsilon=[3.0, 9.0]).shape == (2,)


@pytest.mark.parametrize(
    ("mechanism", "Z", "message"),
    [
        (BinomialMechanism(0.0, 3), [[0.0]], "epsilon must be positive"),
        (BinomialMechanism(None, 3), [[0.0]], "epsilon must be positive"),
        (BinomialMechanism(701.0, 3), [[0.0]], "epsilon must be at most 700, got epsilon=701.0"),
        (BinomialMechanism([1.0, 2.0], 3), [[0.0]], r"epsilon has shape \(2,\), but there are 1 records"),
        (BinomialMechanism(1.0), [[0.0]], "n_trials must be an integer from 1 to 1000, got n_trials=None"),
        (BinomialMechanism(1.0, 0), [[0.0]], "got n_trials=0"),
        (BinomialMechanism(1.0, True), [[0.0]], "got n_trials=True"),
        (BinomialMechanism(1.0, 2.0), [[0.0]], "got n_trials=2.0"),
        (BinomialMechanism(1.0, 1001), [[0.0]], "got n_trials=1001: values near epsilon/2"),
        (BinomialMechanism(1.0, 3, bounds=(1, 0)), [[0.0]], "bounds must be finite with lo < hi"),
        (BinomialMechanism(1.0, 3, bounds=None), [[0.0]], "bounds must be a pair"),
        (BinomialMechanism(1.0, 3, bounds=[(0, 1)] * 2), [[0.0]], "has 2 pair"),
        (BinomialMechanism(1.0, 3), [[1.0], [0.5]], "row 1, column 0 has 0.5: pass the release as it was published"),
        (BinomialMechanism(1.0, 3), [[4.0], [1.0]], "from 0 to n_trials=3, but row 0, column 0 has 4"),
        (BinomialMechanism(1.0, 3), [[-1.0]], "row 0, column 0 has -1"),
    ],
)
def test_wrong_releases_and_parameters(mechanism, Z, message):
    """Catches input that gets through, or an error that does not say what is wrong."""
    with pytest.raises(ValueError, match=message):
        fit(mechanism, Z, kernel="beta")


def test_parts_that_do_not_go_together():
    """Catches a closed form that is silently that of other bounds or of one of two features."""
    mechanism = BinomialMechanism(5.0, 3, bounds=(0, 2))
    for sampler in ("auto", "neal5"):
        with pytest.raises(ValueError, match=r"bounds=\(0, 1\) of BetaKernel are not those of.*leave the kernel's out"):
            fit(mechanism, [[1.0]], kernel=BetaKernel(bounds=(0, 1)), sampler=sampler)
    assert BetaKernel(bounds=(0, 2)).resolve(Release(np.ones((2, 1)), mechanism)).bounds == (0, 2)
    with pytest.raises(ValueError, match="one feature"):
        fit(mechanism, [[1.0, 2.0]], kernel="beta")
    with pytest.raises(ValueError, match="closed form for one feature, but the records have 2"):
        mechanism._lower(n_records=1, n_features=2, kernel=BetaKernel())
    with pytest.raises(ValueError, match=r"epsilon has 200 distinct values.*n_trials=1000"):
        BinomialMechanism(np.linspace(1, 2, 200), 1000)._lower(n_records=200, n_features=1)
    with pytest.raises(ValueError, match="takes no seed, got random_state=0"):
        mechanism.privatize([[1.0]], secure=True, random_state=0)
    with pytest.raises(ValueError, match=r"Z has shape \(2, 1\), but X has \(1, 1\)"):
        mechanism.log_density([[1], [2]], [[0.5]])


def test_it_is_a_scikit_learn_object():
    mechanism = BinomialMechanism(5.0, 3, bounds=(0, 2))
    for other in (clone(mechanism), pickle.loads(pickle.dumps(mechanism))):
        assert other.get_params() == {"epsilon": 5.0, "n_trials": 3, "bounds": (0, 2)}
    assert mechanism.is_discrete and mechanism.is_local
