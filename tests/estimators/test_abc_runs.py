"""What a run of ABC is: its seed, warm start, attributes, doubts and interruptions."""

import pickle

import numpy as np
import pytest
from abc_case import EXAMPLE, FIT, SHORT, draws_of
from joblib import parallel_config
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import PoissonCount
from sklearn_dpmix.samplers import ImportanceABC, MarkovABC, RejectionABC, SequentialABC


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "method", [RejectionABC(100), ImportanceABC(block_size=64), SequentialABC(batch_size=64), MarkovABC(2)], ids=repr
)
def test_draws_depend_on_the_seed_only(method):
    params = {"n_warmup": 20} if method.has_chains else {}
    one = draws_of(method, **params)
    assert np.array_equal(one, draws_of(method, n_jobs=2, **params))
    with parallel_config("loky"):
        assert np.array_equal(one, draws_of(method, n_jobs=2, **params))
    assert not np.array_equal(one, draws_of(method, random_state=2, **params))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_warm_start_of_chains():
    params = {"method": "mcmc", "n_warmup": 20, "warm_start": True}
    whole = draws_of("mcmc", n_warmup=20)
    model = PrivateABC(FIT, **{**SHORT, **params, "n_draws": 100}).fit([37.4])
    assert np.array_equal(model.set_params(n_draws=300).fit([37.4]).theta_draws_, whole)
    with pytest.raises(ValueError, match="warm_start=True continues chains"):
        model.set_params(method="smc").fit([37.4])


def test_attributes():
    model = PrivateABC(FIT, method="smc", **SHORT)
    with pytest.raises(NotFittedError):
        model.summary()
    model.fit([37.4])
    assert model.theta_draws_.shape == (300, 1) and model.statistic_draws_.shape == (300, 1)
    assert np.isclose(model.weights_.sum(), 1.0) and model.widths_[-1] == 1.0 and np.all(np.diff(model.widths_) < 0)
    assert set(model.ess_) == {"theta[0]"} and np.isnan(model.r_hat_["theta[0]"])
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.theta_draws_, model.theta_draws_)
    assert clone(model).method == "smc"
    assert model.resample(50, random_state=0).shape == (50, 1)
    chains = PrivateABC(FIT, method="mcmc", **{**SHORT, "n_draws": 3000}).fit([37.4])
    assert chains.theta_draws_.shape == (4, 3000, 1) and not hasattr(chains, "weights_")
    assert chains.n_simulations_ == 4 * 4000 * 10


def test_a_chain_that_stands_still_is_doubted():
    """R-hat is nan there, which said nothing."""

    class Narrow(PoissonCount):
        def sample_statistic(self, rng, theta):
            return np.tile(theta, 3) + rng.normal(size=(len(theta), 3))

    one = {"method": MarkovABC(n_replicates=1), "n_chains": 1, "n_draws": 20, "random_state": 0}
    chain = PrivateABC(LaplaceMechanism(scale=1e-6), model=Narrow(), **one)
    with pytest.warns(RuntimeWarning, match="none of them moved"):
        chain.fit([30.0, 30.5, 31.0])
    assert np.ptp(chain.theta_draws_) == 0.0


def test_weights_are_in_the_summary():
    model = PrivateABC(FIT, method="importance", **{**SHORT, "n_draws": 5000}).fit([37.4])
    row = dict(model.summary().loc["theta[0]"]) if hasattr(model.summary(), "loc") else model.summary()["theta[0]"]
    theta = model.theta_draws_[:, 0]
    assert np.isclose(row["mean"], model.weights_ @ theta)
    assert np.isclose(model.weights_ @ (theta <= row["97.5%"]), 0.975, atol=0.002)
    drawn = model.resample(20_000, random_state=0)
    assert abs(drawn.mean() - row["mean"]) < 5 * row["sd"] / 20_000**0.5


class Interrupts(PoissonCount):
    calls = 0

    def sample_statistic(self, rng, theta):
        Interrupts.calls += 1
        if Interrupts.calls > 3:
            raise KeyboardInterrupt
        return super().sample_statistic(rng, theta)


@pytest.mark.parametrize("method", [RejectionABC(100), ImportanceABC(block_size=1), SequentialABC(50)], ids=repr)
def test_an_interruption_keeps_what_is_there(method, monkeypatch):
    """Draws lost on Ctrl-C, or a warning that blames ``max_simulations``."""
    monkeypatch.setattr(Interrupts, "calls", 0 if not isinstance(method, ImportanceABC) else -61)
    model = PrivateABC(FIT, model=Interrupts(prior=EXAMPLE.prior), method=method, n_draws=200, random_state=0)
    with pytest.warns(RuntimeWarning, match=r"^interrupted after \d+ simulations: kept"):
        model.fit([37.4])
    assert len(model.theta_draws_) > 0


def test_an_interruption_before_there_is_a_draw_is_one(monkeypatch):
    """Ctrl-C that becomes a ValueError about the release, which a loop over fits may catch."""
    monkeypatch.setattr(Interrupts, "calls", 0)
    model = PrivateABC(FIT, model=Interrupts(prior=EXAMPLE.prior), method=RejectionABC(100), random_state=0)
    with pytest.raises(KeyboardInterrupt, match="interrupted before there was a draw"):
        model.fit([1e6])  # which nothing explains


class Location:
    """θ ~ N(0, unit²), of which one noisy number in that unit is released."""

    n_params = 1

    def __init__(self, unit):
        self.unit = unit

    def sample_prior(self, rng, size):
        return self.unit * rng.standard_normal((size, 1))

    def log_prior(self, theta):
        return -0.5 * (theta[:, 0] / self.unit) ** 2

    def sample_statistic(self, rng, theta):
        return theta / self.unit


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_steps_of_chains_go_with_the_unit_of_the_parameter():
    """They were 10⁻¹² at least, a million times the parameter, so that chains stood still."""
    draws = [
        PrivateABC(
            LaplaceMechanism(scale=0.3), model=Location(unit), method="mcmc", n_warmup=50, n_draws=50, random_state=0
        )
        .fit([0.5])
        .theta_draws_
        / unit
        for unit in (1.0, 2.0**-60)
    ]
    assert draws[0].std() > 0.1
    np.testing.assert_array_equal(*draws)
