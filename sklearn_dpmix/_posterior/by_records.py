"""Densities g(z | θ) = ∫ q(z | y) f(y | θ) dy of releases where they have no closed form, by records.

Where the noise is wide, records drawn from f say what g is; where it is narrow, hardly any of these is as near to z as
the noise, but records drawn around the release, from r(y | z), are.  So both are, a of the former and b of the latter:

    g = E_f w + c E_r w,   w(y) = q(z | y) f(y) / (f(y) + c r(y | z)),

which holds for any c.  It is b/a in the balance heuristic of multiple importance sampling (Veach & Guibas 1995); here
b counts ten times, since records around a release are drawn evenly.
"""

from math import exp, inf, log, log1p

import numpy as np

from .._base.compiled import entry, helper
from .._base.numeric import log_sum_in
from .mixture import mixture_sample

N_OF_ATOM, N_AROUND = 100, 50  # records of each atom, and around each release, to classify it
N_ALONE = 200  # records of each atom where there are none around releases
A_PART, EVENLY = 8, 10.0  # draws of which one is taken, so that the others are worth so many
N_PREDICTIVE, N_DRAWS = 10_000, 100  # records of a predictive density, and draws that it is averaged over
FAR = 40.0  # in logs: terms so far below the largest are nothing


def records_around(releases, rows, n=N_AROUND):
    """Records around each release, (rows, features, n); none where the channel proposes none, or they have no density.

    They depend on that release alone, from whose digits their random numbers begin.  Each feature has one value in each
    of n parts of equal probability (a Latin hypercube: McKay, Beckman & Conover 1979).
    """
    Z, channel, kernel = releases[:3]
    if not (channel.can_reverse() and kernel.has_density()):
        return np.empty((len(rows), kernel.n_features, 0))
    found, many = np.empty((len(rows), kernel.n_features, n)), np.empty((n * A_PART, kernel.n_features))
    for row, records in zip(rows, found, strict=True):
        rng = np.random.default_rng((Z[row].astype(np.float64) + 0.0).view(np.uint32))  # no zero has a sign
        draw_around(channel, Z, row, many, rng)
        parts = np.sort(many, axis=0).reshape(n, A_PART, -1)
        one = rng.integers(A_PART, size=(n, 1, parts.shape[2]))
        records[:] = rng.permuted(np.take_along_axis(parts, one, axis=1)[:, 0], axis=0).T
    return found


def mean_by_records(releases, start, log_weights, theta):
    """A function of the rows of some releases: logs of the mean of g(z) over the draws with these atoms."""
    Z, channel, kernel = releases[:3]
    rng = np.random.default_rng(0)
    records = mixture_sample(kernel, start, np.exp(log_weights), theta, N_PREDICTIVE, kernel.n_features, rng)
    records = np.ascontiguousarray(records[:, 0].T)
    parts = kernel, log_weights - log(len(start) - 1), theta
    log_f = log_density_of_drawn(*parts, records)

    def score(rows):
        return mean_of_releases(channel, *parts, Z, rows, records, log_f, records_around(releases, rows))

    return score


# --- compiled: records are the columns of arrays ----------------------------------------------------------------------


@entry
def draw_around(channel, Z, i, records, rng):
    for s in range(records.shape[0]):
        for j in range(records.shape[1]):
            records[s, j] = channel.draw_reverse(rng, Z, i, j)


@helper
def fill_log_density(kernel, log_weights, theta, records, values, total, log_f):
    """Fill log f of records under a mixture of atoms; ``values`` and ``total`` are scratch."""
    for s in range(log_f.size):
        log_f[s], total[s] = -inf, 0.0
    for h in range(log_weights.size):
        if log_weights[h] > -inf:
            for s in range(log_f.size):
                values[s] = log_weights[h]
            kernel.log_points(theta, h, records, log_f.size, values)
            for s in range(log_f.size):
                log_f[s], total[s] = log_sum_in(log_f[s], total[s], values[s])
    for s in range(log_f.size):
        log_f[s] += log(total[s]) if total[s] > 0.0 else 0.0


@helper
def mark_drawn(kernel, log_f):
    """Set log f of drawn records to infinity where they have positive probability: rounded to an end, or discrete."""
    for s in range(log_f.size):
        if log_f[s] == -inf or not kernel.has_density():
            log_f[s] = inf


@entry
def log_density_of_drawn(kernel, log_weights, theta, records):
    n = records.shape[1]
    log_f = np.empty(n)
    fill_log_density(kernel, log_weights, theta, records, np.empty(n), np.empty(n), log_f)
    mark_drawn(kernel, log_f)
    return log_f


@helper
def add_mean(channel, Z, i, records, log_f, log_c, log_scale, top, total):
    """Add the mean of w over these records, times a scale, to a running log-sum-exp."""
    for s in range(log_f.size):
        value = log_scale - log(log_f.size)
        for j in range(records.shape[0]):
            value += channel.log_channel(Z, i, j, records[j, s])
        if log_f[s] > -inf and value > top - FAR:  # no term is larger
            odds = log_c - log_f[s]
            if odds > -inf:
                for j in range(records.shape[0]):
                    odds += channel.log_reverse(Z, i, j, records[j, s]) - channel.log_reverse_total(i)
            value -= odds + log1p(exp(-odds)) if odds > 0.0 else log1p(exp(odds))
            top, total = log_sum_in(top, total, value)
    return top, total


@helper
def log_mean(channel, Z, i, records, log_f, around, log_f_around):
    """Log g of a release by records drawn from f, and by those around it."""
    log_c = log(EVENLY * log_f_around.size / log_f.size) if log_f_around.size > 0 else -inf
    top, total = add_mean(channel, Z, i, around, log_f_around, log_c, log_c, -inf, 0.0)
    top, total = add_mean(channel, Z, i, records, log_f, log_c, 0.0, top, total)
    return top + log(total) if total > 0.0 else -inf


@entry
def mean_of_releases(channel, kernel, log_weights, theta, Z, rows, records, log_f, around):
    """Log g of releases, by ``records`` of the mixture of these atoms and those ``around`` each release."""
    n, result = around.shape[2], np.empty(rows.size)
    values, total, near = np.empty(n), np.empty(n), np.empty(n)
    for r in range(rows.size):
        fill_log_density(kernel, log_weights, theta, around[r], values, total, near)
        result[r] = log_mean(channel, Z, rows[r], records, log_f, around[r], near)
    return result


@entry
def classify_by_records(channel, kernel, log_weights, theta, Z, rows, around, labels, rng):
    """Put each release of ``rows`` in the cluster with the largest w_k g(z | θ_k); return the sum of their logs."""
    n_around, score = around.shape[2], 0.0
    n_drawn = N_OF_ATOM if n_around > 0 else N_ALONE
    one, records = np.empty((1, 1, kernel.n_features)), np.empty((log_weights.size, kernel.n_features, n_drawn))
    log_f, near = np.zeros((log_weights.size, n_drawn)), np.empty(n_around)
    for h in range(log_weights.size):
        for s in range(n_drawn):
            kernel.draw_record(rng, theta, h, one, 0, 0)
            for j in range(kernel.n_features):
                records[h, j, s] = one[0, 0, j]
        kernel.log_points(theta, h, records[h], n_drawn, log_f[h])
        mark_drawn(kernel, log_f[h])
    for r in range(rows.size):
        best = -inf
        for h in range(log_weights.size):
            for s in range(n_around):
                near[s] = 0.0
            kernel.log_points(theta, h, around[r], n_around, near)
            value = log_weights[h] + log_mean(channel, Z, rows[r], records[h], log_f[h], around[r], near)
            if value > best:
                best, labels[r] = value, h
        score += best
    return score
