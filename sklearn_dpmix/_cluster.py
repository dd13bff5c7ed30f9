"""A clustering of releases from draws of the mixture: one representative draw, and the maximum rule."""

import numpy as np

from ._draws import classify, classify_by_records

N_CANDIDATES = 50
N_RECORDS = 1000


class Classifier:
    """Put releases into the clusters of a representative draw.

    The representative is the draw whose classification likelihood Σ_i max_k log(w_k g(z_i | θ_k)) is largest, among
    ``N_CANDIDATES`` draws and on ``N_RECORDS`` releases, both evenly spaced; so the cost is O(n) whatever the number of
    draws.  Splitting one cluster into two that overlap lowers that likelihood, so spurious splits are not chosen.
    """

    def __init__(self, draws, kernel, has_marginal):
        self.draws, self.kernel, self.has_marginal = draws, kernel, has_marginal
        self.draw = None

    def __call__(self, channel, Z, rows, t):
        """Labels (positions in draw t) of the releases in ``rows``, and their classification likelihood."""
        start, k = self.draws.start[t], self.draws.n_clusters[t]
        labels = np.zeros(len(rows), dtype=np.int64)
        atoms = slice(start, start + k)
        parts = (channel, self.kernel, self.draws.weights[atoms], self.draws.theta[atoms], Z, rows, labels)
        score = classify(*parts) if self.has_marginal else classify_by_records(*parts, np.random.default_rng(0))
        return labels, score

    def choose(self, channel, Z):
        """Choose the representative on the training release; return its labels, consecutive from 0."""
        rows = np.arange(len(Z))
        subset = np.unique(np.linspace(0, len(Z) - 1, min(N_RECORDS, len(Z))).astype(np.int64))
        candidates = self.draws.every(N_CANDIDATES)
        self.draw = int(max(candidates, key=lambda t: self(channel, Z, subset, t)[1]))
        labels, _ = self(channel, Z, rows, self.draw)
        self.used, labels = np.unique(labels, return_inverse=True)
        return labels

    def predict(self, channel, Z):
        """Labels of new releases: those of the training release, and beyond them clusters that it left empty."""
        labels, _ = self(channel, Z, np.arange(len(Z)), self.draw)
        order = np.concatenate([self.used, np.setdiff1d(np.arange(self.draws.n_clusters[self.draw]), self.used)])
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank[labels]
