"""Models of DP-MCMC: gradients by finite differences, ranges by brute force, compiled passes against NumPy ones."""

import numpy as np
import pytest
from scripts import COMPILES
from sklearn.base import clone

from sklearn_dpmix.estimators.private._noise_source import SimulatedNoise
from sklearn_dpmix.models import Banana, GaussianMean, LikelihoodModel, LinearGaussianLikelihood, LogisticLikelihood
from sklearn_dpmix.models._linear_likelihood import LinearLikelihood, linear_diameter
from sklearn_dpmix.samplers.private import _likelihood_pass
from sklearn_dpmix.samplers.private._likelihood_pass import CompiledPass, PlainPass
from sklearn_dpmix.samplers.private._target import Target

MODELS = [
    Banana(a=2.0, b=0.5, m=0.3, sigma=(1.5, 0.7), prior_sigma=2.0, data_norm=2.0),
    Banana(a=2.0, sigma=(1.5, 0.7, 2.0), prior_sigma=2.0, data_norm=2.0),
    GaussianMean(n_features=2, sigma=1.5, prior_sigma=2.0, data_norm=2.0),
    LogisticLikelihood(n_features=2, prior_sigma=2.0, data_norm=2.0),
    LogisticLikelihood(n_features=2, fit_intercept=False, prior_sigma=2.0, data_norm=2.0, prior_df=1.0),
    LinearGaussianLikelihood(n_features=2, sigma=0.8, prior_sigma=2.0, data_norm=2.0, y_bound=1.5),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{type(model).__name__}{model.n_params}")


def records(model, rng, n):
    """Records, most of them on the edge of what the model's ``clip_records`` leaves."""
    X = rng.normal(size=(n, model.n_columns))
    X[: 3 * n // 4] *= 100.0
    if isinstance(model, LogisticLikelihood):
        X[:, -1] = rng.integers(0, 2, n)
    return model.clip_records(X)


@every_model
def test_gradients_are_those_of_the_densities(model):
    """Against central differences, of the likelihood and of the prior."""
    rng = np.random.default_rng(0)
    X, theta = records(model, rng, 30), rng.normal(size=model.n_params)
    steps = 1e-6 * np.eye(model.n_params)
    slopes = [(model.log_density(X, theta + e) - model.log_density(X, theta - e)) / 2e-6 for e in steps]
    np.testing.assert_allclose(model.grad_log_density(X, theta), np.transpose(slopes), rtol=1e-5, atol=1e-6)
    prior = (model.log_prior(theta + steps) - model.log_prior(theta - steps)) / 2e-6
    np.testing.assert_allclose(model.grad_log_prior(theta), prior, rtol=1e-5, atol=1e-6)


@every_model
def test_information_is_minus_the_mean_hessian(model):
    """Observed information against differences of gradients; Fisher information where that is all there is."""
    rng = np.random.default_rng(1)
    X, theta = records(model, rng, 40), rng.normal(size=model.n_params)
    slopes = [
        (model.grad_log_density(X, theta - e) - model.grad_log_density(X, theta + e)).sum(axis=0) / 2e-5
        for e in 1e-5 * np.eye(model.n_params)
    ]
    if hasattr(model, "observed_information"):
        np.testing.assert_allclose(model.observed_information(X, theta), np.array(slopes), rtol=1e-4, atol=1e-4)
    else:  # the variance of the score, with records from the model
        X = model.sample_records(rng, theta, 200_000)
        scores = model.grad_log_density(X, theta)
        np.testing.assert_allclose(np.cov(scores.T), model.information(theta), rtol=0.03, atol=0.03)


@every_model
def test_working_coordinates_are_undone_and_have_their_jacobian(model):
    """θ(φ(θ)) = θ, and dθ/dφ by central differences."""
    if not hasattr(model, "to_working"):
        return
    theta = np.random.default_rng(2).normal(size=model.n_params)
    phi = model.to_working(theta)
    np.testing.assert_allclose(model.from_working(phi), theta, rtol=1e-12)
    slopes = [(model.from_working(phi + e) - model.from_working(phi - e)) / 2e-6 for e in 1e-6 * np.eye(len(phi))]
    np.testing.assert_allclose(model.working_jacobian(phi), np.transpose(slopes), rtol=1e-6, atol=1e-8)


@every_model
def test_no_two_records_differ_by_more_than_the_ranges(model):
    """The privacy of a release rests on them; brute force comes near what they say, so a smaller range is exceeded."""
    rng = np.random.default_rng(3)
    X, nearest = records(model, rng, 3000), []
    for scale in (0.01, 0.5, 3.0):
        for _ in range(4):
            theta = rng.normal(size=model.n_params) * rng.choice([0.1, 1.0])
            new = theta + scale * rng.normal(size=model.n_params)
            found = np.ptp(model.log_density(X, new) - model.log_density(X, theta))
            frame = rng.normal(size=(model.n_params, model.n_params))
            g = model.grad_log_density(X, theta) @ frame
            g = g[np.argsort(-np.linalg.norm(g - g.mean(axis=0), axis=1))[:300]]
            apart = np.linalg.norm(g[:, None] - g[None], axis=2).max()
            found, apart = found / model.log_ratio_range(theta, new), apart / model.gradient_range(theta, frame)
            assert found <= 1.0 + 1e-12 and apart <= 1.0 + 1e-12
            nearest.append((found, apart))
    assert np.all(np.max(nearest, axis=0) > (0.55 if "Logistic" in type(model).__name__ else 0.85)), nearest


@pytest.mark.parametrize("t", [0.0, 1e-9, 0.3, 1.0, 2.0, 5.0, 30.0])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (LogisticLikelihood(2, False, data_norm=2.0), 1.0),
        (LinearGaussianLikelihood(2, False, sigma=0.7, data_norm=2.0, y_bound=2.0), 2.0),
    ],
)
def test_gradients_of_records_come_as_far_apart_as_their_range(model, y, t):
    """On a grid of all pairs of full rows; simpler bounds, which no pair attains, are up to 39 % and 15 % more."""
    angles = np.linspace(0.0, 2.0 * np.pi, 1601)
    X = np.column_stack([2.0 * np.cos(angles), 2.0 * np.sin(angles), np.full(1601, y)])  # the other y: minus the row
    theta, across = np.array([0.5 * t * y, 0.0]), np.array([0.0, 1e-6])
    g = model.grad_log_density(X, theta)
    apart = np.linalg.norm(g[:, None] - g[None], axis=2).max() / model.gradient_range(theta, np.eye(2))
    found = np.ptp(model.log_density(X, theta + across) - model.log_density(X, theta - across))
    found /= model.log_ratio_range(theta - across, theta + across)
    assert 0.999 < apart <= 1.0 + 1e-12 and 0.999 < found <= 1.0 + 1e-6


def test_gradients_of_linear_records_where_parameters_are_huge():
    assert linear_diameter(1e200) == pytest.approx(1e200) and linear_diameter(np.inf) == np.inf


@every_model
def test_huge_records_are_moved_into_the_ball_too(model):
    """The largest floats among them, without a warning, in their direction; else one counts as 0, or more than it may.

    A model that divides records by their unit before it shortens them makes infinite ones.
    """
    import warnings

    rng = np.random.default_rng(8)
    X = rng.normal(size=(60, model.n_columns)) * 10.0 ** rng.uniform(-320.0, 307.0, (60, 1))
    X[:3], X[3:6, 0] = [[1e308], [-1.7e308], [1e200]], [1e308, -1.7e308, 1e155]
    if isinstance(model, Banana):
        model = clone(model).set_params(sigma=[1e-3, 0.1, 5.0][: model.n_params])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clipped = model.clip_records(X)
    n_clipped = model.n_columns - isinstance(model, LinearLikelihood)
    unit = np.array(model.sigma) if isinstance(model, Banana) else np.ones(n_clipped)
    found, given = clipped[:, :n_clipped] / unit, X[:, :n_clipped] / np.abs(X[:, :n_clipped]).max(axis=1, keepdims=True)
    lengths = np.linalg.norm(found, axis=1)
    assert np.all(lengths <= 2.0 * (1.0 + 1e-12)) and np.allclose(lengths[:6], 2.0)
    np.testing.assert_allclose(found[:6] / 2.0, (given / unit / np.linalg.norm(given / unit, axis=1)[:, None])[:6])
    theta, new = rng.normal(size=(2, model.n_params))
    ratios = model.log_density(clipped, new) - model.log_density(clipped, theta)
    assert np.ptp(ratios) <= model.log_ratio_range(theta, new) * (1.0 + 1e-9)


@pytest.mark.parametrize("model", MODELS[3:], ids=["logistic3", "logistic2", "linear3"])
def test_no_two_records_differ_by_more_in_their_information(model):
    """In the Frobenius norm; for linear regression attained by orthogonal rows."""
    rng = np.random.default_rng(4)
    X, theta = records(model, rng, 60), 0.01 * rng.normal(size=model.n_params)
    each = np.array([model.observed_information(x[None], theta) for x in X])
    apart = np.linalg.norm((each[:, None] - each[None]).reshape(60, 60, -1), axis=2).max()
    assert 0.6 * model.information_range(theta) < apart <= model.information_range(theta) * (1.0 + 1e-12)


@every_model
@pytest.mark.parametrize("bound", [np.inf, 0.3])
def test_compiled_passes_are_numpys(model, bound, monkeypatch):
    """Blocks, clipping, batches: the compiled pass against the plain one."""
    monkeypatch.setattr(_likelihood_pass, "BLOCK", 37)
    rng = np.random.default_rng(5)
    X, theta, new = records(model, rng, 200), *rng.normal(size=(2, model.n_params))
    fast, slow = CompiledPass(model, X), PlainPass(model, X)
    for rows in (None, np.array([3, 150, 77])):
        np.testing.assert_allclose(
            fast.ratios(theta, new, bound, rows), slow.ratios(theta, new, bound, rows), rtol=1e-9, atol=1e-12
        )
    frame = rng.normal(size=(model.n_params, model.n_params))
    total, plain = fast.gradient(theta, frame, bound), slow.gradient(theta, frame, bound)
    np.testing.assert_allclose(total, plain, rtol=1e-9)
    is_clipped = not np.allclose(total, fast.gradient(theta, frame, np.inf))
    assert is_clipped == np.isfinite(bound)


class NoNumbers(GaussianMean):
    """Its density overflows, or is nothing at all, for some records."""

    def log_density(self, X, theta):
        return np.where(X[:, 0] > 100.0, np.nan, np.where(X[:, 0] < -100.0, -np.inf, -((X[:, 0] - theta[0]) ** 2)))

    def grad_log_density(self, X, theta):
        return np.where(np.abs(X[:, :1]) > 100.0, np.inf, X[:, :1] - theta[0])


@COMPILES
@pytest.mark.parametrize("bound", [np.inf, 0.5])
def test_a_record_without_a_number_counts_as_nothing(bound):
    """No sum is NaN or infinite because of one record, in plain and compiled passes, and nothing is warned of."""
    import warnings

    X = np.array([[0.1], [1e3], [-1e3], [0.2]])
    theta, new = np.zeros(1), np.ones(1)
    huge = np.array([[0.1, -0.2], [1e308, -1e308], [1e200, 1.0]])
    bent = CompiledPass(Banana(sigma=(1.0, 1.0)), huge)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = PlainPass(NoNumbers(), X)
        kept = PlainPass(NoNumbers(), X[[0, 3]]).ratios(theta, new, bound)
        np.testing.assert_allclose(plain.ratios(theta, new, bound)[0], kept.total)
        assert np.all(np.isfinite(plain.gradient(theta, np.eye(1), bound)))
        found = bent.ratios(np.array([0.0, 3.0]), np.array([2.0, 6.0]), bound)
        assert np.isfinite(found.total) if bound < np.inf else not np.isnan(found.total)
        total = bent.gradient(np.array([2.0, 6.0]), np.eye(2), bound)
        assert np.all(np.isfinite(total) if bound < np.inf else ~np.isnan(total))


class NoInformation(GaussianMean):
    """Its curvature is released, and is nothing at all, or infinite, for records out of the way."""

    information = property()  # not public

    def observed_information(self, X, theta):
        return np.where(X > 100.0, np.nan, np.where(X < -100.0, np.inf, 1.0)).sum()[None, None] * np.eye(1)

    def information_range(self, theta):
        return 1.0  # of 0 or 1


@pytest.mark.parametrize("wrong", [[], [0], [8191, 8192, 19_999]])
def test_a_record_without_observed_information_counts_as_nothing(wrong):
    """One record changes nothing but the sum, by no more than the range, wherever among the blocks it is."""
    import warnings

    X = np.zeros((20_000, 1))
    X[wrong, 0] = [1e3, -1e3, np.inf][: len(wrong)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Target(NoInformation(), X, clip_bound=1.0).information(np.zeros(1))
    np.testing.assert_array_equal(found, [[20_000.0 - len(wrong)]])


def test_observed_information_of_another_shape_is_named():
    class Numbers(NoInformation):
        def observed_information(self, X, theta):
            return np.ones(len(X))

    with pytest.raises(ValueError, match=r"observed_information of Numbers .* \(1, 1\), got \(5,\)"):
        Target(Numbers(), np.zeros((5, 1)), clip_bound=1.0).information(np.zeros(1))


def test_labels_are_what_the_range_was_made_for():
    """Whatever a record says of y, the likelihood sees 0 or 1; rows of 1e200 land on the sphere."""
    model = LogisticLikelihood(n_features=2, data_norm=2.0)
    clipped = model.clip_records(np.array([[1e200, 0.0, -1000.0], [0.1, 0.2, 7.0], [-3.0, 4.0, 0.0]]))
    np.testing.assert_allclose(clipped, [[2.0, 0.0, 0.0], [0.1, 0.2, 1.0], [-1.2, 1.6, 0.0]])


def test_batches_are_drawn_without_replacement_and_evenly():
    """Every pair of five records equally often; drawn with replacement they are not."""
    source, order = SimulatedNoise(np.random.default_rng(6)), np.arange(5)
    passes = CompiledPass(GaussianMean(), np.zeros((5, 1)))
    batches = [tuple(sorted(passes.batch(source, 2, order))) for _ in range(20_000)]
    assert all(a != b for a, b in batches)
    counts = np.array([batches.count((a, b)) for a in range(5) for b in range(a + 1, 5)])
    assert counts.sum() == 20_000 and np.sum((counts - 2000.0) ** 2 / 2000.0) < 40.0  # chi-square, 9 degrees: 7e-6


def test_what_a_users_model_returns_is_checked():
    """A wrong shape says which, and what was expected."""

    class Wrong:
        def log_density(self, X, theta):
            return X

        def grad_log_density(self, X, theta):
            return X

    passes = PlainPass(Wrong(), np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"log_density of Wrong must return shape \(n,\) = \(4,\)"):
        passes.ratios(np.zeros(1), np.ones(1), np.inf)
    with pytest.raises(ValueError, match=r"grad_log_density of Wrong must return shape \(n, n_params\) = \(4, 1\)"):
        passes.gradient(np.zeros(1), np.eye(1), np.inf)


@pytest.mark.parametrize(
    "model, message",
    [
        (Banana(sigma=(1.0, -1.0)), r"sigma of Banana must be a list of numbers from 1e-100 to 1e\+100, got"),
        (Banana(sigma=(1.0,)), "at least 2 entries"),
        (Banana(sigma=(1.0, 1e-170)), "sigma of Banana must be a list of numbers from 1e-100"),  # its square is 0
        (GaussianMean(prior_sigma=0.0), "prior_sigma of GaussianMean"),
        (LogisticLikelihood(data_norm=np.inf), "data_norm of LogisticLikelihood"),
        (LinearGaussianLikelihood(data_norm=1.0), "data_norm and y_bound go together"),
    ],
    ids=["sigma", "length", "tiny", "prior", "norm", "pair"],
)
def test_bad_parameters(model, message):
    """Each error names the parameter and what was given."""
    with pytest.raises(ValueError, match=message):
        model.check()


def test_a_model_need_not_have_a_data_norm():
    """As the class says: its records are as they come, and the other parameters are checked."""

    class Mean(LikelihoodModel):
        n_params, n_columns, prior_sigma = 1, 1, 2.0

    Mean().check()
    np.testing.assert_array_equal(Mean().clip_records(np.array([[1e9]])), [[1e9]])
