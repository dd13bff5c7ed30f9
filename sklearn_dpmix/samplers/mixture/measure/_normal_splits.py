"""Splits and merges that keep mean and variance of each feature."""

from math import exp, log, sqrt

from ...._base.compiled import apart, helper
from ...._base.numeric import HALF_LOG_2PI
from ._splits import IMPOSSIBLE, draw_shift, shift_density

WIDE, NARROW, P_WIDE = 0.7, 0.07, 0.6


@apart
def log_feature_ratio(sd, share, shift, spread, j):
    """Log Jacobian of (μ, log σ², shift, spread) to the two atoms' μ and log σ², less the log density of the last two.

    The shift is in features other than the first of either sign; the logit of the spread is near that of the share.
    """
    d = log(spread / (1.0 - spread)) - log(share / (1.0 - share))
    near = P_WIDE / WIDE * exp(-0.5 * (d / WIDE) ** 2) + (1.0 - P_WIDE) / NARROW * exp(-0.5 * (d / NARROW) ** 2)
    shift = abs(shift)
    of_shift = shift_density(shift)
    if j > 0:
        of_shift *= 0.5
    distance = sd / sqrt(share * (1.0 - share))
    return HALF_LOG_2PI - log(of_shift) + log(distance / ((1.0 - shift * shift) * max(near, 1e-300)))


@helper
def split_features(rng, walk, a, b, c, share):
    """What :meth:`Chart.split_place` does."""
    atoms, ratio, odds = walk.atoms, 0.0, sqrt((1.0 - share) / share)
    for j in range(walk.n_features):
        shift, e = draw_shift(rng), 1 + 2 * j
        if j > 0 and rng.random() < 0.5:
            shift = -shift
        z = log(share / (1.0 - share)) + (WIDE if rng.random() < P_WIDE else NARROW) * rng.standard_normal()
        spread = 1.0 / (1.0 + exp(-z))
        if not (0.0 < abs(shift) < 1.0 and 0.0 < spread < 1.0):
            return IMPOSSIBLE
        mean, log_variance = atoms[a + e], atoms[a + e + 1]
        sd, left = exp(0.5 * log_variance), (1.0 - shift * shift) * exp(log_variance)
        atoms[b + e], atoms[b + e + 1] = mean - shift * sd * odds, log(spread * left / share)
        atoms[c + e], atoms[c + e + 1] = mean + shift * sd / odds, log((1.0 - spread) * left / (1.0 - share))
        ratio += log_feature_ratio(sd, share, shift, spread, j)
    return ratio


@helper
def merge_features(walk, a, b, new, share):
    """What :meth:`Chart.merge_places` does."""
    atoms, ratio = walk.atoms, 0.0
    for j in range(walk.n_features):
        e = 1 + 2 * j
        inner, outer = share * exp(atoms[a + e + 1]), (1.0 - share) * exp(atoms[b + e + 1])
        d = atoms[b + e] - atoms[a + e]
        variance = inner + outer + share * (1.0 - share) * d * d
        shift, spread = d * sqrt(share * (1.0 - share) / variance), inner / (inner + outer)
        if not (0.0 < abs(shift) < 1.0 and 0.0 < spread < 1.0):
            return IMPOSSIBLE
        atoms[new + e], atoms[new + e + 1] = share * atoms[a + e] + (1.0 - share) * atoms[b + e], log(variance)
        ratio += log_feature_ratio(sqrt(variance), share, shift, spread, j)
    return ratio
