"""Whether weighted draws from a prior have the moments, the quantiles and the evidence of an oracle's posterior."""

import numpy as np
import regression_oracle as twins
from scipy import stats
from scipy.special import logsumexp
from statistical import ALPHA, Disagreement, TooFewDraws

LIMIT = stats.norm.isf(ALPHA / 2)


def judge(found, error, expected, what):
    z = (np.asarray(found) - expected) / error
    if not np.all(np.abs(z) <= LIMIT):
        raise Disagreement(f"{what}: {found}, expected {expected}: {z} standard errors")


def assert_agrees(posterior, theta, log_weight, log_evidence=0.0):
    """Means, standard deviations, cdfs and log p(y) of weighted draws (size, n_params) are those of the oracle."""
    found = twins.weighted_summary(theta, log_weight)
    if found.ess < 2000:
        raise TooFewDraws(f"{found.ess:.0f} effective draws")
    judge(found.mean, found.mean_error, posterior.mean, "mean")
    judge(found.sd, found.sd_error, posterior.sd, "standard deviation")
    relative = np.sqrt(1 / found.ess - 1 / len(theta))
    judge(found.log_evidence + log_evidence, relative, posterior.log_evidence, "log evidence")
    weight = np.exp(log_weight - logsumexp(log_weight))
    for k, column in enumerate(theta.T):
        order = np.argsort(column)
        points = column[order][np.searchsorted(np.cumsum(weight[order]), [0.2, 0.5, 0.8])]
        found = twins.weighted_summary((column[:, None] <= points) * 1.0, log_weight)
        judge(found.mean, found.mean_error, posterior.cdf(points, k), f"cdf of parameter {k}")
