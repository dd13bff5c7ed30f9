"""A smooth sensitivity's scale that is published: verification by quadrature, law, densities, inference."""

import pickle
from dataclasses import dataclass
from math import exp, log

import numpy as np
import pytest
from abc_case import OneRecord, ScaleForgotten
from scipy import stats
from sklearn.base import clone
from statistical import Disagreement

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import PublishedScaleMechanism, SmoothLaplaceMechanism
from sklearn_dpmix.mechanisms._dilated import least_multiplier
from sklearn_dpmix.mechanisms._smooth_published import PublishedLaplaceLaw
from sklearn_dpmix.queries import SmoothMedian

ALPHA = 1e-6
Z = stats.norm.isf(0.5e-6)
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)


def panels(edges):
    """Nodes and weights of Gauss–Legendre between sorted edges."""
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + NODES)).ravel(), (half * WEIGHTS).ravel()


def delta_between(mechanism, first, second):
    """∫∫ max(p - e^ε q, 0) of the release given one data set's (value, smooth sensitivity) against another's.

    From the mechanism's own density, over the value z and the logarithm of the scale h.
    """
    spread = mechanism.xi_ / (mechanism.share * mechanism.epsilon)
    centres = np.log(mechanism.multiplier_ * np.array([first[1], second[1]]))
    reach = np.concatenate([np.linspace(0.0, 30.0, 31), np.linspace(0.0, 1.0, 5)])
    log_h, mass = panels(np.unique(np.concatenate([centres + sign * spread * x for x in reach for sign in (-1, 1)])))
    total = 0.0
    for at, weight in zip(log_h, mass, strict=True):
        h = exp(at)
        z, inner = panels(np.unique(np.concatenate([[first[0], second[0]], first[0] + h * np.linspace(-40, 40, 81)])))
        S = np.column_stack([z, np.full(len(z), h)])
        p, q = (mechanism._log_noise(S - row, np.tile(row, (len(S), 1)), 1.0) for row in (first, second))
        total += weight * h * np.sum(inner * np.maximum(np.exp(p) - np.exp(mechanism.epsilon + q), 0.0))
    return total


def apart(mechanism, t, share=1.0):
    """δ between admissible neighbours: the scale changes by e^t, the value by the smaller one, or a share of it."""
    return delta_between(mechanism, np.array([0.0, 1.0]), np.array([share * min(1.0, exp(t)), exp(t)]))


def largest_delta(mechanism):
    xi = mechanism.xi_
    return max(apart(mechanism, t, share) for t, share in ((xi, 1.0), (0.3 * xi, 1.0), (-xi, 1.0), (xi, 0.7)))


SETTINGS = [
    (1.0, 1e-2, 0.5),
    pytest.param(0.5, 1e-6, 0.3, marks=pytest.mark.nightly),
    pytest.param(3.0, 1e-4, 0.7, marks=pytest.mark.nightly),
]


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "delta", "share"), SETTINGS)
def test_admissible_pairs_keep_the_guarantee(epsilon, delta, share):
    """By quadrature of the density in both numbers; the bound is near what the worst pair attains.

    Twins: a third less noise; more noise on the scale than was calibrated for, as if the scale cost nothing.
    """
    query = SmoothMedian((0, 1))
    mechanism = PublishedScaleMechanism(epsilon, delta, query=query, share=share)
    found = largest_delta(mechanism)
    assert mechanism.guarantee().delta == delta
    assert 0.3 * delta < found <= delta
    less = clone(mechanism).set_params(xi=mechanism.xi_, multiplier=0.67 * mechanism.multiplier_)
    assert apart(less, less.xi_) > delta
    with pytest.raises(ValueError, match=r"does not guarantee epsilon=.* what is verified is"):
        less.guarantee()
    value_alone = SmoothLaplaceMechanism(epsilon, delta, query=query)
    forgotten = clone(mechanism).set_params(xi=value_alone.xi_, multiplier=value_alone.multiplier_)
    assert apart(forgotten, forgotten.xi_) > delta


@dataclass(frozen=True)
class ScaleForFree(PublishedLaplaceLaw):
    """Bounds in which the scale's own loss is left out."""

    def bounds(self, epsilon, xi, multiplier, n_cells):
        w = np.linspace(-40, 40, 4001) / (self.share * epsilon)
        mass = np.diff(stats.laplace.cdf(w * self.share * epsilon))
        shift = np.exp(-xi * w[:-1]) / multiplier
        return np.full(n_cells, np.maximum(-np.expm1(0.5 * (epsilon - shift)), 0.0) @ mass)


def test_the_scale_is_not_free():
    """A verification without the scale's loss accepts noise that does not hold; composition never asks for less."""
    epsilon, delta, share, xi = 1.0, 1e-2, 0.5, 0.1
    law = PublishedLaplaceLaw(share)
    right, wrong = (least_multiplier(one, epsilon, delta, xi) for one in (law, ScaleForFree(share)))
    made = {"query": SmoothMedian((0, 1)), "share": share, "xi": xi}
    assert apart(PublishedScaleMechanism(epsilon, delta, multiplier=wrong, **made), xi) > delta
    assert apart(PublishedScaleMechanism(epsilon, delta, multiplier=right, **made), xi) <= delta
    # ε₁ for the scale, the rest for a value whose scale is not too small but with probability δ
    composed = (0.5 / delta) ** (xi / (share * epsilon)) / ((1.0 - share) * epsilon)
    assert wrong < right < composed
    assert law.spent(epsilon, xi, composed)[1] <= delta


def test_finer_cells_lower_the_bound():
    """It tends to the supremum from above (which the last cell attains)."""
    law = PublishedLaplaceLaw(0.5)
    coarse, fine = (np.max(law.bounds(1.0, 0.05, 5.0, n)) for n in (33, 1025))
    assert 0.3 * coarse < fine <= coarse * (1.0 + 1e-12)


def test_releases_of_neighbours_keep_the_guarantee():
    """Query, calibration and density together, over neighbours of a grid; twin: the local sensitivity."""
    query = SmoothMedian((-1, 3))
    mechanism = PublishedScaleMechanism(1.0, 1e-4, query=query)
    worst, of_local = 0.0, 0.0
    for rest in ((0.0, 0.2), (0.0, 3.0)):
        for a, b in ((-1.0, 3.0), (3.0, 0.1)):
            first, second = query.statistics(np.array([(a, *rest), (b, *rest)]), mechanism.xi_)
            worst = max(worst, delta_between(mechanism, first, second))
            local = np.maximum(query.statistics(np.array([(a, *rest), (b, *rest)]), 30.0), [-1.0, 1e-3])
            of_local = max(of_local, delta_between(mechanism, *local))
    assert worst <= 1e-4 < of_local


def test_noise_has_its_law():
    """KS of both numbers; noise 5 % larger is rejected."""
    mechanism = PublishedScaleMechanism(1.0, 1e-4, query=SmoothMedian((0, 1)), share=0.4)
    X = np.random.default_rng(0).random((25, 1))
    value, smooth = mechanism.query.statistics(X.T, mechanism.xi_)[0]
    S = np.tile([value, smooth], (200_000, 1))
    S = S + mechanism._draw(np.random.default_rng(1), S)
    u = (S[:, 0] - value) / S[:, 1]
    v = np.log(S[:, 1] / (mechanism.multiplier_ * smooth)) * 0.4 * 1.0 / mechanism.xi_
    for sample in (u, v):
        assert stats.kstest(sample, stats.laplace.cdf).pvalue > ALPHA
        assert stats.kstest(1.05 * sample, stats.laplace.cdf).pvalue < ALPHA
    assert abs(stats.spearmanr(u, v)[0]) < Z / len(u) ** 0.5
    release = mechanism.privatize(X, random_state=3)
    assert release.shape == (2,) and release[1] > 0.0
    noise = mechanism._draw(np.random.default_rng(3), np.array([[value, smooth]]))[0]
    np.testing.assert_array_equal(release, [value, smooth] + noise)


def test_densities_and_their_mode():
    """The density of both numbers in closed form; widened; nothing simulated is above the mode, which is attained."""
    mechanism = PublishedScaleMechanism(1.0, 1e-4, query=SmoothMedian((0, 1)))
    spread, m = mechanism.xi_ / 0.5, mechanism.multiplier_
    rng = np.random.default_rng(2)
    S, simulated = np.array([[0.4, 0.3], [0.9, 0.2]]), mechanism.query.statistics(rng.random((300, 9)), mechanism.xi_)
    for widen in (1.0, 2.5):
        expected = sum(
            stats.laplace.logpdf(z, simulated[:, 0], widen * h)
            + stats.laplace.logpdf(log(h), np.log(m * simulated[:, 1]), widen * spread)
            - log(h)
            for z, h in S
        )
        np.testing.assert_allclose(mechanism.release_density(S, widen)(simulated), expected, rtol=1e-11)
    best = np.array([[0.4, 0.3 / m]])
    mode = mechanism.log_release_mode(S[:1])
    assert mechanism.release_density(S[:1])(best)[0] == pytest.approx(mode, rel=1e-13)
    assert np.all(mechanism.release_density(S)(simulated) <= mechanism.log_release_mode(S))
    X = rng.random((9, 1))
    expected = mechanism.release_density(S[:1])(mechanism.query.statistics(X.T, mechanism.xi_))
    np.testing.assert_allclose(mechanism.log_density(S[:1], X), expected, rtol=1e-12)


@pytest.mark.parametrize("method", ["rejection", "smc"])
def test_inference_models_both_numbers(method):
    """Against quadrature; the mode is known without the number of records."""
    query = SmoothMedian((0.0, 1.0))
    mechanism = PublishedScaleMechanism(8.0, 1e-2, query=query)
    release = [1.1, 0.9 * mechanism.multiplier_]
    theta, x = np.linspace(-1.5, 2.5, 801), np.linspace(-3.0, 4.0, 7001)
    density = np.exp(mechanism.release_density([release])(query.statistics(x[:, None], mechanism.xi_)))
    weight = stats.norm.pdf(theta, 0.5, 0.3) * (stats.norm.pdf(x, theta[:, None], 0.3) @ density)
    mean = weight @ theta / weight.sum()
    for model, fails in ((OneRecord, False), (ScaleForgotten, True)):
        fit = PrivateABC(
            mechanism, model=model(query, mechanism.xi_), method=method, n_draws=15_000, random_state=0
        ).fit(release)
        error = fit.theta_draws_.std() / min(fit.ess_.values()) ** 0.5
        wrong = abs(fit.theta_draws_[:, 0] @ fit.weights_ - mean) > Z * error
        if wrong != fails:
            raise Disagreement(f"{model.__name__}: {fit.theta_draws_.mean()}, expected {mean} ± {error}")


def test_they_are_scikit_learn_objects():
    mechanism = PublishedScaleMechanism(1.0, 1e-6, query=SmoothMedian((0, 1)))
    for copy in (clone(mechanism), pickle.loads(pickle.dumps(mechanism)), eval(repr(mechanism))):
        assert repr(copy) == repr(mechanism) and copy.multiplier_ == mechanism.multiplier_
    assert mechanism.n_columns(2) == 2 and mechanism.get_params()["query__bounds"] == (0, 1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"share": 0.0}, "share must be above 0 and at most 0.9, .* got share=0.0"),
        ({"share": 0.95}, "share must be above 0"),
        ({"share": "half"}, "got share='half'"),
        ({"delta": 0.0}, "delta must be positive"),
        ({"xi": 0.9}, "with xi=0.9 the change in scale alone exceeds epsilon"),
    ],
)
def test_wrong_parameters_are_named(changes, says):
    mechanism = PublishedScaleMechanism(1.0, 1e-6, query=SmoothMedian((0, 1))).set_params(**changes)
    with pytest.raises(ValueError, match=says):
        mechanism.privatize([[0.2], [0.7]], random_state=0)


def test_wrong_releases_are_named():
    mechanism = PublishedScaleMechanism(1.0, 1e-2, query=SmoothMedian((0, 1)))
    model = OneRecord(mechanism.query, mechanism.xi_)
    for release, says in (([0.5], "a release must have 2 numbers"), ([0.5, -1.0], "scale of its noise, positive, got")):
        with pytest.raises(ValueError, match=says):
            PrivateABC(mechanism, model=model).fit(release)
    with pytest.raises(ValueError, match="releases two numbers, a value and its noise's scale, got 1"):
        clone(mechanism).set_params(query=None).n_columns(1)
