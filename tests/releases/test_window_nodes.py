"""The walk over mixing measures under windows: densities at nodes, nodes for records, summaries, the posterior of 300.

Small posteriors are enumerated in ``test_exact_channels.py``; the prior is in ``test_theorems.py``.  Broken twins: an
edge of the cells that is forgotten, records beyond the bounds that are left out, the weight of a node off by 1 %.
"""

import warnings
from functools import cache
from math import fsum, log

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr
from statistical import Disagreement, assert_means_agree
from window_twins import ForgetsClampingOnNodes

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._releases.nodes import Nodes, cell_edges, compress
from sklearn_dpmix._releases.nodes_of_several import compress_records
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix._releases.summarised_release import SummarisedRelease
from sklearn_dpmix.estimators.mixture._mixture_problem import MixtureProblem
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import HybridMechanism, LaplaceMechanism, PiecewiseMechanism, SquareWaveMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _node_layout
from sklearn_dpmix.samplers.mixture.measure._node_layout import MANY_NODES

BOUNDS = (-2.0, 3.0)
KINDS = pytest.mark.parametrize("kind", [SquareWaveMechanism, PiecewiseMechanism])


def windows(mechanism, z):
    """(ends of the windows of records, density elsewhere, what the window adds), from densities that are printed."""
    line = np.linspace(-9.0, 9.0, 7)  # the density as a function of the record is flat but for two steps
    log_q = mechanism.log_density(np.full((7, 1), z[0]), line[:, None])
    least = min(log_q.min(), mechanism.log_density([[z[0]]], [[z[0]]])[0] - mechanism.epsilon)
    lookup = mechanism.lookup(np.asarray(z)[None])
    return lookup, np.exp(least), np.exp(least) * np.expm1(mechanism.epsilon)


def log_densities(mechanism, z, weights, means, sds):
    """log f_P(z) from distribution functions, of the right tail where that is the smaller one."""
    (low, high), outside, gain = windows(mechanism, z)
    inside = np.zeros(len(z))
    for weight, mean, sd in zip(weights, means, sds, strict=True):
        a, b = (low - mean) / sd, (high - mean) / sd
        right = a > 0
        inside += weight * (ndtr(np.where(right, -a, b)) - ndtr(np.where(right, -b, a)))
    return np.log(outside + gain * inside)


# --- densities -------------------------------------------------------------------------------------------------------


def compare_densities(kind, twin=None):
    rng = np.random.default_rng(1)
    for _ in range(60):
        mechanism, sd, mean = kind(10 ** rng.uniform(-1, 0.9), BOUNDS), 10 ** rng.uniform(-2, 0.7), rng.normal(0.5, 3.0)
        value, kinks = mechanism._lower(n_records=1, n_features=1), mechanism.kinks(1)[0]
        x = np.append(rng.uniform(kinks[0], kinks[-1], 6), [kinks[0], kinks[-1]])
        nodes = np.concatenate([x, *(twin or kind)(mechanism.epsilon, BOUNDS).lookup(x[None])])

        def fill(mean, log_variance, value=value, nodes=nodes):
            out = np.full(24, np.nan)
            value.fill_normal(0, nodes, 8, mean, log_variance, out, 0, 8)
            return out.reshape(3, 8)

        found, y = fill(mean, 2 * log(sd)), np.linspace(*BOUNDS, 20_001)
        middle, mass = 0.5 * (y[1:] + y[:-1]), np.diff(stats.norm.cdf(y, mean, sd))
        for place, g in zip(x[:6], found[0], strict=False):  # ends of the window fall within a step of the sum
            q = np.exp(mechanism.log_density(np.full((20_002, 1), place), np.r_[middle, BOUNDS][:, None]))
            beyond = stats.norm.cdf(BOUNDS[0], mean, sd) * q[-2] + stats.norm.sf(BOUNDS[1], mean, sd) * q[-1]
            steps = np.abs(np.diff(q[:-2])) * np.maximum(mass[1:], mass[:-1])
            assert g == pytest.approx(mass @ q[:-2] + beyond, rel=1e-9, abs=steps.sum() + 1e-13)
        step = 1e-5
        by_mean = (fill(mean + step * sd, 2 * log(sd))[0] - fill(mean - step * sd, 2 * log(sd))[0]) / (2 * step)
        by_scale = (fill(mean, 2 * log(sd) + step)[0] - fill(mean, 2 * log(sd) - step)[0]) / (2 * step)
        np.testing.assert_allclose(found[1] * sd / found[0], by_mean / found[0], atol=1e-6)
        np.testing.assert_allclose(found[2] / found[0], by_scale / found[0], atol=1e-6)


@KINDS
def test_noised_normal_densities(kind):
    """Against sums over records, those beyond the bounds apart; the derivatives against differences."""
    compare_densities(kind)


def test_densities_without_the_clamped_are_rejected():
    with pytest.raises(AssertionError):
        compare_densities(SquareWaveMechanism, ForgetsClampingOnNodes)


@KINDS
def test_kinks_are_where_a_bound_enters_the_window(kind):
    """A hair to either side of each inner kink, the law of records beyond a bound is another; elsewhere it is not."""
    for epsilon in (0.1, 1.0, 6.0):
        mechanism = kind(epsilon, BOUNDS)
        kinks = mechanism.kinks(1)[0]
        hair = 1e-7 * (kinks[-1] - kinks[0])
        z, X = np.concatenate([kinks[1:-1] - hair, kinks[1:-1] + hair]), np.array([[-9.0], [9.0]])
        law = np.array([mechanism.log_density([[place], [place]], X) for place in z])
        changed = np.abs(law[:2] - law[2:])
        np.testing.assert_allclose(changed, epsilon * np.eye(2), atol=1e-9)
        mechanism.check_release(kinks[[0, -1]][:, None])
        np.testing.assert_array_equal(mechanism.folded(kinks), kinks)


# --- nodes -----------------------------------------------------------------------------------------------------------


def population(n, seed=0):
    """Two humps, an atom, and some beyond either bound."""
    rng = np.random.default_rng(seed)
    parts = rng.normal(-1.2, 0.6, n), rng.normal(1.7, 0.9, n), np.full(n, 0.4)
    return np.choose(rng.choice(3, n, p=[0.4, 0.5, 0.1]), parts)[:, None]


def adversaries(sd, seed=3):
    """Populations with components of this standard deviation: anywhere, on the bounds, or nothing else."""
    rng, found = np.random.default_rng(seed), [([1.0], [0.4], [sd]), ([0.97, 0.03], [0.5, -2.0], [2.0, sd])]
    for k in range(10):
        weights = np.concatenate([0.6 * rng.dirichlet([3, 3, 3]), 0.4 * rng.dirichlet(np.ones(6))])
        narrow = rng.choice([*BOUNDS, 0.4, -2.1, 2.9], 6) if k % 2 else rng.uniform(-2.5, 3.5, 6)
        sds = np.append(10 ** rng.uniform(-0.5, 0.5, 3), np.full(6, sd))
        found.append((weights, np.append(rng.uniform(*BOUNDS, 3), narrow), sds))
    return found


def log_likelihoods(mechanism, nodes, populations):
    return np.array([fsum(nodes.weights * log_densities(mechanism, nodes.places, *one)) for one in populations])


def worst(mechanism, z, populations):
    """A function: the largest error of the log likelihood on nodes."""
    expected = log_likelihoods(mechanism, Nodes(z, np.ones(len(z))), populations)
    return lambda nodes: np.max(np.abs(log_likelihoods(mechanism, nodes, populations) - expected))


@KINDS
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_nodes_stand_for_records(kind, epsilon):
    """To 10⁻³ of 30,000 records, for components as narrow as nodes are for; the twins are off by far more."""
    mechanism, sd, n = kind(epsilon, BOUNDS), 0.15, 30_000
    z = mechanism.privatize(population(n), random_state=4)[:, 0]
    width, kinks, error = mechanism.node_spacing(sd), mechanism.kinks(1)[0], worst(mechanism, z, adversaries(sd))
    fine = ReleaseSummary(mechanism).update(z[:, None]).nodes()
    assert error(fine) < 1e-6
    nodes = compress(fine, cell_edges(kinks[0], kinks[-1], -np.inf, np.inf, width, kinks))
    assert len(nodes.places) < 500 and np.all(nodes.weights > 0)
    np.testing.assert_allclose(nodes.weights.sum(), n, rtol=1e-12)
    assert error(nodes) < 1e-3
    forgotten = compress(fine, cell_edges(kinks[0], kinks[-1], -np.inf, np.inf, width, kinks[[0, 1, 3]]))
    assert error(forgotten) > 1.0
    heavy = nodes._replace(weights=nodes.weights * 1.0)
    heavy.weights[len(nodes.weights) // 2] *= 1.01
    assert error(heavy) > 1e-2
    wide = compress(fine, cell_edges(kinks[0], kinks[-1], -np.inf, np.inf, 4.0 * width, kinks))
    assert error(wide) > 1e-2


@pytest.mark.slow
def test_cells_are_narrow_where_they_must_be():
    """At the ends of the windows around a peak of many records: neither everywhere nor, with 3000 nodes, nowhere."""
    mechanism, n, rng = SquareWaveMechanism(8.0, BOUNDS), 100_000, np.random.default_rng(0)
    X = np.where(rng.random(n) < 0.5, 0.4, rng.normal(0.4, 0.05, n))[:, None]
    release = Release(mechanism.privatize(X, random_state=1), mechanism)
    sampler = MixingMeasure(n_moves=30)
    problem = MixtureProblem(release, mechanism, NormalKernel(), DirichletProcess(), sampler)
    seen, draws = problem.seen, sampler.trial_draws(problem.values, problem.seen)
    ends, found = np.cumsum(draws.n_atoms), []
    for t in (100, 200, 300, 399):
        rows = slice(ends[t] - draws.n_atoms[t], ends[t])
        found.append((draws.weights[rows], *draws.theta[rows, :2].T))
    assert worst(mechanism, release.Z[:, 0], found)(Nodes(*seen.nodes)) < 0.01
    assert MANY_NODES < seen.nodes.shape[1] < 3 * MANY_NODES


@pytest.mark.slow
def test_boxes_end_at_kinks():
    """Of several features, records of one box are on one side of each kink; the twin has boxes across."""
    mechanism, n = SquareWaveMechanism(4.0, [BOUNDS, (0, 1)]), 3000
    X = np.hstack([population(n), np.random.default_rng(1).beta(5, 2, (n, 1))])
    Z, kinks = mechanism.privatize(X, random_state=2), mechanism.kinks(2)
    widths = np.array([1.0, 0.2])
    for use, is_right in ((kinks, True), (None, False)):
        places, weights = compress_records(Z, widths, use)
        assert weights.sum() == pytest.approx(n)
        parts = [
            np.bincount(np.searchsorted(kinks[j], part[:, j]), counts, minlength=5)
            for j in range(2)
            for part, counts in ((places, weights), (Z, np.ones(n)))
        ]
        truth = np.array(parts[1::2])
        assert np.allclose(parts[::2], truth, rtol=1e-9, atol=1e-6) == is_right


# --- summaries -------------------------------------------------------------------------------------------------------


@KINDS
def test_a_summary_says_what_the_records_do(kind):
    """Moments, the median and the nodes, in batches, merged, and read from a file."""
    mechanism = kind(1.5, BOUNDS)
    Z = mechanism.privatize(population(20_000), random_state=5)
    summary = ReleaseSummary(mechanism)
    for batch in np.array_split(Z, 7):
        summary.update(batch)
    one, other = Release(Z, mechanism), SummarisedRelease(summary, mechanism)
    for found, expected in zip(other.moments(), one.moments(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    estimates = kind(np.full(20_000, 1.5), BOUNDS).moments(Z)  # the means of each record's own
    np.testing.assert_allclose(np.ravel(one.moments()), np.ravel(estimates), rtol=1e-10)
    np.testing.assert_allclose(other.centre(), one.centre(), atol=1e-3)
    for found, expected in zip(summary.nodes(), one.nodes(0.1), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [SquareWaveMechanism, PiecewiseMechanism, HybridMechanism])
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_an_empty_batch_adds_nothing(kind, epsilon):
    """A part of a data set may have no rows."""
    mechanism = kind(epsilon, bounds=(0.0, 2.0))
    Z = mechanism.privatize(np.linspace(0.0, 2.0, 400)[:, None], random_state=0)
    summary, empty = ReleaseSummary(mechanism), np.empty((0, 1))
    summary.update(empty).update(Z[:10]).update(empty).update(Z[10:]).update(empty)
    assert (summary.n_records, summary.n_batches) == (400, 5)
    for one, other in zip(summary.nodes(), ReleaseSummary(mechanism).update(Z).nodes(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_summary_of_windows_is_kept_in_files(tmp_path):
    mechanism = PiecewiseMechanism(1.5, BOUNDS)
    Z = mechanism.privatize(population(5000), random_state=5)
    summary = ReleaseSummary(mechanism).update(Z)
    summary.save(tmp_path / "summary.npz")
    loaded = ReleaseSummary.load(tmp_path / "summary.npz")
    for found, expected in zip(loaded.nodes(), summary.nodes(), strict=True):
        np.testing.assert_array_equal(found, expected)
    for twin in (PiecewiseMechanism(1.5), PiecewiseMechanism(1.6, BOUNDS), SquareWaveMechanism(1.5, BOUNDS)):
        with pytest.raises(ValueError, match="this summary was built from releases of PiecewiseMechanism"):
            loaded.merge(ReleaseSummary(twin))
    with pytest.raises(ValueError, match="one noise scale for all records"):
        ReleaseSummary(SquareWaveMechanism([1.0, 2.0]))
    with pytest.raises(ValueError, match=r"batch 1: Z must lie in .* the summary is unchanged"):
        loaded.update([[99.0]])


@pytest.mark.parametrize(
    ("kind", "epsilon"),
    [(SquareWaveMechanism, 2.0), (PiecewiseMechanism, 2.0), (HybridMechanism, 0.5), (HybridMechanism, 2.0)],
)
def test_fits_of_records_and_of_their_summary_are_one(kind, epsilon):
    mechanism = kind(epsilon, BOUNDS)
    Z = mechanism.privatize(population(1000), random_state=6)
    model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=30, n_draws=100, random_state=0)
    one = model.fit(Z)
    assert isinstance(one.sampler_, MixingMeasure) and one.labels_.shape == (1000,)
    assert one.compression_error_ < 1e-3
    weights, labels = one.weights_draws_, one.predict(Z[:50])
    of_summary = model.fit(ReleaseSummary(mechanism).update(Z))
    np.testing.assert_allclose(of_summary.weights_draws_, weights, rtol=1e-6)
    np.testing.assert_array_equal(of_summary.predict(Z[:50]), labels)


def test_what_the_walk_does_not_take():
    with pytest.raises(ValueError, match="or none with a noise scale for each record"):
        PrivateDPMixture(HybridMechanism([1.0, 2.0]), sampler="mixing_measure").fit([[0.2], [0.3]])


# --- the posterior of more records -----------------------------------------------------------------------------------

POINTS = np.array([[-1.8], [-0.5], [0.4], [1.5], [2.8]])
N_CHAINS, N_DRAWS = 4, {"mixing_measure": 3000, "interweaved": 12_000}


@cache
def summaries(kind, sampler, twin=None):
    """Draws of (number of clusters, mean, log variance, log density at POINTS)."""
    mechanism = kind(3.0, BOUNDS)
    Z = mechanism.privatize(population(300, 8), random_state=7)
    model = PrivateDPMixture(
        (twin or kind)(3.0, BOUNDS),
        kernel=NormalKernel(0.4, 0.3, 3.0, 2.0),
        sampler=sampler,
        n_chains=N_CHAINS,
        n_warmup=500,
        n_draws=N_DRAWS[sampler],
        thin=1 if sampler == "mixing_measure" else 5,
        random_state=0,
    ).fit(Z)
    mean, variance = model.moment_draws()
    k = model.n_clusters_draws_[..., None]
    return np.concatenate([k, mean, np.log(variance), np.log(model.density_draws(POINTS))], axis=-1)


@pytest.mark.slow
@pytest.mark.nightly
@KINDS
@pytest.mark.parametrize("few", [0, 1000], ids=["nodes", "records"])
def test_the_walk_agrees_with_a_sampler_of_records(kind, few, monkeypatch):
    """300 records, as nodes and one by one, against the sampler that draws allocations and records."""
    monkeypatch.setattr(_node_layout, "FEW", few)
    assert_means_agree(summaries.__wrapped__(kind, "mixing_measure"), summaries(kind, "interweaved"), min_ess=500)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_walk_that_forgets_clamping_does_not():
    draws = summaries(SquareWaveMechanism, "mixing_measure", ForgetsClampingOnNodes)
    with pytest.raises(Disagreement):
        assert_means_agree(draws, summaries(SquareWaveMechanism, "interweaved"), min_ess=500)


def test_laplace_noise_has_the_kinks_of_its_bounds():
    assert LaplaceMechanism(1.0, bounds=BOUNDS).kinks(1).tolist() == [list(BOUNDS)]
    assert LaplaceMechanism(1.0, bounds=BOUNDS, clamp=False).kinks(2).shape == (2, 0)


@pytest.mark.parametrize("kind", [SquareWaveMechanism, PiecewiseMechanism, HybridMechanism])
def test_each_feature_may_have_its_own_bounds(kind):
    """Catches a width of cells that wants one pair of bounds, so that the walk takes no release of two."""
    own = kind(4.0, bounds=[(0, 1), (0, 10)])
    assert own.node_spacing(0.3) == kind(4.0).node_spacing(0.3)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.beta(2, 5, 200), 10.0 * rng.beta(5, 2, 200)])
    model = PrivateDPMixture(own, n_chains=1, n_warmup=60, n_draws=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few draws have not mixed
        mean = model.fit(own.privatize(X, random_state=1)).moment_draws()[0][0]
    assert isinstance(model.sampler_, MixingMeasure)
    assert np.all(np.abs(mean.mean(axis=0) - X.mean(axis=0)) < 5.0 * mean.std(axis=0))
    assert np.all(mean.std(axis=0) < [0.15, 1.5])  # a uniform law's mean is known to 0.29 and 2.9


def two_features(sampler, thin):
    mechanism, rng = SquareWaveMechanism(8.0), np.random.default_rng(0)
    X = np.vstack([rng.normal(0.3, 0.12, (100, 2)), rng.normal((0.8, 0.7), 0.15, (100, 2))])
    model = PrivateDPMixture(
        mechanism,
        kernel=NormalKernel(0.5, 0.3, 3.0, 0.1),
        sampler=sampler,
        n_warmup=300,
        n_draws=2500,
        thin=thin,
        random_state=0,
    ).fit(mechanism.privatize(X, random_state=1))
    points = np.array([[0.2, 0.3], [0.5, 0.5], [0.8, 0.7], [1.05, 0.2]])
    k = model.n_clusters_draws_[..., None]
    return np.concatenate([k, model.moment_draws()[0], np.log(model.density_draws(points))], axis=-1)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_walk_agrees_in_two_features():
    assert_means_agree(two_features("mixing_measure", 1), two_features("interweaved", 10), min_ess=500)
