"""Matplotlib without a window, stand-ins for fitted estimators, and what a band drew."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import BaseEstimator

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
to_rgb = matplotlib.colors.to_rgb


class Stub(BaseEstimator):
    """A fitted estimator with what a test gives it."""

    def __init__(self, **has):
        vars(self).update(has)

    def fit(self, X):
        return self

    def __sklearn_is_fitted__(self):
        return True


class Margins(Stub):
    """Offers the density of one of two features: N(feature, 1)."""

    n_features_in_ = 2

    def score_samples(self, X, feature=None):
        return stats.norm.logpdf(X[:, 0], feature)

    def density_interval(self, X, level=0.95, feature=None):
        density = stats.norm.pdf(X[:, 0], feature)
        return (1.0 - level) * density, (1.0 + level) * density


def band_of(collection, points):
    """(lower, upper) of what ``fill_between`` drew at the points."""
    vertices = collection.get_paths()[0].vertices
    ends = [vertices[np.isclose(vertices[:, 0], x), 1] for x in points]
    return np.array([[y.min(), y.max()] for y in ends]).T
