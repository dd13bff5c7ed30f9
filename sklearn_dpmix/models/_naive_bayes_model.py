"""Naive Bayes for categorical records (Ju et al. 2022, §4 and Appendix S-4).

A record is (x_1, ..., x_K, y), with y ~ Categorical(π), and given y = c independently x_j ~ Categorical(φ_jc).  Priors
are symmetric Dirichlets with one α.  The flat parameters are π, then φ in the order of ``ClassFeatureCounts``, so
φ_jc(v) is n_classes places after the place where a release counts (j, c, v).
"""

import numpy as np

from .._base.compiled import Component, compiled, helper, lower
from .._base.numeric import draw_weighted
from ._shares import dirichlet_from_counts


class NaiveBayes(Component):
    """Naive Bayes as compiled code sees it: where records count, and draws of records and of parameters.

    Parameters
    ----------
    n_classes : int
    n_values : sequence of int of length n_features
    alpha : float
    """

    def __init__(self, n_classes, n_values, alpha):
        self.n_classes = n_classes
        self.n_values = n_values
        self.alpha = alpha

    def _lower(self, **context):
        fields = {
            "n_classes": int(self.n_classes),
            "n_features": len(self.n_values),
            "sizes": np.array(self.n_values, dtype=np.float64),
            "starts": self.n_classes * np.cumsum([0.0, *self.n_values[:-1]]),
            "alpha": float(self.alpha),
        }
        return lower(type(self), fields)

    def start(self, counts, rng):
        """Draw parameters for a chain to start from, as if ``counts``, (n_cells,), were exact."""
        parts, at = [], 0
        for size in self.n_values:
            parts.append(np.reshape(counts[at : at + self.n_classes * size], (self.n_classes, size)))
            at += self.n_classes * size
        groups = [np.mean([part.sum(axis=1) for part in parts], axis=0), *(row for part in parts for row in part)]
        return np.concatenate([rng.dirichlet(np.maximum(self.alpha + group, 1e-3)) for group in groups])

    # --- compiled ----------------------------------------------------------------------------------------------------

    @compiled
    def cell(self, j, c, v):
        """Where a release counts value v of feature j in class c."""
        return int(self.starts[j]) + c * int(self.sizes[j]) + v

    @compiled
    def cell_of(self, records, i, j):
        """Where record i counts in the table of feature j."""
        return self.cell(j, int(records[i, self.n_features]), int(records[i, j]))

    @compiled
    def draw_record(self, rng, theta, records, i):
        c = draw_weighted(rng, theta, 0, self.n_classes, 1.0)
        for j in range(self.n_features):
            first = self.n_classes + self.cell(j, c, 0)
            records[i, j] = draw_weighted(rng, theta, first, int(self.sizes[j]), 1.0)
        records[i, self.n_features] = c

    @compiled
    def count(self, records, i, counts, sign):
        """Add record i to the tables, or remove it."""
        for j in range(self.n_features):
            counts[self.cell_of(records, i, j)] += sign

    @compiled
    def draw_parameters(self, rng, theta, counts):
        """θ given the tables."""
        draw_probabilities(self, rng, theta, counts)


@helper
def draw_probabilities(model, rng, theta, counts):
    """Dirichlet(α + counts) for the classes and, in each class, for each feature."""
    n_classes, size = model.n_classes, int(model.sizes[0])
    for c in range(n_classes):
        theta[c] = 0.0
        for v in range(size):
            theta[c] += counts[model.cell(0, c, v)]
    for cell in range(counts.size):
        theta[n_classes + cell] = counts[cell]
    dirichlet_from_counts(rng, model.alpha, theta, 0, n_classes)
    for j in range(model.n_features):
        for c in range(n_classes):
            dirichlet_from_counts(rng, model.alpha, theta, n_classes + model.cell(j, c, 0), int(model.sizes[j]))
