"""PrivateDPMixture as scikit-learn sees it, and what its numbers mean."""

import sys
import warnings

import numpy as np
import pytest
from fitted_mixtures import COMPONENTS, MECHANISM, RECORDS, RELEASE, fit
from sklearn.base import clone, is_clusterer
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._chains.mixed import ESS_LIMIT
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism, SmoothedHistogramMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures
from sklearn_dpmix.samplers import MixingMeasure

quietly = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


# --- scikit-learn ----------------------------------------------------------------------------------------------------


def test_tags_and_parameters():
    """Catches another type of estimator, a second positional parameter, and a parameter that clone loses."""
    assert is_clusterer(PrivateDPMixture())
    with pytest.raises(TypeError, match="positional"):
        PrivateDPMixture(MECHANISM, "normal")
    model = PrivateDPMixture(clone(MECHANISM), mixing=DirichletProcess(), random_state=3)
    model.set_params(mechanism__epsilon=7.0, mixing__concentration=0.5, n_draws=5)
    copied = clone(model)
    assert copied.mechanism.epsilon == 7.0
    assert copied.mixing.concentration == 0.5
    assert copied.mixing is not model.mixing
    assert repr(copied) == repr(model)
    assert MECHANISM.epsilon == 50.0


@quietly
def test_pipeline_and_cross_validation(fitted):
    """Catches a fit or a score that a meta-estimator cannot call; cross-validation must use the same numbers."""
    pipeline = make_pipeline(FunctionTransformer(), clone(fitted)).fit(RELEASE)
    np.testing.assert_array_equal(pipeline.predict(RELEASE), fitted.labels_)
    np.testing.assert_array_equal(pipeline.fit_predict(RELEASE), fitted.labels_)
    assert pipeline.score(RECORDS) == fitted.score(RECORDS) == fitted.score_samples(RECORDS).mean()

    def by_release(model, Z, y=None):
        return model.score_release(Z)

    model = PrivateDPMixture(MECHANISM, n_chains=1, n_warmup=20, n_draws=20, random_state=0)
    scores = cross_val_score(model, RELEASE, scoring=by_release, cv=3)
    by_hand = clone(model).fit(RELEASE[100:]).score_release(RELEASE[:100])
    assert scores[0] == by_hand
    assert np.all(np.isfinite(cross_val_score(model, RELEASE, cv=3)))


@quietly
def test_grid_search_over_the_concentration_by_score_release():
    """Catches a concentration that does not reach the chains: one so large that every record is alone must lose."""
    model = PrivateDPMixture(MECHANISM, mixing=DirichletProcess(), n_chains=1, n_warmup=50, n_draws=50, random_state=0)
    grid, Z = {"mixing__concentration": [1.0, 1e4]}, RELEASE[:80]
    search = GridSearchCV(model, grid, scoring=lambda est, Z, y=None: est.score_release(Z), cv=2).fit(Z)
    assert search.best_params_ == {"mixing__concentration": 1.0}
    assert search.best_estimator_.mixing_.concentration == 1.0
    assert search.best_estimator_.n_clusters_draws_.mean() < 30
    assert model.mixing.concentration == 1.0
    assert clone(model).set_params(mixing__concentration=1e4).fit(Z).n_clusters_draws_.mean() > 60


# --- what the draws are ----------------------------------------------------------------------------------------------


def test_attributes_have_their_shapes(fitted):
    """Catches axes in another order, and attributes that the contract promises and fit forgot."""
    assert fitted.n_clusters_draws_.shape == (2, 200)
    assert np.issubdtype(fitted.n_clusters_draws_.dtype, np.integer)
    assert fitted.weights_draws_.shape == (2, 200, fitted.n_clusters_draws_.max())
    assert fitted.labels_.shape == (300,)
    assert np.issubdtype(fitted.labels_.dtype, np.integer)
    assert fitted.n_iter_ == 500
    assert fitted.n_features_in_ == 1
    assert set(fitted.r_hat_) == set(fitted.ess_) == {"n_clusters", "mean", "log_variance", "log_density"}
    assert isinstance(fitted.kernel_, NormalKernel)
    assert fitted.kernel_.mean is not None
    assert fitted.kernel_.scale is not None
    assert fitted.mixing_.concentration == 1.0
    assert isinstance(fitted.sampler_, MixingMeasure)
    assert not hasattr(fitted, "acceptance_rate_")  # no records are proposed
    assert 0 < clone(fitted).set_params(sampler="interweaved").fit(RELEASE).acceptance_rate_ <= 1


def test_weights_belong_to_occupied_clusters(fitted):
    """Catches weights of the unseen part among those of the clusters, and padding that is not 0."""
    weights = fitted.weights_draws_
    np.testing.assert_array_equal((weights > 0).sum(axis=2), fitted.n_clusters_draws_)
    assert np.all(weights.sum(axis=2) < 1)
    occupied = np.arange(weights.shape[2]) < fitted.n_clusters_draws_[..., None]
    np.testing.assert_array_equal(weights > 0, occupied)
    # E[weight unseen] = α / (α + n)
    unseen = 1 - weights.sum(axis=2)
    assert abs(unseen.mean() - 1 / 301) < 5 * unseen.std() / np.sqrt(unseen.size)


def test_labels_are_consecutive_and_those_of_predict(fitted):
    """Catches labels with gaps, and a predict that numbers clusters in another way."""
    np.testing.assert_array_equal(np.unique(fitted.labels_), np.arange(fitted.labels_.max() + 1))
    np.testing.assert_array_equal(fitted.predict(RELEASE), fitted.labels_)
    np.testing.assert_array_equal(fitted.predict(RELEASE[::-7]), fitted.labels_[::-7])


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_found(seed):
    """Catches labels of a poor draw, or by w·f in place of w·g: three far groups and hardly any noise."""
    X, components = make_three_normals(300, random_state=100 + seed)
    Z = MECHANISM.privatize(X, random_state=200 + seed)
    model = fit(MECHANISM, Z, random_state=seed)
    assert adjusted_rand_score(components, model.labels_) > 0.8
    assert adjusted_rand_score(components, model.predict(Z)) > 0.8


def test_records_own_epsilon_reaches_the_prediction(fitted):
    """Catches new records' epsilon that is ignored, or given to all: a record hardly privatised keeps its place."""
    Z = np.full((2, 1), 3.4)  # nearer to the group at 5 than to that at 0
    near_5 = fitted.predict([[5.0]], epsilon=1e4)[0]
    assert fitted.predict(Z, epsilon=np.array([1e4, 1e4])).tolist() == [near_5, near_5]
    sharp, blurred = (fitted.score_release(Z[:1], epsilon=epsilon) for epsilon in (1e4, 0.01))
    both = fitted.score_release(Z, epsilon=np.array([1e4, 0.01]))
    assert both == pytest.approx(0.5 * (sharp + blurred), rel=1e-12)
    assert sharp > blurred + 3
    assert fitted.score_release(Z, epsilon=50.0) == fitted.score_release(Z)


# --- summaries -------------------------------------------------------------------------------------------------------


def test_chains_that_have_not_mixed_get_one_warning():
    """Catches silence, a warning for each quantity, and one that names neither number nor remedy."""
    with pytest.warns(RuntimeWarning) as caught:
        model = PrivateDPMixture(MECHANISM, n_chains=2, n_warmup=0, n_draws=10, random_state=0).fit(RELEASE)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    worst, fewest = max(model.r_hat_, key=model.r_hat_.get), min(model.ess_, key=model.ess_.get)
    for part in (
        f"R-hat {model.r_hat_[worst]:.3f} ({worst}",
        f"size {model.ess_[fewest]:.0f} ({fewest}",
        "increase n_draws (now 10; warm_start=True continues), or fit anew with a larger n_warmup (now 0)",
    ):
        assert part in message
    with pytest.raises(ValueError, match="n_warmup"):  # so that is no way to continue
        model.set_params(n_warmup=5, warm_start=True).fit(RELEASE)


def test_who_wants_the_density_only_is_told_that_it_has_mixed():
    """Catches a warning about clusters that sends users away from a density that is fine, and comfort without cause."""
    model = PrivateDPMixture()
    model.mixing_ = DirichletProcess(concentration=None, prior=(2.0, 2.0))
    model.ess_ = {"n_clusters": 40.0, "concentration": 60.0, "log_density": 900.0, "mean": 800.0}
    model.r_hat_ = {"n_clusters": 1.2, "concentration": 1.1, "log_density": 1.01, "mean": 1.02}
    assert "(but all quantities of the density have: 1.020, 800)" in model._not_mixed()
    model.r_hat_["mean"] = 1.06
    assert "of the density have" not in model._not_mixed()
    model.r_hat_["mean"], model.ess_["log_density"] = 1.02, 90.0
    assert "of the density have" not in model._not_mixed()


def test_mixed_chains_are_silent():
    """Catches a false alarm."""
    Z = MECHANISM.privatize(np.random.default_rng(0).normal(size=(30, 1)), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrivateDPMixture(MECHANISM, n_warmup=500, n_draws=2000, random_state=0).fit(Z)
    assert min(model.ess_.values()) > ESS_LIMIT


def test_stuck_chains_are_noticed():
    """Catches R-hat left out as not-a-number exactly where each chain stands still at a value of its own."""
    from sklearn_dpmix._chains.draws import convergence

    stuck = np.repeat([[1.0], [2.0]], 100, axis=1)
    r_hat, ess = convergence({"stuck": stuck, "constant": np.ones((2, 100)), "short": np.array([[1.0, 2.0]])})
    assert r_hat["stuck"] == np.inf
    assert ess["stuck"] == 2
    assert np.isnan([r_hat["constant"], ess["constant"], r_hat["short"]]).all()
    drifting = np.linspace(0, 1, 1000)[None]
    assert convergence({"one chain": drifting})[0]["one chain"] > 1.5
    steady = np.random.default_rng(0).normal(size=(1, 1000))
    assert convergence({"one chain": steady})[0]["one chain"] < 1.02


def test_summary_is_a_table(fitted, monkeypatch):
    """Catches rows or columns that are missing, and a summary that needs pandas."""
    frames = pytest.importorskip("pandas")
    table = fitted.summary()
    assert isinstance(table, frames.DataFrame)
    assert list(table.columns) == ["mean", "sd", "2.5%", "97.5%", "r_hat", "ess"]
    assert list(table.index) == list(fitted.r_hat_)
    assert table.loc["n_clusters", "mean"] == pytest.approx(fitted.n_clusters_draws_.mean())
    assert table.loc["mean", "97.5%"] == pytest.approx(np.quantile(fitted.moment_draws().mean, 0.975))
    assert table.loc["mean", "r_hat"] == fitted.r_hat_["mean"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    text = fitted.summary()
    assert text["n_clusters"]["mean"] == table.loc["n_clusters", "mean"]
    assert "n_clusters" in repr(text)
    assert "97.5%" in repr(text)


def test_datatree_is_what_arviz_reads(fitted, two_features, monkeypatch):
    """Catches dimensions in ArviZ's way, and an error without the extra's name."""
    pytest.importorskip("arviz_base")
    posterior = fitted.to_datatree()["posterior"]
    assert posterior["n_clusters"].dims == ("chain", "draw")
    np.testing.assert_array_equal(posterior["n_clusters"], fitted.n_clusters_draws_)
    assert two_features[0].to_datatree()["posterior"]["mean"].shape == (2, 200, 2)
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=r"sklearn-dpmix\[arviz\]"):
        fitted.to_datatree()


def test_random_concentration_has_draws():
    """Catches draws of the concentration that are missing, not monitored, or constant."""
    model = fit(MECHANISM, RELEASE, mixing=DirichletProcess(None, prior=(2.0, 1.0)))
    assert model.concentration_draws_.shape == (2, 200)
    assert np.ptp(model.concentration_draws_) > 0
    assert "concentration" in model.r_hat_
    assert "concentration" in str(model.summary())


def test_point_partition_and_similarity():
    """Catches labels of other records, draws that ignore the release, a loss that is not passed on."""
    model = fit(MECHANISM, RELEASE, kernel=NormalKernel(0.0, 0.1, 3.0, 3.0), n_warmup=1000)
    together = model.similarity(random_state=0)
    assert together.shape == (300, 300)
    np.testing.assert_allclose(np.diag(together), 1.0)
    same = COMPONENTS[:, None] == COMPONENTS
    assert together[same].mean() > together[~same].mean() + 0.3
    for loss in ("vi", "binder"):
        labels = model.point_partition(loss, random_state=0)
        assert set(labels) == set(range(labels.max() + 1))
        assert adjusted_rand_score(COMPONENTS, labels) > 0.5
    with pytest.raises(ValueError, match="loss"):
        model.point_partition("rand")
    with pytest.raises(ValueError, match="n_partitions must be"):
        model.similarity(n_partitions=0)


def test_a_finite_mixture_reports_its_components():
    """Catches M below the number of occupied components, and weights that leave mass to components that are not."""
    model = fit(MECHANISM, RELEASE, mixing=MixtureOfFiniteMixtures(1.0, [0.0, 0.5, 0.5]))
    assert set(np.unique(model.n_components_draws_)) <= {2.0, 3.0}
    assert np.all(model.n_components_draws_ >= model.n_clusters_draws_)
    unseen = 1 - model.weights_draws_.sum(axis=2)
    is_full = model.n_clusters_draws_ == model.n_components_draws_
    assert is_full.any()
    np.testing.assert_allclose(unseen[is_full], 0, atol=1e-12)
    assert "n_components" in model.r_hat_


def test_what_was_fitted_decides_which_methods_there_are():
    """Not what ``set_params`` says since, but for the methods that fit."""
    smoothed = SmoothedHistogramMechanism(epsilon=3.0, n_bins=10, n_released=50, n_records=300)
    above = LaplaceMechanism(scale=1.5, bounds=(-10, 10), released_above=0.0)
    of_records, of_all = {"predict", "score_release", "similarity", "point_partition"}, {"fit_predict", "partial_fit"}
    of_threshold = {"released_share_draws", "n_suppressed_draws"}

    def offered(model):
        return {name for name in of_records | of_all | of_threshold if hasattr(model, name)}

    short = {"n_warmup": 10, "n_draws": 10}
    model = fit(MECHANISM, RELEASE, **short)
    score = model.score_release(RELEASE[:5])
    model.set_params(mechanism=smoothed)
    assert offered(model) == of_records
    assert model.score_release(RELEASE[:5]) == score
    assert np.array_equal(model.score_samples(RELEASE[:5]), fit(MECHANISM, RELEASE, **short).score_samples(RELEASE[:5]))
    assert offered(model.set_params(mechanism=above)) == of_records | of_all
    assert offered(clone(model)) == of_records | of_all | of_threshold
    model = fit(smoothed, smoothed.privatize((RECORDS + 10.0) / 20.0, random_state=0), kernel="beta", **short)
    density = model.score_samples([[0.5]])
    model.set_params(mechanism=above)
    assert offered(model) == of_all
    assert model.score_samples([[0.5]]) == density
