"""What draws of a mixture say about releases: their density g(z), and the clusters that they come from."""

from functools import cached_property, partial
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from scipy.special import logit

from .._base.compiled import entry, helper
from ..samplers.mixture.measure._any_noise import with_densities
from .many_points import log_density_at
from .mixture import POINTS, in_chunks, log_sum_in, moments_of_atoms

N_CANDIDATES, N_RECORDS = 50, 1000  # draws tried as the representative, and records on which they are tried
CHUNK = 2**16  # releases classified together
LEAST = 1e-280  # densities below it are compared by their logarithms
N_SCORED, N_PREDICTIVE = 500, 10_000  # draws averaged in g(z); records drawn where g has no closed form


class Clustering(NamedTuple):
    """The occupied clusters of one representative draw, and the label of each."""

    log_weights: np.ndarray
    theta: np.ndarray
    label: np.ndarray
    has_marginal: bool

    def predict(self, channel, kernel, Z, n_jobs=None, noised=None):
        """The label of each release: that of the cluster with the largest w_k g(z | θ_k)."""
        return self.label[self.clusters(channel, kernel, Z, n_jobs, noised)]

    def clusters(self, channel, kernel, Z, n_jobs=None, noised=None):
        """The number of that cluster for each release.

        ``noised`` is the mechanism, if it offers the densities of the kernel's records at many places at once.
        """
        found = np.empty(len(Z), dtype=np.int64)

        def put(rows):
            found[rows] = self.classify(channel, kernel, Z, np.arange(rows.start, rows.stop), noised)[0]

        in_chunks(put, len(Z), CHUNK, n_jobs)
        return found

    def classify(self, channel, kernel, Z, rows, noised=None):
        """(The cluster of each release of ``rows``, their classification likelihood)."""
        if noised is not None:
            return self.classify_noised(noised, channel, kernel, Z, rows)
        clusters = np.zeros(len(rows), dtype=np.int64)
        parts = channel, kernel, self.log_weights, with_cache(channel, kernel, self.theta), Z, rows, clusters
        score = classify(*parts) if self.has_marginal else classify_by_records(*parts, np.random.default_rng(0))
        return clusters, score

    def classify_noised(self, mechanism, channel, kernel, Z, rows):
        """As :func:`classify_noised`, compiled for one feature, with densities instead of their logarithms."""
        clusters, parts = np.empty(len(rows), dtype=np.int64), (np.exp(self.log_weights), self.theta)
        score = classify_noised(with_densities(channel), nodes_at(mechanism, Z, rows), *parts, clusters)
        far = np.flatnonzero(clusters < 0)
        if len(far):
            clusters[far], score_of_far = self.classify(channel, kernel, Z, rows[far])
            score += score_of_far
        return clusters, score


def nodes_at(mechanism, Z, rows):
    """The places of releases of one feature, and what the mechanism looks up there for densities (``fill_normal``)."""
    places = mechanism.folded(Z[rows, 0])[None]
    scales = () if mechanism.has_one_law else (np.asarray(mechanism.noise_scale_for(1))[rows],)
    return np.vstack([places, mechanism.lookup(places, *scales)])


def log_folding(mechanism, Z):
    """log g(z) of releases of one feature less that at their nodes' places, which is the same for all records."""
    places = mechanism.folded(Z)
    places = np.where(places == mechanism.on_line(Z), Z, places)
    if np.array_equal(places, Z):
        return np.zeros(len(Z))
    return mechanism.log_density(Z, places) - mechanism.log_density(places, places)


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


def choose_clustering(
    draws, channel, kernel, Z, has_marginal, n_jobs=None, weights=None, noised=None, has_answers=False
):
    """Choose a representative draw on the training release; return (its :class:`Clustering`, the release's labels).

    It is the draw whose classification likelihood Σ_i max_k log(w_k g(z_i | θ_k)) is largest, among ``N_CANDIDATES``
    draws and on ``N_RECORDS`` releases, both evenly spaced; so the cost is O(n), whatever the number of draws.
    Splitting one cluster into two that overlap lowers that likelihood, so spurious splits are not chosen.  The labels
    of the training release are consecutive from 0; clusters that it left empty come after them.  With ``weights``, each
    row of Z stands for that many releases.  Among many answers to questions (``has_answers``), equal ones are labelled
    once.
    """
    index = slice(None)
    if has_answers and len(Z) > CHUNK:
        Z, index, weights = np.unique(Z, axis=0, return_inverse=True, return_counts=True)
        index = index.ravel()
    subset = np.unique(np.linspace(0, len(Z) - 1, min(N_RECORDS, len(Z))).astype(np.int64))
    if weights is not None:
        total = np.cumsum(weights)
        subset = np.searchsorted(total, total[-1] * (np.arange(N_RECORDS) + 0.5) / N_RECORDS)
    candidates = [
        Clustering(*atoms, np.arange(len(atoms[0])), has_marginal)
        for atoms in map(draws.occupied, draws.every(N_CANDIDATES))
    ]
    best = max(candidates, key=lambda one: one.classify(channel, kernel, Z, subset, noised)[1])
    labels = best.clusters(channel, kernel, Z, n_jobs, noised)
    is_empty = np.bincount(labels, minlength=len(best.label)) == 0
    label = np.empty_like(best.label)
    label[np.argsort(is_empty, kind="stable")] = best.label
    np.take(label, labels, out=labels, mode="clip")  # in place; no label is out of range
    return best._replace(label=label), labels[index]


def released_shares(draws, channel, chosen):
    """R(P_t), the probability that a record's release appears, under the mixtures P_t of the draws ``chosen``.

    For noise of one scale.
    """
    start, log_weights, theta = draws.atoms_of(chosen)
    shares = np.zeros(len(start) - 1)
    add_shares(channel, start, np.exp(log_weights), theta, shares)
    return np.minimum(shares, 1.0)


def atoms_of_releases(draws, channel, chosen):
    """``draws.atoms_of(chosen)``, with weights for densities of releases.

    These are densities of releases that appear, divided by R(P_t), and of people who follow the design.
    """
    start, log_weights, theta = draws.atoms_of(chosen)
    if draws.flat.outside.size:
        log_weights = log_weights + np.repeat(np.log1p(-draws.flat.outside[chosen]), np.diff(start))
    if getattr(channel, "threshold", -inf) > -inf:
        log_weights = log_weights - np.repeat(np.log(released_shares(draws, channel, chosen)), np.diff(start))
    return start, log_weights, theta


def release_log_density(
    draws, channel, kernel, Z, has_marginal, n_jobs=None, noised=None, log_outside=None, one_law=False
):
    """(n,) logs of the predictive density of releases: the mean of g(z) over draws, or of q(z | y) over records y.

    ``noised`` is as in :meth:`Clustering.clusters`; ``log_outside`` is the log density of each for records outside the
    mixture, if there are any; ``one_law`` says that the noise is the same for all releases, and continuous.
    """
    size = 256 if noised is None else 8 * POINTS
    if has_marginal:
        chosen = draws.every(N_SCORED)
        start, log_weights, theta = atoms_of_releases(draws, channel, chosen)
        theta = with_cache(channel, kernel, theta)
    else:
        records = draws.sample(kernel, np.random.default_rng(0), N_PREDICTIVE, kernel.n_features)

    def log_density(Z):
        if has_marginal:
            score = partial(mean_density(channel, kernel, Z, noised), start, log_weights, theta)
        else:

            def score(rows):
                return mean_channel(channel, kernel, Z, rows, records)

        chunks = in_chunks(lambda rows: score(np.arange(rows.start, rows.stop)), len(Z), size, n_jobs)
        return np.concatenate(chunks)

    if one_law and has_marginal and Z.shape[1] == 1:
        values = log_density_at(Z[:, 0], lambda z: log_density(z[:, None]), moments_of_atoms(kernel, theta))
    else:
        values = log_density(Z)
    if log_outside is None:
        return values
    return np.logaddexp(values, np.log(np.mean(draws.flat.outside[chosen])) + log_outside)


def mean_density(channel, kernel, Z, noised=None):
    """A function of draws' atoms and of numbers of releases: logs of the mean of g(z) over the draws.

    The atoms are (start, log weights, theta); ``noised`` is as in :meth:`Clustering.clusters`.
    """

    def exact(start, log_weights, theta, rows):
        return mean_marginal(channel, kernel, start, log_weights, theta, Z, rows)

    if noised is None:
        return exact
    dense, nodes, factor = with_densities(channel), nodes_at(noised, Z, np.arange(len(Z))), log_folding(noised, Z)

    def at_once(start, log_weights, theta, rows):
        density = np.zeros(len(rows))
        mix_noised(dense, np.ascontiguousarray(nodes[:, rows]), np.exp(log_weights), theta, density)
        found, is_far = np.log(np.maximum(density, LEAST) / (len(start) - 1)) + factor[rows], density < LEAST
        found[is_far] = exact(start, log_weights, theta, rows[is_far])
        return found

    return at_once


def draw_partitions(draws, channel, kernel, Z, n_partitions, rng, log_outside=None):
    """(n_partitions, n) draws of the partition given the release: c_i ~ w_k g(z_i | θ_k), independent given P.

    Exact except for the last atom of each draw, which stands for the unseen rest of P (mass below 0.001).  A record
    outside the mixture, whose density is that of ``log_outside``, has a label of its own, below 0.
    """
    chosen = draws.every(n_partitions)
    start, log_weights, theta = draws.atoms_of(chosen)
    labels = np.empty((len(start) - 1, len(Z)), dtype=np.int64)
    if log_outside is None:
        share_outside, log_outside = np.zeros(len(labels)), np.zeros(len(Z))
    else:
        share_outside = draws.flat.outside[chosen]
    theta = with_cache(channel, kernel, theta)
    draw_labels(channel, kernel, start, log_weights, theta, Z, logit(share_outside), log_outside, labels, rng)
    return labels


def with_cache(channel, kernel, theta):
    """``theta`` with the columns that the channel keeps for itself."""
    n_cached = int(getattr(channel, "n_cached", 0))
    if n_cached:
        theta = np.hstack([theta, np.zeros((len(theta), n_cached))])
        fill_cache(channel, kernel, theta)
    return theta


@entry
def fill_cache(channel, kernel, theta):
    for h in range(theta.shape[0]):
        channel.cache(kernel, theta, h)


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def add_shares(channel, start, weights, theta, shares):
    found = np.empty(3)
    for t in range(shares.size):
        for h in range(start[t], start[t + 1]):
            channel.fill_released(1.0, channel.noise[0], theta[h, 0], 2.0 * theta[h, 3], found, 0, 1, 2)
            shares[t] += weights[h] * found[0]


@helper
def log_mean_channel(channel, kernel, Z, i, records):
    """Log of the mean of q(z_i | y) over ``records``."""
    top, total = -inf, 0.0
    for s in range(records.shape[0]):
        value = 0.0
        for j in range(kernel.n_features):
            value += channel.log_channel(Z, i, j, records[s, j])
        top, total = log_sum_in(top, total, value)
    return top + log(total / records.shape[0]) if total > 0.0 else -inf


@entry
def mean_marginal(channel, kernel, start, log_weights, theta, Z, rows):
    """Log of the mean over draws of g(z) for the releases ``rows``, in closed form."""
    result = np.empty(rows.size)
    for r in range(rows.size):
        top, total = -inf, 0.0
        for h in range(log_weights.size):
            if log_weights[h] > -inf:
                value = log_weights[h] + kernel.log_marginal_record(channel, Z, rows[r], theta, h)
                top, total = log_sum_in(top, total, value)
        result[r] = top + log(total / (start.size - 1)) if total > 0.0 else -inf
    return result


@entry
def mix_noised(channel, nodes, weights, theta, density):
    """Add Σ_h w_h g(z | θ_h) for normal kernels in one feature; ``nodes`` are as for :func:`classify_noised`."""
    block, out = np.empty(len(nodes) * POINTS), np.empty(3 * POINTS)
    for a in range(0, density.size, POINTS):
        size = min(POINTS, density.size - a)
        for p in range(size):
            for e in range(len(nodes)):
                block[e * size + p] = nodes[e, a + p]
        for h in range(weights.size):
            if weights[h] > 0.0:
                channel.fill_normal(0, block, size, theta[h, 0], 2.0 * theta[h, 3], out, 0, size)
                for p in range(size):
                    density[a + p] += weights[h] * out[p]


@entry
def mean_channel(channel, kernel, Z, rows, records):
    """Mean log density of releases if g has no closed form, from posterior predictive records."""
    result = np.empty(rows.size)
    for r in range(rows.size):
        result[r] = log_mean_channel(channel, kernel, Z, rows[r], records)
    return result


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
def classify_noised(channel, nodes, weights, theta, labels):
    """As :func:`classify`, for normal kernels in one feature; label -1 if all densities are next to nothing.

    ``nodes`` are places, and what the mechanism looks up there.
    """
    best, block, out, score = np.empty(POINTS), np.empty(len(nodes) * POINTS), np.empty(3 * POINTS), 0.0
    for a in range(0, labels.size, POINTS):
        size = min(POINTS, labels.size - a)
        for p in range(size):
            best[p], labels[a + p] = LEAST, -1
            for e in range(len(nodes)):
                block[e * size + p] = nodes[e, a + p]
        for h in range(weights.size):
            channel.fill_normal(0, block, size, theta[h, 0], 2.0 * theta[h, 3], out, 0, size)
            for p in range(size):
                value = weights[h] * out[p]
                if value > best[p]:
                    best[p], labels[a + p] = value, h
        for p in range(size):
            if labels[a + p] >= 0:
                score += log(best[p])
    return score


@entry
def classify_by_records(channel, kernel, log_weights, theta, Z, rows, labels, rng):
    """As :func:`classify`, if g has no closed form: estimated by 200 records drawn from each cluster's kernel."""
    records = np.empty((log_weights.size, 200, kernel.n_features))
    for h in range(log_weights.size):
        for s in range(records.shape[1]):
            kernel.draw_record(rng, theta, h, records, h, s)
    score = 0.0
    for r in range(rows.size):
        best = -inf
        for h in range(log_weights.size):
            value = log_weights[h] + log_mean_channel(channel, kernel, Z, rows[r], records[h])
            if value > best:
                best = value
                labels[r] = h
        score += best
    return score
