"""Estimators: fitted on a dozen records or their release."""

import numpy as np

import sklearn_dpmix as top
from sklearn_dpmix import mechanisms, models

from .parts import (
    CHAINS,
    PRIVATE,
    Subject,
    UserModel,
    abc,
    budget,
    column,
    family,
    flat,
    gaussian_mean,
    labelled,
    laplace,
    mixture,
    moments,
    naive_bayes,
    noisy_sum,
    penalty,
    regression,
    rows,
    tables,
    with_points,
)

ESTIMATORS: dict[str, Subject] = {
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
    "PrivateDPMixtureRegressor": Subject(
        top.PrivateDPMixtureRegressor,
        lambda: {
            "mechanism": laplace(), "kernel": "multivariate_normal", "mixing": None, "sampler": "auto",
            "linear": False, "noised_inputs": True,
        } | CHAINS,
        {
            "predict": lambda: {"X": column(3), "return_std": False},
            "curve_draws": lambda: {"X": column(3)},
            "curve_interval": lambda: {"X": column(3), "level": 0.9},
            "predict_quantiles": lambda: {"X": column(3), "q": [0.1, 0.5]},
            "score_samples": lambda: {"X": column(3), "y": flat()[:3]},
            "score": lambda: {"X": column(3), "y": flat()[:3]},
        },
        data=lambda: {"Z": column(), "y": flat()},
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
            "predict_quantiles": lambda: {"X": rows(3)[:, :2], "q": 0.9},
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
        } | {name: PRIVATE[name] for name in PRIVATE if name != "clipped_fraction_share"} | {"temperature": 0.1},
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
