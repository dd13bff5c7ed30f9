"""PrivateDPMixture with the multivariate normal kernel: what is refused, what is advised, the estimator end to end."""

import pickle
import re

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from statistical import ALPHA

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.estimators.mixture._compose import resolve_components
from sklearn_dpmix.kernels import MultivariateNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
)
from sklearn_dpmix.samplers import Neal5

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")  # where what is drawn is not compared
NUMBERS = {"mean": 0.0, "dof": 6.0, "scale": 2.0}
LAPLACE = LaplaceMechanism(scale=0.6, bounds=(-4.0, 4.0))


def small_release(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.multivariate_normal([0.0, 0.5], [[1.0, 0.7], [0.7, 1.0]], n)
    X[: n // 3] += [3.0, -2.0]
    return X


def small_fit(mechanism=None, Z=None, kernel=None, **params):
    Z = small_release() if Z is None else Z
    defaults = {"n_chains": 2, "n_warmup": 200, "n_draws": 200, "random_state": 0}
    kernel = MultivariateNormalKernel(**NUMBERS) if kernel is None else kernel
    return PrivateDPMixture(mechanism, kernel=kernel, **defaults | params).fit(Z)


def check_advice(error, mechanism, kernel):
    """The samplers that a message advises must take the parts that it refused."""
    advice = re.split("[;:]", str(error).replace("'", '"'))[-1]
    advised = advice.split('"')[1::2]
    assert advised, f"no remedy in: {error}"
    for name in advised:
        resolve_components(mechanism, kernel, None, name, getattr(mechanism, "n_records", None))


@pytest.mark.parametrize("sampler", ["interweaved", "slice", "conditional", "neal8", "neal2", "neal3", "reuse"])
def test_samplers_that_need_a_closed_form_are_refused_under_noise(sampler):
    """Catches a sampler that would take the features one by one; what the message advises must work."""
    with pytest.raises(ValueError, match=r"sampler .* (use|takes)") as error:
        small_fit(LAPLACE, sampler=sampler)
    check_advice(error.value, LAPLACE, MultivariateNormalKernel(**NUMBERS))


def test_histograms_are_taken_or_refused_with_advice_that_works():
    """Catches advice to use what was used: records of one histogram cannot be imputed one by one."""
    mechanism, kernel = PerturbedHistogramMechanism(2.0, 4, n_records=30), MultivariateNormalKernel(0.5, 0.5, 6.0, 0.2)
    for sampler in ("auto", "imputed"):
        try:
            resolve_components(mechanism, kernel, None, sampler, 30)
        except ValueError as error:
            check_advice(error, mechanism, kernel)


@pytest.mark.parametrize("sampler", ["neal5", "imputed", "interweaved"])
def test_samplers_that_impute_are_refused_without_noise(sampler):
    """Catches a sampler of imputed records where there are none; the message names the remedy."""
    with pytest.raises(ValueError, match=r'without (a mechanism|noise).*: use sampler="auto"'):
        small_fit(sampler=sampler)


def test_imputed_needs_a_kernel_that_conditions():
    """Catches a product kernel under ``"imputed"``, which it has no method for."""
    with pytest.raises(ValueError, match=r"Imputed draws each feature given the others, but NormalKernel.*neal5"):
        small_fit(LAPLACE, kernel=NormalKernel(mean=0.0, scale=1.0), sampler="imputed")


@pytest.mark.nightly
def test_cdf_of_correlated_features_is_refused():
    """Catches a product of marginal distribution functions."""
    model = small_fit()
    with pytest.raises(ValueError, match=r"cdf_draws needs features that are independent.*sample\(n\)"):
        model.cdf_draws(np.zeros((1, 2)))


@pytest.mark.slow
@pytest.mark.nightly
def test_one_feature_has_a_distribution_function():
    """Catches a refusal of what has an answer: of one feature there is a distribution function."""
    one = small_fit(Z=small_release()[:, :1])
    assert np.all(np.diff(one.cdf_draws(np.linspace(-5, 9, 7)[:, None])) >= 0)


def test_channels_without_pieces_fall_back_or_say_so():
    """Catches the tilts of a Laplace channel used for one that has none: discrete noise, integer releases."""
    mechanism, kernel = DiscreteLaplaceMechanism(scale=1.0), MultivariateNormalKernel(**NUMBERS)
    assert type(resolve_components(mechanism, kernel, None, "auto", None)[2]) is Neal5
    with pytest.raises(ValueError, match=r"no closed form for that under DiscreteLaplaceMechanism.*neal5"):
        small_fit(mechanism, np.round(small_release()), sampler="imputed")


@pytest.mark.slow
@pytest.mark.nightly
def test_discrete_noise_is_fitted():
    """Catches a sampler that ``auto`` picks under discrete noise and that does not compile there."""
    assert type(small_fit(DiscreteLaplaceMechanism(scale=1.0), np.round(small_release())).sampler_) is Neal5


# --- the estimator ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["none", "laplace"])
def fitted(request):
    mechanism = None if request.param == "none" else LAPLACE
    Z = small_release(60)
    Z = Z if mechanism is None else mechanism.privatize(Z, random_state=1)
    return small_fit(mechanism, Z, kernel="multivariate_normal", n_draws=500), Z


def grid(model, step=0.2, reach=12.0):
    """Cells of a grid around the records: (points, density times area)."""
    t = np.arange(-reach, reach, step) + 0.5 * step
    x = np.stack(np.meshgrid(t + 1.0, t, indexing="ij"), axis=-1).reshape(-1, 2)
    return x, np.exp(model.score_samples(x)) * step**2


@pytest.mark.slow
def test_predictive_density_integrates_to_one_and_is_sampled(fitted):
    """Catches a density of another law than ``sample`` draws from, above all in the features' correlation.

    On a box, as the predictive has the tails of a Student t: the mass, the means and the covariance inside it.
    """
    model, _ = fitted
    x, mass = grid(model)
    assert 0.98 < mass.sum() < 1 + 1e-6
    inside = (np.abs(x - [1.0, 0.0]) < 6.0).all(axis=1)
    S = model.sample(100_000, random_state=2)
    kept = (np.abs(S - [1.0, 0.0]) < 6.0).all(axis=1)
    p = mass[inside].sum()
    assert abs(kept.mean() - p) < stats.norm.isf(ALPHA / 2) * np.sqrt(p * (1 - p) / len(S)) + 1e-4
    x, w, S = x[inside], mass[inside] / p, S[kept]
    functions = [lambda a: a[:, 0], lambda a: a[:, 1], lambda a: a[:, 0] ** 2, lambda a: a[:, 1] ** 2]
    functions += [lambda a: a[:, 0] * a[:, 1], lambda a: np.sign(a[:, 0] - 1.0) * np.sign(a[:, 1])]
    for f in functions:
        error = f(S).std() / np.sqrt(len(S))
        assert abs(f(S).mean() - w @ f(x)) < stats.norm.isf(ALPHA / 2) * error + 2e-3


@pytest.mark.slow
def test_moments_are_those_of_the_samples_of_each_draw(fitted):
    """Catches a variance without the clusters' spread: E over draws of mean and variance against ``sample``."""
    model, _ = fitted
    mean, variance = model.moment_draws()
    S = model.sample(200_000, random_state=3)
    centre = mean.mean(axis=(0, 1))
    total = variance.mean(axis=(0, 1)) + mean.var(axis=(0, 1))
    limit = stats.norm.isf(ALPHA / 2)
    assert np.all(np.abs(S.mean(axis=0) - centre) < limit * S.std(axis=0) / np.sqrt(len(S)))
    squares = (S - centre) ** 2
    assert np.all(np.abs(squares.mean(axis=0) - total) < limit * squares.std(axis=0) / np.sqrt(len(S)))


@pytest.mark.slow
def test_labels_and_releases(fitted):
    """Catches labels and predictions that disagree, and a score of releases that ignores the noise."""
    model, Z = fitted
    assert model.labels_.shape == (60,)
    assert sorted(set(model.labels_)) == list(range(model.labels_.max() + 1))
    again = model.predict(Z)
    assert np.mean(again == model.labels_) == 1.0
    assert np.isfinite(model.score_release(Z)) and model.score_release(Z) > model.score_release(Z + 3.0)
    if model.mechanism is None:
        assert abs(model.score_release(Z) - model.score(Z)) < 0.05


@pytest.mark.nightly
def test_score_release_is_the_convolved_density():
    """Catches a wrong g: its mean against the density on a grid, as near as 10,000 records would be.

    Unclamped noise, so that g(z) is the predictive density smoothed by the noise.
    """
    mechanism = GaussianMechanism(scale=0.8)
    Z = mechanism.privatize(small_release(), random_state=1)
    model = small_fit(mechanism, Z)
    x, mass = grid(model)
    for z in Z[:3]:
        q = np.exp(-0.5 * np.sum((z - x) ** 2, axis=1) / 0.64) / (2 * np.pi * 0.64)
        g = mass @ q
        error = np.sqrt((mass @ q**2 - g**2) / 10_000)
        assert abs(np.exp(model.score_release(z[None])) - g) < stats.norm.isf(ALPHA / 2) * error


@pytest.mark.slow
@pytest.mark.nightly
def test_partitions_without_noise():
    """Catches partitions from features taken one by one: records of one cluster must be found together."""
    model = small_fit(n_draws=500)
    together = model.similarity(n_partitions=200, random_state=0)
    assert together.shape == (30, 30) and np.allclose(np.diag(together), 1) and np.allclose(together, together.T)
    labels = model.point_partition(n_partitions=200, random_state=0)
    truth = np.arange(30) < 10
    assert np.mean(together[truth][:, truth]) > np.mean(together[truth][:, ~truth]) and len(labels) == 30


@pytest.mark.slow
def test_partitions_are_refused_under_noise():
    """Catches partitions where no density of each release is at hand; the message names what there is."""
    noisy = small_fit(LAPLACE)
    for method in (noisy.similarity, noisy.point_partition):
        with pytest.raises(ValueError, match=r"of each record, which is not available .* use labels_"):
            method()


@pytest.mark.slow
def test_informativeness(fitted):
    """Catches a prior density of another base measure: more records say more, a far one says nearly everything."""
    model, _ = fitted
    assert 0 < model.informativeness(random_state=0) < 1
    if model.mechanism is not None:
        return
    few, many = (small_fit(Z=small_release(n)).informativeness(random_state=0) for n in (1, 100))
    assert few < many


def test_empirical_bayes_takes_its_numbers_from_the_release():
    """Catches an open Ψ of other units: a prior record has the release's variances less the noise's, no correlation."""
    Z = small_release(4000)
    mechanism = GaussianMechanism(scale=1.0)
    model = small_fit(mechanism, mechanism.privatize(Z, random_state=1), kernel="multivariate_normal", n_draws=2,
                      n_warmup=1)  # fmt: skip
    kernel = model.kernel_
    assert kernel.dof == 7.0 and kernel.mean_precision == 0.1
    np.testing.assert_allclose(kernel.mean, Z.mean(axis=0), atol=0.15)
    of_prior_record = np.array(kernel.scale) / (kernel.dof - 3.0) * (1 + 1 / kernel.mean_precision)
    np.testing.assert_allclose(of_prior_record, np.diag(Z.var(axis=0)), rtol=0.1, atol=1e-12)


@pytest.mark.slow
def test_pickle_clone_and_jobs(fitted):
    """Catches draws that depend on threads or that a copy does not repeat."""
    model, Z = fitted
    x = small_release(3)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.density_draws(x), model.density_draws(x))
    np.testing.assert_array_equal(copy.predict(Z), model.predict(Z))
    for other in (clone(model).fit(Z), clone(model).set_params(n_jobs=2).fit(Z)):
        np.testing.assert_array_equal(other.n_clusters_draws_, model.n_clusters_draws_)
        np.testing.assert_array_equal(other.density_draws(x), model.density_draws(x))
    named = clone(model).set_params(kernel=MultivariateNormalKernel(mean_precision=0.2, scale=[[2.0, 0.5], [0.5, 1.0]]))
    assert clone(named).kernel.scale == [[2.0, 0.5], [0.5, 1.0]] and named.get_params()["kernel__mean_precision"] == 0.2


@pytest.mark.slow
def test_more_draws_are_those_of_one_longer_run(fitted):
    """Catches a state that forgets something between blocks."""
    model, Z = fitted
    short = clone(model).set_params(n_draws=200, warm_start=True).fit(Z)
    short.set_params(n_draws=500).fit(Z)
    np.testing.assert_array_equal(short.n_clusters_draws_, model.n_clusters_draws_)
