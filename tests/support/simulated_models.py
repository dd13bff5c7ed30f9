"""A model without its closed forms, and a test of a Monte Carlo mean."""

from scipy import stats
from statistical import Disagreement

Z = stats.norm.isf(0.5e-6)


class Plain:
    """A model that gives the likelihood and nothing else, so that maximum and derivatives are numeric."""

    def __init__(self, model, theta_init):
        self.model, self.theta_init = model, theta_init

    def sample_statistic(self, rng, theta):
        return self.model.sample_statistic(rng, theta)

    def log_likelihood(self, statistics, theta):
        return self.model.log_likelihood(statistics, theta)


def judge(found, expected, error):
    if not abs(found - expected) <= Z * error:
        raise Disagreement(f"{found:.6g}, expected {expected:.6g} ± {error:.2g}")
