"""PrivateABC: budgets of simulations, doubts that it states, and wrong input."""

import warnings

import numpy as np
import pytest
from abc_case import EXAMPLE, FIT, SHORT, VAGUE, draws_of, judge
from scipy import stats

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import (
    GammaPrior,
    PoissonCount,
)
from sklearn_dpmix.queries import SufficientStatistics
from sklearn_dpmix.samplers import ImportanceABC, MarkovABC, RejectionABC, SequentialABC
from sklearn_dpmix.samplers.simulation import _abc_markov
from sklearn_dpmix.samplers.simulation._abc_importance import effective_of_means


def test_the_budget_of_simulations():
    model = PrivateABC(LaplaceMechanism(scale=0.5), model=VAGUE, max_simulations=40_000, random_state=0)
    with pytest.warns(RuntimeWarning, match="after 40000 simulations.*of n_draws=1000 draws") as record:
        model.fit([300.2])
    assert len(record) == 1 and 0 < len(model.theta_draws_) < 1000 and model.n_simulations_ == 40_000
    with pytest.raises(ValueError, match=r"a share of .* of 40000 simulations .* no draw: use method=\"smc\""):
        PrivateABC(LaplaceMechanism(scale=0.5), model=EXAMPLE, max_simulations=40_000, random_state=0).fit([300.2])
    with pytest.warns(RuntimeWarning, match="stopped early"):
        model.set_params(method="smc", max_simulations=3000).fit([300.2])
    assert model.n_simulations_ <= 3000 and len(model.theta_draws_) == 1000 and model.ess_["theta[0]"] < 300
    with pytest.warns(RuntimeWarning, match="stopped early"):
        model.set_params(method="importance", max_simulations=700, mechanism=LaplaceMechanism(scale=200.0)).fit([300.2])
    assert len(model.theta_draws_) == 700
    with pytest.raises(ValueError, match="max_simulations=700 is less than the 80000 simulations"):
        model.set_params(method="mcmc").fit([300.2])


def test_weights_that_say_little_are_doubted():
    with pytest.warns(RuntimeWarning, match=r"the effective sample size is only .* of 1000 draws") as record:
        PrivateABC(LaplaceMechanism(scale=0.5), model=VAGUE, method="importance", random_state=0).fit([300.2])
    assert len(record) == 1


class Simulated:
    """A model with one method replaced."""

    def __init__(self, **methods):
        vars(self).update({name: getattr(EXAMPLE, name) for name in ("sample_prior", "log_prior", "sample_statistic")})
        vars(self).update(methods)


WRONG = [  # parameters, release, error, message
    ({"mechanism": None}, [37.4], TypeError, r"mechanism must be an object that adds noise.*got None"),
    ({"mechanism": HaarWaveletMechanism(1.0, 1)}, [37.4], TypeError, "mechanism must be an object that adds noise"),
    ({"mechanism": LaplaceMechanism(scale=1.0, released_above=1.0)}, [37.4], ValueError, "takes releases of all"),
    ({"model": None}, [37.4], TypeError, r"the model needs sample_statistic.*, which model=None does not have"),
    ({"model": PoissonCount}, [37.4], TypeError, "model must be an object, got the class PoissonCount: pass model="),
    (
        {"model": Simulated(log_prior=None), "method": "smc"}, [37.4], TypeError,
        r"the model needs log_prior\(theta\) -> \(size,\), which Simulated does not have",
    ),
    ({"method": "abc"}, [37.4], ValueError, r"method must be one of \['importance', .*got method='abc'"),
    ({"method": 3}, [37.4], TypeError, "method must be one of"),
    ({"n_draws": 0}, [37.4], ValueError, "n_draws"),
    ({"max_simulations": 0}, [37.4], ValueError, "max_simulations"),
    ({}, [np.nan], ValueError, "NaN"),
    ({}, [], ValueError, "0 sample"),
    ({}, [37.4, 1.0], ValueError,
     r"Count.sample_statistic\(rng, theta\) must have shape \(\d+, 2\), a column for each .*, got \(\d+, 1\)"),
    (
        {"mechanism": LaplaceMechanism(1.0, query=SufficientStatistics("normal", (0, 1)))}, [1.0], ValueError,
        r"a release must have 2 numbers, got shape \(1,\)",
    ),
    ({"mechanism": DiscreteLaplaceMechanism(scale=2.0)}, [37.4], ValueError, "integers"),
    ({"model": Simulated(sample_statistic=lambda rng, theta: theta * np.nan)}, [37.4], ValueError,
     r"sample_statistic\(rng, theta\) must be finite, got \[nan\] at theta="),
    ({"model": Simulated(sample_prior=lambda rng, size: rng.random(size))}, [37.4], ValueError,
     r"sample_prior\(rng, \d+\) must have shape \(\d+, n_params\)"),
    ({"model": Simulated(log_prior=lambda theta: theta), "method": "mcmc"}, [37.4], ValueError,
     r"log_prior\(theta\) must have shape"),
    ({"model": Simulated(log_prior=lambda theta: np.full(len(theta), -np.inf)), "method": "smc"}, [37.4], ValueError,
     "must be finite where sample_prior draws"),
    ({"model": Simulated(sample_prior=lambda rng, size: np.empty((size, 0)))}, [37.4], ValueError,
     r"sample_prior\(rng, \d+\) must have shape \(\d+, n_params\)"),
    ({"model": Simulated(sample_prior=lambda rng, size: "a")}, [37.4], ValueError,
     r"Simulated.sample_prior\(rng, \d+\) must return an array of real numbers, got str of <U1"),
    ({"model": Simulated(sample_statistic=lambda rng, theta: theta + 1j)}, [37.4], ValueError,
     r"sample_statistic\(rng, theta\) must return an array of real numbers, got ndarray of complex128"),
    ({"max_simulations": 1e4}, [1e6], ValueError, "a share of less than 1e-300 of 10000 simulations is compatible"),
    ({"method": ImportanceABC(object())}, [37.4], TypeError, r"proposal must have sample\(rng, size\)"),
    ({"mechanism": DiscreteLaplaceMechanism(scale=2.0), "model": Simulated(sample_statistic=lambda rng, theta: theta)},
     [37.0], ValueError, "statistics must hold integers"),
]  # fmt: skip


@pytest.mark.parametrize(("params", "release", "error", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_input_is_named(params, release, error, message):
    with pytest.raises(error, match=message):
        PrivateABC(**{"mechanism": FIT, "model": EXAMPLE, "random_state": 0, **params}).fit(release)


def test_nothing_is_simulated_outside_the_support():
    """Chains and learnt proposals go to rates below 0: the simulator never sees them."""

    def sample_statistic(rng, theta):
        assert np.all(theta > 0)
        return rng.poisson(theta)

    small = PoissonCount(prior=GammaPrior(0.5, 1.0))
    model = Simulated(
        sample_prior=small.sample_prior, log_prior=small.log_prior, sample_statistic=sample_statistic
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for method in ("mcmc", "smc"):
            PrivateABC(FIT, model=model, method=method, n_draws=200, random_state=0).fit([1.0])


def test_a_prior_that_is_not_normalised_is_found():
    """The learnt proposal has a share of the prior, so that a constant in its density would be a wrong weight."""
    for constant in (0.7, -1.0):
        model = Simulated(log_prior=lambda theta, c=constant: EXAMPLE.log_prior(theta) + c)
        with pytest.raises(ValueError, match=r"Simulated.log_prior must be the normalised log density"):
            PrivateABC(FIT, model=model, method="smc", n_draws=2000, random_state=0).fit([37.4])


class PartlyKnown:
    """θ = (0.1, μ, 0.2) with μ ~ N(0, 3²); s ~ N(μ, 1)."""

    def sample_prior(self, rng, size):
        return np.column_stack([np.full(size, 0.1), rng.normal(0.0, 3.0, size), np.full(size, 0.2)])

    def log_prior(self, theta):
        known = (theta[:, 0] == 0.1) & (theta[:, 2] == 0.2)
        return np.where(known, stats.norm.logpdf(theta[:, 1], 0.0, 3.0), -np.inf)

    def sample_statistic(self, rng, theta):
        return rng.normal(theta[:, 1:2], 1.0)


@pytest.mark.parametrize("method", ["rejection", "importance", "smc", "mcmc"])
def test_parameters_that_are_known(method):
    """Catches an effective size from what rounding leaves of a constant, and proposals that move one."""
    model = PrivateABC(
        GaussianMechanism(scale=0.5), model=PartlyKnown(), method=method, n_draws=600, n_warmup=300, random_state=0
    ).fit([2.0])  # fmt: skip
    theta, sizes = model.theta_draws_.reshape(-1, 3), [model.ess_[f"theta[{p}]"] for p in range(3)]
    assert np.all(theta[:, [0, 2]] == [0.1, 0.2])
    variance = 1.0 / (1.0 / 9.0 + 1.0 / 1.25)
    weights = getattr(model, "weights_", np.full(len(theta), 1.0 / len(theta)))
    judge(weights @ theta[:, 1], variance * 2.0 / 1.25, (variance / sizes[1]) ** 0.5, "mean")
    if method == "mcmc":  # as for every chain
        assert np.isnan([sizes[0], model.r_hat_["theta[2]"]]).all() and model.r_hat_["theta[1]"] < 1.05
    else:
        assert sizes[1] - 1e-6 <= sizes[0] <= 600 + 1e-6 and sizes[0] == pytest.approx(sizes[2])


def test_one_large_weight_is_one_draw():
    """Where it is nearly all, the mean is nearly its parameter: without Kish's size, that was taken for exactness."""
    weights = np.array([1.0 - 1e-9, 1e-9])
    assert effective_of_means(np.array([[0.0, 5.0], [1.0, 5.0]]), weights) == pytest.approx([1.0, 1.0], rel=1e-6)
    assert np.all(effective_of_means(np.array([[0.1], [0.1]]), np.zeros(2)) == 0.0)
    rng = np.random.default_rng(0)
    theta, weights = rng.normal(size=(1000, 1)), rng.dirichlet(np.full(1000, 0.3))
    squares = (theta[:, 0] - weights @ theta[:, 0]) ** 2
    expected = min(weights @ squares / (weights**2 @ squares), 1.0 / (weights @ weights))
    assert effective_of_means(theta, weights) == pytest.approx([expected])


class TwoMeans:
    """Two means, known to 0.3; N(0, 6²)."""

    def sample_prior(self, rng, size):
        return rng.normal(0.0, 6.0, (size, 2))

    def log_prior(self, theta):
        return stats.norm.logpdf(theta, 0.0, 6.0).sum(axis=1)

    def sample_statistic(self, rng, theta):
        return rng.normal(theta, 0.3)


def test_noise_that_is_much_narrower_than_the_scatter():
    """Of the first thousand simulations one is nearest by far: catches a sequence that ends there."""
    for seed in range(3):
        model = PrivateABC(GaussianMechanism(scale=0.01), model=TwoMeans(), method="smc", n_draws=30, random_state=seed)
        theta, ess = model.fit([3.0, 3.0]).theta_draws_, min(model.ess_.values())
        variance = 1.0 / (1.0 / 36.0 + 1.0 / (0.09 + 0.0001))
        assert len(np.unique(theta[:, 0])) > 0.5 * ess
        for p in range(2):
            judge(theta[:, p].mean(), variance * 3.0 / 0.0901, (variance / ess) ** 0.5, "mean")


def test_draws_are_in_no_order():
    draws = draws_of("smc", n_draws=1000)[:, 0]
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.2


def test_a_model_cannot_change_its_parameters():
    def sample_statistic(rng, theta):
        theta *= 2.0
        return rng.poisson(theta)

    with pytest.raises(ValueError, match="read-only"):
        PrivateABC(FIT, model=Simulated(sample_statistic=sample_statistic), random_state=0).fit([37.4])
    kept = EXAMPLE.sample_prior(np.random.default_rng(0), 10**5)
    kept.flags.writeable = False
    model = Simulated(sample_prior=lambda rng, size: kept[rng.integers(10**5, size=size)])
    assert PrivateABC(FIT, model=model, method="smc", random_state=0).fit(37.4).theta_draws_.shape == (1000, 1)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_particles_under_integer_noise():
    model = PoissonCount(prior=GammaPrior(1.0, 1e-9))
    PrivateABC(
        DiscreteLaplaceMechanism(scale=5.0), model=EXAMPLE, method="smc", max_simulations=50, n_draws=20, random_state=0
    ).fit([37])
    fit = PrivateABC(DiscreteLaplaceMechanism(scale=1e5), model=model, method="smc", n_draws=50, random_state=0)
    assert abs(fit.fit([3e8]).theta_draws_.mean() / 3e8 - 1.0) < 1e-3


def test_vague_priors_start():
    model = PoissonCount(prior=GammaPrior(0.001, 0.001))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for method in ("smc", "mcmc"):
            PrivateABC(FIT, model=model, method=method, n_draws=50, random_state=1).fit([2.0])


def test_weights_are_not_lost():
    model = PrivateABC(FIT, method="importance", **SHORT).fit([37.4])
    with pytest.raises(ValueError, match=r"use resample\(\)"):
        model.to_datatree()


def test_more_simulations_may_be_allowed_later():
    model = PrivateABC(
        FIT, model=EXAMPLE, method=MarkovABC(2), n_draws=20, n_warmup=10, n_chains=2, max_simulations=120,
        warm_start=True, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit([37.4]).set_params(n_draws=40, max_simulations=1e6).fit([37.4])
    assert model.theta_draws_.shape == (2, 40, 1)


@pytest.mark.parametrize(
    "method", [RejectionABC(0), ImportanceABC(block_size=0), MarkovABC(2.5), SequentialABC(0), SequentialABC(100, 2.0)],
    ids=repr,
)  # fmt: skip
def test_parameters_of_methods_are_checked(method):
    with pytest.raises(ValueError, match=r"The '(block_size|n_replicates|batch_size|ess_fraction)' parameter"):
        PrivateABC(FIT, model=EXAMPLE, method=method).fit([37.4])


def test_a_failed_fit_keeps_the_last_one():
    model = PrivateABC(FIT, **SHORT).fit([37.4])
    before = model.theta_draws_
    with pytest.raises(ValueError, match="NaN"):
        model.fit([np.nan])
    with pytest.raises(ValueError, match="shape"):
        model.fit([1.0, 2.0])
    assert model.theta_draws_ is before


def test_adaptation_keeps_a_factor():
    factor = np.array([[2.0, 0.0], [0.5, 1.0]])
    before = factor @ factor.T
    u = np.array([0.3, -0.2])
    for probability, sign in ((1.0, 1.0), (0.0, -1.0)):
        factor[:] = np.linalg.cholesky(before)
        direction = np.linalg.solve(factor, u)
        _abc_markov.adapt_covariance(factor, direction, probability, 10)
        moved = factor @ factor.T - before
        assert np.allclose(factor, np.tril(factor)) and np.allclose(moved / moved[0, 0], np.outer(u, u) / u[0] ** 2)
        assert np.sign(moved[0, 0]) == sign
