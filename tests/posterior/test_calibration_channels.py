"""Simulation-based calibration of the other channels and kernels: Haar, histograms, randomised response.

As in ``test_calibration``: truth is a random mixture from the prior, n records of it, and their release.
"""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from statistical import Disagreement, assert_ranks_uniform

from sklearn_dpmix._posterior.mixture import MixtureDraws
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import BetaKernel, CategoricalKernel
from sklearn_dpmix.mechanisms import (
    FiniteChannelMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
    PiecewiseMechanism,
    RandomizedResponseMechanism,
    SmoothedHistogramMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import Bins, Cells, Conditional, Neal5, Neal8, Slice, Sources

N_RECORDS = 15
N_REPLICATES = 800
N_DRAWS = 99
CONCENTRATION = 1.2

beta = SimpleNamespace(
    kernel=BetaKernel(2.0, 0.5, bounds=(0, 1)),
    points=np.array([[0.2], [0.7]]),
    draw_params=lambda rng, size: rng.gamma(2.0, 2.0, size=(size, 2)),
    draw_records=lambda rng, params: np.clip(rng.beta(*params.T), 1e-12, 1 - 1e-12),
    density=lambda x, params: stats.beta.pdf(x, *params.T),
    mean=lambda params: params[:, 0] / params.sum(axis=1),
)
categorical = SimpleNamespace(
    kernel=CategoricalKernel(n_categories=3, alpha=0.7),
    points=np.array([[0.0], [2.0]]),
    draw_params=lambda rng, size: rng.dirichlet(np.full(3, 0.7), size=size),
    draw_records=lambda rng, params: (rng.random((len(params), 1)) > np.cumsum(params, axis=1)).sum(axis=1) * 1.0,
    density=lambda x, params: params[:, int(x[0])],
    mean=lambda params: params @ np.arange(3),
)
HAAR = HaarWaveletMechanism(8.0, 2)
SMOOTHED = SmoothedHistogramMechanism(12.0, 4, 10, n_records=N_RECORDS)
COUNTS = PerturbedHistogramMechanism(1.5, 4, n_records=N_RECORDS, noise="discrete_laplace")
RESPONSE = RandomizedResponseMechanism(1.5, 3)
SQUARE = SquareWaveMechanism(4.0)
ANSWERS = FiniteChannelMechanism([[0.6, 0.3, 0.1, 0.0], [0.1, 0.5, 0.3, 0.1], [0.1, 0.1, 0.2, 0.6]])
BITS = UnaryEncodingMechanism(2.0, 3)
LAPLACE = LaplaceMechanism(4.0, bounds=(0, 1))
# (model, mechanism, sampler, sweeps a draw)
SETTINGS = {
    "haar, cells": (beta, HAAR, Cells(), 5),
    "haar, conditional": (beta, HAAR, Conditional(), 25),
    "haar, neal5": (beta, HAAR, Neal5(), 30),
    "smoothed histogram, bins": (beta, SMOOTHED, Bins(), 5),
    "smoothed histogram, sources": (beta, SMOOTHED, Sources(), 3),
    "smoothed histogram, conditional": (beta, SMOOTHED, Conditional(), 25),
    "smoothed histogram, neal5": (beta, SMOOTHED, Neal5(), 30),
    "smoothed histogram, slice": (beta, SMOOTHED, Slice(), 30),
    "counts, conditional": (beta, COUNTS, Conditional(), 25),
    "randomised response, neal8": (categorical, RESPONSE, Neal8(), 10),
    "randomised response, conditional": (categorical, RESPONSE, Conditional(), 25),
    "square wave, conditional": (beta, SQUARE, Conditional(), 25),
    "finite channel, neal8": (categorical, ANSWERS, Neal8(), 10),
    "bits, neal8": (categorical, BITS, Neal8(), 10),
    "laplace and beta, neal5": (beta, LAPLACE, Neal5(), 30),
}
NIGHTLY = {
    "haar, cells",
    "haar, conditional",
    "haar, neal5",
    "smoothed histogram, bins",
    "smoothed histogram, sources",
    "smoothed histogram, slice",
    "smoothed histogram, conditional",
    "smoothed histogram, neal5",
    "counts, conditional",
    "laplace and beta, neal5",
    "randomised response, neal8",
    "randomised response, conditional",
    "square wave, conditional",
    "finite channel, neal8",
    "bits, neal8",
}


@cache
def simulated(model_name):
    """Mixtures from the prior and their records: (number of clusters, f_P at points, mean of P, records)."""
    model, rng = {"beta": beta, "categorical": categorical}[model_name], np.random.default_rng(21)
    truths = []
    for _ in range(N_REPLICATES):
        sticks = rng.beta(1.0, CONCENTRATION, size=150)
        weights = sticks * np.cumprod(np.concatenate([[1.0], 1.0 - sticks[:-1]]))
        params = model.draw_params(rng, 150)
        cluster = rng.choice(150, N_RECORDS, p=weights / weights.sum())
        records = model.draw_records(rng, params[cluster])
        density = [weights @ model.density(x, params) for x in model.points]
        truths.append((len(np.unique(cluster)), density, weights @ model.mean(params), records[:, None]))
    return truths


def posterior(model, mechanism, sampler, thin, Z, rng):
    """Draws of one chain: (number of clusters, f_P at points, mean of P) as columns."""
    release = Release(Z, mechanism)
    values = (
        sampler._lower(n_records=N_RECORDS),
        mechanism._lower(n_records=N_RECORDS, n_features=1),
        model.kernel._lower(n_features=1),
        DirichletProcess(CONCENTRATION)._lower(),
    )
    table = np.ascontiguousarray(mechanism.encode(Z))
    table.flags.writeable = False
    state = sampler.init(values, table, release.guess(), model.kernel.sizes(1), rng)
    n_warmup = 15 * thin
    _, draws = sampler.advance(values, table, state, rng, n_warmup + N_DRAWS * thin, n_warmup, thin)
    mixture = MixtureDraws([draws])
    density, (mean, _) = mixture.density(values[2], model.points), mixture.moments(values[2], 1)
    return np.column_stack([draws.n_clusters, density[0], mean[0, :, 0]])


def check(setting, fitted_with=None):
    model, mechanism, sampler, thin = SETTINGS[setting]
    rng = np.random.default_rng(22)
    truth, draws = [], []
    for n_clusters, density, mean, records in simulated("beta" if model is beta else "categorical"):
        Z = mechanism.privatize(records, random_state=rng)
        Z = Z.reshape(-1, 1) if Z.ndim == 1 else Z
        truth.append([n_clusters, *density, mean])
        draws.append(posterior(model, fitted_with or mechanism, sampler, thin, Z, rng))
    truth, draws = np.array(truth, dtype=float), np.array(draws, dtype=float)
    for j, what in enumerate(["number of clusters", "density at one point", "density at another", "mean"]):
        assert_ranks_uniform(truth[:, j], draws[:, :, j], rng, what=f"{setting}: {what}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", [pytest.param(s, marks=pytest.mark.nightly) if s in NIGHTLY else s for s in SETTINGS]
)
def test_ranks_of_the_truth_are_uniform(setting):
    """Catches a channel that is not what the mechanism does, and a wrong posterior."""
    check(setting)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "fitted_with"),
    [
        pytest.param("haar, conditional", HaarWaveletMechanism(40.0, 2), marks=pytest.mark.nightly),
        pytest.param(
            "counts, conditional",
            PerturbedHistogramMechanism(**{**COUNTS.get_params(), "bounds": (0, 1.5)}),
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "randomised response, conditional", RandomizedResponseMechanism(6.0, 3), marks=pytest.mark.nightly
        ),
        pytest.param("square wave, conditional", PiecewiseMechanism(4.0, (0, 1)), marks=pytest.mark.nightly),
        pytest.param("bits, neal8", UnaryEncodingMechanism(6.0, 3), marks=pytest.mark.nightly),
    ],
)
def test_wrong_noise_is_rejected(setting, fitted_with):
    """The broken twins: inference with another ε than the release's, or other bins."""
    with pytest.raises(Disagreement):
        check(setting, fitted_with)
