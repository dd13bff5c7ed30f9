"""PrivateNaiveBayesDA: its samplers against enumeration, a long run of another program, each other, and theorems."""

import json
from functools import partial
from math import exp

import long_twin_runs as long_runs
import naive_bayes_oracle as nb_oracle
import numpy as np
import pytest
from curator_oracle import discrete_gaussian, discrete_laplace, gaussian, laplace
from naive_bayes_case import QUERY, RECORDS, RELEASE, fit, fit_records
from record_metropolis import RecordMetropolis
from scipy.special import gammaln, logsumexp
from statistical import Disagreement, assert_mean_close, assert_means_agree, assert_ranks_uniform, effective_sample_size

from sklearn_dpmix._base.acceptance import LOG_MIN_ACCEPT
from sklearn_dpmix._base.compiled import Component, compiled, helper
from sklearn_dpmix._chains.chain import run_chains, start_chains
from sklearn_dpmix._chains.draws import join
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import DirichletPrior
from sklearn_dpmix.models._naive_bayes_model import NaiveBayes
from sklearn_dpmix.queries import ClassFeatureCounts
from sklearn_dpmix.samplers.tables import _convolution as tables_module
from sklearn_dpmix.samplers.tables._convolution import (
    convolve_logs,
    independent_tables,
    likely_counts,
    log_evidence,
)
from sklearn_dpmix.samplers.tables._record_chains import (
    CollapsedGibbs,
    advance_tables,
    log_gain,
    start_records,
    start_tables,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*releases noise drawn by NumPy:UserWarning"),
]

MECHANISMS = {
    "laplace": (LaplaceMechanism, laplace),
    "gaussian": (GaussianMechanism, gaussian),
    "discrete laplace": (DiscreteLaplaceMechanism, discrete_laplace),
    "discrete gaussian": (DiscreteGaussianMechanism, discrete_gaussian),
}
SAMPLERS = ("tables", "gibbs", "metropolis")


def release_law(noise, scale, n_classes, n_values):
    return MECHANISMS[noise][0](scale=scale, query=ClassFeatureCounts(n_classes, list(n_values)))


def sample(sampler, S, n, n_classes, n_values, alpha, noise, scale, *, seed, n_draws, thin=1, n_chains=4):
    """Draws (n_chains, n_draws, n_params) of a sampler, by name or an object that imputes records; the chains."""
    S = np.atleast_2d(np.asarray(S, dtype=np.float64))
    mechanism, model = release_law(noise, scale, n_classes, n_values), NaiveBayes(n_classes, list(n_values), alpha)
    value, channel = model._lower(), mechanism._lower(n_records=len(S), n_features=S.shape[1])
    if sampler == "tables":
        tail = partial(mechanism.tail_probability, scale=scale)
        sampler, init = independent_tables(model, channel, S, n, tail), partial(start_tables, model, S[0])
    else:
        sampler = {"gibbs": CollapsedGibbs, "metropolis": RecordMetropolis}.get(sampler, lambda: sampler)()
        init = partial(start_records, model, value, n, S)
    n_warmup = 500
    step = partial(advance_tables, (sampler._lower(), value, channel), S, n_warmup=n_warmup, thin=thin)
    chains = start_chains(np.random.SeedSequence(seed), n_chains, init)
    chains, blocks, _ = run_chains(chains, step, n_warmup + n_draws * thin)
    return np.array([join(block).theta for block in blocks]), chains


# --- exact ------------------------------------------------------------------------------------------------------------

TINY = {
    "two features": ([2.3, -0.4, 0.8, 0.6, 1.5, 0.2, -0.3, 1.1], 3, 2, (2, 2), 1.3, "laplace", 0.9),
    "three values": ([1, 0, 2, 1, -1, 1, 0, 1, 1, 0], 2, 2, (2, 3), 0.4, "discrete laplace", 1.5),
    "two releases": ([[1.2, 0.3, -0.5, 2.1], [0.4, 1.9, 0.0, 0.9]], 4, 2, (2,), 1.0, "gaussian", 1.1),
    "one value": ([1.0, 2.0, 3.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0], 3, 3, (1, 2), 2.0, "discrete gaussian", 1.5),
    "sharp": ([2.02, 0.01, -0.02, 1.03], 3, 2, (2,), 1.0, "laplace", 0.02),
}


def exact(S, n, n_classes, n_values, alpha, noise, scale):
    return nb_oracle.naive_bayes_exact(S, n, n_classes, n_values, alpha, MECHANISMS[noise][1](scale))


def assert_posterior(draws, posterior):
    varies = posterior.sd > 1e-9
    columns = np.flatnonzero(varies)
    assert_mean_close(draws[..., varies], posterior.mean[varies])
    assert_mean_close((draws[..., varies] - posterior.mean[varies]) ** 2, posterior.sd[varies] ** 2, what="variance")
    below = [posterior.cdf(0.4, int(k)) for k in columns]
    assert_mean_close((draws[..., varies] < 0.4) * 1.0, below, what="cdf")


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", TINY)
def test_enumeration(name, sampler):
    """Catches a wrong weight, cell, prior or noise density in any sampler."""
    setting = TINY[name]
    if name == "sharp" and sampler == "metropolis":
        pytest.skip("the model's proposals are hardly ever taken")
    thin = {"tables": 1, "gibbs": 2, "metropolis": 6}[sampler]
    draws, _ = sample(sampler, *setting, seed=1, n_draws=10_000, thin=thin)
    assert_posterior(draws, exact(*setting))
    if name != "sharp":
        with pytest.raises(Disagreement):
            assert_posterior(draws, exact(*setting[:-1], 1.3 * setting[-1]))


class WrongIndex(Component):
    """The paper's sampler with the mistake of its reference code: new features are looked up in the old class."""

    @compiled
    def sweep(self, model, channel, S, state, rng, warming_up):
        propose_with_wrong_index(rng, model, channel, S, state)
        model.draw_parameters(rng, state.theta, state.counts)


@helper
def propose_with_wrong_index(rng, model, channel, S, state):
    records, counts = state.records, state.counts
    n = records.shape[0] - 1
    for i in range(n):
        model.draw_record(rng, state.theta, records, n)
        model.count(records, i, counts, -1.0)
        gain = 0.0
        for j in range(model.n_features):
            old_class, value = int(records[i, model.n_features]), int(records[n, j])
            old, new = model.cell_of(records, i, j), model.cell(j, old_class, value)
            gain += log_gain(channel, S, new, counts[new]) - log_gain(channel, S, old, counts[old])
        if gain >= 0.0 or rng.random() < exp(gain):
            for j in range(records.shape[1]):
                records[i, j] = records[n, j]
        model.count(records, i, counts, 1.0)


def test_the_wrong_index_is_found():
    """The broken twin of the enumeration check for imputed records."""
    draws, _ = sample(WrongIndex(), *TINY["two features"], seed=1, n_draws=20_000, thin=4)
    with pytest.raises(Disagreement):
        assert_posterior(draws, exact(*TINY["two features"]))


def test_tables_without_their_normaliser_are_found(monkeypatch):
    """The broken twin for tables: the division by r_αV(n_c) left out."""
    right, alpha = tables_module.log_rising, TINY["two features"][4]
    monkeypatch.setattr(tables_module, "log_rising", lambda a, k: right(a, k) if a == alpha else 0.0 * right(a, k))
    draws, _ = sample("tables", *TINY["two features"], seed=1, n_draws=20_000)
    with pytest.raises(Disagreement):
        assert_posterior(draws, exact(*TINY["two features"]))


# --- a long run of another program, agreement -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stored():
    return json.loads((long_runs.HERE / "data_naive_bayes_twin.json").read_text())


def assert_stored(draws, stored):
    """Means and standard deviations are those of the stored run, given the errors of both."""
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    ess = np.array([effective_sample_size(draws[..., k]) for k in range(draws.shape[2])])
    z = (mean - stored["mean"]) / np.hypot(sd / np.sqrt(ess), stored["mean_error"])
    z_sd = (sd - stored["sd"]) / np.hypot(sd / np.sqrt(ess), stored["sd_error"])  # the error of sd is at most that
    if max(np.max(np.abs(z)), np.max(np.abs(z_sd))) > 5.0:
        raise Disagreement(f"{np.max(np.abs(z)):.1f}, {np.max(np.abs(z_sd)):.1f} standard errors")


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_paper_setting(sampler, stored):
    """n = 100, 5 classes, 5 features of 3 values, ε = 10, Dirichlet(2): 4 million sweeps of an independent twin."""
    setting = stored["release"], 100, 5, (3,) * 5, 2.0
    n_draws, thin = {"tables": (4000, 1), "gibbs": (3000, 3), "metropolis": (4000, 4)}[sampler]
    draws, _ = sample(sampler, *setting, "laplace", 1.0, seed=2, n_draws=n_draws, thin=thin)
    assert_stored(draws, stored)
    if sampler == "tables":
        other, _ = sample(sampler, *setting, "laplace", 1.3, seed=2, n_draws=n_draws, thin=thin)
        with pytest.raises(Disagreement):
            assert_stored(other, stored)


@pytest.mark.slow
def test_samplers_agree():
    """At a size that nothing enumerates, with features of different sizes and several releases."""
    n, n_values, rng = 60, (2, 4, 3), np.random.default_rng(3)
    _, classes, features = nb_oracle.draw_naive_bayes(rng, 3, n_values, 1.0, n)
    S = nb_oracle.tables(classes, features, 3, n_values) + rng.normal(0, 2.5, (2, 27))
    setting = S, n, 3, n_values, 0.7, "gaussian", 2.5
    draws = {
        "tables": sample("tables", *setting, seed=4, n_draws=4000)[0],
        "gibbs": sample("gibbs", *setting, seed=4, n_draws=4000, thin=8)[0],
        "metropolis": sample("metropolis", *setting, seed=4, n_draws=4000, thin=15)[0],
    }
    assert_means_agree(draws["gibbs"], draws["tables"])
    assert_means_agree(draws["metropolis"], draws["tables"])
    other = sample("tables", S, n, 3, n_values, 1.0, "gaussian", 2.5, seed=4, n_draws=4000)[0]
    with pytest.raises(Disagreement):
        assert_means_agree(draws["gibbs"], other)


# --- convolutions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steep", [0.1, 5.0, 400.0])
@pytest.mark.parametrize("power", [1.0, 2.0])
def test_convolutions_are_sums_of_exponentials(steep, power):
    """Also where nearly all terms underflow, relative to the largest."""
    rng = np.random.default_rng(5)
    a = -steep * np.abs(np.arange(40) - 9.0) ** power + rng.normal(size=40)
    b = -steep * np.abs(np.arange(27.0) - 20.0) ** power + rng.normal(size=27)
    a[30], b[:2] = -np.inf, -np.inf
    total, mean = convolve_logs(a, b)
    assert total[0] == total[1] == -np.inf and len(total) == 66
    for m in range(2, 66):
        k = np.arange(max(0, m - 26), min(40, m + 1))
        terms = a[k] + b[m - k]
        assert total[m] == pytest.approx(logsumexp(terms), rel=1e-12, abs=1e-12)
        assert mean[m] == pytest.approx(np.exp(terms - logsumexp(terms)) @ k, rel=1e-9)


def test_rising_factorials():
    for a in (0.01, 1.0, 7.5):
        k = np.array([0, 1, 2, 30, 10**6])
        expected = gammaln(a + k) - gammaln(a) - gammaln(k + 1)
        np.testing.assert_allclose(tables_module.log_rising(a, k), expected, rtol=1e-7, atol=1e-7)


def tables_setting(n, scale, noise="laplace"):
    rng, n_values = np.random.default_rng(6), (2, 3)
    _, classes, features = nb_oracle.draw_naive_bayes(rng, 2, n_values, 1.0, n)
    mechanism, model = release_law(noise, scale, 2, n_values), NaiveBayes(2, list(n_values), 1.0)
    S = mechanism.privatize(np.column_stack([features, classes]), random_state=7).reshape(1, -1)
    channel = mechanism._lower(n_records=1, n_features=10)
    return model, channel, S, n, partial(mechanism.tail_probability, scale=scale)


@pytest.mark.parametrize("noise", MECHANISMS)
def test_counts_near_the_release_are_all_that_matters(monkeypatch, noise):
    """Leaving out counts that noise hardly reaches changes nothing that could be seen, and far fewer are kept."""
    setting = tables_setting(800, 2.0, noise)
    everything = independent_tables(*setting)
    monkeypatch.setattr(tables_module, "CHEAP", 0.0)
    likely = independent_tables(*setting)
    assert log_evidence(likely.rows, 800) == pytest.approx(log_evidence(everything.rows, 800), abs=1e-10)
    kept = [sum(len(part) for row in tables.rows for part in row.log_weight) for tables in (likely, everything)]
    assert kept[0] < 0.5 * kept[1]


def test_distances_are_those_of_the_tail():
    S = np.array([[50.0, 1.0, 99.5], [52.0, 3.0, 99.5]])
    low, high = likely_counts(S, 100, lambda distance: np.exp(-distance), 1e-4)
    near, far = 9.21, 10.14  # e^-9.21 = 1e-4; a step of the search goes 10 % further
    assert np.all(low <= np.clip(np.ceil(S.max(axis=0) - near), 0, 100))
    assert np.all(low >= np.clip(np.ceil(S.max(axis=0) - far), 0, 100))
    assert np.all(high >= np.clip(np.floor(S.min(axis=0) + near), 0, 100))
    assert np.all(high <= np.clip(np.floor(S.min(axis=0) + far), 0, 100))
    low, high = likely_counts(S, 100, lambda distance: None, 1e-4)  # a mechanism that does not know its tail
    assert np.all(low == 0) and np.all(high == 100)


def test_where_the_release_contradicts_n_records_one_at_a_time(monkeypatch):
    """All counts must then be far from their release: the sampler of whole tables would leave them out, so it is not
    used.  Catches a window that is taken without looking at what lies outside."""
    monkeypatch.setattr(tables_module, "CHEAP", 0.0)
    model, channel, S, _, tail = tables_setting(300, 1.0)
    assert independent_tables(model, channel, S, 300, tail) is not None
    assert independent_tables(model, channel, S, 900, tail) is None
    assert independent_tables(model, channel, S, 340, tail) is None
    monkeypatch.setattr(tables_module, "AFFORDABLE", 100.0)
    assert independent_tables(model, channel, S, 300, tail) is None


# --- theorems, calibration --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_acceptance_is_at_least_exp_minus_epsilon(epsilon):
    """Ju et al., Proposition 3.1, at the scale 2K/ε.  Catches a wrong cell, and a scale that is too small."""
    S, n_values = np.array([30.0, -9, 4, 12, 3, 40, -20, 0, 7, 5]), (2, 3)
    for factor in (1.0, 0.5):
        _, chains = sample("metropolis", S, 20, 2, n_values, 1.0, "laplace", factor * 4 / epsilon, seed=8, n_draws=500)
        lowest = min(chain.state.floats[LOG_MIN_ACCEPT] for chain in chains)
        assert (lowest >= -epsilon * (1 + 1e-12)) == (factor == 1.0)


@pytest.mark.slow
def test_limits():
    """With much noise the posterior is the prior, with none that of the records."""
    prior = fit(RELEASE, LaplaceMechanism(scale=1e7, query=QUERY), 80, n_chains=4)
    assert_mean_close(prior.class_prob_draws_, [0.5, 0.5])
    assert_mean_close((prior.class_prob_draws_ - 0.5) ** 2, [1 / 12] * 2)
    assert_mean_close((prior.feature_prob_draws_[:, :, 1, 0] - 1 / 3) ** 2, [1 / 18] * 3)
    sharp = fit(QUERY.value(RECORDS) + 0.01, LaplaceMechanism(scale=0.01, query=QUERY), 80, n_chains=4)
    known = fit_records(RECORDS, n_chains=4)
    for model in (sharp, known):
        counts = QUERY.value(RECORDS)[4:].reshape(2, 3)
        assert_mean_close(model.class_prob_draws_, (1 + counts.sum(axis=1)) / 82)
        for c in range(2):
            assert_mean_close(model.feature_prob_draws_[:, :, 1, c], (1 + counts[c]) / (3 + counts[c].sum()))


@pytest.mark.slow
def test_calibration_noise_included():
    """Prior, records, noise, posterior: ranks are uniform, but not if the fit knows of an eighth of the noise."""
    n, n_values, rng = 25, (2, 3), np.random.default_rng(11)
    mechanism = LaplaceMechanism(scale=4.0, query=ClassFeatureCounts(2, list(n_values)))
    truth, draws, overconfident = [], [], []
    for _ in range(400):
        theta, classes, features = nb_oracle.draw_naive_bayes(rng, 2, n_values, 1.0, n)
        S = mechanism.privatize(np.column_stack([features, classes]), random_state=rng)
        truth.append(theta[[0, 2, 7]])
        for scale, kept in ((4.0, draws), (0.5, overconfident)):
            kept.append(independent_draws(S, n, n_values, scale, rng)[:, [0, 2, 7]])
    truth, draws, overconfident = np.array(truth), np.array(draws), np.array(overconfident)
    for k in range(3):
        assert_ranks_uniform(truth[:, k], draws[..., k], rng)
    with pytest.raises(Disagreement):
        assert_ranks_uniform(truth[:, 1], overconfident[..., 1], rng)


def independent_draws(S, n, n_values, scale, rng):
    """19 draws, (19, n_params)."""
    mechanism, model, S = release_law("laplace", scale, 2, n_values), NaiveBayes(2, list(n_values), 1.0), S[None]
    channel = mechanism._lower(n_records=1, n_features=S.shape[1])
    sampler = independent_tables(model, channel, S, n, partial(mechanism.tail_probability, scale=scale))
    values = sampler._lower(), model._lower(), channel
    return advance_tables(values, S, start_tables(model, S[0]), rng, 19, 0, 1)[1].theta


def test_extreme_noise_in_the_sampler_of_records():
    """Noise of scale 1e-4 has weights beyond floating point; each row of a table keeps its own unit."""
    counts = QUERY.value(RECORDS)
    S = np.atleast_2d(counts)
    draws, chains = sample("gibbs", S, 80, 2, (2, 3), 1.0, "laplace", 1e-4, seed=14, n_draws=50, n_chains=1)
    np.testing.assert_array_equal(chains[0].state.counts, counts)
    assert np.all(np.isfinite(draws))


@pytest.mark.slow
def test_a_mechanism_of_your_own():
    """Any additive noise will do: here one that does not know its tail."""

    class Cauchy(AdditiveMechanism):
        def __init__(self, scale=1.0, *, query=None):
            self.scale, self.query = scale, query

        @compiled
        def log_noise(self, e, scale):
            return -np.log(1.0 + (e / scale) ** 2)

        def draw_noise(self, rng, scale, size):
            return scale * rng.standard_cauchy(size)

    S, n, n_classes, n_values, alpha = TINY["two features"][:5]
    model = fit(S, Cauchy(0.9, query=ClassFeatureCounts(2, [2, 2])), n, n_chains=4, n_draws=20_000,
                prior=DirichletPrior(alpha))  # fmt: skip
    posterior = nb_oracle.naive_bayes_exact(S, n, n_classes, n_values, alpha, lambda e: -np.log1p((e / 0.9) ** 2))
    draws = np.concatenate([model.class_prob_draws_, model.feature_prob_draws_.reshape(4, -1, 8)], axis=-1)
    assert_posterior(draws, posterior)
