"""The walk over mixing measures on records without noise, or with little: only the prior keeps components from being
narrow.

Broken twins: records seen through noise, cells that are not halved, a base measure wider than it says.
"""

from functools import cache

import numpy as np
import pytest
import test_exact
from scipy.stats import norm
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix._releases import nodes as nodes_module
from sklearn_dpmix._releases.nodes import Nodes, halved
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.estimators.mixture import _mixture_problem
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, NoNoise
from sklearn_dpmix.mechanisms._noised_normal import fill_normal_gaussian
from sklearn_dpmix.samplers import Auto, MixingMeasure, ReUse
from sklearn_dpmix.samplers.mixture.measure._node_layout import cells_of_line, nodes_of_line
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import NormalChart
from sklearn_dpmix.samplers.mixture.measure._starts import repeated

# --- few records ------------------------------------------------------------------------------------------------------


@pytest.fixture
def sampler(monkeypatch):
    monkeypatch.setitem(test_exact.SAMPLERS, "mixing measure", (MixingMeasure(), 1))
    return "mixing measure"


CASES = [("none", 1, "five"), ("none", 1, "random concentration"), ("none", 2, "three")]
MORE = [("finite without noise", 1, "five"), ("pitman-yor without noise", 1, "five")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "d", "name"), [*CASES, *(pytest.param(*case, marks=pytest.mark.nightly) for case in MORE)]
)
def test_posterior_is_exact(channel, d, name, sampler):
    test_exact.check(sampler, channel, d, name)


class SeenThroughNoise(NoNoise):
    """Densities of records with a little noise."""

    noised_kernels = NoNoise.noised_kernels

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        fill_normal_gaussian(nodes, 3 * j * n, n, -np.inf, np.inf, 0.5, mean, log_variance, out, first, second)


@pytest.mark.slow
def test_records_seen_through_noise_are_rejected(sampler, monkeypatch):
    monkeypatch.setattr(_mixture_problem, "NoNoise", SeenThroughNoise)
    with pytest.raises(Disagreement):
        test_exact.check(sampler, "none", 1, "five")


# --- nodes ------------------------------------------------------------------------------------------------------------

N_RECORDS = 100_000
PRIOR = {"mean": 50.0, "mean_precision": 0.1, "shape": 3.0, "scale": 60.0}


def population(name, n=N_RECORDS):
    rng = np.random.default_rng(1)
    draw = {
        "heavy tail": lambda: 50.0 + 5.0 * rng.standard_t(2, n),
        "uniform": lambda: rng.uniform(0.0, 100.0, n),
        "years": lambda: np.floor(rng.normal(40.0, 15.0, n)),
        "two ages": lambda: np.where(rng.random(n) < 0.5, rng.normal(30.0, 5.0, n), rng.normal(60.0, 8.0, n)),
    }
    return np.sort(draw[name]())


def nodes_of(x, mechanism=None):
    chart, release = NormalChart(NormalKernel(**PRIOR)._lower(n_features=1), 1), Release(x[:, None], mechanism)
    width = release.channel.node_spacing(chart.narrowest()[0])
    return nodes_of_line(release, cells_of_line(release, chart, width)), chart


def log_likelihood(nodes, w, mean, sd):
    return nodes.weights @ np.log(sum(w[k] * norm.pdf(nodes.places, mean[k], sd[k]) for k in range(len(w))))


def excess(x, nodes, chart, mean, weight):
    """By how much nodes make too much of a component of ``weight`` records that is as narrow as the prior allows."""
    share, sd = weight / len(x), float(chart.narrowest_of(weight))
    mixture = np.array([1.0 - share, share]), (np.mean(x), mean), (4.0 * np.std(x), sd)
    return log_likelihood(nodes, *mixture) - log_likelihood(Nodes(x, np.ones(len(x))), *mixture)


@pytest.mark.parametrize("name", ["heavy tail", "uniform", "years", "two ages"])
def test_nodes_stand_for_records(name):
    """Log likelihoods of populations that a chain may visit, with components as wide as the prior mostly has them."""
    x, rng = population(name), np.random.default_rng(2)
    nodes, _ = nodes_of(x)
    assert len(nodes.places) < 1500
    np.testing.assert_allclose(nodes.weights.sum(), len(x), rtol=1e-12)
    for _ in range(5):
        mean, sd = rng.choice(x, 8), np.sqrt(PRIOR["scale"] / np.append(rng.standard_gamma(3.0, 7), 16.0))
        mixture = np.append(0.8 * rng.dirichlet(np.ones(8)), 0.2), np.append(mean, 50.0), np.append(sd, 200.0)
        exact = log_likelihood(Nodes(x, np.ones(len(x))), *mixture)
        assert abs(log_likelihood(nodes, *mixture) - exact) < 1e-3


@pytest.mark.parametrize("mechanism", [None, GaussianMechanism(scale=0.01), LaplaceMechanism(scale=0.01)], ids=repr)
@pytest.mark.parametrize("name", ["heavy tail", "uniform", "two ages"])
def test_no_narrow_component_is_made_too_much_of(name, mechanism):
    """A chain finds components that seem far better than they are: it stays there, and looks converged."""
    x = population(name)
    nodes, chart = nodes_of(x, mechanism)
    for k in np.argsort(-nodes.weights)[:20]:
        assert excess(x, nodes, chart, nodes.places[k], nodes.weights[k]) < 0.01 * nodes.weights[k]


@pytest.mark.parametrize("mechanism", [None, GaussianMechanism(scale=0.01), LaplaceMechanism(scale=0.01)], ids=repr)
def test_cells_that_are_not_halved_are_rejected(mechanism, monkeypatch):
    monkeypatch.setattr(nodes_module, "NODE_SHARE", 0.0)
    x = population("heavy tail")
    nodes, chart = nodes_of(x, mechanism)
    k = np.argmax(nodes.weights)
    assert excess(x, nodes, chart, nodes.places[k], nodes.weights[k]) > 0.1 * nodes.weights[k] > 100.0


def test_repeated_records_are_nodes():
    """Whatever the width: also where the first of them begins a cell."""
    x = np.repeat([10.0, 20.0, 50.0, 70.0, 90.0], 2000)
    nodes, _ = nodes_of(x)
    np.testing.assert_allclose(nodes.places, np.unique(x), rtol=1e-12)
    np.testing.assert_allclose(nodes.weights, 2000.0, rtol=1e-9)


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.5, 3.0])
def test_records_beside_many_at_one_place_are_told_apart(factor):
    """A component as narrow as 50,000 records at 50 let it be: nodes beside them were 28 nats off, and chains stuck."""
    x = np.where(np.arange(N_RECORDS) % 2, 50.0, np.random.default_rng(1).normal(40.0, 10.0, N_RECORDS))
    nodes, chart = nodes_of(np.sort(x))
    mixture = [0.5, 0.5], [50.0, 40.0], [factor * float(chart.narrowest_of(N_RECORDS / 2)), 10.0]
    exact = log_likelihood(Nodes(x, np.ones(N_RECORDS)), *mixture)
    assert len(nodes.places) < 500 and abs(log_likelihood(nodes, *mixture) - exact) < 0.3 / factor**6


# --- many records -----------------------------------------------------------------------------------------------------

POINTS = np.array([[25.0], [32.0], [45.0], [60.0], [75.0]])


@cache
def summaries(sampler, thin, scale=60.0):
    x = population("two ages", 400)[:, None]
    model = PrivateDPMixture(
        kernel=NormalKernel(**{**PRIOR, "scale": scale}), sampler=sampler, n_draws=4000, thin=thin, random_state=3
    ).fit(x)
    k = model.n_clusters_draws_[..., None]
    return np.concatenate([k, k**2, k <= 4, np.log(model.density_draws(POINTS))], axis=-1)


@pytest.mark.slow
def test_agrees_with_reuse():
    """On nodes: 400 records are more than are kept as they are."""
    reference = summaries("reuse", 20)
    assert_means_agree(summaries("mixing_measure", 1), reference)
    with pytest.raises(Disagreement):
        assert_means_agree(summaries("mixing_measure", 1, 78.0), reference)


@pytest.mark.slow
@pytest.mark.parametrize("n", [10_000, 100_000])
def test_default_fits_of_repeated_records_mix(n):
    """Scores of records at one place do not say how sharply its mean is known: steps were far too long.

    And those towards as narrow a component as so many records ask for are too short.
    """
    x = np.random.default_rng(1).choice([10.0, 20.0, 50.0, 70.0, 90.0], (n, 1))
    model = PrivateDPMixture(random_state=0).fit(x)
    assert max(model.r_hat_.values()) < 1.01 and min(model.ess_.values()) > 400
    assert model.compression_error_ < 1e-6


def ages(n):
    return np.random.default_rng(7).normal(45.0, 15.0, n)


def test_default_fits_of_heaped_records_mix():
    """Chains began with a component at each value that 3 % of all share; at many more they had to find one."""
    x = ages(100_000)
    x = np.where(np.random.default_rng(8).random(len(x)) < 0.5, 5.0 * np.round(x / 5.0), np.round(x))
    model = PrivateDPMixture(random_state=0).fit(x[:, None])
    assert max(model.r_hat_.values()) < 1.02 and min(model.ess_.values()) > 200


def test_rounded_records_get_components_of_their_own():
    """No value had 3 % of all: chains agreed on 13 wide components, with a log likelihood that was 0.46 n less."""
    x = np.round(ages(100_000))[:, None]
    places, counts = np.unique(x, return_counts=True)
    log_density = np.log(PrivateDPMixture(random_state=0, n_draws=200).fit(x).density_draws(places[:, None]))
    assert (log_density.mean(axis=1) @ counts).min() > -3.75 * len(x)


def test_chains_may_begin_with_more_components_than_they_have_room_for():
    x = np.repeat(np.arange(100.0), 10_000)[:, None]
    model = PrivateDPMixture(n_chains=1, n_warmup=1, n_draws=1, random_state=0).fit(x)
    assert model.n_clusters_draws_.min() > 75


@pytest.mark.parametrize(
    ("spikes", "spread"), [([], 1.0), ([37.0], 1.0), ([0.0, 100.0], 1.0), (range(30, 61, 5), 0.5)], ids=str
)
def test_repeated_records_are_told_from_many(spikes, spread):
    """Of records spread evenly none are, however many nodes stand for them."""
    rng, chart = np.random.default_rng(1), NormalChart(NormalKernel(**PRIOR)._lower(n_features=1), 1)
    x = np.concatenate([rng.uniform(0.0, 100.0, int(spread * N_RECORDS)), np.repeat([*spikes], 5000)])
    nodes, _ = nodes_of(np.sort(x))
    found, counts = repeated(nodes.places, nodes.weights, chart.narrowest_of)
    assert len(found) == len(spikes)
    np.testing.assert_allclose(nodes.places[found], [*spikes], atol=0.05)
    np.testing.assert_allclose(counts, 5000.0, rtol=0.1)


def with_one_far(n, d=1, far=999_999.0):
    x = np.random.default_rng(3).normal(40.0, 15.0, (n, d))
    x[-1] = far
    return x


def check_it_is_found(model, far):
    assert model.n_clusters_draws_.min() >= 2
    assert np.log(model.density_draws(far)).mean(axis=(1, 2)).min() > -40.0


@pytest.mark.parametrize(
    ("n", "d", "mechanism"), [(100_000, 1, None), (3000, 2, None), (100_000, 1, LaplaceMechanism(scale=5.0))]
)
def test_one_record_far_from_all_is_found(n, d, mechanism):
    """Its density underflowed, or was what rounding left of a sum, and chains agreed that it was not there."""
    x = with_one_far(n, d)
    check_it_is_found(PrivateDPMixture(mechanism, random_state=1, n_draws=300).fit(x), x[-1:])


def test_one_record_far_from_all_is_found_in_a_later_batch():
    x, model = with_one_far(200_000), PrivateDPMixture(LaplaceMechanism(scale=5.0), random_state=1, n_draws=300)
    model.partial_fit(x[:100_000])
    check_it_is_found(model.partial_fit(x[100_000:]), x[-1:])


def test_cells_are_halved_while_there_are_numbers_between():
    """Records far from 0 that are all but the same, under a prior far below their rounding: it went on for ever."""
    x = np.repeat(1e12 + np.arange(20) * 2.0**-12, 1000)
    chart = NormalChart(NormalKernel(1e12, 0.1, 3.0, 1e-40)._lower(n_features=1), 1)
    width = NoNoise().node_spacing(chart.narrowest()[0])
    release = Release(x[:, None], None)
    nodes = nodes_of_line(release, cells_of_line(release, chart, width))
    np.testing.assert_allclose(nodes.weights.sum(), len(x), rtol=1e-12)


def test_nodes_just_below_the_first_edge_are_in_no_cell():
    """Finer nodes were, by rounding, below edges laid for wider cells' nodes: the fit ended in numpy's words."""
    edges = np.arange(4.0)
    nodes = Nodes(np.append(np.nextafter(0.0, -1.0), np.linspace(0.1, 0.9, 50)), np.ones(51))
    found = halved(edges, nodes, lambda n: np.full(len(n), 0.1))
    np.testing.assert_array_equal(found, [0.0, 0.5, 1.0, 2.0, 3.0])


def test_no_noise_by_name():
    x = population("two ages", 300)[:, None]
    fits = [PrivateDPMixture(m, n_warmup=20, n_draws=20, random_state=0).fit(x) for m in (None, NoNoise())]
    assert [type(fit.sampler_) for fit in fits] == [MixingMeasure] * 2
    np.testing.assert_array_equal(*(fit.weights_draws_ for fit in fits))
    np.testing.assert_allclose(*(fit.score_release(x) for fit in fits), rtol=1e-9)
    with pytest.raises(ValueError, match="a summary takes releases of single records"):
        ReleaseSummary(NoNoise())


def test_auto_takes_it_for_many_records():
    def chosen(n, d):
        return type(Auto().resolve(None, NormalKernel()).sized(n, d))

    assert [chosen(n, 1) for n in (20, 50, 10**7)] == [ReUse, MixingMeasure, MixingMeasure]
    assert [chosen(n, 2) for n in (20, 1000, 10**5)] == [ReUse, MixingMeasure, ReUse]
    assert chosen(1000, 3) is ReUse


def test_nodes_that_are_far_off_are_said_so(monkeypatch):
    monkeypatch.setattr(MixingMeasure, "compression_error", lambda *args: 0.5)
    model = PrivateDPMixture(sampler=MixingMeasure(n_moves=20), n_warmup=20, n_draws=20, random_state=0)
    with pytest.warns(RuntimeWarning, match=r"off by 0\.5 \(compression_error_\).*a sampler that keeps the records"):
        model.fit(population("uniform", 60)[:, None])
