"""How far private chains should move: from the plan, the public start and geometry, and nothing else."""

import numpy as np

#: The standard deviation that the noise of a typical move is set to.  x² 2Φ(-x/2) is largest at 2.4 if the posterior is
#: flat; if it is not, less is better.
NOISE_OF_A_MOVE = 1.8
N_TYPICAL = 101
LEAST, MOST = 1e-24, 1e18  # scales that are looked at, in the parameters' unit


def typical_steps(n_params, one_at_a_time=False):
    """Moves of scale 1, (n, n_params), always the same, so what follows from them is public."""
    steps = np.random.default_rng(0).standard_normal((N_TYPICAL, n_params))
    return steps * np.eye(n_params)[np.arange(N_TYPICAL) % n_params] if one_at_a_time else steps


def widths(target, coordinates, steps):
    """The widths of the ranges of log ratios for moves from where the chains start."""
    theta = coordinates.theta(np.zeros(len(coordinates.centre)))
    return [target.ratio_bound(theta, coordinates.theta(step))[1] for step in steps]


def largest_scale(is_fine, most):
    """The largest scale that is fine, up to ``most``, to one per cent."""
    low, high = 1e-12, min(most, 1e6)
    while low > LEAST and not is_fine(low):
        low, high = 1e-12 * low, min(low, high)
    while high < min(most, MOST) and is_fine(high):
        low, high = high, min(1e12 * high, most)
    if is_fine(high):
        return high
    while high > 1.01 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if is_fine(middle) else (low, middle)
    return low
