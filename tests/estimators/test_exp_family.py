"""PrivateExpFamilyGibbs: predictions and chains."""

import pickle

import numpy as np
import pytest
from exp_family_case import LAPLACE, MIXED
from scipy import stats

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import Bernoulli, Beta, Gamma, GammaPrior, Normal, Poisson
from sklearn_dpmix.queries import NoisyCount

pytestmark = pytest.mark.filterwarnings(MIXED)


# --- prediction ------------------------------------------------------------------------------------------------------

FITS = {
    "binomial": (dict(family="binomial", n_records=20), [13.2]),
    "multinomial": (dict(family="categorical", n_records=20), [5.0, 12.0, 1.0]),
    "exponential": (dict(family="exponential", n_records=20, prior=GammaPrior(2.0, 1.0)), [30.0]),
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    return {
        name: PrivateExpFamilyGibbs(LAPLACE, n_draws=2000, n_warmup=100, random_state=0, **params).fit(S)
        for name, (params, S) in FITS.items()
    }


@pytest.mark.slow
def test_predictions_are_averages_over_the_posterior(fitted):
    model = fitted["binomial"]
    p = model.theta_draws_.mean()
    np.testing.assert_allclose(model.predict(np.zeros((3, 5))), p)
    np.testing.assert_allclose(model.score_samples([[0], [1], [2], [0.5]])[:2], np.log([1 - p, p]))
    assert np.all(model.score_samples([[2.0], [0.5], [-1.0]]) == -np.inf)
    model = fitted["multinomial"]
    np.testing.assert_array_equal(model.predict([[0.0], [0.0]]), [1, 1])
    np.testing.assert_allclose(model.score_samples([0, 1, 2]), np.log(model.theta_draws_.mean(axis=(0, 1))))
    assert model.score_samples([[3.0]])[0] == -np.inf
    model = fitted["exponential"]
    rate = model.theta_draws_.ravel()
    np.testing.assert_allclose(model.predict([0.0]), np.mean(1 / rate))
    np.testing.assert_allclose(model.score_samples([[0.7]]), np.log(np.mean(rate * np.exp(-0.7 * rate))))


@pytest.mark.slow
def test_samples_are_predictive_records(fitted):
    for name, model in fitted.items():
        x = model.sample(20_000, random_state=1)
        assert x.shape == (20_000, 1)
        np.testing.assert_array_equal(x, model.sample(20_000, random_state=1))
        if name == "exponential":
            rate = model.theta_draws_.ravel()
            u = [np.mean(-np.expm1(-one * rate)) for one in x[::10, 0]]
            assert stats.kstest(u, "uniform").pvalue > 1e-6
        else:
            values, counts = np.unique(x, return_counts=True)
            p = np.exp(model.score_samples(values))
            assert np.all(np.abs(counts / 20_000 - p) < 5 * np.sqrt(p * (1 - p) / 20_000))
        with pytest.raises(ValueError, match="n_samples must be an integer, 1 or more, got n_samples=True"):
            model.sample(True)


FAMILIES = {  # a family with parameters and the law of a record
    "bernoulli": (Bernoulli(), [[0.3]], stats.bernoulli(0.3), [0, 1]),
    "poisson": (Poisson(), [[2.5]], stats.poisson(2.5), [0, 3, 7]),
    "gamma": (Gamma(1.5), [[2.0]], stats.gamma(1.5, scale=0.5), [0.0, 0.2, 3.0]),
    "normal": (Normal(), [[1.0, 4.0]], stats.norm(1.0, 2.0), [-3.0, 1.0]),
    "beta": (Beta(), [[2.0, 0.7]], stats.beta(2.0, 0.7), [0.1, 0.9]),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_laws_of_records(name):
    """log_density, mean and draw of each family, against SciPy."""
    family, theta, law, x = FAMILIES[name]
    theta, x = np.array(theta), np.array(x, dtype=float)
    expected = law.logpmf(x) if family.is_integer else law.logpdf(x)
    np.testing.assert_allclose(family.log_density(x, theta)[0], expected, rtol=1e-9)
    np.testing.assert_allclose(family.mean(theta), law.mean())
    drawn = family.draw(np.random.default_rng(0), np.tile(theta, (20_000, 1)))
    assert abs(drawn.mean() - law.mean()) < 5 * law.std() / np.sqrt(20_000)
    outside = {"normal": []}.get(name, [-1.0])
    assert np.all(family.log_density(np.array(outside), theta) == -np.inf)


# --- chains ----------------------------------------------------------------------------------------------------------

KINDS = {
    "table": dict(family="binomial", n_records=20),
    "counts": dict(family="categorical", n_records=20),
    "sum": dict(family="exponential", prior=GammaPrior(), n_records=20),
    "unknown n": dict(family="binomial", n_records=NoisyCount(21.0, LaplaceMechanism(scale=2.0))),
    "normal": dict(family="binomial", n_records=20, approximation="normal"),
    "records": dict(family="exponential", n_records=20, truncation=(0.0, 3.0), approximation="exact"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_warm_start_and_n_jobs_change_nothing(kind):
    """More draws are those of one longer run, bit for bit, whatever runs at the same time."""
    S = [5.0, 12.0, 1.0] if kind == "counts" else [13.2]
    options = {"n_chains": 2, "n_warmup": 7, "random_state": 3, "warm_start": True, **KINDS[kind]}
    model = PrivateExpFamilyGibbs(LaplaceMechanism(scale=1.5), n_draws=11, **options).fit(S)
    model.set_params(n_draws=50, n_jobs=2).fit(S)
    longer = PrivateExpFamilyGibbs(LaplaceMechanism(scale=1.5), n_draws=50, **options).fit(S)
    np.testing.assert_array_equal(model.theta_draws_, longer.theta_draws_)
    np.testing.assert_array_equal(model.statistic_draws_, longer.statistic_draws_)
    assert model.n_iter_ == 57
    with pytest.raises(ValueError, match="the data changed"):
        model.fit(np.add(S, 1.0))
    with pytest.raises(ValueError, match="mechanism__scale changed"):
        model.set_params(mechanism__scale=2.0).fit(S)
    np.testing.assert_array_equal(model.theta_draws_, longer.theta_draws_)  # a refused fit leaves the last one
    again = pickle.loads(pickle.dumps(longer))
    np.testing.assert_array_equal(again.predict([0.0]), longer.predict([0.0]))


@pytest.mark.slow
def test_summaries(fitted):
    model = fitted["multinomial"]
    assert list(model.r_hat_) == ["probability_0", "probability_1", "probability_2"]
    assert np.all(np.array(list(model.r_hat_.values())) < 1.01)
    assert "probability_1" in str(model.summary())
    assert model.n_features_in_ == 3
    assert not hasattr(model, "n_records_draws_") and not hasattr(model, "acceptance_rate_")
