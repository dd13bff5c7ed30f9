"""The walk over mixing measures under noise of a user's own, of which only the density is known.

Densities against closed forms and distribution functions, a table that does not see jumps, which densities are offered,
and agreement with a sampler that keeps records.  ``test_exact_channels`` has the enumeration.
"""

import numpy as np
import pytest
from own_noise import FALL, Cauchy, OwnGaussian, OwnLaplace, OwnNoise, Stairs, jumps
from scipy.stats import norm
from statistical import Disagreement, assert_means_agree
from test_interval_atoms import BETA, TRUNCATED, atom_of
from test_table_nodes import NORMAL, assert_slopes, filled, normal_atom

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._posterior.predictive import log_folding
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, compiled
from sklearn_dpmix.samplers import Auto, Interweaved, MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _noise_parts
from sklearn_dpmix.samplers.mixture.measure._noise_parts import jumps_of
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_of

PLACES = np.array([-40.0, -1.3, -0.02, 0.0, 0.31, 0.5, 0.98, 1.0, 1.4, 30.0])
PAIRS = [(OwnLaplace, LaplaceMechanism), (OwnGaussian, GaussianMechanism)]


def densities(kernel, mechanism, places, n_atoms=6):
    """(coordinates, g at releases, its slopes, g at other coordinates) of atoms at random."""
    channel = mechanism._lower(n_records=len(places), n_features=1)
    chart, rng = chart_of(kernel._lower(n_features=1), channel), np.random.default_rng(0)
    lookup = chart.lookup(mechanism, places[None])

    def g_at(coordinates):
        return filled(chart, channel, lookup, coordinates)

    for _ in range(n_atoms):
        coordinates = normal_atom(rng)[0] if kernel is NORMAL else atom_of(kernel, rng)[0]
        yield coordinates, *g_at(coordinates), g_at


def in_closed_form(mechanism, places, coordinates):
    """g and its slopes, by the formula that the mechanism has; as plain Python."""
    n, at = len(places), mechanism.folded(places)
    nodes, found = np.concatenate([at, mechanism.lookup(at[None]).ravel()]), np.zeros(3 * n)
    mechanism._lower(n_records=n, n_features=1).fill_normal(0, nodes, n, *coordinates, found, 0, n)
    return found.reshape(3, n) * np.exp(log_folding(mechanism, places[:, None]))


@pytest.mark.parametrize("scale", [0.03, 0.4, 6.0])
@pytest.mark.parametrize(("own", "known"), PAIRS)
def test_densities_are_those_in_closed_form(own, known, scale):
    """Of normal records that are moved to the bounds, and their slopes; relative errors far beyond them, too."""
    mechanism, is_far = known(scale=scale, bounds=(0, 1)), (PLACES < -0.1) | (PLACES > 1.1)
    for coordinates, *found, _ in densities(NORMAL, own(scale, bounds=(0, 1)), PLACES):
        g, *slopes = in_closed_form(mechanism, PLACES, coordinates)
        np.testing.assert_allclose(found[0], g, rtol=1e-7, atol=1e-12 * g.max())
        is_seen = is_far & (g > 1e-200)
        np.testing.assert_allclose(found[0][is_seen], g[is_seen], rtol=1e-7)
        for slope, expected in zip(found[1:], slopes, strict=True):
            np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=1e-10 * g.max())


@pytest.mark.parametrize("kernel", [BETA, TRUNCATED], ids=["beta", "truncated"])
@pytest.mark.parametrize(("own", "known"), PAIRS)
def test_tables_are_those_of_pieces(own, known, kernel):
    for scale in (0.03, 0.4, 6.0):
        mechanisms = [kind(scale=scale, bounds=(0.1, 0.9)) for kind in (own, known)]
        found, expected = (
            chart_of(kernel._lower(n_features=1), mechanism._lower(n_records=4, n_features=1)).lookup(
                mechanism, np.array([[-0.5, 0.2, 0.9, 1.5]])
            )
            for mechanism in mechanisms
        )
        if len(found) == len(expected):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * expected.max())


def stairs_density(scale, places, mean, sd):
    """g of stairs on clamped normal records: what falls between jumps, by distribution functions."""
    ends = jumps(scale, np.abs(places).max() + 2.0)
    middles = 0.5 * (ends[1:] + ends[:-1])
    height = np.exp([Stairs().log_noise(e, scale) for e in middles])
    found = np.zeros(len(places))
    for low, high, h in zip(ends[:-1], ends[1:], height, strict=True):
        below, above = np.clip(places - high, 0.0, 1.0), np.clip(places - low, 0.0, 1.0)
        below = np.where(places - high < 0.0, -np.inf, np.where(places - high >= 1.0, np.inf, below))
        above = np.where(places - low < 0.0, -np.inf, np.where(places - low >= 1.0, np.inf, above))
        found += h * (norm.cdf(above, mean, sd) - norm.cdf(below, mean, sd))
    return found


def check_stairs(scale, places=(-2.03, -0.517, 0.111, 0.52, 0.93, 1.7)):
    places = np.array(places)
    for (mean, log_variance), g, *slopes, g_at in densities(NORMAL, Stairs(scale, bounds=(0, 1)), places):
        expected = stairs_density(scale, places, mean, np.exp(0.5 * log_variance))
        np.testing.assert_allclose(g, expected, rtol=1e-7, atol=1e-12 * g.max())
        assert_slopes(g_at, np.array([mean, log_variance]), g, slopes)


def test_jumps_are_found(monkeypatch):
    """Wherever they are; if breaks are where the scale alone puts them, densities are wrong."""
    for scale in (0.05, 0.4, 3.0):
        check_stairs(scale)
        found = jumps_of(Stairs(scale, bounds=(0, 1))._lower(n_records=1, n_features=1), 1.0)
        expected = [e for e in jumps(scale, 8.0) if abs(e) < 8.0] if scale > 0.1 else []
        np.testing.assert_allclose(found, np.union1d(0.0, expected), atol=1e-9)
    for places in ([0.4, 0.5, 0.6], [0.5]):  # jumps farther from these than they are from one another
        check_stairs(0.05, places)
    monkeypatch.setattr(_noise_parts, "ROUGH", np.inf)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_stairs(0.4)


class OtherChannel(OwnNoise):
    """Its density is not that of the noise alone."""

    log_noise, draw_noise = Cauchy.log_noise, Cauchy.draw_noise

    @compiled
    def log_channel(self, Z, i, j, y):
        return self.log_noise(Z[i, j] - 0.5 * y, self.noise[0])


class AsLaplace(LaplaceMechanism):
    """What its base class says of releases need not be true of this noise."""

    log_noise = Cauchy.log_noise


CHOICES = [
    (Cauchy(0.5, bounds=(0, 1)), 1, MixingMeasure),
    (Cauchy(0.5, bounds=(0, 1), clamp=False), 1, Interweaved),
    (Cauchy(0.5), 1, Interweaved),
    (Cauchy(np.array([0.5, 0.7]), bounds=(0, 1)), 1, Interweaved),
    (Cauchy(0.5, bounds=[(0, 1)] * 2), 2, Interweaved),
    (OtherChannel(0.5, bounds=(0, 1)), 1, Interweaved),
    (AsLaplace(scale=0.5, bounds=(0, 1)), 1, Interweaved),
]


@pytest.mark.parametrize(("mechanism", "n_features", "expected"), CHOICES, ids=repr)
def test_what_auto_takes(mechanism, n_features, expected):
    assert type(Auto().resolve(mechanism, NORMAL).sized(1000, n_features)) is expected


def test_a_summary_is_as_good():
    """Of noise without a variance, too: moments are quantiles of nodes."""
    mechanism, rng = Cauchy(4.0, bounds=(0, 100)), np.random.default_rng(0)
    Z = mechanism.privatize(rng.choice([30.0, 60.0], (2000, 1)) + rng.normal(0, 5, (2000, 1)), random_state=1)
    summary = ReleaseSummary(mechanism).update(Z[:900]).merge(ReleaseSummary(mechanism).update(Z[900:]))
    parameters = {"n_chains": 2, "n_warmup": 100, "n_draws": 300, "random_state": 0}
    one, other = (PrivateDPMixture(mechanism, **parameters).fit(data) for data in (summary, Z))
    assert_means_agree(one.moment_draws().mean, other.moment_draws().mean, min_ess=200)
    assert one.kernel_.mean == pytest.approx(other.kernel_.mean, rel=1e-3)
    assert max(one.compression_error_, other.compression_error_) < 1e-4
    with pytest.raises(TypeError, match="pickle"):
        summary.save("summary.npz")


class Shaped(Cauchy):
    """With a parameter of its own, and its one scale in an array."""

    def __init__(self, shape=1.0, *, bounds=None):
        self.shape = shape
        self.bounds = bounds

    def noise_scale_for(self, n_features):
        return np.array([0.5])

    def _fields(self, n_records, n_features):
        return super()._fields(n_records, n_features) | {"shape": float(self.shape)}


class Endless(OwnNoise):
    """No density at one place."""

    @compiled
    def log_noise(self, e, scale):
        return np.inf if e == 0.0 else -abs(e) / scale

    draw_noise = Cauchy.draw_noise


def test_a_density_must_be_finite():
    with pytest.raises(ValueError, match=r"Endless.log_noise\(e, scale\) must be .* the density is inf at e=0: return"):
        PrivateDPMixture(Endless(bounds=(0, 1))).fit([[0.3], [1.0]])


def test_summaries_of_other_noise_are_told_apart():
    one, same, other = (ReleaseSummary(Shaped(shape)).update([[0.2]]) for shape in (1.0, 1.0, 2.0))
    assert one.merge(same).n_records == 2
    with pytest.raises(ValueError, match="noise, bounds and clamp must be the same"):
        one.merge(other)


def test_bounds_may_be_those_of_the_kernel_alone():
    rng = np.random.default_rng(0)
    Z, other = rng.beta(2, 5, (60, 1)) + rng.laplace(0.0, 0.2, (60, 1)), rng.beta(5, 2, (60, 1))
    parameters = {"kernel": BETA, "n_chains": 2, "n_warmup": 100, "n_draws": 300, "random_state": 0}

    def means(mechanism, Z):
        return PrivateDPMixture(mechanism, **parameters).fit(Z).moment_draws().mean

    found = means(OwnLaplace(0.2), Z)
    assert_means_agree(found, means(LaplaceMechanism(scale=0.2), Z), min_ess=100)
    with pytest.raises(Disagreement):
        assert_means_agree(found, means(OwnLaplace(0.2), other), min_ess=100)


@pytest.mark.slow
def test_agrees_with_imputed_records():
    mechanism, rng = Stairs(0.3, bounds=(0, 1)), np.random.default_rng(1)
    X = np.where(rng.random(200) < 0.6, rng.normal(0.2, 0.1, 200), rng.normal(0.8, 0.2, 200))[:, None]
    Z, x = mechanism.privatize(X, random_state=2), np.array([[0.1], [0.5], [0.8], [1.1]])

    def draws(sampler, of=mechanism, **parameters):
        model = PrivateDPMixture(of, kernel=NORMAL, sampler=sampler, n_warmup=300, random_state=0, **parameters)
        return np.log(model.fit(Z).density_draws(x))

    found = draws("auto", n_draws=1000)
    assert_means_agree(found, draws("interweaved", n_draws=2000, thin=10))
    with pytest.raises(Disagreement):
        assert_means_agree(draws("auto", Stairs(0.3 * (1 + 0.2 / FALL), bounds=(0, 1)), n_draws=1000), found)
