"""Mechanisms and queries: what they are asked."""

import numpy as np

import sklearn_dpmix as top
from sklearn_dpmix import mechanisms, queries

from .parts import (
    Subject,
    accounting,
    column,
    flat,
    labelled,
    laplace,
    measurement,
    moments,
    regression,
    released,
    rows,
    whole,
)

COVARIANCE = ((0.2, 0.05), (0.05, 0.3))


def releasing(X, Z=None, **more):
    """What a mechanism is asked: its noise on records, the density of a release, its guarantee."""
    calls = {"privatize": lambda: {"X": X(), "random_state": 0, "secure": False}}
    calls["guarantee"] = lambda: {"n_features": None}
    if Z is not None:
        calls["log_density"] = lambda: {"Z": Z(), "X": X()}
    return calls | more


def asking(records):
    """What a query is asked."""
    return {"value": lambda: {"records": records()}, "contributions": lambda: {"records": records()}} | {
        "sensitivity": lambda: {"norm": 1, "neighbours": None}
    }


def sensitive(X):
    return {"value": lambda: {"X": X()}}


def noise(make, X, **params):
    """A mechanism that adds noise to records, with all its parameters."""
    given = {"epsilon": 2.0, "bounds": (0, 1), "query": None, "scale": None, "rho": None, "clamp": True} | params
    return Subject(make, lambda: dict(given), releasing(X, X))


def smooth(make, **params):
    given = lambda: {"query": queries.SmoothMedian((0, 1)), "xi": None, "multiplier": None} | params  # noqa: E731
    return Subject(make, given, releasing(column))


def curator(make, **params):
    given = lambda: {"query": queries.BoundedRecords([(0, 1)] * 2, 2)} | params  # noqa: E731
    return Subject(make, given, releasing(lambda: rows()[:, :2]))


RELEASES: dict[str, Subject] = {
    "ReleaseSummary": Subject(
        top.ReleaseSummary,
        lambda: {"mechanism": laplace(), "width": None},
        {
            "update": lambda: {"batch": column()},
            "merge": lambda: {"other": top.ReleaseSummary(laplace()).update(column())},
        },
    ),
    # mechanisms
    "LaplaceMechanism": noise(mechanisms.LaplaceMechanism, column, released_above=None),
    "GaussianMechanism": noise(
        mechanisms.GaussianMechanism, column, delta=1e-6, calibration="analytic", released_above=None
    ),
    "DiscreteLaplaceMechanism": noise(mechanisms.DiscreteLaplaceMechanism, whole, bounds=(0, 3)),
    "DiscreteGaussianMechanism": noise(
        mechanisms.DiscreteGaussianMechanism, whole, bounds=(0, 3), delta=1e-6, calibration="analytic"
    ),
    "BinomialMechanism": Subject(
        mechanisms.BinomialMechanism,
        lambda: {"epsilon": 2.0, "n_trials": 5, "bounds": (0, 1)},
        releasing(column, lambda: whole(most=5)),
    ),
    "HaarWaveletMechanism": Subject(
        mechanisms.HaarWaveletMechanism,
        lambda: {"epsilon": 2.0, "resolution": 2, "bounds": (0, 1), "calibration": "exact"},
        releasing(column, lambda: released(mechanisms.HaarWaveletMechanism(2.0, 2), column())),
    ),
    "RandomizedResponseMechanism": Subject(
        mechanisms.RandomizedResponseMechanism, lambda: {"epsilon": 1.0, "n_categories": 3}, releasing(whole, whole)
    ),
    "SquareWaveMechanism": Subject(
        mechanisms.SquareWaveMechanism, lambda: {"epsilon": 2.0, "bounds": (0, 1)}, releasing(column, column)
    ),
    "PiecewiseMechanism": Subject(
        mechanisms.PiecewiseMechanism, lambda: {"epsilon": 2.0, "bounds": (0, 1)}, releasing(column, column)
    ),
    "HybridMechanism": Subject(
        mechanisms.HybridMechanism,
        lambda: {"epsilon": 2.0, "bounds": (0, 1)},
        releasing(column, lambda: released(mechanisms.HybridMechanism(2.0, (0, 1)), column())),
    ),
    "FiniteChannelMechanism": Subject(
        mechanisms.FiniteChannelMechanism,
        lambda: {
            "matrix": [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]],
            "noncompliance": None,
            "noncompliant_answer": 0,
        },
        releasing(whole, whole),
    ),
    "UnaryEncodingMechanism": Subject(
        mechanisms.UnaryEncodingMechanism,
        lambda: {"epsilon": 1.0, "n_categories": 3, "kind": "optimised"},
        releasing(whole, lambda: released(mechanisms.UnaryEncodingMechanism(1.0, 3), whole())),
    ),
    "PerturbedHistogramMechanism": Subject(
        mechanisms.PerturbedHistogramMechanism,
        lambda: {"epsilon": 1.0, "n_bins": 4, "n_records": 12, "bounds": (0, 1), "noise": "laplace"},
        releasing(column, lambda: np.arange(4.0)),
    ),
    "SmoothedHistogramMechanism": Subject(
        mechanisms.SmoothedHistogramMechanism,
        lambda: {
            "epsilon": 1.0, "n_bins": 4, "n_released": 9, "n_records": 12, "bounds": (0, 1), "smoothing": None
        },
        releasing(column, lambda: column(9)),
    ),
    "MultivariateLaplaceMechanism": curator(mechanisms.MultivariateLaplaceMechanism, covariance=COVARIANCE),
    "MultivariateNormalMechanism": curator(mechanisms.MultivariateNormalMechanism, covariance=COVARIANCE),
    "MultivariateTMechanism": curator(mechanisms.MultivariateTMechanism, covariance=COVARIANCE, df=4.0),
    "PublishedScaleMechanism": Subject(
        mechanisms.PublishedScaleMechanism,
        lambda: {
            "epsilon": 1.0, "delta": 1e-6, "query": queries.SmoothMedian((0, 1)), "share": 0.5, "xi": None,
            "multiplier": None,
        },
        releasing(column),
    ),
    "SmoothCauchyMechanism": smooth(mechanisms.SmoothCauchyMechanism, epsilon=1.0, n_records=12),
    "SmoothGaussianMechanism": smooth(mechanisms.SmoothGaussianMechanism, epsilon=1.0, delta=1e-6, n_records=12),
    "SmoothLaplaceMechanism": smooth(mechanisms.SmoothLaplaceMechanism, epsilon=1.0, delta=1e-6, n_records=12),
    "SmoothStudentTMechanism": smooth(mechanisms.SmoothStudentTMechanism, epsilon=1.0, df=3, n_records=12),
    "from_opendp": Subject(
        mechanisms.from_opendp,
        lambda: {"measurement": measurement(), "bounds": None, "query": None, "clamp": True, "n_categories": None},
    ),
    # queries
    "BoundedRecords": Subject(
        queries.BoundedRecords, lambda: {"bounds": (0, 1), "n_features": 1, "neighbours": "replace"}, asking(column)
    ),
    "ClassFeatureCounts": Subject(
        queries.ClassFeatureCounts,
        lambda: {"n_classes": 2, "n_values": [2, 3], "n_features": None, "neighbours": "replace"},
        asking(labelled),
    ),
    "RegressionMoments": Subject(
        queries.RegressionMoments,
        lambda: {
            "x_bounds": (0, 1), "y_bounds": (0, 1), "n_features": 2, "sensitivity": "joint", "neighbours": "replace"
        },
        asking(rows),
    ),
    "SufficientStatistics": Subject(
        queries.SufficientStatistics,
        lambda: {"family": "normal", "bounds": (0, 1), "outside": "clamp", "neighbours": "replace", "scaled": True},
        asking(column),
    ),
    "NoisyCount": Subject(
        queries.NoisyCount,
        lambda: {"value": 12.0, "mechanism": mechanisms.DiscreteLaplaceMechanism(scale=2.0)},
        use=lambda count: top.PrivateLinearRegressionDA(**regression(n_records=count)).fit(moments()),
    ),
    "SmoothMedian": Subject(queries.SmoothMedian, lambda: {"bounds": (0, 1)}, sensitive(column)),
    "SmoothTrimmedMean": Subject(
        queries.SmoothTrimmedMean, lambda: {"bounds": (0, 1), "trim": 0.2}, sensitive(column)
    ),
    "private_quantile": accounting(
        queries.private_quantile, x=flat(), q=0.5, epsilon=1.0, bounds=(0, 1), random_state=0
    ),
    "private_bounds": accounting(
        queries.private_bounds, x=flat(), epsilon=1.0, bounds=(0, 1), coverage=0.9, random_state=0
    ),
}  # fmt: skip
