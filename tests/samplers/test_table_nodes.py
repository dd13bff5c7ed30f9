"""The walk over mixing measures where releases are tables of bins (Haar coefficients) or counts (binomial ones).

Densities and their slopes against distribution functions and quadrature, agreement with the sampler that keeps
memberships, and broken twins.  ``test_exact_channels`` has the enumeration.
"""

import numpy as np
import pytest
from exact_channel_cases import FAMILIES, exact, fit
from scipy.stats import beta, norm
from statistical import Disagreement, assert_mean_close, assert_means_agree
from test_interval_atoms import BETA, TRUNCATED, atom_of, fill_atom

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.table import padded
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import BinomialMechanism, HaarWaveletMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _node_layout, _which_chart
from sklearn_dpmix.samplers.mixture.measure._beta_atoms import BetaInBins
from sklearn_dpmix.samplers.mixture.measure._compressed import Compressed
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_RECORDS, PER_FEATURE
from sklearn_dpmix.samplers.mixture.measure._walk_state import new_state
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_of, masses_of

NORMAL = NormalKernel(0.4, 0.3, 2.5, 0.1)


def filled(chart, channel, lookup, coordinates):
    """g at releases that this is looked up for, and its two derivatives."""
    n = lookup.shape[1]
    nodes, law = np.ones((2, n)), np.zeros(PER_FEATURE + 3)
    law[N_RECORDS] = n
    masses = masses_of(DirichletProcess()._lower())
    seen = Compressed(chart, masses, nodes, lookup, nodes[:-1], law, True)
    state = new_state(2, 2)
    state.mass[0], state.place[0] = 1.0, coordinates
    walk = seen.walk(state)
    fill_atom(chart.value(), chart.seen_of(channel), walk)
    return walk.tables[: 3 * walk.n_nodes].reshape(3, -1)[:, :n].copy()


def assert_slopes(g_at, coordinates, g, slopes, step=1e-5):
    for e, slope in enumerate(slopes):
        up, down = coordinates.copy(), coordinates.copy()
        up[e] += step
        down[e] -= step
        np.testing.assert_allclose(slope / g, 0.5 * (g_at(up)[0] - g_at(down)[0]) / (step * g), atol=1e-5)


def normal_atom(rng):
    mean, log_variance = 0.7 + rng.standard_normal(), -3.0 + rng.standard_normal()
    return np.array([mean, log_variance]), lambda y: norm.pdf(y, mean, np.exp(0.5 * log_variance)), mean


def bin_masses(kernel, coordinates, n_bins):
    """Masses of equal bins of [0, 1]; records of a normal kernel beyond a bound are in the bin next to it."""
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    if kernel is BETA:
        return np.diff(beta.cdf(edges, *np.exp(coordinates)))
    mean, sd = coordinates[0], np.exp(0.5 * coordinates[1])
    if kernel is NORMAL:
        edges[0], edges[-1] = -np.inf, np.inf
    upper = mean > 0.5  # the smaller tail does not cancel
    masses = np.diff(norm.cdf(edges, mean, sd)) if upper else -np.diff(norm.sf(edges, mean, sd))
    return masses / masses.sum()


@pytest.mark.parametrize("resolution", [0, 2, 4])
@pytest.mark.parametrize("kernel", [BETA, TRUNCATED, NORMAL], ids=["beta", "truncated", "normal"])
def test_densities_in_bins(kernel, resolution):
    """Against distribution functions; the derivatives against differences."""
    rng, mechanism = np.random.default_rng(0), HaarWaveletMechanism(9.0, resolution)
    Z = mechanism.encode(mechanism.privatize(rng.random((7, 1)), random_state=rng))
    channel, table = mechanism._lower(), Z[:, :-1]
    chart = chart_of(kernel._lower(n_features=1), channel)
    for _ in range(12):
        coordinates = normal_atom(rng)[0] if kernel is NORMAL else atom_of(kernel, rng)[0]

        def g_at(coordinates):
            return filled(chart, channel, padded(table.T), coordinates)

        g, *slopes = g_at(coordinates)
        np.testing.assert_allclose(g, table @ bin_masses(kernel, coordinates, mechanism.n_bins), rtol=2e-8)
        assert_slopes(g_at, coordinates, g, slopes)


@pytest.mark.parametrize("n_trials", [1, 6, 40])
@pytest.mark.parametrize("kernel", [BETA, TRUNCATED, NORMAL], ids=["beta", "truncated", "normal"])
def test_densities_of_counts(kernel, n_trials):
    """Against quadrature over the record; the probabilities of all counts add up to 1."""
    rng, mechanism = np.random.default_rng(0), BinomialMechanism(12.0, n_trials)
    z, lowered = np.arange(n_trials + 1.0), kernel._lower(n_features=1)
    channel = mechanism._lower(n_records=len(z), n_features=1, kernel=kernel)
    chart = chart_of(lowered, channel)
    lookup = chart.lookup(mechanism, z[None])
    t, w = np.polynomial.legendre.leggauss(30)
    ends = np.concatenate([10.0 ** np.arange(-12.0, 0.0), np.linspace(0.15, 0.5, 8)])
    edges = np.concatenate([[0.0], ends, 1.0 - ends[-2::-1], [1.0]])
    y = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * t).ravel()
    weights = (0.5 * np.diff(edges)[:, None] * w).ravel()
    for _ in range(12):
        coordinates, density, _ = atom_of(kernel, rng) if kernel is not NORMAL else normal_atom(rng)

        def g_at(coordinates):
            return filled(chart, channel, lookup, coordinates)

        g, *slopes = g_at(coordinates)
        q = np.exp([mechanism.log_density(np.full((len(y), 1), k), y[:, None]) for k in z])
        expected = q @ (weights * density(y))
        if kernel is NORMAL:
            ends = norm.cdf([-coordinates[0], coordinates[0] - 1.0], scale=np.exp(0.5 * coordinates[1]))
            expected += np.exp([mechanism.log_density(np.full((2, 1), k), [[0.0], [1.0]]) for k in z]) @ ends
        if abs(expected.sum() - 1.0) < 1e-9:  # not too narrow for this quadrature
            np.testing.assert_allclose(g, expected, rtol=3e-7)
        assert g.sum() == pytest.approx(1.0, abs=1e-7)
        assert_slopes(g_at, coordinates, g, slopes)


class BinsFromTheLast(BetaInBins):
    """What is in the first bin is taken for what is in the last."""

    def fields(self):
        fields = super().fields()
        return fields | {"bins": self.channel.last_cell - fields["bins"]}


class CountsOfFailures(BinomialMechanism):
    """The coin's sides are mixed up."""

    noised_kernels = frozenset({"beta"})

    def log_density(self, Z, X):
        return super().log_density(self.n_trials - Z, X)


def compared(family, **changes):
    """Densities of the first case of a family, with other parts, against its exact posterior."""
    name, case = next(iter(FAMILIES[family].items()))
    _, densities = fit(case._replace(**changes), "mixing_measure", 0)
    assert_mean_close(densities, exact(family, name).predictive, what=family)


@pytest.mark.slow
def test_counts_are_nodes(monkeypatch):
    """How often each was released is its weight; a coin whose sides are mixed up is rejected."""
    monkeypatch.setattr(_node_layout, "FEW", 0)
    compared("binomial-beta")
    mechanism = next(iter(FAMILIES["binomial-beta"].values())).mechanism
    with pytest.raises(Disagreement):
        compared("binomial-beta", mechanism=CountsOfFailures(**mechanism.get_params()))


@pytest.mark.slow
def test_other_bins_are_rejected(monkeypatch):
    monkeypatch.setitem(_which_chart.CHARTS_OF_TABLES, ("bins", "beta"), BinsFromTheLast)
    with pytest.raises(Disagreement):
        compared("haar-beta")


# --- more records ----------------------------------------------------------------------------------------------------


def draws(mechanism, Z, sampler, **parameters):
    model = PrivateDPMixture(mechanism, kernel="beta", sampler=sampler, n_warmup=300, random_state=0, **parameters)
    values = model.fit(Z).density_draws(np.array([[0.1], [0.3], [0.5], [0.85]]))
    return model, np.concatenate([values, np.log(values)], axis=-1)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mechanism", "n"), [(HaarWaveletMechanism(6.0, 1), 300), (BinomialMechanism(8.0, 4), 400)], ids=repr
)
def test_samplers_agree(mechanism, n):
    rng = np.random.default_rng(1)
    X = np.where(rng.random(n) < 0.7, rng.beta(4, 12, n), rng.beta(20, 4, n))[:, None]
    Z = mechanism.privatize(X, random_state=2)
    model, found = draws(mechanism, Z, "auto", n_draws=1500)
    assert isinstance(model.sampler_, MixingMeasure) and model.compression_error_ < 1e-4
    assert_means_agree(found, draws(mechanism, Z, "cells", n_draws=6000, thin=8)[1])


@pytest.mark.slow
def test_many_records():
    """Tables of 3000 records, with excursions over few; a million counts.  The posterior is where the population is."""
    x = np.linspace(0.05, 0.95, 7)[:, None]
    for mechanism, n in ((HaarWaveletMechanism(20.0, 2), 3000), (BinomialMechanism(9.0, 4), 1_000_000)):
        X = np.random.default_rng(1).beta(4, 8, n)[:, None]
        Z = mechanism.privatize(X, random_state=2)
        model = PrivateDPMixture(mechanism, kernel="beta", n_chains=2, n_draws=400, random_state=0).fit(Z)
        draws = model.density_draws(x)
        z = (draws.mean(axis=(0, 1)) - beta.pdf(x[:, 0], 4, 8)) / draws.std(axis=(0, 1))
        assert np.max(np.abs(z)) < 5.0 and draws.std() > 0.0
        assert np.abs(model.moment_draws().mean - X.mean()).max() < 0.02
        assert model.labels_.shape == (n,) and np.isfinite(model.score_release(Z[:50]))
