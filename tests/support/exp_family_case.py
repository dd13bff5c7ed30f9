"""Fits of PrivateExpFamilyGibbs, and the check of their draws against exact posteriors (curator_oracle.py)."""

import curator_oracle as oracle
import numpy as np
from curator_oracle import discrete_laplace, gaussian, laplace
from statistical import (
    assert_mean_close,
    assert_pmf_close,
)

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import (
    BetaPrior,
    DirichletPrior,
    GammaPrior,
    Multinomial,
    resolve_family,
)
from sklearn_dpmix.queries import NoisyCount

MIXED = "ignore:the chains have not mixed:RuntimeWarning"

LAPLACE = LaplaceMechanism(scale=2.0)
NOISE = {
    "laplace": (LaplaceMechanism, laplace),
    "gaussian": (GaussianMechanism, gaussian),
    "discrete laplace": (DiscreteLaplaceMechanism, discrete_laplace),
}
PRIORS = {  # by the oracle's tuples
    "binomial": lambda p: BetaPrior(*p),
    "multinomial": DirichletPrior,
    "poisson": lambda p: GammaPrior(*p),
    "gamma": lambda p: GammaPrior(*p),
    "exponential": lambda p: GammaPrior(*p),
}


def draw(family, release, scale, prior, *, noise="laplace", n=None, count=None, off=1.0, **options):
    """A fitted model.  ``off`` multiplies the scale of the noise that inference is told of."""
    mechanism = NOISE[noise][0](scale=scale * off)
    n_records = n if count is None else NoisyCount(count[0], LaplaceMechanism(scale=count[1] * off))
    name = family if isinstance(family, str) else family.names[0]
    prior = PRIORS[name](prior) if isinstance(prior, (tuple, list)) else prior
    options = {"n_chains": 4, "n_warmup": 500, "n_draws": 4000, "random_state": 0, **options}
    model = PrivateExpFamilyGibbs(mechanism, family=family, prior=prior, n_records=n_records, **options)
    return model.fit(np.reshape(release, (-1, model_width(family, release))))


def model_width(family, release):
    family = resolve_family(family)
    return np.shape(release)[-1] if isinstance(family, Multinomial) else family.n_statistics


def check(model, exact, *, pmf=True, min_ess=2000):
    """The draws of θ (and of s) are from the oracle's posterior."""
    theta = model.theta_draws_
    n_params = len(np.atleast_1d(exact.mean))
    assert_mean_close(theta[..., :n_params], exact.mean, min_ess=min_ess, what="θ")
    for k in range(n_params):
        for at in exact.mean[k] + exact.sd[k] * np.array([-1.0, 0.0, 1.0]):
            p = float(exact.cdf(at, k))
            if 0.02 < p < 0.98:
                assert_mean_close(theta[..., k] <= at, p, min_ess=min_ess, what=f"P(θ_{k} <= {at:.4g})")
    if pmf and isinstance(exact, oracle.Mixture) and exact.support.dtype == float and len(exact.weights) < 1e5:
        column = 0 if exact.support.ndim == 1 else exact.support.shape[1] - model.statistic_draws_.shape[2]
        law = exact.pmf(column)
        if law.max() < 0.98:
            assert_pmf_close(model.statistic_draws_[..., 0].astype(int), law, min_ess=min_ess, what="statistic")
    return model
