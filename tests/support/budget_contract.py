"""What mechanisms that a budget calibrates promise, on the line and on the integers: the tests that both inherit."""

import numpy as np
import pytest


class SumQuery:
    """The sum of records clamped to bounds."""

    def __init__(self, bounds, offset=0.0):
        self.bounds = np.asarray(bounds)
        self.offset = offset

    def value(self, X):
        return np.clip(X, *self.bounds.T).sum(axis=0) + self.offset

    def sensitivity(self, norm):
        return float(np.linalg.norm(np.diff(self.bounds)[:, 0], norm))


PAIR = [(-1, 3), (0, 1)]  # bounds of two features


class BudgetContract:
    def test_rho_is_what_was_asked_for(self):
        for rho in (1e-3, 0.5, 20.0):
            assert self.cls(rho=rho, bounds=PAIR).guarantee().rho == pytest.approx(rho, rel=1e-14)
        assert self.cls(rho=[0.1, 2.0, 0.5], bounds=PAIR).guarantee().rho == pytest.approx(2.0, rel=1e-14)

    def test_scale_alone_has_no_guarantee(self):
        with pytest.raises(ValueError, match=r"guarantee\(\) needs bounds=\(lo, hi\) or query=: scale=1.5 alone"):
            self.cls(scale=1.5).guarantee()


class LaplaceBudget:
    def test_each_record_has_its_own_epsilon(self):
        epsilon = np.array([0.5, 3.0, 1.0])
        mechanism = self.cls(epsilon, bounds=(0, 2))
        Z, low, high = np.full((3, 1), -7.0), np.zeros((3, 1)), np.full((3, 1), 2.0)
        ratio = mechanism.log_density(Z, low) - mechanism.log_density(Z, high)
        np.testing.assert_allclose(ratio, epsilon, rtol=1e-12)
        assert mechanism.guarantee().epsilon == 3.0 and mechanism.guarantee().rho == 4.5


class GaussianBudget:
    def test_each_record_has_its_own_epsilon(self):
        epsilon = np.array([0.5, 3.0, 1.0, 3.0])
        mechanism = self.cls(epsilon, 1e-4, bounds=(0, 2))
        alone = [self.cls(e, 1e-4, bounds=(0, 2)).noise_scale for e in epsilon]
        np.testing.assert_array_equal(mechanism.noise_scale, alone)
        guarantee = mechanism.guarantee()
        assert (guarantee.epsilon, guarantee.delta) == (3.0, 1e-4)
        assert guarantee.rho == pytest.approx(2.0 / min(alone) ** 2)
