"""What is fuzzed: for each public name valid arguments, and what is done with what they make.

A class without an entry in :data:`SUBJECTS` or a reason in :data:`EXEMPT` fails the tests.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

import sklearn_dpmix as top
from sklearn_dpmix import kernels, mechanisms, metrics, mixings, models, privacy, queries, samplers

MODULES = (
    "sklearn_dpmix",
    *(f"sklearn_dpmix.{name}" for name in ("datasets", "kernels", "mechanisms", "metrics", "mixings", "models")),
    *(f"sklearn_dpmix.{name}" for name in ("privacy", "queries", "samplers")),
)

BASE = "a base class: it takes nothing"
RESULT = "what the package returns, not what it is given"
EXEMPT = {
    "AdditiveMechanism": BASE,
    "BinnedChannel": BASE,
    "BudgetExceededError": "an exception",
    "Coverage": RESULT,
    "FAMILIES": "a dict",
    "Family": BASE,
    "Kernel": BASE,
    "LedgerEntry": RESULT,
    "LikelihoodModel": BASE,
    "MixtureSampler": BASE,
    "NoNoise": "takes nothing",
    "Prior": BASE,
    "PrivacyGuarantee": RESULT,
    "Query": BASE,
    "RankUniformity": RESULT,
    "RecordChannel": BASE,
    "RecordModel": BASE,
    "Releases": BASE,
    "SmoothQuery": BASE,
    "compiled": "a decorator",
    "load_anes96": "takes nothing",
    "load_engel": "takes nothing",
    "load_rand_hie": "takes nothing",
    "load_rossi": "takes nothing",
}

#: Parameters that say how much work is asked for: an enormous number is no bad input, but a long run or a large
#: array, as it was asked for.  They are given small or wrong values only.
WORK = {
    "batch_size", "block_size", "max_draws", "max_iter", "max_seconds", "max_simulations", "n_attempts", "n_auxiliary",
    "n_chains", "n_draws", "n_iter", "n_jobs", "n_leapfrog", "n_median", "n_moves", "n_partitions", "n_people",
    "n_points", "n_released", "n_replicates", "n_samples", "n_scans", "n_simulations", "n_split_merge", "n_starts",
    "n_steps", "n_warmup", "n_weeks", "thin",
}  # fmt: skip

#: Parameters that are left as they are, and why.
LEFT_OUT = {("DPPenaltyMCMC", "batch_size"): "the accountant of batches of a handful of records takes half a minute"}


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


def fit_bounded_mixture(**params):
    return fit_mixture(kernel=kernels.BetaKernel(), **params)


def released(mechanism, X):
    return mechanism.privatize(X, random_state=1)


# --- components: what is done with one, and is stopped where chains would start --------------------------------------


def with_kernel(kernel):
    return fit_mixture(kernel=kernel)


def with_mixing(mixing):
    return fit_mixture(mixing=mixing)


def with_sampler(sampler):
    return fit_mixture(sampler=sampler)


def without_noise(sampler):
    return fit_mixture(sampler=sampler, mechanism=None)


def in_bins(sampler):
    mechanism = mechanisms.HaarWaveletMechanism(2.0, 2)
    return top.PrivateDPMixture(**mixture(mechanism=mechanism, sampler=sampler)).fit(released(mechanism, column()))


def in_histogram(sampler):
    mechanism = mechanisms.SmoothedHistogramMechanism(1.0, 4, 9, n_records=12)
    return top.PrivateDPMixture(**mixture(mechanism=mechanism, sampler=sampler)).fit(released(mechanism, column()))


def in_perturbed_histogram(sampler):
    mechanism = mechanisms.PerturbedHistogramMechanism(1.0, 4, n_records=12)
    return top.PrivateDPMixture(**mixture(mechanism=mechanism, sampler=sampler)).fit(released(mechanism, column()))


def categories(kernel):
    mechanism = mechanisms.RandomizedResponseMechanism(1.0, 3)
    return top.PrivateDPMixture(**mixture(mechanism=mechanism, kernel=kernel)).fit(released(mechanism, whole()))


def convolved(kernel):
    mechanism = mechanisms.GaussianMechanism(scale=0.2)
    return top.PrivateDPMixture(**mixture(mechanism=mechanism, kernel=kernel)).fit(released(mechanism, column()))


def abc(**params):
    parts = {"mechanism": mechanisms.LaplaceMechanism(scale=3.0), "model": models.BinomialCount(20)}
    parts |= {"method": "rejection", "n_draws": 6, "max_simulations": 200_000, "n_chains": 1, "n_warmup": 2, "thin": 1}
    return parts | {"n_jobs": None, "random_state": 0, "warm_start": False, "checkpoint": None, "verbose": 0} | params


def with_method(method):
    return top.PrivateABC(**abc(method=method)).fit([9.0])


def with_simulator(model):
    n_statistics = 2 if isinstance(model, (models.NormalMoments, models.StochasticSIR)) else 1
    return top.PrivateABC(**abc(model=model)).fit(np.full(n_statistics, 9.0))


def family(**params):
    return {"mechanism": mechanisms.LaplaceMechanism(scale=2.0), "family": "binomial", "prior": None, "n_records": 12,
            "truncation": None, "approximation": "auto"} | CHAINS | params  # fmt: skip


def with_family(member):
    return lambda value: top.PrivateExpFamilyGibbs(
        **family(family=value, n_records=12, mechanism=mechanisms.LaplaceMechanism(
            1.0, query=queries.SufficientStatistics(value, bounds=member)))
    ).fit([3.0])  # fmt: skip


def with_prior(name, S, **params):
    return lambda prior: top.PrivateExpFamilyGibbs(**family(family=name, prior=prior, **params)).fit(S)


def moments_query():
    return queries.RegressionMoments((0, 1), (0, 1), 2)


def regression(**params):
    mechanism = mechanisms.LaplaceMechanism(10.0, query=moments_query())
    parts = {"mechanism": mechanism, "prior": None, "n_records": 12, "x_model": None, "interweave": True}
    parts["secure"] = False
    return parts | CHAINS | params


def moments():
    return released(mechanisms.LaplaceMechanism(10.0, query=moments_query()), rows())


def with_regression_prior(prior):
    return top.PrivateLinearRegressionDA(**regression(prior=prior)).fit(moments())


def with_predictors(x_model):
    return top.PrivateLinearRegressionDA(**regression(x_model=x_model)).fit(moments())


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


def with_likelihood(model):
    X = np.column_stack([flat(), flat()])
    if isinstance(model, models.Banana):
        return top.DPPenaltyMCMC(**penalty(model=model)).fit(X)
    if isinstance(model, models.GaussianMean):
        return top.DPPenaltyMCMC(**penalty(model=model)).fit(column())
    return top.DPPenaltyMCMC(**penalty(model=model)).fit(column(), (flat() > 0.5).astype(float))


def with_start(preconditioner):
    return top.DPPenaltyMCMC(**penalty(preconditioner=preconditioner)).fit(column())


def with_approximation(sampler):
    model = top.DPLogisticRegressionMCMC(budget(), sampler=sampler, data_norm=2.0)
    return model.fit(column(), (flat() > 0.5).astype(int))


def with_rule(rule):
    return top.PrivateExpFamilyGibbs(**family(n_draws=rule)).fit([3.0])


# --- calls -----------------------------------------------------------------------------------------------------------


def releasing(X, Z=None, **more):
    """What a mechanism is asked: its noise on records, the density of a release, its guarantee."""
    calls = {"privatize": lambda: {"X": X(), "random_state": 0, "secure": False}}
    calls["guarantee"] = lambda: {"n_features": None}
    if Z is not None:
        calls["log_density"] = lambda: {"Z": Z(), "X": X()}
    return calls | more


def asking(records):
    """What a query is asked."""
    return {"value": lambda: {"records": records()}, "contributions": lambda: {"records": records()}} | {
        "sensitivity": lambda: {"norm": 1, "neighbours": None}
    }


def sensitive(X):
    return {"value": lambda: {"X": X()}}


def with_points(*names):
    return {name: lambda: {"X": column(3)} for name in names}


def noise(make, X, **params):
    """A mechanism that adds noise to records, with all its parameters."""
    given = {"epsilon": 2.0, "bounds": (0, 1), "query": None, "scale": None, "rho": None, "clamp": True} | params
    return Subject(make, lambda: dict(given), releasing(X, X))


def smooth(make, **params):
    given = lambda: {"query": queries.SmoothMedian((0, 1)), "xi": None, "multiplier": None} | params  # noqa: E731
    return Subject(make, given, releasing(column))


def curator(make, **params):
    given = lambda: {"query": queries.BoundedRecords([(0, 1)] * 2, 2)} | params  # noqa: E731
    return Subject(make, given, releasing(lambda: rows()[:, :2]))


def accounting(make, **params):
    return Subject(make, lambda: dict(params))


def releases(make, **params):
    return Subject(make, lambda: dict(params), use=lambda one: privacy.epsilon_of(one, 1e-6))


def component(make, use, **params):
    return Subject(make, lambda: dict(params), use=use)


SCALES = {"mean": None, "mean_precision": 0.1, "shape": 3.0, "scale": None}
COVARIANCE = ((0.2, 0.05), (0.05, 0.3))
ACCOUNTANT = {"epsilon": 2.0, "delta": 1e-6}
DRAWS = {"draws": rng().normal(size=(30, 40)), "truth": rng().normal(size=30)}

SUBJECTS: dict[str, Subject] = {
    # mechanisms
    "LaplaceMechanism": noise(mechanisms.LaplaceMechanism, column),
    "GaussianMechanism": noise(mechanisms.GaussianMechanism, column, delta=1e-6, calibration="analytic"),
    "DiscreteLaplaceMechanism": noise(mechanisms.DiscreteLaplaceMechanism, whole, bounds=(0, 3)),
    "DiscreteGaussianMechanism": noise(
        mechanisms.DiscreteGaussianMechanism, whole, bounds=(0, 3), delta=1e-6, calibration="analytic"
    ),
    "BinomialMechanism": Subject(
        mechanisms.BinomialMechanism,
        lambda: {"epsilon": 2.0, "n_trials": 5, "bounds": (0, 1)},
        releasing(column, lambda: whole(most=5)),
    ),
    "HaarWaveletMechanism": Subject(
        mechanisms.HaarWaveletMechanism,
        lambda: {"epsilon": 2.0, "resolution": 2, "bounds": (0, 1), "calibration": "exact"},
        releasing(column, lambda: released(mechanisms.HaarWaveletMechanism(2.0, 2), column())),
    ),
    "RandomizedResponseMechanism": Subject(
        mechanisms.RandomizedResponseMechanism, lambda: {"epsilon": 1.0, "n_categories": 3}, releasing(whole, whole)
    ),
    "PerturbedHistogramMechanism": Subject(
        mechanisms.PerturbedHistogramMechanism,
        lambda: {"epsilon": 1.0, "n_bins": 4, "n_records": 12, "bounds": (0, 1), "noise": "laplace"},
        releasing(column, lambda: np.arange(4.0)),
    ),
    "SmoothedHistogramMechanism": Subject(
        mechanisms.SmoothedHistogramMechanism,
        lambda: {
            "epsilon": 1.0, "n_bins": 4, "n_released": 9, "n_records": 12, "bounds": (0, 1), "smoothing": None
        },
        releasing(column, lambda: column(9)),
    ),
    "MultivariateLaplaceMechanism": curator(mechanisms.MultivariateLaplaceMechanism, covariance=COVARIANCE),
    "MultivariateNormalMechanism": curator(mechanisms.MultivariateNormalMechanism, covariance=COVARIANCE),
    "MultivariateTMechanism": curator(mechanisms.MultivariateTMechanism, covariance=COVARIANCE, df=4.0),
    "PublishedScaleMechanism": Subject(
        mechanisms.PublishedScaleMechanism,
        lambda: {
            "epsilon": 1.0, "delta": 1e-6, "query": queries.SmoothMedian((0, 1)), "share": 0.5, "xi": None,
            "multiplier": None,
        },
        releasing(column),
    ),
    "SmoothCauchyMechanism": smooth(mechanisms.SmoothCauchyMechanism, epsilon=1.0, n_records=12),
    "SmoothGaussianMechanism": smooth(mechanisms.SmoothGaussianMechanism, epsilon=1.0, delta=1e-6, n_records=12),
    "SmoothLaplaceMechanism": smooth(mechanisms.SmoothLaplaceMechanism, epsilon=1.0, delta=1e-6, n_records=12),
    "SmoothStudentTMechanism": smooth(mechanisms.SmoothStudentTMechanism, epsilon=1.0, df=3, n_records=12),
    "from_opendp": Subject(
        mechanisms.from_opendp, lambda: {"measurement": measurement(), "bounds": None, "query": None, "clamp": True}
    ),
    # queries
    "BoundedRecords": Subject(
        queries.BoundedRecords, lambda: {"bounds": (0, 1), "n_features": 1, "neighbours": "replace"}, asking(column)
    ),
    "ClassFeatureCounts": Subject(
        queries.ClassFeatureCounts,
        lambda: {"n_classes": 2, "n_values": [2, 3], "n_features": None, "neighbours": "replace"},
        asking(labelled),
    ),
    "RegressionMoments": Subject(
        queries.RegressionMoments,
        lambda: {
            "x_bounds": (0, 1), "y_bounds": (0, 1), "n_features": 2, "sensitivity": "joint", "neighbours": "replace"
        },
        asking(rows),
    ),
    "SufficientStatistics": Subject(
        queries.SufficientStatistics,
        lambda: {"family": "normal", "bounds": (0, 1), "outside": "clamp", "neighbours": "replace", "scaled": True},
        asking(column),
    ),
    "NoisyCount": Subject(
        queries.NoisyCount,
        lambda: {"value": 12.0, "mechanism": mechanisms.DiscreteLaplaceMechanism(scale=2.0)},
        use=lambda count: top.PrivateLinearRegressionDA(**regression(n_records=count)).fit(moments()),
    ),
    "SmoothMedian": Subject(queries.SmoothMedian, lambda: {"bounds": (0, 1)}, sensitive(column)),
    "SmoothTrimmedMean": Subject(
        queries.SmoothTrimmedMean, lambda: {"bounds": (0, 1), "trim": 0.2}, sensitive(column)
    ),
    "private_quantile": accounting(
        queries.private_quantile, x=flat(), q=0.5, epsilon=1.0, bounds=(0, 1), random_state=0
    ),
    "private_bounds": accounting(
        queries.private_bounds, x=flat(), epsilon=1.0, bounds=(0, 1), coverage=0.9, random_state=0
    ),
    # kernels, mixings, samplers
    "NormalKernel": component(kernels.NormalKernel, with_kernel, **SCALES),
    "TruncatedNormalKernel": component(kernels.TruncatedNormalKernel, with_kernel, bounds=None, **SCALES),
    "ConvolvedNormalKernel": component(kernels.ConvolvedNormalKernel, convolved, **SCALES),
    "MultivariateNormalKernel": component(
        kernels.MultivariateNormalKernel, with_kernel, mean=None, mean_precision=0.1, dof=None, scale=None
    ),
    "BetaKernel": component(kernels.BetaKernel, with_kernel, shape=2.0, rate=2.0, bounds=(0, 1)),
    "CategoricalKernel": component(kernels.CategoricalKernel, categories, n_categories=3, alpha=1.0),
    "DirichletProcess": component(mixings.DirichletProcess, with_mixing, concentration=None, prior=(1.0, 1.0)),
    "PitmanYor": component(mixings.PitmanYor, with_mixing, concentration=1.0, discount=0.25),
    "MixtureOfFiniteMixtures": component(
        mixings.MixtureOfFiniteMixtures, with_mixing, concentration=1.0, prior=0.1
    ),
    "Auto": component(samplers.Auto, with_sampler),
    "Bins": component(samplers.Bins, in_perturbed_histogram, n_moves=1, n_split_merge=2),
    "Cells": component(samplers.Cells, in_bins, n_moves=1, n_split_merge=2),
    "Conditional": component(samplers.Conditional, with_sampler),
    "Imputed": component(samplers.Imputed, with_sampler),
    "Interweaved": component(samplers.Interweaved, with_sampler, n_split_merge=2),
    "JainNeal": component(samplers.JainNeal, with_sampler, sampler=None, n_attempts=1, n_scans=2),
    "Neal2": component(samplers.Neal2, without_noise),
    "Neal3": component(samplers.Neal3, without_noise),
    "Neal5": component(samplers.Neal5, with_sampler, n_auxiliary=1),
    "Neal8": component(samplers.Neal8, with_sampler, n_auxiliary=3),
    "ReUse": component(samplers.ReUse, with_sampler),
    "Slice": component(samplers.Slice, with_sampler),
    "Sources": component(samplers.Sources, in_histogram, n_moves=1, n_split_merge=2),
    "Surrogate": component(samplers.Surrogate, with_sampler, n_split_merge=2, n_moves=None, min_records=1),
    "RejectionABC": component(samplers.RejectionABC, with_method, block_size=256),
    "ImportanceABC": component(samplers.ImportanceABC, with_method, proposal=None, block_size=256),
    "MarkovABC": component(samplers.MarkovABC, with_method, n_replicates=3),
    "SequentialABC": component(samplers.SequentialABC, with_method, batch_size=50, ess_fraction=0.1),
    "PrivateNewton": component(
        samplers.PrivateNewton, with_start, n_steps=2, share=0.1, gradient_clip_bound=None
    ),
    "PrivateNormalApproximation": component(
        samplers.PrivateNormalApproximation, with_approximation, n_steps=2, n_draws=200, curvature_share=0.25,
        secure=False,
    ),
    # models
    "Banana": component(
        models.Banana, with_likelihood, a=0.1, b=0.0, m=0.0, sigma=(1.0, 2.0), prior_sigma=3.0, data_norm=2.0
    ),
    "GaussianMean": component(
        models.GaussianMean, with_likelihood, n_features=1, sigma=1.0, prior_sigma=3.0, data_norm=2.0
    ),
    "LinearGaussianLikelihood": component(
        models.LinearGaussianLikelihood, with_likelihood, n_features=1, fit_intercept=True, sigma=1.0, prior_sigma=1.0,
        data_norm=2.0, y_bound=2.0,
    ),
    "LogisticLikelihood": component(
        models.LogisticLikelihood, with_likelihood, n_features=1, fit_intercept=True, prior_sigma=1.0, data_norm=2.0
    ),
    "Bernoulli": component(models.Bernoulli, with_family(None)),
    "Beta": component(models.Beta, with_family((0.1, 0.9))),
    "Exponential": component(models.Exponential, with_family((0, 4))),
    "Gamma": component(models.Gamma, with_family((0.1, 4)), shape=1.0),
    "Multinomial": component(models.Multinomial, with_family(None), n_categories=3),
    "Normal": component(models.Normal, with_family((0, 1))),
    "Poisson": component(models.Poisson, with_family((0, 5))),
    "BetaPrior": component(models.BetaPrior, with_prior("binomial", [3.0]), a=1.0, b=1.0),
    "DirichletPrior": component(
        models.DirichletPrior,
        lambda prior: with_prior(models.Multinomial(3), [3.0, 4.0, 5.0])(prior),
        alpha=(1.0, 2.0, 1.0),
    ),
    "GammaPrior": component(models.GammaPrior, with_prior("poisson", [3.0], truncation=(0, 5)), shape=1.0, rate=0.1),
    "GammaProductPrior": component(
        models.GammaProductPrior, with_prior("beta", [-8.0, -9.0], truncation=(0.1, 0.9)), shape=1.0, rate=0.1
    ),
    "NormalInverseGammaPrior": component(
        models.NormalInverseGammaPrior,
        with_prior("normal", [3.0, 4.0], truncation=(0, 1)),
        mean=0.0, mean_precision=0.01, shape=1.0, scale=1.0,
    ),
    "RegressionPrior": component(
        models.RegressionPrior, with_regression_prior, coef_scale=2.0, sigma=None, sigma_shape=1.0, sigma_scale=None
    ),
    "GaussianPredictors": component(models.GaussianPredictors, with_predictors, mean=None, covariance=None),
    "BinomialCount": component(models.BinomialCount, with_simulator, n_records=20, prior=None),
    "PoissonCount": component(models.PoissonCount, with_simulator, n_records=3, prior=None),
    "NormalMoments": component(models.NormalMoments, with_simulator, n_records=3, prior=None),
    "StochasticSIR": component(
        models.StochasticSIR, with_simulator, n_people=30, n_infected=2, n_weeks=2, transmission=None, recovery=None
    ),
    "resolve_family": accounting(models.resolve_family, value="normal"),
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
    # estimators
    "AutoDraws": component(top.AutoDraws, with_rule, min_ess=4, max_seconds=0.5, max_draws=200),
    "PrivateDPMixture": Subject(
        top.PrivateDPMixture,
        mixture,
        {
            **with_points("score_samples", "cdf_draws", "density_draws", "density_interval", "score"),
            "predict": lambda: {"Z": column(3), "epsilon": None},
            "score_release": lambda: {"Z": column(3), "epsilon": None},
            "density_interval": lambda: {"X": column(3), "level": 0.9, "feature": None},
            "quantile_draws": lambda: {"q": [0.1, 0.5]},
            "sample": lambda: {"n_samples": 3, "random_state": 0},
            "similarity": lambda: {"n_partitions": 3, "random_state": 0},
            "point_partition": lambda: {"loss": "vi", "n_partitions": 3, "n_starts": 2, "random_state": 0},
            "informativeness": lambda: {"n_samples": 50, "random_state": 0},
        },
        data=lambda: {"Z": column()},
    ),
    "PrivateExpFamilyGibbs": Subject(
        top.PrivateExpFamilyGibbs,
        family,
        {
            "predict": lambda: {"X": np.zeros((3, 1))},
            "score_samples": lambda: {"X": np.zeros((3, 1))},
            "sample": lambda: {"n_samples": 3, "random_state": 0},
        },
        data=lambda: {"S": [3.0]},
    ),
    "NaivePosterior": Subject(
        top.NaivePosterior,
        family,
        {"score_samples": lambda: {"X": np.zeros((3, 1))}, "sample": lambda: {"n_samples": 3, "random_state": 0}},
        data=lambda: {"S": [3.0]},
    ),
    "OnePosteriorSampling": Subject(
        top.OnePosteriorSampling,
        lambda: {"epsilon": 2.0, "prior": None, "n_draws": 6, "low": 0.1, "random_state": 0},
        data=lambda: {"X": (column() > 0.5).astype(float)},
    ),
    "PrivateLinearRegressionDA": Subject(
        top.PrivateLinearRegressionDA,
        regression,
        {
            "predict": lambda: {"X": rows(3)[:, :2], "return_std": False},
            "score_samples": lambda: {"X": rows(3)[:, :2], "y": flat()[:3]},
            "score": lambda: {"X": rows(3)[:, :2], "y": flat()[:3]},
            "coef_interval": lambda: {"level": 0.9},
        },
        data=lambda: {"X": moments()},
    ),
    "PrivateNaiveBayesDA": Subject(
        top.PrivateNaiveBayesDA,
        naive_bayes,
        {name: lambda: {"X": labelled(3)[:, :2]} for name in ("predict", "predict_proba", "predict_log_proba")},
        data=lambda: {"X": tables()},
    ),
    "PrivatePosteriorDA": Subject(
        top.PrivatePosteriorDA,
        lambda: {"mechanism": noisy_sum(), "model": UserModel(), "n_records": 12} | CHAINS,
        {"summary": dict},
        data=lambda: {"S": [6.0]},
    ),
    "PrivateABC": Subject(
        top.PrivateABC, abc, {"resample": lambda: {"n_draws": 4, "random_state": 0}}, data=lambda: {"s_obs": [9.0]}
    ),
    "PrivateMCEM": Subject(
        top.PrivateMCEM,
        lambda: {
            "mechanism": mechanisms.LaplaceMechanism(scale=3.0), "model": models.PoissonCount(), "tol": 0.1,
            "max_iter": 3, "n_simulations": 50, "max_simulations": 5000, "n_starts": 1, "random_state": 0, "verbose": 0,
        },
        {"interval": lambda: {"level": 0.9}},
        data=lambda: {"s_obs": [9.0]},
    ),
    "DeconvolutionKDE": Subject(
        top.DeconvolutionKDE,
        lambda: {"mechanism": laplace(), "bandwidth": "plug-in"},
        {"density": lambda: {"X": column(3), "proper": True}, **with_points("score_samples", "score")},
        data=lambda: {"Z": column()},
    ),
    "DPPenaltyMCMC": Subject(
        top.DPPenaltyMCMC, penalty, with_points("score_samples"), data=lambda: {"X": column(), "y": None}
    ),
    "DPBarkerMCMC": Subject(
        top.DPBarkerMCMC,
        lambda: {
            "mechanism": budget(), "model": gaussian_mean(), "clip_bound": None, "batch_size": 10, "ratio_limit": 0.3,
            "correction_variance": 1.75, "n_iter": 6, "move": "full", "proposal_scale": None,
        } | PRIVATE | {"temperature": 0.1},
        with_points("score_samples"),
        data=lambda: {"X": column(1000), "y": None},
    ),
    "DPHamiltonianMC": Subject(
        top.DPHamiltonianMC,
        lambda: {
            "mechanism": budget(), "model": gaussian_mean(), "clip_bound": None, "gradient_clip_bound": None,
            "n_iter": 4, "noise_multiplier": None, "gradient_noise_ratio": 2.0, "step_size": None, "n_leapfrog": 2,
            "mass": None, "reuse_gradients": True, "secure": False,
        } | PRIVATE,
        with_points("score_samples"),
        data=lambda: {"X": column(), "y": None},
    ),
    "DPLogisticRegressionMCMC": Subject(
        top.DPLogisticRegressionMCMC,
        lambda: {
            "mechanism": budget(), "sampler": top.DPPenaltyMCMC(n_iter=6, n_chains=1), "data_norm": 2.0,
            "prior_sigma": 3.0, "fit_intercept": True, "classes": (0, 1), "ledger": None, "simulate": False,
            "random_state": None,
        },
        {
            **with_points("predict", "predict_proba", "predict_log_proba", "predict_proba_draws"),
            "predict_interval": lambda: {"X": column(3), "level": 0.9},
            "coef_interval": lambda: {"level": 0.9},
        },
        data=lambda: {"X": column(), "y": (flat() > 0.5).astype(int)},
    ),
}  # fmt: skip


@cache
def public():
    """{name: object} of all that is public, plots left out."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            member = getattr(module, name)
            if not inspect.ismodule(member):
                found[name] = member
    return found
