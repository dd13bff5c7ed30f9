"""The clusters that releases come from, by draws of a mixture: labels by one draw, and partitions of many."""

from functools import cached_property
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from scipy.special import logit

from .._base.choices import evenly_spaced, in_proportion
from .._base.compiled import entry
from .._base.distinct import distinct_rows
from .._base.numeric import log_sum_in
from ..samplers.mixture.measure._any_noise import with_densities
from .by_records import classify_by_records, records_around
from .mixture import POINTS, in_chunks
from .predictive import fill_product, take_block

N_CANDIDATES, N_RECORDS = 50, 1000  # draws tried as the representative, and releases on which they are tried
N_BY_RECORDS = 250  # ... where g has no closed form
CHUNK = 2**16  # releases classified together


class Clustering(NamedTuple):
    """The occupied clusters of one representative draw, and the label of each."""

    log_weights: np.ndarray
    theta: np.ndarray
    label: np.ndarray

    def predict(self, releases):
        """The label of each release: that of the cluster with the largest w_k g(z | θ_k)."""
        return self.label[self.clusters(releases)]

    def clusters(self, releases):
        """The number of that cluster for each release."""
        found = np.empty(len(releases.Z), dtype=np.int64)

        def put(rows):
            found[rows] = self.classify(releases, np.arange(rows.start, rows.stop))[0]

        in_chunks(put, len(found), CHUNK, releases.n_jobs)
        return found

    def classify(self, releases, rows, around=None):
        """(The cluster of each release of ``rows``, their classification likelihood).

        Where g has no closed form, ``around`` has the records around each, if they are known.
        """
        if releases.noised is not None:
            return self.classify_noised(releases, rows)
        Z, channel, kernel = releases[:3]
        clusters = np.zeros(len(rows), dtype=np.int64)
        parts = channel, kernel, self.log_weights, releases.with_cache(self.theta), Z, rows
        if releases.has_marginal:
            return clusters, classify(*parts, clusters)
        around = records_around(releases, rows) if around is None else around
        return clusters, classify_by_records(*parts, around, clusters, np.random.default_rng(0))

    def classify_noised(self, releases, rows):
        """As :func:`classify_noised`, compiled, with densities instead of their logarithms."""
        clusters, parts = np.empty(len(rows), dtype=np.int64), (np.exp(self.log_weights), self.theta)
        score = classify_noised(
            with_densities(releases.channel), releases.nodes(rows), *parts, releases.noised.least_density, clusters
        )
        far = np.flatnonzero(clusters < 0)
        if len(far):
            clusters[far], score_of_far = self.classify(releases._replace(noised=None), rows[far])
            score += score_of_far
        return clusters, score


class ReleaseClusters:
    """The clusters of the release that was fitted, chosen on first use; takes the parts needed for that choice."""

    def __init__(self, *parts):
        self.parts = parts

    @cached_property
    def chosen(self):
        return choose_clustering(*self.parts)

    @property
    def clustering(self):
        return self.chosen[0]

    @property
    def labels(self):
        return self.chosen[1]


def choose_clustering(draws, releases, weights=None, has_answers=False):
    """Choose a representative draw on the training release; return (its :class:`Clustering`, the release's labels).

    It is the draw whose classification likelihood Σ_i max_k log(w_k g(z_i | θ_k)) is largest, among ``N_CANDIDATES``
    draws and on ``N_RECORDS`` releases, both evenly spaced; so the cost is O(n), whatever the number of draws.
    Splitting one cluster into two that overlap lowers that likelihood, so spurious splits are not chosen.  The labels
    of the training release are consecutive from 0; clusters that it left empty come after them.  With ``weights``, each
    row of Z stands for that many releases.  Among many answers to questions (``has_answers``), equal ones are labelled
    once.
    """
    Z, index = releases.Z, slice(None)
    if has_answers and len(Z) > CHUNK:
        Z, index, weights = distinct_rows(Z)
        releases = releases._replace(Z=Z)
    n = N_RECORDS if releases.has_marginal else N_BY_RECORDS
    subset = evenly_spaced(len(Z), n) if weights is None else in_proportion(weights, n)
    candidates = [
        Clustering(*atoms, np.arange(len(atoms[0]))) for atoms in map(draws.occupied, draws.every(N_CANDIDATES))
    ]
    around = None if releases.has_marginal else records_around(releases, subset)
    best = max(candidates, key=lambda one: one.classify(releases, subset, around)[1])
    labels = best.clusters(releases)
    is_empty = np.bincount(labels, minlength=len(best.label)) == 0
    label = np.empty_like(best.label)
    label[np.argsort(is_empty, kind="stable")] = best.label
    np.take(label, labels, out=labels, mode="clip")  # in place; no label is out of range
    return best._replace(label=label), labels[index]


def draw_partitions(draws, releases, n_partitions, rng):
    """(n_partitions, n) draws of the partition given the release: c_i ~ w_k g(z_i | θ_k), independent given P.

    Exact except for the last atom of each draw, which stands for the unseen rest of P (mass below 0.001).  A record
    outside the mixture, whose density is that of ``log_outside``, has a label of its own, below 0.
    """
    Z, channel, kernel = releases[:3]
    chosen = draws.every(n_partitions)
    start, log_weights, theta = draws.atoms_of(chosen)
    labels = np.empty((len(start) - 1, len(Z)), dtype=np.int64)
    if releases.log_outside is None:
        share_outside, log_outside = np.zeros(len(labels)), np.zeros(len(Z))
    else:
        share_outside, log_outside = draws.flat.outside[chosen], releases.log_outside
    theta = releases.with_cache(theta)
    draw_labels(channel, kernel, start, log_weights, theta, Z, logit(share_outside), log_outside, labels, rng)
    return labels


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def draw_labels(channel, kernel, start, log_weights, theta, Z, log_odds, log_outside, labels, rng):
    """Draw each record's atom in each draw, numbered within the draw, or that it is outside the mixture."""
    for t in range(labels.shape[0]):
        for i in range(labels.shape[1]):
            top, total = log_sum_in(-inf, 0.0, log_odds[t] + log_outside[i])
            labels[t, i] = -1 - i
            for h in range(start[t], start[t + 1]):
                if log_weights[h] > -inf:
                    value = log_weights[h] + kernel.log_marginal_record(channel, Z, i, theta, h)
                    top, total = log_sum_in(top, total, value)
                    if rng.random() * total < exp(value - top):
                        labels[t, i] = h - start[t]


@entry
def classify(channel, kernel, log_weights, theta, Z, rows, labels):
    """Put each release of ``rows`` in the cluster with the largest w_k g(z | θ_k); return the sum of their logs."""
    score = 0.0
    for r in range(rows.size):
        best = -inf
        for h in range(log_weights.size):
            value = log_weights[h] + kernel.log_marginal_record(channel, Z, rows[r], theta, h)
            if value > best:
                best = value
                labels[r] = h
        score += best
    return score


@entry
def classify_noised(channel, nodes, weights, theta, least, labels):
    """As :func:`classify`, for normal kernels; label -1 if all densities are below ``least``, or one is infinite.

    ``nodes`` are as of ``Releases.nodes``.
    """
    best, block, score = np.empty(POINTS), np.empty(nodes[..., 0].size * POINTS), 0.0
    out, product, total = np.empty(3 * POINTS), np.empty(POINTS), np.empty(POINTS)
    for a in range(0, labels.size, POINTS):
        size = min(POINTS, labels.size - a)
        take_block(nodes, a, size, block)
        for p in range(size):
            best[p], labels[a + p], total[p] = least, -1, 0.0
        for h in range(weights.size):
            fill_product(channel, len(nodes), block, size, weights[h], theta, h, out, product)
            for p in range(size):
                total[p] += product[p]
                if product[p] > best[p]:
                    best[p], labels[a + p] = product[p], h
        for p in range(size):
            if not total[p] < inf:
                labels[a + p] = -1
            if labels[a + p] >= 0:
                score += log(best[p])
    return score
