"""Trees for ArviZ: what is in them, the pointwise log likelihood against NumPy, replicates on the released scale."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone
from statistical import ALPHA, Disagreement, assert_mean_close

from sklearn_dpmix import (
    DPLogisticRegressionMCMC,
    NaivePosterior,
    PrivateABC,
    PrivateDPMixture,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
)
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    LaplaceMechanism,
    MultivariateNormalMechanism,
    PerturbedHistogramMechanism,
    RandomizedResponseMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.models import Bernoulli, Family, Multinomial, Poisson, PoissonCount
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts, RegressionMoments, SufficientStatistics

pytest.importorskip("arviz_base")
pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")

SHORT = {"n_chains": 2, "n_warmup": 50, "n_draws": 100, "random_state": 0}
LOCAL = LaplaceMechanism(epsilon=20.0, bounds=(-5, 5))  # b = 0.5: some records are clamped
TRUTH = np.random.default_rng(0).choice([-1.0, 1.0], 80) * 4.0
RELEASE = LOCAL.privatize((TRUTH + np.random.default_rng(1).normal(0.0, 0.7, 80))[:, None], random_state=2)
NAIVE = NaivePosterior(LaplaceMechanism(scale=3.0), family="poisson", n_records=30, **SHORT)


@pytest.fixture(scope="module")
def mixture():
    model = PrivateDPMixture(LOCAL, sampler="interweaved", n_chains=2, n_warmup=200, n_draws=200, random_state=0)
    return model.fit(pd.DataFrame(RELEASE, columns=["score"]))


@pytest.fixture(scope="module")
def tree(mixture):
    return mixture.to_datatree(log_likelihood=True, posterior_predictive=True, random_state=0)


@pytest.fixture(scope="module")
def one_normal():
    """So small a concentration leaves one cluster."""
    model = PrivateDPMixture(
        LOCAL, mixing=DirichletProcess(concentration=1e-300), n_chains=2, n_warmup=200, n_draws=200, random_state=0
    )
    return model.fit(RELEASE)


@pytest.fixture(scope="module")
def sums():
    """Two releases of one sum, with noise of two scales."""
    mechanism = LaplaceMechanism(scale=[2.0, 9.0])
    return PrivateExpFamilyGibbs(mechanism, family="poisson", n_records=30, **SHORT).fit([[90.0], [101.5]])


# --- records that were privatised one by one -------------------------------------------------------------------------


def log_marginals(model, records, t, clamp=True, unseen=True):
    """log Σ_k w_k ∫ Laplace(z - clamp(y)) N(y | θ_k) dy of draw t, by quadrature on quantiles of each cluster."""
    draws, b, levels = model._draws_, LOCAL.noise_scale, (np.arange(20_000) + 0.5) / 20_000
    stop = draws.start[t + 1] if unseen else draws.start[t] + draws.flat.n_clusters[t]
    terms = []
    for h in range(draws.start[t], stop):
        mean, sd = draws.flat.theta[h, :2]
        y = mean + sd * stats.norm.ppf(levels)
        y = np.clip(y, -5, 5) if clamp else y
        density = np.mean(np.exp(-np.abs(records[:, None] - y) / b) / (2 * b), axis=1)
        terms.append(np.log(draws.flat.weights[h] * density))
    return logsumexp(terms, axis=0)


def test_pointwise_log_likelihood_is_that_of_brute_force(mixture, tree):
    """Catches a likelihood without clamping, without clusters that have no record, or of other draws."""
    found = tree["log_likelihood"]["release"].to_numpy()
    some = [0, 7, 31, 79]
    for chain, draw in [(0, 0), (1, 150)]:
        t = 200 * chain + draw

        def twin(t=t, **how):
            return log_marginals(mixture, RELEASE[some, 0], t, **how)

        np.testing.assert_allclose(found[chain, draw, some], twin(), atol=2e-4)
        for broken in ({"clamp": False}, {"unseen": False}, {"t": t + 1}):
            with pytest.raises(AssertionError):
                np.testing.assert_allclose(found[chain, draw, some], twin(**broken), atol=2e-4)


def test_mean_over_draws_is_the_score_of_the_release(mixture, tree):
    """Catches draws that are left out or counted twice."""
    found = tree["log_likelihood"]["release"].to_numpy().reshape(400, -1)
    score = np.mean(logsumexp(found, axis=0) - np.log(400))
    assert score == pytest.approx(mixture.score_release(pd.DataFrame(RELEASE, columns=["score"])), rel=1e-10)


def test_loo_prefers_the_mixture_to_one_normal(tree, one_normal):
    """Catches a group that arviz-stats cannot read, and a likelihood that does not tell the models apart."""
    arviz_stats = pytest.importorskip("arviz_stats")
    assert one_normal.n_clusters_draws_.max() == 1
    other = one_normal.to_datatree(log_likelihood=True)
    better, worse = arviz_stats.loo(tree, pointwise=True), arviz_stats.loo(other, pointwise=True)
    gain = better.elpd_i.to_numpy() - worse.elpd_i.to_numpy()
    assert gain.sum() > 4.0 * np.sqrt(len(gain)) * gain.std()
    assert list(arviz_stats.compare({"mixture": tree, "normal": other}).index) == ["mixture", "normal"]


def quartiles_are_covered(tree):
    """Whether the release's quartiles, and its share near 0, are between the 0.05 % and the 99.95 % of replicates'."""
    release = tree["observed_data"]["release"].to_numpy()[:, 0]
    replicates = tree["posterior_predictive"]["release"].to_numpy()[..., 0].reshape(-1, len(release))

    def features(z):
        return np.append(np.quantile(z, [0.25, 0.5, 0.75], axis=-1), np.mean(np.abs(z) < 2.0, axis=-1)[None], axis=0)

    low, high = np.quantile(features(replicates), [0.0005, 0.9995], axis=1)
    return bool(np.all((low <= features(release[None])[:, 0]) & (features(release[None])[:, 0] <= high)))


def test_replicates_look_like_the_release(tree, one_normal):
    """Catches replicates of something else than the release; one normal's do not look like two clusters."""
    assert quartiles_are_covered(tree)
    assert not quartiles_are_covered(one_normal.to_datatree(posterior_predictive=True, random_state=0))


def test_replicates_have_the_mechanisms_noise(tree):
    """Given the draw, z has the density g(z | P), so that P(z > 5.5) follows; catches replicates without noise."""
    replicates = tree["posterior_predictive"]["release"].to_numpy()[..., 0]
    beyond = (replicates > 5.0).mean(axis=2)  # only noise takes a clamped record there
    assert beyond.mean() > 0.02


def test_replicates_of_integers_are_integers():
    """Catches noise on records that were not rounded, as the channel has it."""
    mechanism = DiscreteLaplaceMechanism(epsilon=8.0, bounds=(0, 10))
    Z = mechanism.privatize(np.random.default_rng(0).integers(2, 8, (30, 1)), random_state=1)
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(Z)
    replicates = model.to_datatree(posterior_predictive=True, random_state=0)["posterior_predictive"]["release"]
    assert np.all(replicates == np.floor(replicates)) and replicates.std() > 0.5


def test_replicates_of_categories_are_categories():
    """Catches records of a normal kernel beyond the categories, which no mechanism takes."""
    mechanism = RandomizedResponseMechanism(3.0, 3)
    Z = mechanism.privatize(np.random.default_rng(0).integers(0, 3, (30, 1)), random_state=1)
    with pytest.warns(UserWarning, match="releases categories"):
        model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(Z)
    replicates = model.to_datatree(posterior_predictive=True, random_state=0)["posterior_predictive"]["release"]
    assert set(np.unique(replicates)) == {0.0, 1.0, 2.0}


def test_a_seed_repeats_replicates(mixture):
    """Catches a generator that random_state does not reach."""

    def replicates(seed):
        tree = mixture.to_datatree(posterior_predictive=True, thin=50, random_state=seed)
        return tree["posterior_predictive"]["release"].to_numpy()

    np.testing.assert_array_equal(replicates(3), replicates(3))
    assert not np.array_equal(replicates(3), replicates(4))


def test_thin_keeps_the_same_draws_in_all_groups(mixture, tree):
    """Catches groups whose draws do not go together, and draws under wrong numbers."""
    thinned = mixture.to_datatree(log_likelihood=True, posterior_predictive=True, thin=60, random_state=0)
    for group in ("posterior", "log_likelihood", "posterior_predictive"):
        np.testing.assert_array_equal(thinned[group]["draw"], [0, 60, 120, 180])
    for group, name in [("posterior", "mean"), ("log_likelihood", "release")]:
        np.testing.assert_array_equal(thinned[group][name], tree[group][name].sel(draw=[0, 60, 120, 180]))
    for bad in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"thin must be an integer, 1 or more, got thin={bad}"):
            mixture.to_datatree(thin=bad)


def test_release_and_rates_are_in_the_tree(mixture, tree):
    """Catches a release that is not the published one, and names that got lost."""
    np.testing.assert_array_equal(tree["observed_data"]["release"], RELEASE)
    assert list(tree["observed_data"]["feature"].to_numpy()) == ["score"]
    assert float(tree["sample_stats"]["acceptance_rate"]) == mixture.acceptance_rate_
    assert set(mixture.to_datatree().children) == {"posterior", "observed_data", "sample_stats"}


# --- statistics of a curator -----------------------------------------------------------------------------------------


def test_likelihood_of_releases_is_given_the_statistic(sums):
    """Catches scales of other releases, and terms that are not normalised."""
    tree = sums.to_datatree(log_likelihood=True)
    found, s = tree["log_likelihood"]["release"].to_numpy(), sums.statistic_draws_

    def twin(scale):
        return -np.abs(np.array([90.0, 101.5]) - s) / scale - np.log(2.0 * scale)

    np.testing.assert_allclose(found, twin(np.array([2.0, 9.0])))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(found, twin(np.array([9.0, 2.0])))


def test_joint_noise_has_a_likelihood_too():
    """Catches noise that is taken for independent, and weighted draws that are not resampled."""

    class TwoCounts(PoissonCount):
        def sample_statistic(self, rng, theta):
            return rng.poisson(np.hstack([theta, theta])).astype(float)

    covariance, S = np.array([[9.0, 6.0], [6.0, 9.0]]), np.array([[25.0, 26.0], [24.0, 28.0]])
    model = PrivateABC(MultivariateNormalMechanism(covariance), model=TwoCounts(), n_draws=50, random_state=0).fit(S)
    tree = model.to_datatree(log_likelihood=True)
    found, s = tree["log_likelihood"]["release"].to_numpy()[0], model.statistic_draws_
    noise = stats.multivariate_normal(cov=covariance)
    np.testing.assert_allclose(found, np.column_stack([noise.logpdf(one - s) for one in S]))
    with pytest.raises(AssertionError):
        independent = stats.multivariate_normal(cov=9.0 * np.eye(2))
        np.testing.assert_allclose(found, np.column_stack([independent.logpdf(one - s) for one in S]))
    assert tree["posterior"].attrs["log_evidence"] == model.log_evidence_


def test_weighted_draws_are_resampled_or_kept_with_their_weights():
    """Catches weights that got lost: the resampled mean is the weighted one, the kept draws' is not."""
    model = PrivateABC(
        LaplaceMechanism(scale=5.0), model=PoissonCount(), method="importance", n_draws=4000, random_state=0
    ).fit([60.0])  # far out in the prior: weights differ much
    kept = model.to_datatree(weights="keep")
    np.testing.assert_array_equal(kept["sample_stats"]["weight"].to_numpy()[0], model.weights_)
    np.testing.assert_array_equal(kept["posterior"]["theta"].to_numpy()[0], model.theta_draws_)
    resampled = model.to_datatree(weights="resample", random_state=1)
    draws = resampled["posterior"]["theta"].to_numpy()[..., 0]
    expected = model.weights_ @ model.theta_draws_[:, 0]
    assert_mean_close(draws, expected, min_ess=500)
    with pytest.raises(Disagreement):
        assert_mean_close(model.theta_draws_.reshape(1, -1), expected, min_ess=500)
    assert "sample_stats" not in resampled.children
    with pytest.raises(ValueError, match='weights must be None, "keep" or "resample", got weights=True'):
        model.to_datatree(weights=True)


def standardised(tree, mean, sd):
    """Replicates less their mean given the draw, over their standard deviation: (n_chains, n_draws)."""
    return (tree["posterior_predictive"]["release"].to_numpy() - mean) / sd


@pytest.mark.parametrize(
    ("family", "theta", "other"),
    [
        (Bernoulli(), [0.3], [0.36]),
        (Multinomial(n_categories=3), [0.5, 0.3, 0.2], [0.44, 0.3, 0.26]),
        (Poisson(), [1.7], [1.9]),
    ],
    ids=["bernoulli", "multinomial", "poisson"],
)
def test_sums_drawn_at_once_are_those_of_records(family, theta, other):
    """Catches a closed form of a family's sums that is another's, or of other parameters (the broken twin)."""
    rng, n = np.random.default_rng(0), np.full(4000, 50)
    records = Family.draw_sums(family, rng, np.tile(theta, (len(n), 1)), n)
    for parameters, agrees in ((theta, True), (other, False)):
        sums = family.draw_sums(rng, np.tile(parameters, (len(n), 1)), n)
        assert sums.shape == records.shape
        p = min(stats.ks_2samp(sums[:, j], records[:, j]).pvalue for j in range(family.n_statistics))
        assert (p > 1e-6) == agrees


def test_replicated_sums_have_the_moments_of_new_records(sums):
    """Catches replicates of the confidential statistic in place of new records, and noise of another scale."""
    tree = sums.to_datatree(posterior_predictive=True, random_state=0)
    mean = 30.0 * sums.theta_draws_[..., 0][..., None]
    for r, b in enumerate([2.0, 9.0]):
        u = standardised(tree, mean[..., None], 1.0)[:, :, r, 0] / np.sqrt(mean[..., 0] + 2.0 * b**2)
        assert_mean_close(u, 0.0, min_ess=100)
        low, high = stats.chi2.ppf([ALPHA, 1.0 - ALPHA], u.size) / u.size  # tails heavier than the normal's: wider
        assert low / 1.5 < np.mean(u**2) < 1.5 * high


@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_replicated_sums_know_the_bounds(outside):
    """Catches records beyond the bounds that are summed as they are."""
    query = SufficientStatistics("poisson", bounds=(0, 3), outside=outside)
    model = PrivateExpFamilyGibbs(LaplaceMechanism(epsilon=1.0, query=query), family="poisson", n_records=40, **SHORT)
    tree = model.fit([80.0]).to_datatree(posterior_predictive=True, random_state=0)
    x, rate = np.arange(100.0), model.theta_draws_[..., 0]
    t = np.minimum(x, 3.0) if outside == "clamp" else np.where(x <= 3, x, 0.0)
    mean = 40.0 * stats.poisson.pmf(x, rate[..., None]) @ t
    assert_mean_close(standardised(tree, mean[..., None, None], 1.0)[..., 0, 0], 0.0, min_ess=100)


def test_replicated_tables_have_the_drawn_probabilities():
    """Catches tables in another order than the query's, and tables of another number of records."""
    query = ClassFeatureCounts(n_classes=2, n_values=[2, 3])
    mechanism = LaplaceMechanism(epsilon=50.0, query=query)
    S = np.array([5.0, 35.0, 50.0, 10.0, 0.0, 15.0, 25.0, 30.0, 20.0, 10.0])
    model = PrivateNaiveBayesDA(mechanism, n_records=100, **SHORT).fit(S)
    tree = model.to_datatree(posterior_predictive=True, random_state=0)
    joint = 100.0 * model.class_prob_draws_[:, :, None, :, None] * model.feature_prob_draws_
    parts = [joint[:, :, j, :, :size].reshape(2, 100, -1) for j, size in enumerate([2, 3])]
    difference = standardised(tree, np.concatenate(parts, axis=-1)[:, :, None], 1.0)[:, :, 0]
    assert_mean_close(difference, np.zeros(10), min_ess=100)
    assert list(tree["posterior"]["class_prob"].dims) == ["chain", "draw", "class_label"]
    assert tree["observed_data"]["entry"].to_numpy()[-1] == "count(class=1, x2=2)"


def test_replicated_moments_are_of_the_drawn_regression():
    """Catches predictors and responses that do not go together: given the draw, E Σ y is n times the mean response."""
    query = RegressionMoments(x_bounds=(-20, 20), y_bounds=(-50, 50), n_features=1)  # nothing is clamped
    mechanism = LaplaceMechanism(epsilon=50.0, query=query)
    rng = np.random.default_rng(0)
    x = rng.normal(1.0, 1.0, (60, 1))
    records = np.column_stack([x, 2.0 - 3.0 * x[:, 0] + rng.normal(size=60)])
    S = mechanism.privatize(records, random_state=1)
    model = PrivateLinearRegressionDA(mechanism, n_records=60, **SHORT).fit(S)
    tree = model.to_datatree(posterior_predictive=True, random_state=0)
    first = tree["posterior_predictive"]["release"].to_numpy()[:, :, 0, 0]  # Σ y / 50
    mean = model.intercept_draws_ + np.sum(model.coef_draws_ * model.x_mean_draws_, axis=-1)
    assert_mean_close(first - 60.0 * mean / 50.0, 0.0, min_ess=100)
    assert tree["posterior"]["x_covariance"].dims == ("chain", "draw", "feature", "feature_bis")


class NormalMean:
    theta_init, param_names = [0.0], ("mu",)

    def sample_records(self, rng, theta, n):
        return rng.normal(theta[0], 1.0, (n, 1))

    def sample_posterior(self, rng, records, theta):
        return rng.normal(records.sum() / (0.01 + len(records)), (0.01 + len(records)) ** -0.5, 1)


@pytest.mark.parametrize(
    "mechanism", [LaplaceMechanism(epsilon=9.0, query=BoundedRecords((-9, 9))), LaplaceMechanism(scale=2.0)], ids=repr
)
def test_a_users_model_is_replicated(mechanism):
    """Catches replicates of a user's model without its records, or with the parameters of another draw."""
    S = mechanism.privatize(np.random.default_rng(0).normal(1.0, size=(50, 1)), random_state=1)
    model = PrivatePosteriorDA(mechanism, model=NormalMean(), n_records=50, **SHORT).fit(S)
    tree = model.to_datatree(posterior_predictive=True, random_state=0)
    replicates = tree["posterior_predictive"]["release"].to_numpy()
    assert replicates.shape == (2, 100, *np.atleast_2d(S).shape) and list(tree["posterior"]["parameter"]) == ["mu"]
    n = 50.0 if mechanism.query is not None else 1.0
    assert_mean_close((replicates - n * model.theta_draws_[..., None]).mean(axis=(2, 3)), 0.0, min_ess=100)


def test_parameters_and_statistics_have_names(sums):
    """Catches labels of other dimensions; the ordinary posterior of a baseline has them too."""
    posterior = sums.to_datatree()["posterior"]
    assert list(posterior["parameter"]) == ["mean"] and list(posterior["entry"]) == ["sum(x)"]
    np.testing.assert_array_equal(posterior["statistic"], sums.statistic_draws_)
    tree = clone(NAIVE).fit(pd.DataFrame({"total": [88.0]})).to_datatree()
    assert list(tree["posterior"]["parameter"]) == ["mean"] and "observed_data" not in tree.children


def test_published_draws_have_feature_names():
    """Catches names that got lost on the way to the sampler."""
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["age", "income"])
    model = DPLogisticRegressionMCMC(random_state=0).fit(X, (X["age"] > 0).astype(int))
    posterior = model.to_datatree(thin=100)["posterior"]
    assert list(posterior["feature"]) == ["age", "income"]
    np.testing.assert_array_equal(posterior["coef"], model.coef_draws_[:, ::100])


# --- what is not available, and why ---------------------------------------------------------------------------------


def test_what_is_not_there_is_refused_with_the_reason(sums):
    """Catches a likelihood that is made up."""
    one = PrivateExpFamilyGibbs(LaplaceMechanism(scale=3.0), family="poisson", n_records=30, **SHORT).fit([88.0])
    known = PrivateExpFamilyGibbs(family="poisson", n_records=30, **SHORT).fit([88.0])
    X = np.random.default_rng(0).random((20, 1))
    beta = PrivateDPMixture(LaplaceMechanism(epsilon=9.0, bounds=(0, 1)), kernel="beta", **SHORT)
    counts = PerturbedHistogramMechanism(9.0, 4, n_records=20)
    histogram = PrivateDPMixture(counts, kernel="beta", **SHORT).fit(counts.privatize(X, random_state=0))
    local = PrivatePosteriorDA(LaplaceMechanism(scale=1.0), model=NormalMean(), **SHORT).fit(X)
    for model, reason in [
        (one, "one release is one point"),
        (known, "nothing was released"),
        (beta.fit(beta.mechanism.privatize(X, random_state=0)), r"g\(z \| draw\) has no closed form"),
        (histogram, "one statistic of all records was released"),
        (local, "confidential records are imputed and not kept"),
        (clone(NAIVE).fit([88.0]), "the release is taken for the statistic"),
    ]:
        with pytest.raises(ValueError, match=rf"to_datatree\(log_likelihood=True\) is not available: {reason}"):
            model.to_datatree(log_likelihood=True)
    with pytest.raises(ValueError, match="nothing was released"):
        known.to_datatree(posterior_predictive=True)
    assert histogram.to_datatree(posterior_predictive=True)["posterior_predictive"]["release"].shape == (2, 100, 4)
