"""Accountants, metrics and data: functions of numbers."""

import importlib

import numpy as np

from sklearn_dpmix import metrics, privacy

from .parts import (
    Subject,
    accounting,
    column,
    flat,
    rng,
)

ACCOUNTANT = {"epsilon": 2.0, "delta": 1e-6}
DRAWS = {"draws": rng().normal(size=(30, 40)), "truth": rng().normal(size=30)}


def releases(make, **params):
    return Subject(make, lambda: dict(params), use=lambda one: privacy.epsilon_of(one, 1e-6))


FUNCTIONS: dict[str, Subject] = {
    # privacy
    "GaussianReleases": releases(privacy.GaussianReleases, noise_multiplier=10.0, n_releases=3),
    "SubsampledGaussianReleases": releases(
        privacy.SubsampledGaussianReleases, noise_multiplier=10.0, batch_size=10, n_records=100, n_releases=3
    ),
    "SubsampledReleases": releases(
        privacy.SubsampledReleases, rdp=privacy.barker_rdp(10), batch_size=10, n_records=1000, n_releases=3
    ),
    "PrivacyLedger": Subject(
        privacy.PrivacyLedger,
        lambda: {"epsilon": 4.0, "delta": 1e-6, "path": None, "accountant": "tight"},
        {
            "spend": lambda: {"releases": privacy.GaussianReleases(10.0), "what": ""},
            "check": lambda: {"releases": privacy.GaussianReleases(10.0), "what": ""},
            "would_fit": lambda: {"releases": privacy.GaussianReleases(10.0)},
        },
    ),
    "approx_dp_to_zcdp": accounting(privacy.approx_dp_to_zcdp, **ACCOUNTANT),
    "zcdp_to_approx_dp": accounting(privacy.zcdp_to_approx_dp, rho=0.5, delta=1e-6),
    "barker_rdp": Subject(
        privacy.barker_rdp,
        lambda: {"batch_size": 10, "variance": 2.0, "clip": 1.0},
        use=lambda curve: privacy.epsilon_of(privacy.SubsampledReleases(curve, 10, 1000, 3), 1e-6),
    ),
    "delta_of": accounting(
        privacy.delta_of, releases=privacy.GaussianReleases(10.0), epsilon=1.0, accountant="tight"
    ),
    "epsilon_of": accounting(
        privacy.epsilon_of, releases=privacy.GaussianReleases(10.0), delta=1e-6, accountant="tight"
    ),
    "gaussian_delta": accounting(privacy.gaussian_delta, epsilon=1.0, mu=0.5),
    "gaussian_mu": accounting(privacy.gaussian_mu, **ACCOUNTANT),
    "gaussian_scale": accounting(privacy.gaussian_scale, **ACCOUNTANT, sensitivity=1.0),
    "max_releases": accounting(
        privacy.max_releases, **ACCOUNTANT, noise_multiplier=10.0, accountant="tight", batch_size=None, n_records=None
    ),
    "noise_multiplier_for": accounting(
        privacy.noise_multiplier_for, **ACCOUNTANT, n_releases=10, accountant="tight", batch_size=None, n_records=None
    ),
    # metrics and data
    "coverage": accounting(metrics.coverage, **DRAWS, levels=(0.5, 0.9), confidence=0.95),
    "posterior_ranks": accounting(metrics.posterior_ranks, **DRAWS, random_state=0),
    "rank_uniformity": accounting(
        metrics.rank_uniformity, ranks=rng().integers(0, 10, 40), n_draws=9, level=0.95, n_points=None
    ),
    "hellinger_distance": accounting(
        metrics.hellinger_distance, p=np.full(5, 1.0), q=np.full(5, 1.0), grid=np.linspace(0, 1, 5)
    ),
    "integrated_squared_error": accounting(
        metrics.integrated_squared_error, p=np.full(5, 1.0), q=np.full(5, 1.0), grid=np.linspace(0, 1, 5)
    ),
    "mmd": accounting(
        metrics.mmd, X=column(), Y=column(5), bandwidth="median", biased=False, squared=False, n_median=10,
        random_state=0,
    ),
    "make_three_normals": accounting(
        importlib.import_module("sklearn_dpmix.datasets").make_three_normals, n_records=12, random_state=0
    ),
    "three_normals_density": accounting(
        importlib.import_module("sklearn_dpmix.datasets").three_normals_density, x=flat()
    ),
}  # fmt: skip
