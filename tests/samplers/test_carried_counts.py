"""Moves of an unknown α that carry all counts along: quantiles, the prior, and how far they get."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln
from statistical import Disagreement, assert_mean_close

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import Multinomial, WideDirichletPrior
from sklearn_dpmix.queries import SufficientStatistics
from sklearn_dpmix.samplers.sums import _carried_counts


@pytest.mark.parametrize("m, a, b", [(1, 0.3, 0.3), (10, 0.3, 2.0), (300, 20.0, 1980.0), (300, 1e-5, 3e-5),
                                     (3200, 1e6, 99e6), (3200, 0.01, 1.0), (40, 1e5, 1e5)])  # fmt: skip
def test_quantiles_are_those_of_the_beta_binomial_distribution(m, a, b):
    """Also where the ends are so unlikely that they underflow, and where nearly all is at the ends."""
    law, u = stats.betabinom(m, a, b), np.random.default_rng(0).random(200)
    np.testing.assert_array_equal([_carried_counts.quantile(float(m), a, b, v) for v in u], law.ppf(u))
    for x in np.unique(law.ppf(u)):
        mass = _carried_counts.mass_at(float(m), a, b, x)
        assert mass == pytest.approx(law.pmf(x), rel=1e-6)  # SciPy's has cancelled digits where a and b are large
        assert _carried_counts.mass_below(float(m), a, b, x, mass) == pytest.approx(law.cdf(x - 1), abs=1e-6)


class NoNoise:
    """A channel without a release: what is left is the prior."""


def carried(n_moves, n_starts=4000, n=6, K=3, median=0.7, move=_carried_counts.carry):
    """(α, counts) from the prior, and after some moves."""
    rng, starts, ends = np.random.default_rng(1), [], []
    context = NoNoise(), None, np.zeros((0, 0)), np.zeros((0, 1)), np.zeros(16)
    for _ in range(n_starts):
        alpha = median * np.exp(rng.logistic())
        counts = rng.multinomial(n, rng.dirichlet(np.full(K, alpha))).astype(np.float64)
        starts.append([alpha, *counts])
        for _ in range(n_moves):
            alpha = move(rng, context, median, counts, rng.permutation(K), alpha, np.zeros(K))
        ends.append([alpha, *counts])
    return np.array(starts), np.array(ends)


def without_the_prior(rng, context, median, counts, order, alpha, new):
    """The broken twin: log α is uniform."""
    return _carried_counts.carry(rng, context, 1e9 * alpha, counts, order, alpha, new)


def test_the_prior_stays_as_it_is():
    """Of α, and of the largest count; and both move."""
    starts, ends = carried(3)
    assert np.mean(starts[:, 0] != ends[:, 0]) > 0.9 and np.mean(starts[:, 1] != ends[:, 1]) > 0.3
    np.testing.assert_array_equal(ends[:, 1:].sum(axis=1), 6.0)
    assert stats.kstest(np.log(ends[:, 0] / 0.7), "logistic").pvalue > 1e-6
    largest = stats.betabinom  # of three counts, by their joint probabilities under many α
    alpha = 0.7 * np.exp(stats.logistic.ppf((np.arange(2000) + 0.5) / 2000))
    pmf = np.zeros(7)
    for first in range(7):
        for second in range(7 - first):
            p = largest.pmf(first, 6, alpha, 2 * alpha) * largest.pmf(second, 6 - first, alpha, alpha)
            pmf[max(first, second, 6 - first - second)] += p.mean()
    found = np.bincount(ends[:, 1:].max(axis=1).astype(int), minlength=7)
    possible = pmf > 1e-12
    assert stats.chisquare(found[possible], pmf[possible] / pmf.sum() * len(ends)).pvalue > 1e-6
    _, wrong = carried(3, move=without_the_prior)
    assert stats.kstest(np.log(wrong[:, 0] / 0.7), "logistic").pvalue < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("K, n, mechanism", [(20, 500, GaussianMechanism(0.1, 1e-6)), (100, 50, LaplaceMechanism(0.1)),
                                             (100, 50, DiscreteLaplaceMechanism(1.0))])  # fmt: skip
def test_many_categories_under_much_noise_mix(K, n, mechanism):
    """Without these moves R-hat was up to 1.04, with 70 to 260 effective draws."""
    p = 1.0 / np.arange(1, K + 1)
    records = np.random.default_rng(0).choice(K, n, p=p / p.sum())[:, None]
    mechanism = mechanism.set_params(query=SufficientStatistics(Multinomial(K)))
    model = PrivateExpFamilyGibbs(mechanism, family=Multinomial(K), n_records=n, random_state=0)
    model.fit(mechanism.privatize(records, random_state=1))
    assert isinstance(model.prior_, WideDirichletPrior)
    assert max(model.r_hat_.values()) < 1.02 and min(model.ess_.values()) > 400


@pytest.mark.slow
def test_large_counts_mix_that_noise_may_have_made():
    """Four of 100 categories have all records, and the noise may have made the third: 142 effective draws before."""
    K, mechanism = 100, LaplaceMechanism(scale=20.0)
    counts = np.concatenate([[500.0, 300.0, 150.0, 50.0], np.zeros(K - 4)])
    release = counts + np.random.default_rng(1).laplace(scale=20.0, size=K)
    model = PrivateExpFamilyGibbs(mechanism, family=Multinomial(K), n_records=1000, random_state=0).fit(release)
    assert max(model.r_hat_.values()) < 1.02 and min(model.ess_.values()) > 400


def enumerated(release, n, scale):
    """Means of the counts and of their squares, from all counts under many α."""
    first, second = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    fine = first + second <= n
    counts = np.column_stack([first[fine], second[fine], n - first[fine] - second[fine]])
    weights = np.zeros(len(counts))
    for alpha in np.exp(stats.logistic.ppf((np.arange(400) + 0.5) / 400)):
        value = gammaln(3 * alpha) - gammaln(3 * alpha + n) - 3 * gammaln(alpha)
        weights += np.exp(gammaln(n + 1) + value + (gammaln(counts + alpha) - gammaln(counts + 1)).sum(axis=1))
    weights *= stats.laplace.pdf(release - counts, scale=scale).prod(axis=1)
    return weights @ np.column_stack([counts, counts**2]) / weights.sum()


@pytest.mark.slow
def test_large_counts_are_those_of_an_enumeration():
    """Either of two may have all records: what pairs exchange is summed over all that is possible."""
    release, n, scale = np.array([90.0, 75.0, -10.0]), 120, 25.0
    model = PrivateExpFamilyGibbs(
        LaplaceMechanism(scale=scale), family=Multinomial(3), n_records=n, n_draws=10_000, random_state=0
    ).fit(release)
    draws = np.concatenate([model.statistic_draws_, model.statistic_draws_**2], axis=-1)
    assert_mean_close(draws, enumerated(release, n, scale))
    with pytest.raises(Disagreement):
        assert_mean_close(draws, enumerated(release, n, 1.2 * scale))


def test_a_count_in_the_far_tail_is_not_carried():
    """Catches quantiles of uniform numbers that are told apart from 1 by rounding only: counts went anywhere."""
    rng, context = np.random.default_rng(1), (NoNoise(), None, np.zeros((0, 0)), np.zeros((0, 1)), np.zeros(16))
    order = np.arange(300)
    for _ in range(50):
        counts = np.append(80.0, rng.multinomial(2920, np.full(299, 1.0 / 299.0)))
        before = counts.copy()
        assert _carried_counts.carry(rng, context, 10.0, counts, order, 10.0, np.zeros(300)) == 10.0
        np.testing.assert_array_equal(counts, before)
