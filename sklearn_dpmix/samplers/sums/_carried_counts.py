"""Moves of an unknown α that carry the counts along (``WideDirichletPrior``).

Given the counts α hardly moves, and given α the counts do not move far: where noise hides whether all categories share
the records or a few have them all, both must change at once.  With the categories in a random order, the probabilities
integrated out, m records left and r categories after this one, a count is beta-binomial a priori,

    s_j given α and the counts before ~ BetaBinomial(m, α, rα),

so that counts are a function of α and of a uniform number for each category, of which they are the quantiles.  The
uniform numbers are drawn given the counts, log α takes a symmetric step, and the counts become the same quantiles under
the new α.  What is left to accept by is the prior of log α and the noise's density.
"""

import math

from ..._base.compiled import helper
from ._statistic import log_gamma_ratio, log_noise

NARROWEST, WIDEST = 1e-6, 1e6  # α beyond does not move so
LONGEST = 2.0  # standard deviation of a step of log α
LEAST = 1e-300  # probability of a count: quantiles of less likely ones are not numbers that can be told apart
HIGHEST = 1.0 - 1e-7  # nor are uniform numbers beyond: their quantiles would not lead back
NEGLIGIBLE = 1e-18  # share of a sum


@helper
def mass_at(m, a, b, x):
    """P(x) under BetaBinomial(m, a, b)."""
    value = math.lgamma(m + 1.0) - math.lgamma(x + 1.0) - math.lgamma(m - x + 1.0)
    value += log_gamma_ratio(a, x, 0.0) + log_gamma_ratio(b, m - x, 0.0) + log_gamma_ratio(a + b, 0.0, m)
    return math.exp(value)


@helper
def rise(m, a, b, x):
    """P(x + 1)/P(x)."""
    return (x + a) / (x + 1.0) * (m - x) / (m - x - 1.0 + b)


@helper
def mass_below(m, a, b, x, mass):
    """P(fewer than x), given P(x)."""
    total = 0.0
    while x > 0.0 and mass >= NEGLIGIBLE * total:
        x -= 1.0
        mass /= rise(m, a, b, x)
        total += mass
    return total


@helper
def quantile(m, a, b, u):
    """The count at which the distribution function passes u, searched from the mean, which is never unlikely."""
    x = float(math.floor(m * a / (a + b)))
    mass = mass_at(m, a, b, x)
    below = mass_below(m, a, b, x, mass)
    while x > 0.0 and u < below:
        x -= 1.0
        mass /= rise(m, a, b, x)
        below -= mass
    while x < m and u >= below + mass:
        below += mass
        mass *= rise(m, a, b, x)
        x += 1.0
    return x


@helper
def carry(rng, context, median, counts, order, alpha, new):
    """Return another α, or the same, and change the counts with it; ``new`` is scratch for them."""
    channel, S = context[0], context[2]
    step = LONGEST * rng.random() * rng.standard_normal()
    other = alpha * math.exp(step)
    if not (NARROWEST < alpha < WIDEST and NARROWEST < other < WIDEST):
        return alpha
    gain = step - 2.0 * (math.log1p(other / median) - math.log1p(alpha / median))
    left = new_left = counts.sum()
    for i in range(counts.size):
        j, after = order[i], counts.size - 1.0 - i
        x = new_x = counts[j]
        if after == 0.0:
            new_x = new_left
        else:
            mass = mass_at(left, alpha, after * alpha, x)
            if mass < LEAST:
                return alpha
            u = mass_below(left, alpha, after * alpha, x, mass) + rng.random() * mass
            if u > HIGHEST:
                return alpha
            new_x = quantile(new_left, other, after * other, u)
        new[j] = new_x
        left -= x
        new_left -= new_x
        gain += log_noise(channel, S, j, new_x) - log_noise(channel, S, j, x)
    if rng.standard_exponential() <= -gain:
        return alpha
    for j in range(counts.size):
        counts[j] = new[j]
    return other
