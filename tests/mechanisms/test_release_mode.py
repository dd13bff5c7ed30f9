"""The largest density that releases of one statistic can have, by a search over the statistic."""

import numpy as np
import pytest

from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    compiled,
)

EACH_ITS_OWN = np.array([1.0, 5.0, 0.5, 2.0, 3.0])
REAL = {
    "laplace": LaplaceMechanism(scale=1.5),
    "gaussian": GaussianMechanism(scale=1.5),
    "laplace, each its own": LaplaceMechanism(scale=EACH_ITS_OWN, bounds=(-100, 100)),
    "gaussian, each its own": GaussianMechanism(scale=EACH_ITS_OWN, bounds=(-100, 100)),
    "laplace within bounds": LaplaceMechanism(scale=1.5, bounds=(1.0, 2.0)),
    "gaussian within bounds": GaussianMechanism(scale=1.5, bounds=(-2.0, -1.0)),
    "gaussian beyond bounds": GaussianMechanism(scale=1.5, bounds=(-2.0, -1.0), clamp=False),
}
WHOLE = {
    "discrete laplace": DiscreteLaplaceMechanism(scale=1.5),
    "discrete gaussian": DiscreteGaussianMechanism(scale=1.5),
    "discrete laplace within bounds": DiscreteLaplaceMechanism(scale=1.5, bounds=(2, 3)),
    "discrete gaussian, each its own": DiscreteGaussianMechanism(scale=EACH_ITS_OWN, bounds=(-50, 50)),
}


class Cauchy(AdditiveMechanism):
    """A user's own noise, of which only the mode is known."""

    def __init__(self, scale=1.0):
        self.scale = scale

    @compiled
    def log_noise(self, e, scale):
        return -np.log(np.pi * scale * (1.0 + (e / scale) ** 2))


def largest(mechanism, S, step):
    """The largest density over a grid of values of one statistic, around the releases."""
    value = np.arange(np.floor(S.min()) - 3.0, np.ceil(S.max()) + 3.0, step)
    return mechanism.release_density(S)(value[:, None]).max()


def releases(n, whole):
    S = np.random.default_rng(n).normal(0.7, 4.0, (n, 1))
    return np.rint(S) if whole else S


def check(mechanism, S, step):
    mode, found = mechanism.log_release_mode(S), largest(mechanism, S, step)
    slack = len(S) * step / np.min(mechanism.noise_scale)  # the grid's: no density changes faster where it is largest
    assert found <= mode + 1e-12 and mode <= found + (slack if step < 1.0 else 1e-12)


@pytest.mark.parametrize("name", [*REAL, *WHOLE])
def test_no_value_has_a_larger_density(name):
    """Catches a mean where a median belongs, weights that are the scales, a mode that no integer or no record has."""
    whole = name in WHOLE
    mechanism, step = (WHOLE if whole else REAL)[name], 1.0 if whole else 1e-3
    for n in (5,) if np.ndim(mechanism.noise_scale) else (1, 2, 3, 6):
        check(mechanism, releases(n, whole), step)


def test_several_statistics_have_a_mode_each():
    S = np.random.default_rng(0).normal(size=(3, 2))
    mechanism = LaplaceMechanism(scale=0.7)
    one_by_one = sum(mechanism.log_release_mode(S[:, [j]]) for j in range(2))
    assert mechanism.log_release_mode(S) == pytest.approx(one_by_one, rel=1e-14)


def test_unknown_noise_has_a_bound():
    """One release is likeliest given itself; for several, the modes add up: two Cauchy releases have two peaks."""
    S = np.array([[0.0], [7.0], [7.5]])
    assert Cauchy().log_release_mode(S[:1]) == pytest.approx(-np.log(np.pi))
    assert largest(Cauchy(), S, 1e-3) < Cauchy().log_release_mode(S) == pytest.approx(-3.0 * np.log(np.pi))


class MeanOfLaplace(LaplaceMechanism):
    def likeliest_value(self, S, scale):
        return S.mean(axis=0)


class Unweighted(GaussianMechanism):
    def likeliest_value(self, S, scale):
        return S.mean(axis=0)


class AnotherInteger(DiscreteGaussianMechanism):
    def likeliest_value(self, S, scale):
        return np.rint(S.mean(axis=0)) + 1.0


@pytest.mark.parametrize(
    ("twin", "n", "step"),
    [
        (MeanOfLaplace(scale=1.5), 3, 1e-3),
        (Unweighted(scale=EACH_ITS_OWN, bounds=(-100, 100)), 5, 1e-3),
        (AnotherInteger(scale=1.5), 6, 1.0),
    ],
    ids=lambda one: type(one).__name__,
)
def test_broken_twins_are_rejected(twin, n, step):
    with pytest.raises(AssertionError):
        check(twin, releases(n, step == 1.0), step)
