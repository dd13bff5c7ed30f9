"""One picture of each display of sklearn_dpmix.plotting, for docs/plotting.md.

Leaves docs/images/plot_*.png.  About half a minute, once everything is compiled.
"""

import pathlib
import warnings

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import (
    DeconvolutionKDE,
    NaivePosterior,
    PrivateDPMixture,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
)
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.plotting import (
    CalibrationDisplay,
    CoefficientDisplay,
    DensityDisplay,
    PrivacyUtilityDisplay,
    RankDisplay,
    SimilarityDisplay,
    TraceDisplay,
)
from sklearn_dpmix.queries import RegressionMoments, SufficientStatistics

OUTPUT = pathlib.Path(__file__).parents[1] / "docs" / "images"
N_SIMULATIONS, N_RANKED = 300, 99


def save(display, name):
    display.figure_.savefig(OUTPUT / f"plot_{name}.png", dpi=80)
    plt.close(display.figure_)
    print(f"picture: docs/images/plot_{name}.png", flush=True)


def density_and_chains():
    """1000 records of three normals, their release, and the chains behind the posterior."""
    records, _ = make_three_normals(1000, random_state=0)
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
    release = mechanism.privatize(records, random_state=1)  # a seed, because this is a simulation
    model = PrivateDPMixture(mechanism, n_draws=1000, n_jobs=2, random_state=0).fit(release)
    display = DensityDisplay.from_estimator(
        model,
        compare={"deconvolution": DeconvolutionKDE(mechanism).fit(release)},
        records=records,
        release=release,
        feature_name="position",
        unit="km",
    )
    save(display, "density")
    save(TraceDisplay.from_estimator(model, names=["mean", "log_density"]), "trace")
    save(RankDisplay.from_estimator(model, names=["mean", "log_density"]), "rank")


def similarity():
    """150 records of three clusters under noise that leaves some memberships in doubt."""
    X, _ = make_three_normals(150, random_state=0)
    mechanism = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
    release = mechanism.privatize(X, random_state=1)
    model = PrivateDPMixture(mechanism, n_draws=1000, random_state=0).fit(release)
    save(SimilarityDisplay.from_estimator(model, random_state=0), "similarity")


def privacy_utility():
    """The share of ones among 200 records, from a noisy count at each ε."""
    records = np.random.default_rng(0).random((200, 1)) < 0.2
    models = {"posterior": {}, "naive": {}}
    for epsilon in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        mechanism = LaplaceMechanism(epsilon, query=SufficientStatistics("binomial"))
        release = mechanism.privatize(records, random_state=3)
        for name, estimator in (("posterior", PrivateExpFamilyGibbs), ("naive", NaivePosterior)):
            model = estimator(mechanism, family="binomial", n_records=len(records), random_state=0)
            models[name][epsilon] = model.fit(release)
    display = PrivacyUtilityDisplay.from_estimators(
        models,
        lambda model: 100.0 * model.theta_draws_,
        reference={"confidential share": 100.0 * records.mean()},
        value_name="share of ones",
        unit="percent",
    )
    save(display, "privacy_utility")


def coefficients():
    """A regression from one noisy release of its moments; naive: the normal equations solved as they are."""
    rng, truth = np.random.default_rng(0), np.array([0.8, -0.5, 0.0])
    X = rng.normal(size=(2000, 3))
    y = X @ truth + rng.normal(size=2000)
    query = RegressionMoments(x_bounds=(-4, 4), y_bounds=(-8, 8), n_features=3)
    mechanism = LaplaceMechanism(epsilon=1.0, query=query)
    release = mechanism.privatize(np.column_stack([X, y]), random_state=1)
    model = PrivateLinearRegressionDA(mechanism, n_records=2000, n_chains=2, n_draws=2000, random_state=0).fit(release)
    matrix = np.zeros((4, 4))  # moments of (1, x) and of y with them, of records mapped to [-1, 1]
    matrix[0, 0], matrix[0, 1:] = 2000, release[5:8]
    matrix[1:, 1:][np.triu_indices(3)] = release[8:]
    matrix += np.triu(matrix, 1).T
    naive = np.linalg.solve(matrix, release[:4])[1:] * 8.0 / 4.0
    display = CoefficientDisplay.from_estimator(
        model, naive=naive, truth=truth, feature_names=["age", "dose", "weight"], unit="per standard deviation"
    )
    save(display, "coefficients")


def calibration():
    """Ranks of the true probability, from the prior, under the posterior and under one that ignores the noise."""
    rng, draws = np.random.default_rng(0), {"posterior": [], "naive": []}
    truth = rng.random(N_SIMULATIONS)
    mechanism = LaplaceMechanism(0.1, query=SufficientStatistics("binomial"))
    for i, p in enumerate(truth):
        release = mechanism.privatize(rng.random((100, 1)) < p, random_state=i)
        for name, estimator in (("posterior", PrivateExpFamilyGibbs), ("naive", NaivePosterior)):
            model = estimator(
                mechanism,
                family="binomial",
                n_records=100,
                n_chains=1,
                n_warmup=50,
                n_draws=N_RANKED,
                thin=3,
                random_state=i,
            )
            draws[name].append(model.fit(release).theta_draws_.ravel())
    save(CalibrationDisplay.from_draws(draws, truth), "calibration")


def main():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the chains have not mixed")  # the traces show it
        for draw in (privacy_utility, calibration, coefficients, similarity, density_and_chains):
            draw()


if __name__ == "__main__":
    main()
