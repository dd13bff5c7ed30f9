"""Models for PrivateABC: example 4 of Gong (2019) with short fits of it, and one record; and what judges a figure."""

import numpy as np
from scipy import stats
from statistical import Disagreement

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GammaPrior, PoissonCount

Z = stats.norm.isf(0.5e-6)
EXAMPLE = PoissonCount(prior=GammaPrior(25.0, 1.0))
VAGUE = PoissonCount(prior=GammaPrior(1.0, 0.0005))  # mean 2000: few simulations are near the release
SHORT = {"n_draws": 300, "random_state": 1, "model": EXAMPLE}
FIT = LaplaceMechanism(scale=5.0)


def judge(found, expected, error, what):
    if not abs(found - expected) <= Z * error:
        raise Disagreement(f"{what}: {found:.6g}, expected {expected:.6g} ± {error:.2g}")


def draws_of(method, **params):
    return PrivateABC(FIT, method=method, **{**SHORT, **params}).fit([37.4]).theta_draws_


class OneRecord:
    """The median of one record x ~ N(θ, 0.3²) clamped to [0, 1], with its smooth sensitivity; θ ~ N(0.5, 0.3²)."""

    def __init__(self, query, xi):
        self.query, self.xi = query, xi

    def sample_prior(self, rng, size):
        return rng.normal(0.5, 0.3, (size, 1))

    def log_prior(self, theta):
        return stats.norm.logpdf(theta[:, 0], 0.5, 0.3)

    def sample_statistic(self, rng, theta):
        return self.query.statistics(theta + 0.3 * rng.standard_normal(theta.shape), self.xi)


class ScaleForgotten(OneRecord):
    """The smooth sensitivity of another data set."""

    def sample_statistic(self, rng, theta):
        statistics = super().sample_statistic(rng, theta)
        statistics[:, 1] = self.query.statistics(np.array([[0.5]]), self.xi)[0, 1]
        return statistics
