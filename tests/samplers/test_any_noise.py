"""Noise of any kind behind one type: each kind keeps its own densities, and moves are compiled once for all."""

import gc

import numpy as np
import pytest
from scipy.stats import norm
from scripts import COMPILES, run, write

from sklearn_dpmix._base.compiled import compiled, entry
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PiecewiseMechanism,
    SquareWaveMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers.mixture.measure._any_noise import any_noise, with_densities
from sklearn_dpmix.samplers.mixture.measure._compressed import Compressed
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import PER_FEATURE
from sklearn_dpmix.samplers.mixture.measure._walk_state import new_state
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_of, masses_of


class Straight(LaplaceMechanism):
    """Noise with other densities."""

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        low, high, noise = self.low[j], self.high[j], self.noise[0]
        for m in range(n):
            out[first + m] = 2.0 * (nodes[3 * j * n + m] - mean) / (noise + high - low)
            out[second + m] = out[second + n + m] = 0.0


MECHANISMS = {
    "laplace": LaplaceMechanism(scale=0.7, bounds=(0, 9)),
    "another scale": LaplaceMechanism(scale=0.2, bounds=(0, 9)),
    "not clamped": LaplaceMechanism(scale=0.7),
    "own scales": LaplaceMechanism(scale=np.array([0.2, 0.9, 1.4])),
    "gaussian": GaussianMechanism(scale=0.7, bounds=(0, 9)),
    "discrete": DiscreteLaplaceMechanism(scale=0.7, bounds=(0, 9)),
    "square wave": SquareWaveMechanism(2.0, bounds=(0, 9)),
    "piecewise": PiecewiseMechanism(2.0, bounds=(0, 9)),
    "hybrid": HybridMechanism(2.0, bounds=(0, 9)),
    "straight": Straight(scale=0.7, bounds=(0, 9)),
}
PLACES, ATOM = np.array([1.0, 4.0, 8.0]), (3.3, 0.4)


@entry
def fill_atom(channel, chart, walk):
    chart.fill(channel, walk, 0)


def parts(mechanism):
    """(chart, channel, walk) of one atom and three releases."""
    chart = chart_of(NormalKernel(4.0, 0.1, 3.0, 4.0)._lower(n_features=1))
    nodes, law = np.vstack([PLACES, np.ones(3)]), np.zeros(PER_FEATURE + 3)
    scales = () if mechanism.has_one_law else (mechanism.scale,)
    masses = masses_of(DirichletProcess()._lower())
    seen = Compressed(chart, masses, nodes, chart.lookup(mechanism, nodes[:-1], *scales), nodes[:-1], law, True)
    state = new_state(2, 2)
    state.mass[0], state.place[0] = 1.0, ATOM
    walk = seen.walk(state)
    return chart, with_densities(mechanism._lower(n_records=3, n_features=1)), walk


@COMPILES
def test_each_noise_keeps_its_own_densities():
    """All are called from the same compiled code; catches an address, or numbers, of another channel."""
    walks = {name: parts(mechanism) for name, mechanism in MECHANISMS.items()}
    for chart, channel, walk in [*walks.values(), *reversed(walks.values())]:
        expected = np.zeros(9)
        channel.fill_normal(0, walk.nodes, 3, *ATOM, expected, 0, 3)  # as plain Python
        walk.tables[:9] = np.nan
        fill_atom(chart.seen_of(channel), chart.value(), walk)
        np.testing.assert_allclose(walk.tables[:9], expected, rtol=1e-12, atol=1e-300)
    assert len(fill_atom.overloads) == 1


@COMPILES
@pytest.mark.parametrize("scale", [1e-12, 1e-31, 1e-200])
def test_next_to_no_noise_is_as_none(scale):
    """Catches ratios of polynomials beyond where they hold: densities were multiples of the kernel's."""
    chart, channel, walk = parts(LaplaceMechanism(scale=scale, bounds=(0, 9)))
    fill_atom(chart.seen_of(channel), chart.value(), walk)
    np.testing.assert_allclose(walk.tables[:3], norm.pdf(PLACES, ATOM[0], np.exp(0.5 * ATOM[1])), rtol=1e-9)


@COMPILES
def test_a_channel_stays_while_moves_know_its_place():
    """Catches numbers that are read after they are gone."""
    chart, channel, walk = parts(MECHANISMS["laplace"])
    fill_atom(chart.seen_of(channel), chart.value(), walk)
    expected, noise = walk.tables[:9].copy(), any_noise(channel)
    del channel
    gc.collect()
    others = [np.full(n, 1e9) for n in range(1, 200)]
    fill_atom(noise, chart.value(), walk)
    np.testing.assert_array_equal(walk.tables[:9], expected)
    assert len(others) == 199


FITS = """
    import json
    import sys
    import numpy as np
    from sklearn_dpmix import PrivateDPMixture
    from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, SquareWaveMechanism
    from sklearn_dpmix.samplers.mixture.measure._any_noise import fill_normal
    from sklearn_dpmix.samplers.mixture.measure._walk import run

    mechanisms = [
        LaplaceMechanism(scale=2.0, bounds=(0, 9)),
        GaussianMechanism(scale=2.0, bounds=(0, 9)),
        LaplaceMechanism(scale=np.linspace(1.0, 3.0, 30), bounds=(0, 9)),
        SquareWaveMechanism(2.0, bounds=(0, 9)),
    ]
    X, means = np.random.default_rng(0).uniform(2, 7, (30, 1)), []
    for mechanism in mechanisms:
        Z = mechanism.privatize(X, random_state=1)
        model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=5, n_draws=20, random_state=2).fit(Z)
        means.append(model.moment_draws().mean.sum())
    hits, misses = ([sum(counts.values()) for counts in (getattr(f.stats, name) for f in (run, fill_normal))]
                    for name in ("cache_hits", "cache_misses"))
    print(json.dumps([means, hits, misses]))
"""


@COMPILES
@pytest.mark.slow
def test_moves_are_compiled_once_and_kept(tmp_path):
    """For all noise of one feature; another process compiles nothing, and draws the same."""
    script, where_others_are = write(tmp_path, fits=FITS), ""
    means, hits, misses = run(script, cache=where_others_are)
    assert np.add(hits, misses).tolist() == [1, 4]
    assert run(script, cache=where_others_are) == [means, [1, 4], [0, 0]]
