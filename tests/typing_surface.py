"""The public surface as a user's own ``mypy --strict`` sees it; ``make lint`` checks it, nothing runs it.

``assert_type`` holds what is promised; an unused ``type: ignore`` is an error, so those below say what is refused.
"""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

from sklearn_dpmix import (
    DeconvolutionKDE,
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    PrivateABC,
    PrivateDPMixture,
    PrivateDPMixtureRegressor,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateMCEM,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
)
from sklearn_dpmix.datasets import load_engel, load_rossi, make_three_normals, three_normals_density
from sklearn_dpmix.kernels import BetaKernel, MultivariateNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    DiscreteLaplaceMechanism,
    FiniteChannelMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PiecewiseMechanism,
    RandomizedResponseMechanism,
    SmoothedHistogramMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
    compiled,
)
from sklearn_dpmix.metrics import coverage, hellinger_distance, mmd, posterior_ranks, rank_uniformity
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.models import Banana, BetaPrior, GammaPrior, GaussianMean, PoissonCount, RegressionPrior
from sklearn_dpmix.plotting import DensityDisplay, TraceDisplay
from sklearn_dpmix.privacy import (
    GaussianReleases,
    PrivacyGuarantee,
    PrivacyLedger,
    epsilon_of,
    gaussian_delta,
    max_releases,
    noise_multiplier_for,
    zcdp_to_approx_dp,
)
from sklearn_dpmix.queries import (
    BoundedRecords,
    ClassFeatureCounts,
    RegressionMoments,
    SufficientStatistics,
    private_bounds,
)
from sklearn_dpmix.samplers import Neal5, PrivateNewton

Floats = NDArray[np.float64]


def a_mixture() -> None:
    X, _ = make_three_normals(1000, random_state=0)
    assert_type(X, Floats)
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
    assert_type(mechanism.guarantee(), PrivacyGuarantee)
    Z = mechanism.privatize(X, random_state=np.random.default_rng(1))
    model = PrivateDPMixture(mechanism, kernel=NormalKernel(0.0), mixing=PitmanYor(1.0, 0.2), sampler=Neal5(2)).fit(Z)
    assert_type(model, PrivateDPMixture)
    assert_type(PrivateDPMixture(n_draws="auto").fit(Z), PrivateDPMixture)
    low, _ = model.density_interval([[0.0], [1.0]], level=0.9)
    assert_type(low, Floats)
    assert_type(model.score_samples([[0.0]]), Floats)
    assert_type(model.score_release(Z), float)
    assert_type(model.moment_draws().mean, NDArray[Any])
    model.predict(Z, epsilon=np.full(1000, 3.0))
    model.fit_predict(Z)
    model.point_partition("binder", n_partitions=100)
    three_normals_density(np.linspace(-10, 10, 100))
    PrivateDPMixture(kernel="beta", mixing=MixtureOfFiniteMixtures(), n_draws=10).fit(Z).sample(3, random_state=0)
    PrivateDPMixture(kernel=MultivariateNormalKernel(), mixing=DirichletProcess(None, prior=(2.0, 1.0)))
    PrivateDPMixture(kernel=BetaKernel(bounds=[[0, 1]])).set_params(n_draws=5).fit(Z)
    DeconvolutionKDE(mechanism).fit(Z).density([[0.0]])
    assert_type(DensityDisplay.from_estimator(model, records=X).plot(), DensityDisplay)
    TraceDisplay.from_estimator(model, names=["n_clusters"]).figure_.savefig("trace.png")


def other_mechanisms() -> None:
    GaussianMechanism(1.0, 1e-6, bounds=[(0, 1), (0, 2)]).privatize([[0.5, 1.5]], secure=True)
    DiscreteLaplaceMechanism(epsilon=1.0, query=BoundedRecords((0, 1))).log_density([3], [[1.0], [2.0]])
    HaarWaveletMechanism(1.0, 4, calibration="butucea").guarantee()
    RandomizedResponseMechanism(1.0, 3).privatize([[0], [2]])
    UnaryEncodingMechanism([1.0, 2.0], 3, kind="symmetric").privatize([[0], [2]], secure=True)
    SquareWaveMechanism(1.0, bounds=[(0, 1), (0, 2)]).log_density([[0.5, 1.5]], [[0.5, 1.5]])
    assert_type(PiecewiseMechanism(epsilon=1.0).guarantee(), PrivacyGuarantee)
    assert_type(HybridMechanism(1.0, bounds=(0, 1)).guarantee(), PrivacyGuarantee)
    halves = [FiniteChannelMechanism.warner(0.8), FiniteChannelMechanism.warner(0.3)]
    assert_type(FiniteChannelMechanism.split_sample(halves, noncompliance=BetaPrior(1, 9)), FiniteChannelMechanism)
    assert_type(FiniteChannelMechanism.kuk(0.8, 0.2, n_draws=3), FiniteChannelMechanism)
    FiniteChannelMechanism([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]]).privatize([[0, 1]])
    assert_type(SmoothedHistogramMechanism(20.0, 12, 60, n_records=500).smoothing_, float)


def noised_regression() -> None:
    X, y = load_engel()
    fitted = PrivateDPMixtureRegressor(GaussianMechanism(scale=100.0), linear=True, random_state=0).fit(X, y)
    assert_type(fitted, PrivateDPMixtureRegressor)
    assert_type(fitted.predict(X), Floats)
    assert_type(fitted.predict(X, return_std=True), tuple[Floats, Floats])
    assert_type(fitted.curve_interval(X, 0.9), tuple[Floats, Floats])
    assert_type(fitted.predict_quantiles(X, [0.1, 0.9]), Floats)
    assert_type(fitted.score_samples(X, y), Floats)


def statistics_of_a_curator() -> None:
    X, y = load_engel()
    mechanism = LaplaceMechanism(epsilon=1.0, query=RegressionMoments((0, 3000), (0, 2000), 1))
    fitted = PrivateLinearRegressionDA(mechanism, prior=RegressionPrior(2.0), n_records=235, random_state=0).fit(X, y)
    assert_type(fitted.predict(X), Floats)
    assert_type(fitted.predict(X, return_std=True), tuple[Floats, Floats])
    assert_type(fitted.coef_interval(0.9), tuple[Floats, Floats])
    query = SufficientStatistics("poisson", (0, 20))
    PrivateExpFamilyGibbs(LaplaceMechanism(1.0, query=query), family="poisson", prior=GammaPrior(1.0, 1.0)).fit([3.0])
    counts = ClassFeatureCounts(2, [3, 3])
    classifier = PrivateNaiveBayesDA(LaplaceMechanism(1.0, query=counts), n_classes=2, n_values=[3, 3]).fit(X, y)
    assert_type(classifier.predict_proba(X), Floats)
    PrivatePosteriorDA(mechanism, model=object()).fit([1.0])
    bounds, cost = private_bounds(load_rossi(), 1.0, (0, 100), random_state=0)
    assert_type(bounds, tuple[float, float])
    assert_type(cost, PrivacyGuarantee)


def simulators() -> None:
    model = PoissonCount(prior=GammaPrior(25.0, 1.0))
    draws = PrivateABC(LaplaceMechanism(scale=5.0), model=model, n_draws=100).fit([37.4])
    assert_type(draws.resample(10, random_state=0), Floats)
    PrivateMCEM(LaplaceMechanism(scale=5.0), model=model).fit([37.4]).interval(0.9)
    BetaPrior(1.0, 2.0)


def draws_under_a_budget(X: Floats, y: NDArray[np.int64]) -> None:
    budget = GaussianMechanism(epsilon=4.0, delta=1e-6)
    DPPenaltyMCMC(budget, model=Banana(), clip_bound=0.15, n_iter=100, preconditioner=PrivateNewton()).fit(X)
    DPPenaltyMCMC(budget, model=GaussianMean(2), noise_multiplier=3.0).fit(X).settled_draws()
    assert_type(DPLogisticRegressionMCMC(budget, data_norm=1.0).fit(X, y).predict_proba(X), Floats)
    ledger = PrivacyLedger(1.0, 1e-6, path="ledger.json")
    entry = ledger.spend(GaussianReleases(100.0, n_releases=3), "a chain")
    assert_type(ledger.would_fit(entry.releases), bool)
    assert_type(ledger.spent, PrivacyGuarantee)
    assert_type(epsilon_of([GaussianReleases(100.0)], 1e-6, accountant="zcdp"), float)
    assert_type(max_releases(1.0, 1e-6, 30.0), int)
    total = zcdp_to_approx_dp(0.1, 1e-6) + gaussian_delta(1.0, 0.1) + noise_multiplier_for(1.0, 1e-6, 10)
    assert_type(total, float)


def checks(draws: Floats, truth: Floats) -> None:
    assert_type(rank_uniformity(posterior_ranks(draws, truth, random_state=0), 100).pvalue, float)
    coverage(draws, truth, [0.5, 0.9])
    assert_type(mmd(draws, draws), float)
    hellinger_distance(np.exp(-(draws**2)), truth, np.linspace(-3, 3, 100))


class CauchyMechanism(AdditiveMechanism):
    """One of a user's own."""

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    @compiled
    def log_noise(self, e: float, scale: float) -> float:
        return -float(np.log1p((e / scale) ** 2))

    def draw_noise(self, rng: np.random.Generator, scale: float, size: int) -> Floats:
        return scale * rng.standard_cauchy(size)


def what_is_refused() -> None:
    PrivateDPMixture(sampler=5)  # type: ignore[arg-type]
    PrivateDPMixture(n_drawz=5)  # type: ignore[call-arg]
    LaplaceMechanism(1.0, (0, 1))  # type: ignore[call-arg]
    epsilon_of(GaussianReleases("a lot"), 1e-6)  # type: ignore[arg-type]
    make_three_normals(random_state="seed")  # type: ignore[arg-type]
