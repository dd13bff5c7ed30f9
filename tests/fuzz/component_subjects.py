"""Kernels, mixings, samplers, models and rules: fitted with, and stopped where chains would start."""

import numpy as np

import sklearn_dpmix as top
from sklearn_dpmix import kernels, mechanisms, mixings, models, queries, samplers

from .parts import (
    Subject,
    abc,
    accounting,
    budget,
    column,
    component,
    family,
    fit_mixture,
    flat,
    mixture,
    moments,
    penalty,
    regression,
    released,
    whole,
)

SCALES = {"mean": None, "mean_precision": 0.1, "shape": 3.0, "scale": None}


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


def with_method(method):
    return top.PrivateABC(**abc(method=method)).fit([9.0])


def with_simulator(model):
    n_statistics = 2 if isinstance(model, (models.NormalMoments, models.StochasticSIR)) else 1
    return top.PrivateABC(**abc(model=model)).fit(np.full(n_statistics, 9.0))


def with_family(member):
    return lambda value: top.PrivateExpFamilyGibbs(
        **family(family=value, n_records=12, mechanism=mechanisms.LaplaceMechanism(
            1.0, query=queries.SufficientStatistics(value, bounds=member)))
    ).fit([3.0])  # fmt: skip


def with_prior(name, S, **params):
    return lambda prior: top.PrivateExpFamilyGibbs(**family(family=name, prior=prior, **params)).fit(S)


def with_regression_prior(prior):
    return top.PrivateLinearRegressionDA(**regression(prior=prior)).fit(moments())


def with_predictors(x_model):
    return top.PrivateLinearRegressionDA(**regression(x_model=x_model)).fit(moments())


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


COMPONENTS: dict[str, Subject] = {
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
    "Imputed": component(samplers.Imputed, with_sampler, n_split_merge=2, n_passes=1),
    "Interweaved": component(samplers.Interweaved, with_sampler, n_split_merge=2),
    "JainNeal": component(samplers.JainNeal, with_sampler, sampler=None, n_attempts=1, n_scans=2),
    "Neal2": component(samplers.Neal2, without_noise),
    "Neal3": component(samplers.Neal3, without_noise),
    "Neal5": component(samplers.Neal5, with_sampler, n_auxiliary=1),
    "Neal8": component(samplers.Neal8, with_sampler, n_auxiliary=3),
    "ReUse": component(samplers.ReUse, with_sampler),
    "Slice": component(samplers.Slice, with_sampler),
    "Sources": component(samplers.Sources, in_histogram, n_moves=1, n_split_merge=2),
    "MixingMeasure": component(samplers.MixingMeasure, with_sampler, n_moves=5),
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
        models.LogisticLikelihood, with_likelihood, n_features=1, fit_intercept=True, prior_sigma=1.0, data_norm=2.0,
        prior_df=1.0,
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
    "WideDirichletPrior": component(
        models.WideDirichletPrior,
        lambda prior: with_prior(models.Multinomial(3), [3.0, 4.0, 5.0])(prior),
        alpha=1.0,
    ),
    "GammaPrior": component(models.GammaPrior, with_prior("poisson", [3.0], truncation=(0, 5)), shape=1.0, rate=0.1),
    "GammaProductPrior": component(
        models.GammaProductPrior, with_prior("beta", [-8.0, -9.0], truncation=(0.1, 0.9)), shape=1.0, rate=0.1
    ),
    "LogLogisticPrior": component(
        models.LogLogisticPrior, with_prior("exponential", [0.4], truncation=(0, 1)), scale=1.0
    ),
    "MeanPrecisionPrior": component(
        models.MeanPrecisionPrior, with_prior("beta", [-8.0, -9.0], truncation=(0.1, 0.9)), precision=10.0
    ),
    "NormalCauchyPrior": component(
        models.NormalCauchyPrior,
        with_prior("normal", [0.4, 0.3], truncation=(0, 1)),
        mean=0.0, spread=1.0, deviation=1.0,
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
    "HistogramPredictors": component(models.HistogramPredictors, with_predictors, n_bins=3, concentration=2.0),
    "BinomialCount": component(models.BinomialCount, with_simulator, n_records=20, prior=None),
    "PoissonCount": component(models.PoissonCount, with_simulator, n_records=3, prior=None),
    "NormalMoments": component(models.NormalMoments, with_simulator, n_records=3, prior=None),
    "StochasticSIR": component(
        models.StochasticSIR, with_simulator, n_people=30, n_infected=2, n_weeks=2, transmission=None, recovery=None
    ),
    "resolve_family": accounting(models.resolve_family, value="normal"),
    # rules
    "AutoDraws": component(top.AutoDraws, with_rule, min_ess=4, max_seconds=0.5, max_draws=200),
}  # fmt: skip
