"""Where floating point ends: what is stated there is right, or refused by name."""

import itertools
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from sklearn_dpmix import DPPenaltyMCMC
from sklearn_dpmix.estimators.private._noise_source import SystemNoise
from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    MultivariateLaplaceMechanism,
    MultivariateNormalMechanism,
    MultivariateTMechanism,
    RandomizedResponseMechanism,
)
from sklearn_dpmix.models import GaussianMean
from sklearn_dpmix.queries import BoundedRecords

NIGHTLY = pytest.mark.nightly
ROUNDING = 1.0 + 1e-9
#: A loss below that is none, whatever is stated.
NOTHING = Fraction(1e-300)
SIZES = [2.7e-162, 1e-160, 1e-18, 1.0, 1e18, 1e150, 1e308]
NAMES = "epsilon|rho|scale|bounds|delta|covariance|noise"


def is_covered(loss, stated):
    """Whether an exact loss is at most what is stated."""
    return stated == np.inf or loss <= Fraction(stated) * Fraction(ROUNDING) + NOTHING


def stated_or_refused(mechanism, n_features=1):
    """The guarantee and the noise's scale; None where a ValueError names a parameter."""
    try:
        with np.errstate(all="ignore"):
            return mechanism.guarantee(n_features), float(mechanism.noise_scale_for(n_features))
    except ValueError as error:
        assert any(name in str(error) for name in NAMES.split("|")), error
        return None


@NIGHTLY
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("width", SIZES)
def test_what_a_tiny_or_a_huge_budget_states_is_right(width, size):
    """ε = Δ/b and ρ = Δ²/(2η²), from the scale that the noise has; catches underflow and a bare OverflowError."""
    for mechanism, is_laplace in (
        (LaplaceMechanism(epsilon=size, bounds=(0, width)), True),
        (LaplaceMechanism(rho=size, bounds=(0, width)), True),
        (LaplaceMechanism(scale=size, bounds=(0, width)), True),
        (GaussianMechanism(rho=size, bounds=(0, width)), False),
        (GaussianMechanism(scale=size, bounds=(0, width)), False),
    ):
        found = stated_or_refused(mechanism)
        if found is None:
            continue
        guarantee, scale = found
        assert scale > 0.0, mechanism
        loss = Fraction(width) / Fraction(scale)
        if is_laplace:
            assert is_covered(loss, guarantee.epsilon), mechanism
        else:
            assert is_covered(loss**2 / 2, guarantee.rho), mechanism


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mechanism", [DiscreteLaplaceMechanism, DiscreteGaussianMechanism])
def test_integers_at_the_edge(mechanism, size):
    """The same of integer noise."""
    for parameter in ("rho", "scale", *(["epsilon"] if mechanism is DiscreteLaplaceMechanism else [])):
        found = stated_or_refused(mechanism(**{parameter: size}, bounds=(0, 1)))
        if found is not None:
            guarantee, scale = found
            loss = 1 / Fraction(scale)
            stated = guarantee.epsilon if mechanism is DiscreteLaplaceMechanism else guarantee.rho
            true = loss if mechanism is DiscreteLaplaceMechanism else loss**2 / 2
            assert is_covered(true, stated), (parameter, size)


@pytest.mark.parametrize("k", [2, 6, 10, 11, 12, 13])
@pytest.mark.parametrize("kind", [MultivariateLaplaceMechanism, MultivariateNormalMechanism, MultivariateTMechanism])
def test_an_ill_conditioned_covariance_states_the_loss_of_the_factor_in_use(kind, k):
    """Noise is L v with the computed L: a shift d loses the length of L⁻¹d, whose largest is at a corner of the bounds.

    Of 13 numbers the general bound is stated, Δ₂/σ_min(L), of a shift along the smallest singular vector.
    """
    hilbert = 1.0 / (1.0 + np.arange(k)[:, None] + np.arange(k))
    width = 1e-8 if k > 6 else 1e-3
    df = {"df": 4.0} if kind is MultivariateTMechanism else {}
    mechanism = kind(hilbert, query=BoundedRecords((0, width), k), **df)
    try:
        guarantee = mechanism.guarantee()
    except ValueError as error:
        assert "covariance" in str(error)
        return
    factor = np.linalg.cholesky(hilbert)
    distance = width * np.sqrt(k) / np.linalg.svd(factor, compute_uv=False)[-1]
    if k < 13:
        corners = np.array(list(itertools.product((-width, width), repeat=k))).T
        distance = np.linalg.norm(np.linalg.solve(factor, corners), axis=0).max()
    true = {
        MultivariateLaplaceMechanism: distance,
        MultivariateNormalMechanism: 0.5 * distance**2,
        MultivariateTMechanism: (4.0 + k) * np.arcsinh(0.5 * distance / 2.0),
    }[kind]
    stated = guarantee.rho if kind is MultivariateNormalMechanism else guarantee.epsilon
    assert true == pytest.approx(stated, rel=1e-6), (true, stated)


class Dictated:
    """``secrets.randbelow`` with a given first answer, and 0 after it."""

    def __init__(self, first):
        self.answers, self.asked = [first], []

    def __call__(self, n):
        self.asked.append(n)
        return self.answers.pop() if self.answers else 0


def kept_of(mechanism, category=0.0):
    """How many of the numbers that ``secrets`` may draw first keep the category, by bisection, and of how many."""

    def is_kept(first):
        with patch("secrets.randbelow", Dictated(first)) as source:
            return mechanism.privatize([[category]], secure=True)[0, 0] == category, source.asked[0]

    low, high = 0, is_kept(0)[1]
    total = high
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if is_kept(middle)[0] else (low, middle)
    return low, total


@NIGHTLY
@pytest.mark.parametrize("n_categories", [2, 3, 10])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-15, 1e-12, 1e-3, 1.0, 30.0, 60.0])
def test_secure_randomised_response_has_the_odds_that_it_states(epsilon, n_categories):
    """Exactly, from the integers that it draws; refused by name where they are too coarse."""
    mechanism = RandomizedResponseMechanism(epsilon, n_categories)
    try:
        kept, total = kept_of(mechanism)
    except ValueError as error:
        assert "epsilon" in str(error)
        return
    other = Fraction(total - kept, n_categories - 1)
    odds = max(Fraction(kept) / other, other / Fraction(kept)) if other else np.inf
    # log1p of the excess: log(odds) of odds next to 1 loses all digits
    loss = np.log1p(float(odds - 1)) if odds < 2 else np.log(float(odds))
    assert loss <= epsilon * ROUNDING


def test_the_reach_of_the_systems_noise_is_paid_for_by_delta():
    """Normal noise that ends has a δ of the mass beyond its end: a smaller one is refused, or it reaches further."""
    tiny = GaussianMechanism(epsilon=1.0, delta=1e-17)
    sampler = DPPenaltyMCMC(tiny, model=GaussianMean(1, data_norm=1.0), n_iter=4, n_chains=1)
    with patch("os.urandom", lambda n: b"\x00" * n):
        low = SystemNoise().standard_normal(1)[0]
    from scipy.stats import norm

    if norm.cdf(low) > 1e-17:
        with pytest.raises(ValueError, match="delta"):
            sampler.fit(np.zeros((20, 1)))
