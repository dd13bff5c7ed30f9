"""Elliptical noise: its density against scipy and integrals, its draws against its density, its loss by brute force."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln
from sklearn.base import clone

from sklearn_dpmix import PrivateDPMixture, PrivateLinearRegressionDA
from sklearn_dpmix.mechanisms import (
    MultivariateLaplaceMechanism,
    MultivariateNormalMechanism,
    MultivariateTMechanism,
)
from sklearn_dpmix.privacy import PrivacyGuarantee, gaussian_delta
from sklearn_dpmix.queries import BoundedRecords, RegressionMoments

ALPHA = 1e-6
COVARIANCES = [
    np.array([[2.5]]),
    np.array([[4.0, 1.5], [1.5, 1.0]]),
    np.array([[1.0, 0.3, -0.2], [0.3, 0.5, 0.1], [-0.2, 0.1, 9.0]]),
]
MAKE = {
    "normal": MultivariateNormalMechanism,
    "laplace": MultivariateLaplaceMechanism,
    "t": lambda covariance, query=None: MultivariateTMechanism(covariance, df=3.5, query=query),
}
every_law = pytest.mark.parametrize("name", MAKE)
every_covariance = pytest.mark.parametrize("C", COVARIANCES, ids=len)


def log_density_of_errors(mechanism, E):
    return mechanism.release_density(np.zeros((1, E.shape[1])))(-E)


@every_covariance
def test_log_density_is_scipys(C):
    """The normal and the t; Laplace's in one dimension, and by its normaliser in more."""
    E = np.random.default_rng(0).standard_cauchy((500, len(C)))
    zero = np.zeros(len(C))
    for name, law in (("normal", stats.multivariate_normal(zero, C)), ("t", stats.multivariate_t(zero, C, df=3.5))):
        expected = np.ravel(law.logpdf(E))
        np.testing.assert_allclose(log_density_of_errors(MAKE[name](C), E), expected, rtol=1e-11, atol=1e-11)
    if len(C) == 1:
        expected = stats.laplace(scale=math.sqrt(2.5)).logpdf(E[:, 0])
        np.testing.assert_allclose(log_density_of_errors(MAKE["laplace"](C), E), expected, rtol=1e-12)


def along_a_ray(mechanism, factor, radii):
    """Density of the Mahalanobis radius, from the density at points along a direction that is not an axis."""
    k = len(factor)
    direction = factor @ (np.ones(k) / math.sqrt(k))
    log_area = math.log(2.0) + 0.5 * k * math.log(math.pi) - gammaln(0.5 * k)
    log_jacobian = np.log(np.diag(factor)).sum() + (k - 1) * np.log(radii)
    return np.exp(log_density_of_errors(mechanism, radii[:, None] * direction) + log_area + log_jacobian)


def draws_fit_the_density(mechanism, C, E):
    """KS of Mahalanobis radii against the integrated density, and of whitened directions against the sphere's law."""
    factor, k = np.linalg.cholesky(C), len(C)
    white = np.linalg.solve(factor, E.T).T
    radius = np.linalg.norm(white, axis=1)
    radii = np.geomspace(1e-7, 1e5, 40_001)
    density = along_a_ray(mechanism, factor, radii)
    cdf = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(radii))])
    if abs(cdf[-1] - 1.0) > 1e-5:
        return False
    fits = [stats.kstest(radius, lambda r: np.interp(r, radii, cdf)).pvalue > ALPHA]
    if k > 1:
        axes = np.linalg.qr(np.random.default_rng(1).normal(size=(k, k)))[0]
        share = (white @ axes.T / radius[:, None]) ** 2
        fits += [stats.kstest(column, stats.beta(0.5, 0.5 * (k - 1)).cdf).pvalue > ALPHA for column in share.T]
    return all(fits)


@every_law
@every_covariance
def test_draws_have_the_density_that_is_stated(name, C):
    """Which integrates to 1.  Twins: noise 3 % larger; factors of the covariance in the wrong order."""
    mechanism, k = MAKE[name](C), len(C)
    X = np.random.default_rng(2).normal(size=(200_000, k))
    E = mechanism.privatize(X, random_state=3) - X
    assert draws_fit_the_density(mechanism, C, E)
    assert not draws_fit_the_density(mechanism, C, 1.03 * E)
    if k > 1:
        factor = np.linalg.cholesky(C)
        assert not draws_fit_the_density(mechanism, C, np.linalg.solve(factor, E.T).T @ factor)
    if name != "t":  # whose fourth moment is infinite: no standard error for its variance
        error = 6.0 * np.std(E**2, axis=0) / math.sqrt(len(E))
        assert np.all(np.abs(np.mean(E**2, axis=0) - mechanism.noise_variance()) < error)


def test_variance_of_t_noise():
    """Of each number it is that of Student's t, scaled; infinite for two degrees of freedom or fewer."""
    for df in (2.5, 6.0):
        expected = [stats.t(df, scale=math.sqrt(c)).var() for c in np.diag(COVARIANCES[2])]
        np.testing.assert_allclose(MultivariateTMechanism(COVARIANCES[2], df).noise_variance(), expected, rtol=1e-12)
    assert MultivariateTMechanism(COVARIANCES[1], 2.0).noise_variance().tolist() == [math.inf, math.inf]


@every_law
@every_covariance
def test_densities_of_releases(name, C):
    """Summed over releases, widened like the covariance, one row a simulation; and given records."""
    mechanism, k, rng = MAKE[name](C), len(C), np.random.default_rng(4)
    S, simulated = rng.normal(size=(3, k)), rng.normal(size=(40, k))
    one_by_one = [mechanism.log_density(S, np.tile(row, (3, 1))).sum() for row in simulated]
    np.testing.assert_allclose(mechanism.release_density(S)(simulated), one_by_one, rtol=1e-12)
    wide = MAKE[name](6.25 * C).release_density(S)(simulated)
    np.testing.assert_allclose(mechanism.release_density(S, widen=2.5)(simulated), wide, rtol=1e-12)
    assert np.max(np.abs(wide - one_by_one)) > 0.1
    np.testing.assert_array_equal(
        mechanism.release_density(S[0])(simulated), mechanism.release_density(S[:1])(simulated)
    )
    query = BoundedRecords((0, 1), n_features=k)
    X = rng.random((5, k))
    expected = mechanism.release_density(S[:1])([X.sum(axis=0)])
    np.testing.assert_allclose(MAKE[name](C, query=query).log_density(S, X)[:1], expected, rtol=1e-12)


@every_law
@every_covariance
def test_mode_bounds_every_density_and_is_attained(name, C):
    mechanism, k = MAKE[name](C), len(C)
    E = np.random.default_rng(5).normal(size=(1000, k)) * np.geomspace(1e-6, 10, 1000)[:, None]
    mode = mechanism.log_release_mode(np.ones((1, k)))
    found = log_density_of_errors(mechanism, np.vstack([np.zeros((1, k)), E]))
    assert found[0] == pytest.approx(mode, rel=1e-13) and np.all(found <= mode) and found.min() < mode - 1.0
    assert mechanism.log_release_mode(np.ones((4, k))) == pytest.approx(4 * mode) and mechanism.n_columns(k) == k
    S = np.random.default_rng(6).normal(size=(4, k))
    densities, bound = mechanism.release_density(S)(np.vstack([S.mean(axis=0)[None], S.mean(axis=0) + E])), 4 * mode
    assert np.all(densities <= mechanism.log_release_mode(S) + 1e-12)
    tight = bound if name != "normal" else densities[0]
    assert mechanism.log_release_mode(S) == pytest.approx(tight, rel=1e-13) and densities[0] < bound - 0.01


# ---------------------------------------------------------------- guarantees

BOUNDS = [(0.0, 1.0), (-1.0, 1.0)]


def corners():
    """Pairs of records on the corners of the bounds, which differ most."""
    return [np.subtract(a, b) for a, b in itertools.permutations(itertools.product(*BOUNDS), 2)]


def largest_loss(mechanism, C):
    """The largest log ratio of densities at two centres that one replacement sets apart, along the shift and around."""
    rng, largest = np.random.default_rng(6), 0.0
    for shift in corners():
        along = np.concatenate([np.linspace(-8, 8, 16_001), np.geomspace(8, 1e4, 200)])[:, None] * shift
        around = rng.multivariate_normal(np.zeros(2), 3.0 * C, size=2000)
        E = np.vstack([along, around])
        ratio = log_density_of_errors(mechanism, E) - log_density_of_errors(mechanism, E - shift)
        largest = max(largest, float(ratio.max()))
    return largest


class OfUnknownMoves(BoundedRecords):
    """A query that does not say how far each number moves."""

    def entry_moves(self):
        return None


class OfSeveralRecords(BoundedRecords):
    """A query whose user gives away five records."""

    def sensitivity(self, norm=1, neighbours=None):
        return 5.0 * super().sensitivity(norm, neighbours)


class OfOthers(BoundedRecords):
    """Its bounds are those of other numbers, of the same sensitivity."""

    def contributions(self, records):
        return super().contributions(records)[:, ::-1]


@pytest.mark.parametrize("name", ["laplace", "t"])
def test_pure_epsilon_is_a_bound_and_attained(name):
    """For any covariance, where the query knows how far each number moves.  Twin: 3 % less noise.

    Else there is equality if the smallest eigenvector is the bounds' diagonal.
    """
    query, rng = BoundedRecords(BOUNDS, n_features=2), np.random.default_rng(7)
    unknown = OfUnknownMoves(BOUNDS, n_features=2)
    for _ in range(5):
        A = rng.normal(size=(2, 2))
        C = A @ A.T + 0.05 * np.eye(2)
        loss, epsilon = largest_loss(MAKE[name](C), C), MAKE[name](C, query=query).guarantee().epsilon
        assert epsilon * (1 - 1e-3) < loss <= epsilon * (1 + 1e-12)
        assert epsilon * (1 + 1e-3) < MAKE[name](C, query=unknown).guarantee().epsilon
    query = unknown
    diagonal = np.array([1.0, 2.0]) / math.sqrt(5.0)
    C = 4.0 * np.eye(2) - 3.0 * np.outer(diagonal, diagonal)
    epsilon = MAKE[name](C, query=query).guarantee().epsilon
    assert epsilon * (1 - 1e-6) < largest_loss(MAKE[name](C), C) <= epsilon * (1 + 1e-12)
    assert largest_loss(MAKE[name](0.94 * C), 0.94 * C) > epsilon
    assert MAKE[name](C, query=query).guarantee() == PrivacyGuarantee.pure(epsilon)


def test_rho_of_normal_noise():
    """ρ bounds half the squared Mahalanobis length of any replacement, and is attained; its δ is the integral's."""
    diagonal = np.array([1.0, 2.0]) / math.sqrt(5.0)
    known, unknown = (query(BOUNDS, n_features=2) for query in (BoundedRecords, OfUnknownMoves))
    narrow, wide = 4.0 * np.eye(2) - 3.0 * np.outer(diagonal, diagonal), np.diag([1.0, 9.0])
    for C, query, attained in ((narrow, unknown, True), (wide, unknown, False), (wide, known, True)):
        guarantee = MultivariateNormalMechanism(C, query=query).guarantee()
        largest = max(0.5 * shift @ np.linalg.solve(C, shift) for shift in corners())
        assert largest <= guarantee.rho * (1 + 1e-12) and (largest == pytest.approx(guarantee.rho)) == attained
        assert guarantee.epsilon is None and guarantee.delta is None
    mechanism = MultivariateNormalMechanism(4.0 * np.eye(2) - 3.0 * np.outer(diagonal, diagonal))
    shift = np.array([1.0, 2.0])
    axis = np.linspace(-12, 14, 1201)
    E = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    p, q = (np.exp(log_density_of_errors(mechanism, E - by)) for by in (0.0, shift))
    delta = np.maximum(p - math.e * q, 0.0).sum() * (axis[1] - axis[0]) ** 2
    assert delta == pytest.approx(gaussian_delta(1.0, 2.5), rel=1e-3)


def test_noise_as_wide_as_each_number_moves():
    """ε does not depend on units, ten numbers or more; and a sensitivity above that of the bounds is believed."""
    for k in (2, 12, 13):
        widths = 10.0 ** np.linspace(-3, 3, k)
        bounds = [(0.0, width) for width in widths]
        mechanism = MultivariateLaplaceMechanism(np.diag(widths**2), query=BoundedRecords(bounds, n_features=k))
        expected = math.sqrt(k) if k < 13 else math.hypot(*widths) / widths[0]
        assert mechanism.guarantee().epsilon == pytest.approx(expected)
    others = OfOthers([(0, 1), (0, 100)], n_features=2)
    loss = MultivariateLaplaceMechanism(np.diag([1.0, 1e4]), query=others).guarantee().epsilon
    assert loss >= 100.0  # of the first number, which moves by 100
    several = MultivariateLaplaceMechanism(np.eye(2), query=OfSeveralRecords((0, 1), n_features=2))
    assert several.guarantee().epsilon == pytest.approx(5.0 * math.sqrt(2.0))


def test_the_other_relation_of_neighbours_is_named():
    query = BoundedRecords(BOUNDS, n_features=2, neighbours="add_remove")
    for C in (np.eye(2), np.array([[1.0, 0.9], [0.9, 1.0]])):
        guarantee = MultivariateLaplaceMechanism(C, query=query).guarantee()
        assert guarantee.neighbours == "add or remove one record"
        corners = [np.array(corner) for corner in itertools.product(*BOUNDS)]
        exact = max(math.sqrt(corner @ np.linalg.solve(C, corner)) for corner in corners)
        assert guarantee.epsilon == pytest.approx(exact)


# ---------------------------------------------------------------- objects and inputs


@every_law
def test_they_are_scikit_learn_objects(name):
    """clone, get_params, pickle and repr; a list is stored as it is; releases are reproducible and have a shape."""
    C = [[4.0, 1.0], [1.0, 2.0]]
    mechanism = MAKE[name](C, query=BoundedRecords(BOUNDS, n_features=2))
    X = np.random.default_rng(8).random((10, 2))
    Z = mechanism.privatize(X, random_state=0)
    assert Z.shape == (2,) and mechanism.covariance is C
    for copy in (clone(mechanism), pickle.loads(pickle.dumps(mechanism)), eval(repr(mechanism))):
        assert repr(copy) == repr(mechanism)
        np.testing.assert_array_equal(copy.privatize(X, random_state=0), Z)
    assert not np.any(mechanism.privatize(X, random_state=1) == Z)
    assert mechanism.get_params()["query__n_features"] == 2


@every_law
@pytest.mark.parametrize(
    "covariance, says",
    [
        (2.0, r"symmetric matrix of shape \(k, k\), got covariance=2.0"),
        ([1.0, 2.0], "symmetric matrix"),
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric matrix"),
        ([[1.0, np.nan], [np.nan, 1.0]], "symmetric matrix"),
        ([["a"]], "symmetric matrix"),
        (None, "symmetric matrix"),
        ([[1.0, 2.0], [2.0, 1.0]], "covariance must be positive definite, .*some direction has no noise"),
        ([[1.0, 1.0], [1.0, 1.0]], "positive definite"),
        (np.eye(3), r"covariance must have shape \(2, 2\), as the query releases 2 number\(s\), got shape \(3, 3\)"),
    ],
    ids=str,
)
def test_a_wrong_covariance_is_named(name, covariance, says):
    mechanism = MAKE[name](covariance, query=BoundedRecords(BOUNDS, n_features=2))
    for call in (mechanism.check, mechanism.guarantee, lambda: mechanism.privatize([[0.5, 0.5]])):
        with pytest.raises(ValueError, match=says):
            call()


@every_law
def test_wrong_inputs_are_named(name):
    mechanism = MAKE[name](np.eye(2))
    with pytest.raises(ValueError, match=r"guarantee\(\) needs query=: covariance says how large the noise is"):
        mechanism.guarantee()
    with pytest.raises(ValueError, match="has no secure=True: it draws with NumPy only"):
        mechanism.privatize(np.zeros((1, 2)), secure=True)
    with pytest.raises(ValueError, match=r"a release of 3 number\(s\) does not fit covariance of shape \(2, 2\)"):
        mechanism.privatize(np.zeros((1, 3)))
    with pytest.raises(ValueError, match=r"a release of 3 number\(s\) does not fit covariance of shape \(2, 2\)"):
        mechanism.n_columns(3)
    with pytest.raises(ValueError, match=r"statistics must have shape \(size, 2\) .* got statistics of shape \(5, 3\)"):
        mechanism.release_density(np.zeros((1, 2)))(np.zeros((5, 3)))
    with pytest.raises(ValueError, match=r"Z must have the shape of a release of X, \(4, 2\), got \(3, 2\)"):
        mechanism.log_density(np.zeros((3, 2)), np.zeros((4, 2)))
    for df in (0.0, -1.0, np.inf, "a", None):
        with pytest.raises(ValueError, match="df must be positive and finite"):
            MultivariateTMechanism(np.eye(2), df).privatize(np.zeros((1, 2)))


@every_law
def test_elsewhere_they_are_refused_in_a_sentence(name):
    """Samplers that need each number's own noise say so."""
    for query in (None, BoundedRecords(BOUNDS, n_features=2)):
        with pytest.raises(ValueError, match=r"(?s)PrivateDPMixture has no sampler for .* release records one by one"):
            PrivateDPMixture(MAKE[name](np.eye(2), query=query)).fit(np.zeros((5, 2)))
    joint = MAKE[name](np.eye(5), query=RegressionMoments((0, 1), (0, 1), 1))
    with pytest.raises(TypeError, match="PrivateLinearRegressionDA needs noise that is drawn separately for"):
        PrivateLinearRegressionDA(joint, n_records=5).fit(np.ones((1, 5)))
