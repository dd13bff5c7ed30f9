"""The yardstick: private Neal 5 for one model (Laplace, one feature, normal kernel, m = 1), all calls written out.

It shares no code with the package.  It is as fast as we know how to write the same algorithm: per-record work is one
urn draw, one normal, one exponential at most; statistics are summed once a sweep.
"""

from math import exp, log, sqrt

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def fused_neal5(z, b, mean, precision, shape, scale, concentration, alloc, y, n_sweeps, rng):
    """Run ``n_sweeps`` sweeps; return the number of clusters and the log density at 0 after each."""
    n = z.size
    capacity = 4096
    counts = np.zeros(capacity, np.int64)
    mu, sd = np.zeros(capacity), np.ones(capacity)
    s1, s2 = np.zeros(capacity), np.zeros(capacity)
    free = np.zeros(capacity, np.int64)
    n_free, n_slots, n_clusters = 0, 0, 0
    for i in range(n):
        counts[alloc[i]] += 1
        n_slots = max(n_slots, alloc[i] + 1)
    for k in range(n_slots):
        if counts[k] > 0:
            n_clusters += 1
        else:
            free[n_free] = k
            n_free += 1
    clusters, log_f0 = np.zeros(n_sweeps), np.zeros(n_sweeps)
    inverse_b = 1.0 / b
    for t in range(-1, n_sweeps):
        if t >= 0:
            for i in range(n):
                k = alloc[i]
                counts[k] -= 1
                u = rng.random() * (concentration + n - 1)
                fresh = u < concentration
                if fresh:
                    to = free[n_free - 1] if n_free > 0 else n_slots
                    sd[to] = sqrt(scale / rng.standard_gamma(shape))
                    mu[to] = mean + sd[to] / sqrt(precision) * rng.standard_normal()
                else:
                    other = min(int(u - concentration), n - 2)
                    if other >= i:
                        other += 1
                    to = alloc[other]
                proposal = mu[to] + sd[to] * rng.standard_normal()
                gain = (abs(z[i] - y[i]) - abs(z[i] - proposal)) * inverse_b
                if gain >= 0.0 or rng.random() < exp(gain):
                    if fresh:
                        if n_free > 0:
                            n_free -= 1
                        else:
                            n_slots += 1
                        n_clusters += 1
                    if counts[k] == 0:
                        free[n_free] = k
                        n_free += 1
                        n_clusters -= 1
                    alloc[i] = to
                    y[i] = proposal
                    counts[to] += 1
                else:
                    counts[k] += 1
        for k in range(n_slots):
            s1[k] = 0.0
            s2[k] = 0.0
        for i in range(n):
            e = y[i] - mean
            s1[alloc[i]] += e
            s2[alloc[i]] += e * e
        f0 = 0.0
        for k in range(n_slots):
            if counts[k] > 0:
                p = precision + counts[k]
                shift = s1[k] / p
                spread = sqrt((scale + 0.5 * (s2[k] - p * shift * shift)) / rng.standard_gamma(shape + 0.5 * counts[k]))
                sd[k] = spread
                mu[k] = mean + shift + spread / sqrt(p) * rng.standard_normal()
                f0 += counts[k] / (n + concentration) * exp(-0.5 * (mu[k] / sd[k]) ** 2) / (sd[k] * 2.5066282746310002)
        if t >= 0:
            clusters[t] = n_clusters
            log_f0[t] = log(f0) if f0 > 0 else -745.0
    return clusters, log_f0
