"""What ``guarantee()`` states of records of 1, 2 and 3 features, against the channel itself."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtr

from sklearn_dpmix.mechanisms import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponseMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
)
from sklearn_dpmix.queries import BoundedRecords

LO, HI = 0, 2
DELTA = 1e-3
PURE = {"epsilon": {"epsilon": 1.5}, "rho": {"rho": 0.7}, "scale": {"scale": 2.5}}
APPROXIMATE = {**PURE, "epsilon": {"epsilon": 1.5, "delta": DELTA}}
CLASSICAL = {"epsilon": 0.8, "delta": DELTA, "calibration": "classical"}
CASES = [
    (cls, n_features, given)
    for cls, calibrations in (
        (LaplaceMechanism, PURE.values()),
        (DiscreteLaplaceMechanism, PURE.values()),
        (GaussianMechanism, [*APPROXIMATE.values(), CLASSICAL]),
        (DiscreteGaussianMechanism, APPROXIMATE.values()),
    )
    for n_features in (1, 2, 3)
    for given in calibrations
]
all_cases = pytest.mark.parametrize(("cls", "n_features", "given"), CASES, ids=lambda v: getattr(v, "__name__", str(v)))


def largest_log_ratio(mechanism, n_features):
    """Over all pairs of corners, of log q(x | x) - log q(x | x'): Δ₁/b for Laplace noise, Δ₂²/(2σ²) for Gaussian.

    That is ε of the one, since no release tells more, and ρ of the other.
    """
    corners = np.array(list(itertools.product((LO, HI), repeat=n_features)), dtype=float)
    own = mechanism.log_density(corners, corners)
    return max(np.max(own - mechanism.log_density(corners, np.roll(corners, k, axis=0))) for k in range(len(corners)))


def hockey_stick(mechanism, n_features, epsilon):
    """δ of opposite corners at ε: in closed form on the line, by summing over a grid of integers else."""
    noise = mechanism.noise_scale_for(n_features)
    if isinstance(mechanism, GaussianMechanism):
        mu = np.sqrt(n_features) * (HI - LO) / noise
        return ndtr(0.5 * mu - epsilon / mu) - np.exp(epsilon) * ndtr(-0.5 * mu - epsilon / mu)
    reach = int(9 * noise) + HI
    Z = np.array(list(itertools.product(range(-reach, reach + 1), repeat=n_features)), dtype=float)
    log_p = mechanism.log_density(Z, np.full(Z.shape, float(LO)))
    log_q = mechanism.log_density(Z, np.full(Z.shape, float(HI)))
    return np.sum(np.maximum(np.exp(log_p) - np.exp(epsilon + log_q), 0.0))


@all_cases
def test_what_is_stated_is_the_loss_of_the_channel(cls, n_features, given):
    """Catches a loss that is counted for one feature where there are three."""
    shared, each = cls(**given, bounds=(LO, HI)), cls(**given, bounds=[(LO, HI)] * n_features)
    Z = shared.privatize(np.full((4, n_features), float(LO)), random_state=0)
    np.testing.assert_array_equal(Z, each.privatize(np.full((4, n_features), float(LO)), random_state=0))
    loss = largest_log_ratio(shared, n_features)
    assert largest_log_ratio(each, n_features) == loss
    for guarantee in (shared.guarantee(n_features), each.guarantee(), each.guarantee(n_features)):
        if cls.norm == 1:
            assert guarantee.epsilon == pytest.approx(loss, rel=1e-12) and guarantee.delta == 0.0
            assert guarantee.rho == pytest.approx(0.5 * loss**2, rel=1e-12)
        else:
            assert guarantee.rho == pytest.approx(loss, rel=1e-12)


@all_cases
def test_nothing_smaller_is_stated_without_the_number_of_features(cls, n_features, given):
    """One pair of bounds stands for any number of features: what is said without it holds for each, or is refused."""
    shared = cls(**given, bounds=(LO, HI))
    if "scale" in given:
        with pytest.raises(ValueError, match=r"needs n_features: with scale=2.5 .* bounds=\[\(0, 2\)\]"):
            shared.guarantee()
        return
    stated, true = shared.guarantee(), largest_log_ratio(shared, n_features)
    if cls.norm == 1:
        assert stated.epsilon >= true * (1 - 1e-12)
    else:
        assert stated.rho >= true * (1 - 1e-12)
        assert (stated.epsilon, stated.delta) == (shared.guarantee(n_features).epsilon, given.get("delta")) or (
            given is CLASSICAL and stated.delta <= DELTA
        )


@pytest.mark.parametrize("n_features", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("cls", "given"),
    [(GaussianMechanism, APPROXIMATE["epsilon"]), (GaussianMechanism, CLASSICAL),
     (DiscreteGaussianMechanism, APPROXIMATE["epsilon"])],
)  # fmt: skip
def test_the_delta_that_is_stated_is_kept(cls, given, n_features):
    mechanism = cls(**given, bounds=(LO, HI))
    stated = mechanism.guarantee(n_features)
    assert hockey_stick(mechanism, n_features, stated.epsilon) <= stated.delta * (1 + 1e-9)
    less = cls(scale=0.8 * mechanism.noise_scale_for(n_features), bounds=(LO, HI))  # the broken twin
    assert hockey_stick(less, n_features, stated.epsilon) > stated.delta


@pytest.mark.parametrize(
    ("mechanism", "match"),
    [
        (RandomizedResponseMechanism(1.0, 1), "n_categories"),
        (UnaryEncodingMechanism(1.0, 3, kind="x"), "kind"),
        (BinomialMechanism(1.0, 0), "n_trials"),
        (SquareWaveMechanism(1.0, bounds=(1, 0)), "bounds"),
    ],
)
def test_none_is_stated_of_what_cannot_release(mechanism, match):
    """Catches a guarantee that looks at epsilon only."""
    with pytest.raises(ValueError, match=match):
        mechanism.guarantee()


def test_with_a_query_the_number_of_features_is_the_query_s():
    query = BoundedRecords((LO, HI), n_features=3)
    assert LaplaceMechanism(scale=1.0, query=query).guarantee().epsilon == 6.0
    assert GaussianMechanism(scale=1.0, query=query).guarantee().rho == pytest.approx(6.0)


@pytest.mark.parametrize("epsilon", [0.05, 0.7, 3.3, 12.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5])
@pytest.mark.parametrize("hi", [1, 3, 50])
def test_the_rho_of_discrete_gaussian_noise_is_largest_for_one_feature(epsilon, delta, hi):
    """Its calibration depends on the number of features: without it ``guarantee()`` states the largest ρ."""
    mechanism = DiscreteGaussianMechanism(epsilon, delta, bounds=(0, hi))
    assert all(mechanism.guarantee().rho >= mechanism.guarantee(d).rho for d in (1, 2, 3, 10))
