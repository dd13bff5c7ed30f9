"""What the tables of subjects are made of: a subject, data, and the arguments of estimators."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sklearn_dpmix as top
from sklearn_dpmix import mechanisms, models, queries


@dataclass(frozen=True)
class Subject:
    """A public name.

    ``given`` makes valid arguments afresh; ``calls`` are pairs (name, arguments) of what is then called on the object
    with arguments made afresh, or ``use(object)`` is what is done with an object that does nothing by itself.  ``fit``
    says that the object is an estimator with ``release`` to fit.
    """

    make: Callable[..., Any]
    given: Callable[[], dict[str, Any]] = dict
    calls: dict[str, Callable[[], dict[str, Any]]] = field(default_factory=dict)
    use: Callable[[Any], Any] | None = None
    data: Callable[[], dict[str, Any]] | None = None  # of fit


def rng():
    return np.random.default_rng(5)


def column(n=12):
    return rng().uniform(0.05, 0.95, (n, 1))


def flat():
    return column()[:, 0]


def whole(n=12, most=3):
    return rng().integers(0, most, (n, 1)).astype(float)


def rows(n=12):
    """Two features and a response, inside (0, 1)."""
    return rng().uniform(0.05, 0.95, (n, 3))


def labelled(n=12):
    generator = rng()
    return np.column_stack([generator.integers(0, size, n) for size in (2, 3, 2)]).astype(float)


def measurement():
    """OpenDP's Laplace noise on a number; None without the extra, which is refused by name too."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    return dp.m.make_laplace(dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=2.0)


class UserModel:
    """A user's model: each record is N(θ, 1); a statistic is the number of successes."""

    theta_init = (0.0,)

    def sample_records(self, generator, theta, n):
        return generator.normal(theta[0], 1.0, (n, 1))

    def sample_posterior(self, generator, records, theta):
        return generator.normal(records.mean(), records.size**-0.5, 1)


def laplace():
    return mechanisms.LaplaceMechanism(4.0, bounds=(0, 1))


def noisy_sum():
    return mechanisms.LaplaceMechanism(1.0, query=queries.BoundedRecords((0, 1)))


def budget():
    return mechanisms.GaussianMechanism(2.0, 1e-6)


CHAINS = {"n_chains": 1, "n_warmup": 2, "n_draws": 6, "thin": 1, "n_jobs": None, "random_state": 0, "verbose": 0}
CHAINS |= {"warm_start": False, "checkpoint": None}
PRIVATE = {"clipped_fraction_share": None, "ledger": None, "simulate": False, "n_chains": 1, "n_jobs": None}
PRIVATE |= {"random_state": None, "verbose": 0, "burn_in": 0.5, "temperature": 1.0, "init": None}
PRIVATE |= {"preconditioner": None}


def mixture(**params):
    parts = {"mechanism": laplace(), "kernel": "normal", "mixing": None, "sampler": "auto", "n_records": None}
    return parts | CHAINS | params


def fit_mixture(**params):
    return top.PrivateDPMixture(**mixture(**params)).fit(column())


def released(mechanism, X):
    return mechanism.privatize(X, random_state=1)


def abc(**params):
    parts = {"mechanism": mechanisms.LaplaceMechanism(scale=3.0), "model": models.BinomialCount(20)}
    parts |= {"method": "rejection", "n_draws": 6, "max_simulations": 200_000, "n_chains": 1, "n_warmup": 2, "thin": 1}
    return parts | {"n_jobs": None, "random_state": 0, "warm_start": False, "checkpoint": None, "verbose": 0} | params


def family(**params):
    return {"mechanism": mechanisms.LaplaceMechanism(scale=2.0), "family": "binomial", "prior": None, "n_records": 12,
            "truncation": None, "approximation": "auto"} | CHAINS | params  # fmt: skip


def moments_query():
    return queries.RegressionMoments((0, 1), (0, 1), 2)


def regression(**params):
    mechanism = mechanisms.LaplaceMechanism(10.0, query=moments_query())
    parts = {"mechanism": mechanism, "prior": None, "n_records": 12, "x_model": None, "interweave": True}
    parts["secure"] = False
    return parts | CHAINS | params


def moments():
    return released(mechanisms.LaplaceMechanism(10.0, query=moments_query()), rows())


def tables_query():
    return queries.ClassFeatureCounts(2, [2, 3])


def naive_bayes(**params):
    mechanism = mechanisms.LaplaceMechanism(4.0, query=tables_query())
    parts = {"mechanism": mechanism, "prior": None, "n_records": 12, "n_classes": None, "n_values": None}
    parts |= {"classes": None, "secure": False}
    return parts | CHAINS | params


def tables():
    return released(mechanisms.LaplaceMechanism(4.0, query=tables_query()), labelled())


def gaussian_mean(**params):
    return models.GaussianMean(**({"data_norm": 2.0} | params))


def penalty(**params):
    parts = {"mechanism": budget(), "model": gaussian_mean(), "clip_bound": None, "n_iter": 6, "noise_multiplier": None}
    return parts | {"move": "full", "proposal_scale": None, "batch_size": None, "secure": False} | PRIVATE | params


def with_points(*names):
    return {name: lambda: {"X": column(3)} for name in names}


def accounting(make, **params):
    return Subject(make, lambda: dict(params))


def component(make, use, **params):
    return Subject(make, lambda: dict(params), use=use)
