"""Moves of two clamped Poisson records at once, which leave their sum as it is.

Under hardly any noise no single record can move, and with it the number of records beyond a bound stays.  What one
record's clamped value gains another's loses; a record at a bound is then drawn anew beyond it.
"""

from math import ceil, exp, floor, lgamma, log, log1p, sqrt

from .._base.compiled import helper
from .._base.numeric import log_gamma_p

LIKELY = 0.25  # probability of a tail from which on draws are repeated until they are in it


@helper
def exchange_pairs(rng, model, rate, records, contributions, n):
    """As many moves as there are records; each takes some from one, and gives them to another."""
    low, high = max(model.lo, 0.0), model.hi
    most = floor(min(1.0 + sqrt(rate), high - low))
    for _ in range(n if n > 1 and most >= 1.0 else 0):
        i, j = int(rng.random() * n), int(rng.random() * (n - 1))
        j += 1 if j >= i else 0
        a, b = min(max(records[i, 0], low), high), min(max(records[j, 0], low), high)
        step = 1.0 + floor(most * rng.random())
        if not (is_value(a + step, low, high) and is_value(b - step, low, high)):
            continue
        gain = log_mass(a + step, rate, low, high) + log_mass(b - step, rate, low, high)
        gain -= log_mass(a, rate, low, high) + log_mass(b, rate, low, high)
        if gain >= 0.0 or rng.random() < exp(gain):
            for k, value in ((i, a + step), (j, b - step)):
                records[k, 0], records[k, 1] = draw_clamped(rng, value, rate, low, high), rng.random()
                model.contribute(records, k, contributions, k)


@helper
def is_value(x, low, high):
    """Whether a clamped record may be x."""
    return low <= x <= high and (x in (low, high) or x == floor(x))


@helper
def log_mass(x, rate, low, high):
    """Log probability that a clamped record is x."""
    if x == high:
        return log_at_least(ceil(x), rate)
    return log_at_most(floor(x), rate) if x == low else log_poisson(x, rate)


@helper
def log_poisson(x, rate):
    return x * log(rate) - rate - lgamma(x + 1.0)


@helper
def log_at_least(x, rate):
    return log_gamma_p(x, rate) if x > 0.0 else 0.0


@helper
def log_at_most(x, rate):
    """From the other tail, or where that is nearly 1, as a sum of falling terms from x down."""
    if x >= rate:
        return log1p(-exp(log_at_least(x + 1.0, rate)))
    term = total = 1.0
    first = x
    while x > 0.0 and term > 1e-17 * total:
        term *= x / rate
        total += term
        x -= 1.0
    return log_poisson(first, rate) + log(total)


@helper
def draw_clamped(rng, value, rate, low, high):
    """A record, given what it is clamped to: in a likely tail by repetition, else step by step from the bound."""
    up = value == high
    if not up and value != low:
        return value
    x = ceil(value) if up else floor(value)
    log_tail = log_at_least(x, rate) if up else log_at_most(x, rate)
    if log_tail > log(LIKELY):
        drawn = float(rng.poisson(rate))
        while drawn < x if up else drawn > x:
            drawn = float(rng.poisson(rate))
        return drawn
    u, mass = rng.random(), exp(log_poisson(x, rate) - log_tail)
    while u >= mass and mass > 1e-17 and (up or x > 0.0):
        u -= mass
        mass *= rate / (x + 1.0) if up else x / rate
        x += 1.0 if up else -1.0
    return x
