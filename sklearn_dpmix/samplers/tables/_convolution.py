"""Independent draws of naive Bayes' counts given noisy tables: exact, by convolution.

The distribution of the counts, (1) of ``_record_chains``, is with r_a(k) = Γ(a + k) / (Γ(a) k!)

    p(counts | S)  ∝  Π_c r_α(n_c)  Π_jc { Π_v r_α(N_jcv) q(S_jcv - N_jcv) } / r_αV_j(n_c).

Given the class sizes n_c the rows (j, c) are independent.  In a row the counts, v = 1, ..., V, have weights w_v(k) =
r_α(k) q(S_jcv - k) and sum to n_c.  With W_V = w_V and W_v(m) = Σ_k w_v(k) W_{v+1}(m - k) the row has mass W_1(n_c),
and k of the m records in its cells v, ..., V are in cell v with probability w_v(k) W_{v+1}(m - k) / W_v(m).  The class
sizes are such a row too: their weights are r_α(m) Π_j W_jc1(m) / r_αV_j(m), and they sum to n.

A convolution adds positive terms only, so that each W(m) is right to nine digits or more.
"""

from math import exp, inf
from typing import NamedTuple

import numpy as np
from scipy.special import betaln

from ..._base.compiled import Component, compiled, entry, helper, lower
from .._release_density import log_entry
from ._record_chains import CLASS_COUNT

#: Terms in all convolutions up to which counts from 0 to n are summed over, and beyond which none are: a minute's, when
#: there are so many records that chains of one record at a time would take minutes and hardly move.
CHEAP, AFFORDABLE = 2e7, 1e11
#: Numbers that may be kept for the draws.
LARGEST = 2e7
CHUNK = 8192  # of a convolution
#: In between, counts further from their release than noise goes with a probability below ``TAILS[1]`` are left out, but
#: only where leaving out those beyond ``TAILS[0]`` too changes p(S) by less than the share ``NEGLIGIBLE``.
TAILS, NEGLIGIBLE = (1e-10, 1e-20), 1e-7


class Row(NamedTuple):
    """Counts with a known sum: log weights of each, and the convolutions of those of the v-th and all after it.

    ``log_weight[v][i]`` is log w_v(low[v] + i), ``log_sum[v][i]`` is log W_v(sum_low[v] + i), and ``centre[v][i]`` the
    mean of the v-th count given that it and those after it have that sum.
    """

    low: list
    log_weight: list
    sum_low: list
    log_sum: list
    centre: list


def convolve_row(low, log_weight, limit, is_total=False):
    """Return the :class:`Row` of weights whose first entries are those of the counts ``low``.

    Sums go to ``limit``; with ``is_total``, that of the whole row is ``limit``, and no other is computed.
    """
    sum_low, log_sum, centre = [low[-1]], [log_weight[-1]], [low[-1] + np.arange(len(log_weight[-1]))]
    for v in range(len(low) - 2, -1, -1):
        weights, rest, first = log_weight[v], log_sum[0], low[v] + sum_low[0]
        if v > 0 or not is_total:
            total, mean = convolve_logs(weights, rest)
        else:
            total, mean, first = np.full(1, -inf), np.zeros(1), limit
            if 0 <= limit - low[v] - sum_low[0] < len(weights) + len(rest) - 1:
                total[0], mean[0], _ = _sum_one(weights, rest, limit - low[v] - sum_low[0])
        size = max(limit + 1 - first, 0)
        sum_low.insert(0, first)
        log_sum.insert(0, total[:size])
        centre.insert(0, low[v] + mean[:size])
    return Row(low, log_weight, sum_low, log_sum, centre)


def convolve_logs(a, b):
    """log Σ_k exp(a_k + b_{m-k}) for all m, and the mean of k under these terms.

    A factor exp(slope·m) changes nothing but what underflows: lost sums are computed again with the slope that makes
    the terms of one of them, which is summed term by term, the largest.
    """
    size = max(len(a) + len(b) - 1, 0) if len(a) and len(b) else 0
    log_total, mean, lost, slope = np.full(size, -inf), np.zeros(size), np.ones(size, dtype=bool), 0.0
    k, m = np.arange(len(a), dtype=np.float64), np.arange(size, dtype=np.float64)
    while np.any(lost):
        tilted_a, tilted_b = a + slope * k, b + slope * np.arange(len(b))
        top_a, top_b = np.max(tilted_a), np.max(tilted_b)
        if top_a == -inf or top_b == -inf:
            break
        weights, others = np.exp(tilted_a - top_a), np.exp(tilted_b - top_b)
        weights[weights < 1e-150] = others[others < 1e-150] = 0.0  # products that are not normal numbers are slow
        total, first = _convolve(weights, others), _convolve(k * weights, others)
        found = lost & (total > 1e-125)
        log_total[found] = np.log(total[found]) + (top_a + top_b) - slope * m[found]
        mean[found] = first[found] / total[found]
        lost &= ~found
        if np.any(lost):
            left = np.flatnonzero(lost)
            at = left[len(left) // 2]
            log_total[at], mean[at], slope = _sum_one(a, b, at)
            lost[at] = False
    return log_total, mean


def _convolve(a, b):
    """``np.convolve`` in chunks, on whose dot products no linear algebra library would start its threads."""
    result = np.zeros(len(a) + len(b) - 1)
    for start in range(0, len(a), CHUNK):
        part = a[start : start + CHUNK]
        result[start : start + len(part) + len(b) - 1] += np.convolve(part, b)
    return result


def _sum_one(a, b, m):
    """log Σ_k exp(a_k + b_{m-k}), the mean of k, and the slope of b where the terms are largest."""
    k = np.arange(max(m - len(b) + 1, 0), min(m + 1, len(a)))
    terms = a[k] + b[m - k]
    best = int(np.argmax(terms))
    if terms[best] == -inf:
        return -inf, k[0], 0.0
    share = np.exp(terms - terms[best])
    at = m - k[best]
    low, high = max(at - 1, 0), min(at + 1, len(b) - 1)
    slope = (b[low] - b[high]) / max(high - low, 1)
    return terms[best] + np.log(share.sum()), share @ k / share.sum(), slope if np.isfinite(slope) else 0.0


def log_rising(a, k):
    """log r_a(k) of integers k: r_a(k) = 1 / (k B(a, k)), and r_a(0) = 1."""
    k = np.asarray(k, dtype=np.float64)
    return np.where(k > 0, -np.log(np.maximum(k, 1.0)) - betaln(a, np.maximum(k, 1.0)), 0.0)


def convolve_tables(model, channel, S, n_records, low, high):
    """Return the rows of all tables, then that of the classes, for counts of the cells between ``low`` and ``high``."""
    noise = np.zeros((len(low), int(np.max(high - low)) + 1))
    fill_log_noise(channel, np.array(S), low, noise)
    weights = [noise[i, : high[i] - low[i] + 1] + log_rising(model.alpha, np.arange(low[i], high[i] + 1))
               for i in range(len(low))]  # fmt: skip
    rows, at, of_class = [], 0, [None] * model.n_classes
    for size in model.n_values:
        for c in range(model.n_classes):
            rows.append(convolve_row([int(k) for k in low[at : at + size]], weights[at : at + size], n_records))
            first, mass = rows[-1].sum_low[0], rows[-1].log_sum[0]
            taken_off = log_rising(model.alpha * size, first + np.arange(len(mass)))
            of_class[c] = _product(of_class[c], (first, mass - taken_off))
            at += size
    for c, (first, mass) in enumerate(of_class):
        of_class[c] = first, mass + log_rising(model.alpha, first + np.arange(len(mass)))
    return [*rows, convolve_row(*map(list, zip(*of_class, strict=True)), n_records, is_total=True)]


def _product(one, other):
    """Product of two functions on integers, given as (first integer, log values), where both are; None is 1."""
    if one is None:
        return other
    start, stop = max(one[0], other[0]), min(one[0] + len(one[1]), other[0] + len(other[1]))
    if start >= stop:
        return start, np.zeros(0)
    return start, one[1][start - one[0] : stop - one[0]] + other[1][start - other[0] : stop - other[0]]


def log_evidence(rows, n_records):
    """log p(S) except for a constant; -inf if the counts cannot sum to n."""
    at = n_records - rows[-1].sum_low[0]
    return rows[-1].log_sum[0][at] if 0 <= at < len(rows[-1].log_sum[0]) else -inf


def independent_tables(model, channel, S, n_records, tail):
    """Return the sampler of independent draws, or None if it would cost too much or leave something out.

    Parameters
    ----------
    model : NaiveBayes
    channel : value of the mechanism
    S : ndarray of shape (n_releases, n_cells)
    n_records : int
    tail : callable
        Distance -> probability that the noise on a count is larger, or None where that is unknown.
    """
    windows = [(np.zeros(S.shape[1], dtype=np.int64), np.full(S.shape[1], n_records, dtype=np.int64))]
    if convolution_cost(model, *windows[0], n_records)[0] > CHEAP:
        windows = [likely_counts(S, n_records, tail, probability) for probability in TAILS]
    log_p = []
    for low, high in windows:
        n_terms, n_kept = convolution_cost(model, low, high, n_records)
        if np.any(low > high) or n_terms > AFFORDABLE or n_kept > LARGEST:
            return None
        rows = convolve_tables(model, channel, S, n_records, low, high)
        log_p.append(log_evidence(rows, n_records))
    is_complete = np.all(low == 0) and np.all(high == n_records)
    if log_p[-1] == -inf or not (is_complete or log_p[1] - log_p[0] < NEGLIGIBLE):
        return None
    return IndependentTables(rows, n_records)


def likely_counts(S, n_records, tail, probability):
    """Smallest and largest counts that are no further from a release than noise goes with that probability."""
    distance = 1e-3
    while distance < 2 * (np.max(np.abs(S)) + n_records) and (tail(distance) is None or tail(distance) > probability):
        distance *= 1.1
    low = np.clip(np.ceil(S.max(axis=0) - distance), 0, n_records + 1).astype(np.int64)
    return low, np.clip(np.floor(S.min(axis=0) + distance), -1, n_records).astype(np.int64)


def convolution_cost(model, low, high, n_records):
    """Products in all convolutions, and numbers that are kept."""
    n_terms, n_kept, at, width = 0.0, 0.0, 0, np.maximum(high - low, 0) + 1.0
    of_class = np.full(model.n_classes, n_records + 1.0)
    for size in model.n_values:
        table = width[at : at + model.n_classes * size].reshape(model.n_classes, size)
        sums = np.zeros(model.n_classes)
        for v in range(size - 1, -1, -1):
            n_terms, sums = n_terms + table[:, v] @ sums, np.minimum(sums + table[:, v], n_records + 1.0)
            n_kept += np.sum(table[:, v] + 2.0 * sums)
        of_class, at = np.minimum(of_class, sums), at + table.size
    after = np.minimum(np.cumsum(of_class[::-1])[::-1], n_records + 1.0)
    return n_terms + of_class[1:-1] @ after[2:], n_kept + np.sum(of_class + 2.0 * after)


@entry
def fill_log_noise(channel, S, low, table):
    """Log density of all releases of cell j if its count is low[j] + k, up to a constant."""
    for j in range(table.shape[0]):
        for k in range(table.shape[1]):
            table[j, k] = log_entry(channel, S, j, float(low[j] + k))


class IndependentTables(Component):
    """Counts drawn from their distribution, each draw independent of the last, and θ given them; nothing else is kept.

    A draw costs as many terms as there are likely values of the counts.

    Parameters
    ----------
    rows : list of Row
        Rows for (j, c) in the order of a release, then that for the classes.
    n_records : int
    """

    def __init__(self, rows, n_records):
        self.rows = rows
        self.n_records = n_records

    def _lower(self, **context):
        fields = {"n_records": float(self.n_records)}
        for name, low in (("log_weight", "low"), ("log_sum", "sum_low"), ("centre", None)):
            parts = [part for row in self.rows for part in getattr(row, name)]
            fields[name] = np.concatenate(parts)
            if low is not None:
                sizes = np.array([len(part) for part in parts], dtype=np.float64)
                fields[f"{name}_size"], fields[f"{name}_start"] = sizes, np.cumsum(sizes) - sizes
                fields[f"{name}_low"] = np.array([value for row in self.rows for value in getattr(row, low)], float)
        return lower(type(self), fields)

    @compiled
    def sweep(self, model, channel, S, state, rng, warming_up):
        if not warming_up:
            draw_counts(self, rng, model, state.counts, state.work[CLASS_COUNT])
            model.draw_parameters(rng, state.theta, state.counts)


@helper
def draw_counts(sampler, rng, model, counts, class_count):
    left = int(sampler.n_records)
    for c in range(model.n_classes):
        count = draw_count(sampler, rng, counts.size + c, left) if c < model.n_classes - 1 else left
        class_count[c] = count
        left -= count
    for j in range(model.n_features):
        size = int(model.sizes[j])
        for c in range(model.n_classes):
            left = int(class_count[c])
            for v in range(size):
                cell = model.cell(j, c, v)
                count = draw_count(sampler, rng, cell, left) if v < size - 1 else left
                counts[cell] = count
                left -= count


@helper
def draw_count(sampler, rng, cell, m):
    """The count of a cell that is not the last of its row, given m records in it and those after it.

    By inversion, outwards from the mean: an order that has nothing to do with the result.
    """
    low, rest_low = int(sampler.log_weight_low[cell]), int(sampler.log_sum_low[cell + 1])
    high, rest_high = low + int(sampler.log_weight_size[cell]) - 1, rest_low + int(sampler.log_sum_size[cell + 1]) - 1
    weights, rest = int(sampler.log_weight_start[cell]) - low, int(sampler.log_sum_start[cell + 1]) - rest_low
    at = int(sampler.log_sum_start[cell]) + m - int(sampler.log_sum_low[cell])
    log_mass, first, last = sampler.log_sum[at], max(low, m - rest_high), min(high, m - rest_low)
    count = below = above = min(max(int(sampler.centre[at]), first), last)
    u = rng.random() - exp(sampler.log_weight[weights + count] + sampler.log_sum[rest + m - count] - log_mass)
    while u >= 0.0 and (first < below or above < last):
        if above < last:
            count = above = above + 1
            u -= exp(sampler.log_weight[weights + count] + sampler.log_sum[rest + m - count] - log_mass)
        if u >= 0.0 and first < below:
            count = below = below - 1
            u -= exp(sampler.log_weight[weights + count] + sampler.log_sum[rest + m - count] - log_mass)
    return count
