"""The law of y given x, or given what was released of x, against sums over the joint density."""

from math import inf, sqrt

import numpy as np
import pytest
from scipy import stats

from sklearn_dpmix._posterior.mixture import MixtureDraws
from sklearn_dpmix._posterior.response_law import AtPlace, AtRelease, ConditionalLaw
from sklearn_dpmix._posterior.response_pieces import MASS, N_COLUMNS, fill_table, piece_below
from sklearn_dpmix.kernels import MultivariateNormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, NoNoise, SquareWaveMechanism
from sklearn_dpmix.samplers.mixture._run import Draws


def some_draws(d, rng, *, steep=False):
    """Three draws of a mixture: (weights, means, covariances) of each, and the same as the package keeps them."""
    parts, rows = [], []
    for n_atoms in (1, 3, 4):
        mean = rng.normal(0.0, 1.5, (n_atoms, d))
        root = np.tril(rng.normal(0.0, 0.6, (n_atoms, d, d)))
        root[:, range(d), range(d)] = rng.uniform(0.2, 1.2, (n_atoms, d))
        if steep:  # y is almost a line in x
            root[:, -1, -1] = 1e-3
        parts.append((rng.dirichlet(np.ones(n_atoms)), mean, root @ np.swapaxes(root, 1, 2)))
        sd = np.sqrt(np.sum(root**2, axis=2))
        alone = np.stack([mean, sd, 1.0 / sd, np.log(sd)], axis=2).reshape(n_atoms, 4 * d)
        inverse, (i, j) = np.linalg.inv(root), np.tril_indices(d)
        log_det = np.log(inverse[:, range(d), range(d)]).sum(axis=1)
        rows.append(np.column_stack([alone, inverse[:, i, j], root[:, i, j], log_det]))
    n_atoms = np.array([len(row) for row in rows])
    weights = np.concatenate([weights for weights, _, _ in parts])
    return parts, MixtureDraws([Draws(n_atoms, n_atoms, np.ones(3), weights, np.concatenate(rows))])


def kernel_value(d):
    return MultivariateNormalKernel(mean=0.0, dof=d + 2.0, scale=1.0)._lower(n_features=d)


def panels(edges, n=60):
    """Nodes and weights of a Gauss rule between any two neighbouring edges."""
    t, w = np.polynomial.legendre.leggauss(n)
    edges = np.unique(edges)
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * t).ravel(), (half * w).ravel()


class Oracle:
    """The law of y given a release z of x (one feature) by brute force: sums over a fine grid of x.

    ``likelihood(x)`` is the density of the release; its kinks are among ``kinks``.
    """

    def __init__(self, draw, likelihood, kinks):
        weights, mean, covariance = draw
        self.laws = []
        for w, m, S in zip(weights, mean, covariance, strict=True):
            sd, slope = sqrt(S[0, 0]), S[0, 1] / S[0, 0]
            ends = m[0] + np.array([-12.0, 12.0]) * sd
            steps = np.concatenate([np.linspace(*ends, 400), [k for k in kinks if ends[0] < k < ends[1]]])
            x, node = panels(np.concatenate([steps, *[k + np.linspace(-1, 1, 81) * 0.2 * sd for k in kinks]]))
            mass = w * node * stats.norm.pdf(x, m[0], sd) * likelihood(x)
            self.laws.append((x, mass, m[1] + slope * (x - m[0]), sqrt(S[1, 1] - slope**2 * S[0, 0])))
        self.total = sum(mass.sum() for _, mass, _, _ in self.laws)

    def expect(self, function):
        return sum(mass @ function(centre, sd) for _, mass, centre, sd in self.laws) / self.total

    def mean(self):
        return self.expect(lambda centre, sd: centre)

    def variance(self):
        mean = self.mean()
        return self.expect(lambda centre, sd: sd**2 + (centre - mean) ** 2)

    def cdf(self, y):
        return self.expect(lambda centre, sd: stats.norm.cdf(y, centre, sd))

    def pdf(self, y):
        return self.expect(lambda centre, sd: stats.norm.pdf(y, centre, sd))


def laplace_density(z, b, low=-inf, high=inf):
    return lambda x: np.exp(-np.abs(z - np.clip(x, low, high)) / b) / (2 * b)


def gaussian_density(z, sd, low=-inf, high=inf):
    return lambda x: stats.norm.pdf(z, np.clip(x, low, high), sd)


CHANNELS = {
    "laplace": (LaplaceMechanism(scale=0.7), laplace_density, (0.7,)),
    "little laplace": (LaplaceMechanism(scale=0.03), laplace_density, (0.03,)),
    "much laplace": (LaplaceMechanism(scale=20.0), laplace_density, (20.0,)),
    "clamped laplace": (LaplaceMechanism(scale=0.7, bounds=(-1.0, 0.8)), laplace_density, (0.7, -1.0, 0.8)),
    "clamped gaussian": (GaussianMechanism(scale=0.5, bounds=(-1.0, 0.8)), gaussian_density, (0.5, -1.0, 0.8)),
    "gaussian": (GaussianMechanism(scale=0.5), gaussian_density, (0.5,)),
}


def law_at_release(draws, mechanism, n=1):
    channel = mechanism._lower(n_records=n, n_features=2, kernel=None)
    return ConditionalLaw(draws, AtRelease.value(draws, int(channel.n_pieces())), channel, kernel_value(2))


@pytest.mark.parametrize("steep", [False, True], ids=["", "steep"])
@pytest.mark.parametrize("name", CHANNELS)
def test_law_at_a_release_is_a_sum_over_x(name, steep):
    """Catches a wrong tilt, a bound or a kink that is left out, a wrong weight of a piece, and steps between nodes."""
    mechanism, density, args = CHANNELS[name]
    parts, draws = some_draws(2, np.random.default_rng(5), steep=steep)
    law = law_at_release(draws, mechanism)
    Z, q = np.array([[-3.0], [-0.4], [0.8], [1.5]]), np.array([0.03, 0.5, 0.9])
    means, variances = law.curves(Z)
    quantiles, y = law.quantiles(Z, q), np.array([-2.0, 0.1, 0.9, 3.0])
    densities = np.exp(law.log_density(Z, y))
    for i, z in enumerate(Z[:, 0]):
        kinks = [z, *args[1:]]
        oracles = [Oracle(draw, density(z, *args), kinks) for draw in parts]
        for t, oracle in enumerate(oracles):
            assert means[t, i] == pytest.approx(oracle.mean(), rel=1e-8, abs=1e-8)
            assert variances[t, i] == pytest.approx(oracle.variance(), rel=1e-7)
        if not steep:  # the oracle's grid of x is too coarse for such a density of y
            assert densities[i] == pytest.approx(np.mean([one.pdf(y[i]) for one in oracles]), rel=1e-8, abs=1e-290)
        below = [np.mean([one.cdf(value) for one in oracles]) for value in quantiles[i]]
        assert below == pytest.approx(q, abs=1e-4 if steep else 1e-9)
    other = Oracle(parts[1], density(Z[1, 0], 1.05 * args[0], *args[1:]), [Z[1, 0], *args[1:]])  # a twin
    assert abs(means[1, 1] / other.mean() - 1.0) > 1e-6


def test_law_at_releases_of_a_window():
    """Catches a window of another width or place, and the ε of both features for that of one."""
    epsilon = 3.0
    odds = np.exp(epsilon)
    reach = (epsilon * odds - odds + 1.0) / (odds * (odds - 1.0 - epsilon))  # on (-1, 1), Li et al. (2020)
    parts, draws = some_draws(2, np.random.default_rng(5))
    Z = np.array([[-1.1], [-0.4], [0.8], [1.05]])
    law = law_at_release(draws, SquareWaveMechanism(2.0 * epsilon, bounds=(-1, 1)), len(Z))
    means, variances = law.curves(Z)
    for i, z in enumerate(Z[:, 0]):

        def window(x, z=z):
            return np.where(np.abs(z - np.clip(x, -1.0, 1.0)) <= reach, odds, 1.0)

        for t, draw in enumerate(parts):
            oracle = Oracle(draw, window, [-1.0, 1.0, z - reach, z + reach])
            assert means[t, i] == pytest.approx(oracle.mean(), rel=1e-8, abs=1e-8)
            assert variances[t, i] == pytest.approx(oracle.variance(), rel=1e-7)


@pytest.mark.parametrize("width", [1e12, 1e30, 1e85])
@pytest.mark.parametrize("mechanism", [None, LaplaceMechanism(scale=0.7)], ids=["", "laplace"])
def test_quantiles_where_a_component_is_hugely_wide(mechanism, width):
    """Catches a tolerance on the scale of the widest component: degrees of freedom near their limit draw such ones."""
    _, draws = some_draws(2, np.random.default_rng(5))
    x, y = [0.0, 1.0, 1.0, 0.0], [0.0, width, 1.0 / width, np.log(width)]
    draws.flat.theta[-1] = [*x, *y, 1.0, 0.0, 1.0 / width, 1.0, 0.0, width, -np.log(width)]
    at_place = AtPlace.value(draws, 2), NoNoise()._lower(), kernel_value(2)
    law = ConditionalLaw(draws, *at_place) if mechanism is None else law_at_release(draws, mechanism)
    X, q = np.array([[-0.4]]), np.array([0.02, 0.3, 0.5, 0.9])
    table = np.empty((len(draws.flat.theta) * law.parts[0].most_pieces, N_COLUMNS))
    table = table[: fill_table(*law.parts, law.start, law.theta, X, table)]
    below = [sum(row[MASS] * piece_below(law.parts[0], row, at) for row in table) for at in law.quantiles(X, q)[0]]
    assert below == pytest.approx(q, abs=1e-9)


def test_bounds_count():
    """The twin of clamped channels: without bounds, or with another one, the law is another."""
    mechanism, density, (sd, low, high) = CHANNELS["clamped gaussian"]
    parts, draws = some_draws(2, np.random.default_rng(5))
    means, _ = law_at_release(draws, mechanism).curves(np.array([[1.5]]))
    right, no_bound, another = (
        Oracle(parts[1], density(1.5, sd, *ends), [*ends]).mean()
        for ends in ((low, high), (-99, 99), (low, high + 0.1))
    )
    assert means[1, 0] == pytest.approx(right, rel=1e-8)
    assert min(abs(means[1, 0] - no_bound), abs(means[1, 0] - another)) > 1e-3


@pytest.mark.parametrize("noise", [0.0, 0.6])
@pytest.mark.parametrize("d", [2, 4])
def test_law_at_a_place_is_that_of_the_joint_normals(d, noise):
    """Catches a wrong slope, weight or residual variance of a component, with and without noise in x.

    The oracle conditions in full matrices; and, for d = 2, sums the joint density over y.
    """
    parts, draws = some_draws(d, np.random.default_rng(7))
    X, y = np.random.default_rng(8).normal(0.0, 2.0, (5, d - 1)), np.linspace(-2, 3, 5)
    law = ConditionalLaw(draws, AtPlace.value(draws, d, noise**2), NoNoise()._lower(), kernel_value(d))
    means, variances = law.curves(X)
    q = np.array([0.01, 0.5, 0.99])
    quantiles, densities = law.quantiles(X, q), law.log_density(X, y)
    for i, x in enumerate(X):
        given = []
        for t, (weights, mean, covariance) in enumerate(parts):
            S = covariance + noise**2 * np.diag([1.0] * (d - 1) + [0.0])
            mass = [
                w * stats.multivariate_normal.pdf(x, m[:-1], s[:-1, :-1])
                for w, m, s in zip(weights, mean, S, strict=True)
            ]
            mass = np.array(mass) / np.sum(mass)
            slope = np.array([np.linalg.solve(s[:-1, :-1], s[:-1, -1]) for s in S])
            centre = mean[:, -1] + np.sum(slope * (x - mean[:, :-1]), axis=1)
            own = S[:, -1, -1] - np.sum(slope * S[:, :-1, -1], axis=1)
            given.append((mass, centre, np.sqrt(own)))
            assert means[t, i] == pytest.approx(mass @ centre, rel=1e-9)
            expected = mass @ (own + centre**2) - (mass @ centre) ** 2
            assert variances[t, i] == pytest.approx(expected, rel=1e-7)
            if d == 2:
                grid = np.linspace(-40, 40, 200_001)
                both = sum(
                    w * stats.multivariate_normal.pdf(np.column_stack([np.full_like(grid, x[0]), grid]), m, s)
                    for w, m, s in zip(weights, mean, S, strict=True)
                )
                assert means[t, i] == pytest.approx(both @ grid / both.sum(), rel=1e-7)
        pdf = np.mean([mass @ stats.norm.pdf(y[i], centre, sd) for mass, centre, sd in given])
        assert densities[i] == pytest.approx(np.log(pdf), rel=1e-9)
        below = [np.mean([mass @ stats.norm.cdf(v, centre, sd) for mass, centre, sd in given]) for v in quantiles[i]]
        assert below == pytest.approx(q, abs=1e-11)


def test_gaussian_noise_as_pieces_and_in_closed_form_agree():
    """Two ways to one law: quadrature over pieces, and x plus noise as a wider normal."""
    _, draws = some_draws(2, np.random.default_rng(9))
    closed = ConditionalLaw(draws, AtPlace.value(draws, 2, 0.25), NoNoise()._lower(), kernel_value(2))
    pieces = law_at_release(draws, GaussianMechanism(scale=0.5))
    X, y, q = np.linspace(-6, 6, 9)[:, None], np.linspace(-3, 4, 9), np.array([0.001, 0.3, 0.999])
    for one, other in zip(closed.curves(X), pieces.curves(X), strict=True):
        assert other == pytest.approx(one, rel=1e-10)
    assert pieces.log_density(X, y) == pytest.approx(closed.log_density(X, y), rel=1e-9)
    assert pieces.quantiles(X, q) == pytest.approx(closed.quantiles(X, q), rel=1e-8)


def test_far_places_have_a_law():
    """Catches densities that underflow where no component is near."""
    _, draws = some_draws(2, np.random.default_rng(9))
    for law in (
        ConditionalLaw(draws, AtPlace.value(draws, 2), NoNoise()._lower(), kernel_value(2)),
        law_at_release(draws, LaplaceMechanism(scale=0.1, bounds=(-1, 1))),
    ):
        X = np.array([[-1e4], [300.0]])
        mean, variance = law.curves(X)
        assert np.all(np.isfinite(mean)) and np.all(variance > 0)
        assert np.all(np.isfinite(law.log_density(X, np.array([0.0, 1e3]))))
        assert np.all(np.diff(law.quantiles(X, np.array([0.1, 0.5, 0.9])), axis=1) > 0)
