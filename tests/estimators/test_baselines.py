"""Baselines of the exponential families: what they are, and that they are worse in the way that they should be."""

import numpy as np
import pytest
from scipy import optimize, stats
from statistical import ALPHA, assert_mean_close

from sklearn_dpmix import NaivePosterior, OnePosteriorSampling, PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.metrics import coverage
from sklearn_dpmix.models import Beta, BetaPrior, Exponential, Gamma, Multinomial, Normal, Poisson
from sklearn_dpmix.queries import SufficientStatistics

SHORT = {"n_chains": 2, "n_warmup": 10, "n_draws": 4000, "random_state": 0}


def test_naive_posterior_is_the_conjugate_one_at_the_release():
    """Catches a release that is used otherwise than as the statistic."""
    model = NaivePosterior(LaplaceMechanism(scale=3.0), family="binomial", prior=BetaPrior(2, 3), n_records=50, **SHORT)
    model.fit([17.2])
    law = stats.beta(2 + 17, 3 + 33)
    assert_mean_close(model.theta_draws_[..., 0], law.mean())
    assert_mean_close((model.theta_draws_[..., 0] - law.mean()) ** 2, law.var())
    assert model.statistic_draws_.min() == model.statistic_draws_.max() == 17.0


def test_a_naive_posterior_goes_on():
    """As ``warm_start`` says: the same draws and more, and no other data."""
    model = NaivePosterior(LaplaceMechanism(scale=3.0), family="binomial", n_records=50, n_draws=200, warm_start=True)
    first = model.fit([17.2]).theta_draws_
    assert np.array_equal(model.set_params(n_draws=300).fit([17.2]).theta_draws_[:, :200], first)
    with pytest.raises(ValueError, match="warm_start=True continues the chains of the last fit, but the data changed"):
        model.fit([30.0])
    assert model.theta_draws_.shape == (4, 300, 1)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize(
    ("family", "s", "n"),
    [
        (Multinomial(3), [-5.0, 70.3, 20.4], 80),
        (Multinomial(3), [-5.0, -1.0, -2.0], 80),
        (Poisson(), [-3.0], 10),
        (Exponential(), [-3.0], 10),
        (Normal(), [100.0, -7.0], 10),
        (Beta(), [3.0, -0.5], 10),
    ],
    ids=lambda value: str(value),
)
def test_what_no_records_have_is_moved_to_what_some_have(family, s, n):
    """An ordinary fit takes the result, and refuses what it was."""
    with pytest.raises(ValueError, match=r"records|statistic|counts"):
        PrivateExpFamilyGibbs(family=family, n_records=n, **SHORT).fit(np.array(s))
    moved = family.nearest_statistic(np.array(s), n)
    PrivateExpFamilyGibbs(family=family, n_records=n, **SHORT | {"n_draws": 10}).fit(moved)


@pytest.mark.parametrize(
    ("family", "records"),
    [
        (Exponential(), stats.expon(scale=2e-8)),
        (Gamma(3.0), stats.gamma(3.0, scale=1e-9)),
        (Normal(), stats.norm(4e-5, 1e-5)),
        (Normal(), stats.norm(1e6, 10.0)),
        (Beta(), stats.beta(5.0, 20_000.0)),
        (Beta(), stats.beta(20_000.0, 30_000.0)),
    ],
    ids=["exponential", "gamma", "normal", "normal far from 0", "beta near 0", "narrow beta"],
)
def test_what_some_records_have_stays(family, records):
    """In any unit, and anywhere."""
    s = family.statistics(records.rvs(200, random_state=0)).sum(axis=0)
    assert np.array_equal(family.nearest_statistic(s, 200), s)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_naive_intervals_do_not_cover_and_ours_do():
    """The comparison of the paper's Figure 1, at one setting: n = 200, ε = 0.1."""
    rng, draws, truth = np.random.default_rng(0), {NaivePosterior: [], PrivateExpFamilyGibbs: []}, []
    mechanism = LaplaceMechanism(scale=10.0)
    for _ in range(300):
        theta = rng.random()
        truth.append(theta)
        S = rng.binomial(200, theta) + rng.laplace(scale=10.0, size=1)
        for kind, found in draws.items():
            chain = {"n_chains": 1, "n_warmup": 0, "n_draws": 199, "random_state": rng}
            model = kind(mechanism, family="binomial", n_records=200, **chain).fit(S)
            found.append(model.theta_draws_[0, :, 0])
    kinds = PrivateExpFamilyGibbs, NaivePosterior
    ours, naive = (coverage(np.array(draws[kind]), np.array(truth), levels=(0.9,)) for kind in kinds)
    assert abs(ours.coverage[0] - 0.9) < 5 * np.sqrt(0.09 / 300)
    assert naive.coverage[0] < 0.9 - 5 * np.sqrt(0.09 / 300)


def test_one_posterior_sampling_keeps_its_promise():
    """The log density of a draw moves by at most ε/n_draws when a record is replaced, and by at least a third of it."""
    grid, epsilon, n_draws = np.linspace(0.1, 0.9, 2001)[1:-1], 3.0, 2
    power = 0.5 * epsilon / (n_draws * np.log(9.0))
    densities = []
    for ones in (0, 1):
        law = stats.beta(1 + power * ones, 1 + power * (6 - ones))
        densities.append(law.logpdf(grid) - np.log(law.cdf(0.9) - law.cdf(0.1)))
    loss = np.abs(densities[0] - densities[1]).max()
    assert epsilon / n_draws / 3 < loss <= epsilon / n_draws
    model = OnePosteriorSampling(epsilon, n_draws=20_000 * n_draws // 2, random_state=0)
    draws = model.fit(np.array([1, 0, 0, 0, 0, 0])).theta_draws_.ravel()
    power = 0.5 * epsilon / (model.n_draws * np.log(9.0))
    law = stats.beta(1 + power, 1 + 5 * power)
    u = (law.cdf(draws) - law.cdf(0.1)) / (law.cdf(0.9) - law.cdf(0.1))
    assert stats.kstest(u, "uniform").pvalue > 1e-6
    assert model.guarantee_.epsilon == epsilon


class FlattenedPosterior:
    """A draw's law, by quadrature of θ^(a-1) (1-θ)^(b-1) on [low, 1 - low] where it is e^-60 of its peak or more."""

    def __init__(self, a, b, low=0.1, n_panels=400):
        self.a, self.b, mode = a, b, low if a < b else 1.0 - low
        if a > 1.0 and b > 1.0:
            mode = min(max((a - 1.0) / (a + b - 2.0), low), 1.0 - low)
        self.peak = (a - 1.0) * np.log(mode) + (b - 1.0) * np.log1p(-mode)
        ends = [self._reach(mode, end) for end in (low, 1.0 - low)]
        # panels that get narrow towards the mode from either side
        steps = np.linspace(0.0, 1.0, n_panels) ** 2
        left, right = mode - (mode - ends[0]) * steps[::-1], mode + (ends[1] - mode) * steps[1:]
        self.edges = np.concatenate([left[:-1] if ends[0] < mode else [], [mode], right if ends[1] > mode else []])
        self.mass = np.concatenate([[0.0], np.cumsum(self._integral(self.edges[:-1], self.edges[1:]))])
        self.log_constant = self.peak + np.log(self.mass[-1])

    def _log_shape(self, theta):
        return (self.a - 1.0) * np.log(theta) + (self.b - 1.0) * np.log1p(-theta)

    def _reach(self, mode, end):
        """The end, or where the density has fallen to e^-60 of its largest value on the way there."""
        if self.peak - self._log_shape(end) < 60.0:
            return end
        return optimize.brentq(lambda theta: self.peak - self._log_shape(theta) - 60.0, mode, end, xtol=1e-300)

    def _integral(self, lo, hi):
        nodes, weights = np.polynomial.legendre.leggauss(12)
        theta = lo[:, None] + 0.5 * (hi - lo)[:, None] * (1.0 + nodes)
        return 0.5 * (hi - lo) * (np.exp(self._log_shape(theta) - self.peak) @ weights)

    def log_density(self, theta):
        return self._log_shape(theta) - self.log_constant

    def cdf(self, theta):
        panel = np.clip(np.searchsorted(self.edges, theta, side="right") - 1, 0, len(self.edges) - 2)
        inside = np.clip(theta, self.edges[0], self.edges[-1])
        return (self.mass[panel] + self._integral(self.edges[panel], inside)) / self.mass[-1]


def flattened_draws(records, n_draws, power, prior, seed):
    """Draws at a power that is given, and their law: a draw does not depend on how many others there are."""
    epsilon = 2.0 * n_draws * np.log(9.0) * power
    model = OnePosteriorSampling(epsilon, n_draws=n_draws, prior=prior, random_state=seed).fit(records)
    ones = float(np.sum(records))
    law = FlattenedPosterior(prior.a + power * ones, prior.b + power * (len(records) - ones))
    return model.theta_draws_.ravel(), law


@pytest.mark.parametrize("prior", [BetaPrior(), BetaPrior(0.5, 0.5), BetaPrior(1e-3, 30.0)], ids=repr)
@pytest.mark.parametrize("power", [1.0, 0.02])
@pytest.mark.parametrize("n", [10, 1400, 1560, 100_000])
def test_one_posterior_sampling_draws_the_flattened_posterior(n, power, prior):
    """Catches draws by inverting a cdf that rounds to 0 or 1 at both ends: from the wrong end, or a few values only.

    Counts are as many as the rates 0, 2 %, 20 %, 50 %, 99 % and 100 % make of n records.
    """
    for rate in (0.0, 0.02, 0.2, 0.5, 0.99, 1.0):
        records = (np.arange(n) < round(rate * n)).astype(np.float64)
        draws, law = flattened_draws(records, 2000, power, prior, seed=n + round(100 * rate))
        assert draws.min() >= 0.1 and draws.max() <= 0.9
        assert stats.kstest(law.cdf(draws), "uniform").pvalue > ALPHA, rate
        assert len(np.unique(draws)) == len(draws), rate


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.5, 1.0])
def test_ten_million_records_are_drawn_as_well(rate):
    records = np.arange(10**7) < round(rate * 10**7)
    draws, law = flattened_draws(records, 2000, 1.0, BetaPrior(), seed=7)
    assert stats.kstest(law.cdf(draws), "uniform").pvalue > ALPHA
    assert len(np.unique(draws)) == len(draws)


def test_the_law_of_the_flattened_posterior_is_right_and_sees_a_wrong_one():
    """Against SciPy where its cdf does not saturate; and one record in 1560 more is told from the draws."""
    grid = np.linspace(0.1, 0.9, 101)
    for a, b in ((0.5, 0.5), (3.0, 40.0), (400.0, 900.0), (1e-3, 2.0)):
        cdf = stats.beta(a, b).cdf
        expected = (cdf(grid) - cdf(0.1)) / (cdf(0.9) - cdf(0.1))
        np.testing.assert_allclose(FlattenedPosterior(a, b).cdf(grid), expected, atol=1e-12)
    draws, _ = flattened_draws(np.zeros(1560), 20_000, 1.0, BetaPrior(), seed=1)
    assert stats.kstest(FlattenedPosterior(1.0, 1.1 * 1561.0).cdf(draws), "uniform").pvalue < ALPHA


@pytest.mark.parametrize("n", [1, 1560, 10**7])
@pytest.mark.parametrize("prior", [BetaPrior(), BetaPrior(0.5, 0.5), BetaPrior(1e-3, 30.0)], ids=repr)
def test_worst_neighbours_of_one_posterior_sampling_differ_by_its_epsilon_at_most(n, prior):
    """Exact log ratios of densities of a draw over the interval, at ε = 1."""
    power, grid = 0.5 / np.log(9.0), np.linspace(0.1, 0.9, 1001)
    for ones in {0, n // 50, n // 2, n - 1}:
        a, b = prior.a + power * ones, prior.b + power * (n - ones)
        loss = FlattenedPosterior(a, b).log_density(grid) - FlattenedPosterior(a + power, b - power).log_density(grid)
        assert np.abs(loss).max() <= 1.0 + 1e-7


def test_draws_of_one_record_in_1560_are_not_told_apart_beyond_epsilon():
    """A lower bound of ε (Clopper–Pearson, 99.9 %) from 10,000 draws of each neighbour, at ε = 1.

    The event, a draw below a threshold, is found on one half of the draws and tested on the other.
    """
    power, n_draws = 0.5 / np.log(9.0), 20_000
    pair = [flattened_draws(np.eye(1, 1560).ravel() * one, n_draws, power, BetaPrior(), seed=one)[0] for one in (0, 1)]
    found, tested = [draws[:10_000] for draws in pair], [draws[10_000:] for draws in pair]
    bounds = []
    for first, second in ((0, 1), (1, 0)):
        thresholds = np.quantile(np.concatenate(found), np.linspace(0.01, 0.99, 99))
        shares = [[np.mean(found[i] < t) + 1e-3 for t in thresholds] for i in (first, second)]
        threshold = thresholds[np.argmax(np.divide(*shares))]
        hits = [int(np.sum(tested[i] < threshold)) for i in (first, second)]
        if hits[0]:
            more = stats.beta.ppf(0.0005, hits[0], 10_001 - hits[0])
            fewer = stats.beta.ppf(0.9995, hits[1] + 1, 10_000 - hits[1])
            bounds.append(np.log(more / fewer))
    assert max(bounds, default=0.0) <= 1.0


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({}, [0, 1, 2], "one 0 or 1 per record"),
        ({"epsilon": -1.0}, [0, 1], "epsilon must be positive"),
        ({"low": 0.6}, [0, 1], "low must be between 0 and 0.5, got low=0.6"),
        ({"prior": 3}, [0, 1], "prior"),
    ],
)
def test_bad_input_is_named(params, X, message):
    with pytest.raises(ValueError, match=message):
        OnePosteriorSampling(**params).fit(X)


def test_the_summary_is_in_the_records_unit():
    """Catches a table in the unit that the bounds are scaled to, beside draws in that of the records."""
    pytest.importorskip("pandas")
    mechanism = LaplaceMechanism(epsilon=20.0, query=SufficientStatistics("normal", bounds=(100, 200)))
    S = mechanism.privatize(np.random.default_rng(0).normal(150.0, 10.0, (300, 1)), random_state=1)
    naive = NaivePosterior(mechanism, family="normal", n_records=300, random_state=0).fit(S)
    table = naive.summary()["mean"]  # a column
    np.testing.assert_allclose([table["mean"], table["variance"]], naive.theta_draws_.mean(axis=(0, 1)), rtol=1e-9)
    assert 148.0 < table["mean"] < 152.0
