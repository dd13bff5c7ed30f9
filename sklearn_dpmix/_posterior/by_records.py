"""Densities g(z | θ) = ∫ q(z | y) f(y | θ) dy of releases where they have no closed form, by records.

With w(y) = q(z | y) f(y) / (f(y) + r(y | z)), g is the mean of w over records drawn from f, plus its mean over records
drawn around the release, from r: multiple importance sampling with the balance heuristic (Veach & Guibas 1995).  Where
the noise is wide the former say what g is, where it is narrow the latter: hardly one of the former is as near to z.
"""

from math import exp, inf, log, log1p

import numpy as np

from .._base.compiled import entry, helper
from .mixture import log_sum_in, mixture_sample

N_OF_ATOM, N_AROUND = 100, 50  # records of each atom, and around each release, to classify it
A_PART = 8  # draws of which one is taken
N_PREDICTIVE, N_DRAWS = 10_000, 100  # records of a predictive density, and draws that it is averaged over
FAR = 40.0  # in logs: terms so far below the largest are nothing


def records_around(releases, rows, n=N_AROUND):
    """Records around each release, (rows, n, 1, features), or none of them if the channel proposes none near it.

    They depend on that release alone, from whose digits their random numbers begin.  Each feature has one value in each
    of n parts of equal probability (a Latin hypercube: McKay, Beckman & Conover 1979).
    """
    Z, channel, kernel = releases[:3]
    if not channel.can_reverse():
        return np.empty((len(rows), 0, 1, kernel.n_features))
    found, many = np.empty((len(rows), n, kernel.n_features)), np.empty((n * A_PART, kernel.n_features))
    for row, records in zip(rows, found, strict=True):
        rng = np.random.default_rng(Z[row].astype(np.float64).view(np.uint32))
        draw_around(channel, Z, row, many, rng)
        parts = np.sort(many, axis=0).reshape(n, A_PART, -1)
        one = rng.integers(A_PART, size=(n, 1, parts.shape[2]))
        records[:] = rng.permuted(np.take_along_axis(parts, one, axis=1)[:, 0], axis=0)
    return found[:, :, None]


def mean_by_records(releases, start, log_weights, theta):
    """A function of numbers of releases: logs of the mean of g(z) over draws with these atoms."""
    Z, channel, kernel = releases[:3]
    records = mixture_sample(
        kernel, start, np.exp(log_weights), theta, N_PREDICTIVE, kernel.n_features, np.random.default_rng(0)
    )
    parts = channel, kernel, log_weights - log(len(start) - 1), theta
    log_f = log_mixture(*parts[1:], records)

    def score(rows):
        return mean_of_releases(*parts, Z, rows, records, log_f, records_around(releases, rows))

    return score


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def draw_around(channel, Z, i, records, rng):
    for s in range(records.shape[0]):
        for j in range(records.shape[1]):
            records[s, j] = channel.draw_reverse(rng, Z, i, j)


@helper
def log_around(channel, Z, i, records, s):
    """log r(y | z_i) of record s."""
    value = 0.0
    for j in range(records.shape[2]):
        value += channel.log_reverse(Z, i, j, records[s, 0, j]) - channel.log_reverse_total(i)
    return value


@helper
def log_release(channel, Z, i, records, s):
    """log q(z_i | y) of record s."""
    value = 0.0
    for j in range(records.shape[2]):
        value += channel.log_channel(Z, i, j, records[s, 0, j])
    return value


@helper
def log_mixture_at(kernel, log_weights, theta, records, s):
    """log f(y) of record s under these atoms."""
    top, total = -inf, 0.0
    for h in range(log_weights.size):
        if log_weights[h] > -inf:
            top, total = log_sum_in(top, total, log_weights[h] + kernel.log_record(theta, h, records, s))
    return top + log(total) if total > 0.0 else -inf


@entry
def log_mixture(kernel, log_weights, theta, records):
    found = np.empty(len(records))
    for s in range(found.size):
        found[s] = log_mixture_at(kernel, log_weights, theta, records, s)
    return found


@helper
def add_mean(channel, Z, i, records, log_f, has_around, top, total):
    """Add the mean of w over these records, with log densities ``log_f``, to a running log-sum-exp."""
    for s in range(log_f.size):
        value = log_release(channel, Z, i, records, s) - log(log_f.size)  # no term is larger
        if log_f[s] > -inf and value > top - FAR:
            if has_around:
                odds = log_around(channel, Z, i, records, s) - log_f[s]
                value -= odds + log1p(exp(-odds)) if odds > 0.0 else log1p(exp(odds))
            top, total = log_sum_in(top, total, value)
    return top, total


@entry
def mean_of_releases(channel, kernel, log_weights, theta, Z, rows, records, log_f, around):
    """Log g of releases under atoms of which ``records`` are, and ``around`` each release others."""
    n_around, result = around.shape[1], np.empty(rows.size)
    near = np.empty(n_around)
    for r in range(rows.size):
        for s in range(n_around):
            near[s] = log_mixture_at(kernel, log_weights, theta, around[r], s)
        top, total = add_mean(channel, Z, rows[r], around[r], near, True, -inf, 0.0)
        top, total = add_mean(channel, Z, rows[r], records, log_f, n_around > 0, top, total)
        result[r] = top + log(total) if total > 0.0 else -inf
    return result


@entry
def classify_by_records(channel, kernel, log_weights, theta, Z, rows, around, labels, rng):
    """Put each release of ``rows`` in the cluster with the largest w_k g(z | θ_k); return the sum of their logs."""
    n_drawn, n_around, score = N_OF_ATOM, around.shape[1], 0.0
    records = np.empty((log_weights.size, n_drawn, 1, kernel.n_features))
    log_f, near = np.empty((log_weights.size, n_drawn)), np.empty(n_around)
    for h in range(log_weights.size):
        for s in range(n_drawn):
            kernel.draw_record(rng, theta, h, records[h], s, 0)
            log_f[h, s] = kernel.log_record(theta, h, records[h], s)
    for r in range(rows.size):
        best = -inf
        for h in range(log_weights.size):
            for s in range(n_around):
                near[s] = kernel.log_record(theta, h, around[r], s)
            top, total = add_mean(channel, Z, rows[r], around[r], near, True, -inf, 0.0)
            top, total = add_mean(channel, Z, rows[r], records[h], log_f[h], n_around > 0, top, total)
            value = log_weights[h] + (top + log(total) if total > 0.0 else -inf)
            if value > best:
                best, labels[r] = value, h
        score += best
    return score
