"""Quantiles of each draw of a mixture, by a search that needs some twenty evaluations of its cdf."""

from math import exp, inf, log

import numpy as np

from .._base.compiled import entry, helper

EPS = 2.0**-52
LAST_BITS = 2.0**-55  # of the narrowest atom's standard deviation
LOG_SMALLEST = log(5e-324)


@entry
def mixture_quantile(kernel, start, weights, theta, j, q):
    """(n_draws, n_q) quantiles, to the last bits of the narrowest atom's standard deviation.

    Records on an interval are looked for by the logarithm of their distance from its lower end, which may be 1e-300.
    """
    result = np.empty((start.size - 1, q.size))
    least, most = kernel.ends(j)
    on_interval = least > -inf
    floor, ceiling = (LOG_SMALLEST, log(most - least)) if on_interval else (-1e300, 1e300)
    for t in range(start.size - 1):
        mixture = kernel, start[t], start[t + 1], weights, theta, j, least
        lo, hi, narrowest, reachable = inf, -inf, inf, 0.0
        for h in range(start[t], start[t + 1]):
            mean = kernel.mean(theta, h, j)
            sd = max(kernel.variance(theta, h, j) ** 0.5, 1e-15 * abs(mean), 1e-300)  # so that a bracket can grow
            lo, hi = min(lo, mean - 10.0 * sd), max(hi, mean + 10.0 * sd)
            narrowest = min(narrowest, sd)
            reachable += weights[h]  # 1, except for rounding
        if on_interval:
            lo, hi, narrowest = ceiling - 16.0, ceiling, 1.0
        for p in range(q.size):
            x = search(mixture, min(q[p], reachable * (1.0 - 1e-15)), lo, hi, floor, ceiling, LAST_BITS * narrowest)
            result[t, p] = min(max(place(x, least), least), most)
    return result


@helper
def search(mixture, target, lo, hi, floor, ceiling, error):
    """Where the cdf becomes ``target``: by inverse quadratic interpolation where that is safe, else by bisection.

    The bracket from lo to hi grows until the target is in it, or to the floor and the ceiling.

    References
    ----------
    Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function without using
    derivatives", Advances in Engineering Software 28 (1997).
    """
    far, near, share = lo, hi, 0.5
    other, above = cdf_at(mixture, far) - target, cdf_at(mixture, near) - target
    while other > 0.0 and far > floor:
        far = max(far - (near - far), floor)
        other = cdf_at(mixture, far) - target
    while above < 0.0 and near < ceiling:
        near = min(near + (near - far), ceiling)
        above = cdf_at(mixture, near) - target
    if above < 0.0 or other >= 0.0:
        return near if above < 0.0 else far
    while True:
        x = near + share * (far - near)
        value = cdf_at(mixture, x) - target
        if (value < 0.0) == (above < 0.0):
            old, before = near, above
        else:
            old, before, far, other = far, other, near, above
        near, above = x, value
        width, enough = abs(far - near), max(error, EPS * abs(near))
        if width <= enough:
            return near if abs(above) < abs(other) else far
        share = 0.5
        if before != other:
            xi, phi = (near - far) / (old - far), (above - other) / (before - other)
            if phi * phi < xi and (1.0 - phi) ** 2 < 1.0 - xi:
                share = above / (other - above) * before / (other - before)
                share += (old - near) / (far - near) * above / (before - above) * other / (before - other)
        share = min(max(share, 0.5 * enough / width), 1.0 - 0.5 * enough / width)


@helper
def cdf_at(mixture, x):
    kernel, first, last, weights, theta, j, least = mixture
    y, total = place(x, least), 0.0
    for h in range(first, last):
        total += weights[h] * kernel.cdf(theta, h, j, y)
    return total


@helper
def place(x, least):
    """Where x is: itself, or as far above the end of an interval as its exponential."""
    return x if least == -inf else least + exp(x)
