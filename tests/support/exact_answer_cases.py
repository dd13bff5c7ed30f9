"""Further cases of ``exact_channel_cases.py``: windows around a record, answers to questions, bits of categories."""

from itertools import product

import grid_oracle as oracle
import numpy as np
from exact_channel_cases import (
    FAMILIES,
    NORMAL,
    PRIOR,
    Case,
    Truncated,
    beta_grid,
    categories,
    mixing_of,
    mixing_twins,
    points,
)
from own_noise import Stairs, jumps
from scipy.special import betainc, ndtr
from scipy.stats import norm

from sklearn_dpmix.kernels import BetaKernel, CategoricalKernel, NormalKernel
from sklearn_dpmix.mechanisms import (
    FiniteChannelMechanism,
    HybridMechanism,
    PiecewiseMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
)

# --- windows ----------------------------------------------------------------------------------------------------------


def square_wave(z, epsilon, width=1.0):
    """(lowest and highest record in the window, p, q) of a release, as Li et al. have them, on [0, 1]."""
    e = np.exp(epsilon)
    b = width * (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    return z - b, z + b, e / (2 * b * e + 1), 1 / (2 * b * e + 1)


def piecewise(z, epsilon, width=1.0):
    """The same as Wang et al. have it, from [-1, 1] taken to [0, 1]."""
    s, z = np.exp(epsilon / 2), 2 * z - 1
    C, p = width * ((s + 1) / (s - 1) - 1) + 1, (s * s - s) / (2 * s + 2)
    low, high = ((2 * z + sign * (C - 1)) / (C + 1) for sign in (-1, 1))
    return (low + 1) / 2, (high + 1) / 2, 2 * p, 2 * p / (s * s)


def log_window(grid, z, law, epsilon, everywhere=True, **changes):
    """Log of q + (p - q) P(record in the window), q being left out where ``everywhere`` is False."""
    low, high, p, q = law((z - grid.bounds[0]) / (grid.bounds[1] - grid.bounds[0]), epsilon, **changes)
    if isinstance(grid, oracle.BetaGrid):
        first, last = (betainc(grid.a, grid.b, np.clip(end, 0, 1)) for end in (low, high))
    else:
        edges = grid.edges(2)  # those of two bins: the outer ones say where records beyond the bounds are
        low, high = (grid.bounds[0] + (grid.bounds[1] - grid.bounds[0]) * end for end in (low, high))
        low = edges[0] if low <= grid.bounds[0] else low
        high = edges[-1] if high >= grid.bounds[1] else high
        first, last = (ndtr((end - grid.mu) / grid.sigma) for end in (low, high))
    return np.log(everywhere * q + (p - everywhere * q) * (last - first) + 1e-300)


def windows(law, mechanism, Z, epsilon, bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0, discount=0.0, normal=False):
    """A beta kernel, or a normal one whose records may be outside the bounds; ``epsilon`` of all records or of each."""
    Z, epsilon, x = (
        np.array(Z)[:, None],
        np.asarray(epsilon),
        points((bounds[0] - 0.3 * normal, bounds[1] + 0.3 * normal)),
    )

    def exact(epsilon=epsilon, prior=prior, alpha=alpha, discount=discount, kind=oracle.NormalGrid, **changes):
        grid = kind(**NORMAL, bounds=bounds) if normal else beta_grid(prior, bounds)
        pairs = zip(Z[:, 0], np.broadcast_to(epsilon, len(Z)), strict=True)
        log_g = np.array([log_window(grid, z, law, one, **changes) for z, one in pairs])
        return oracle.local_posterior(grid, log_g, x, alpha, discount)

    twins = {
        "half the epsilon": {"epsilon": epsilon / 2},
        "a window twice as wide": {"width": 2.0},
        "nothing is released from elsewhere": {"everywhere": False},
        **mixing_twins(alpha, discount),
    }
    twins |= {"truncated, not clamped": {"kind": Truncated}} if normal else {}
    twins |= {"the epsilon of another record": {"epsilon": np.roll(epsilon, 1)}} if epsilon.ndim else {}
    kernel = NormalKernel(**NORMAL) if normal else BetaKernel(*prior)
    return Case(mechanism(epsilon, bounds), kernel, mixing_of(alpha, discount), Z, x, exact, twins)


def log_side(grid, sign, epsilon, fair=False):
    """Log probability of a side of the hybrid mechanism's coin, by the mean of clamped records."""
    if isinstance(grid, oracle.BetaGrid):
        share = grid.a / (grid.a + grid.b)
    else:
        (lo, hi), mu, sigma = grid.bounds, grid.mu, grid.sigma
        at = [(end - mu) / sigma for end in (lo, hi)]
        above = [sigma * (norm.pdf(t) - t * ndtr(-t)) for t in at]
        share = (above[0] - above[1]) / (hi - lo)
    slope = 0.0 if fair else sign * np.tanh(epsilon / 2)
    return np.log(np.maximum(0.5 + 0.5 * slope * (2 * share - 1), 1e-300))


def hybrid(Z, epsilon, bounds=(0.0, 1.0), prior=PRIOR, alpha=1.0, normal=False):
    """Releases of the piecewise mechanism, and -1 or 1 in a list for a side of the coin."""
    sides = [one[0] if isinstance(one, list) else 0 for one in Z]
    middle, half = np.mean(bounds), 0.5 * (bounds[1] - bounds[0])
    pairs = zip(sides, Z, strict=True)
    released = np.array([middle + half * side / np.tanh(epsilon / 2) if side else z for side, z in pairs])
    x = points((bounds[0] - 0.3 * normal, bounds[1] + 0.3 * normal))

    def exact(epsilon=epsilon, prior=prior, alpha=alpha, **changes):
        grid = oracle.NormalGrid(**NORMAL, bounds=bounds) if normal else beta_grid(prior, bounds)
        log_g = [
            log_side(grid, side, epsilon, **changes) if side else log_window(grid, z, piecewise, epsilon)
            for side, z in zip(sides, released, strict=True)
        ]
        return oracle.local_posterior(grid, np.array(log_g), x, alpha)

    twins = {"half the epsilon": {"epsilon": epsilon / 2}, "a fair coin": {"fair": True}, **mixing_twins(alpha, 0.0)}
    kernel = NormalKernel(**NORMAL) if normal else BetaKernel(*prior)
    return Case(HybridMechanism(epsilon, bounds), kernel, mixing_of(alpha, 0.0), released[:, None], x, exact, twins)


# --- answers and bits -------------------------------------------------------------------------------------------------


def categorical(mechanism, log_q, Z, n_categories, base, wrong, alpha=1.0, discount=0.0):
    """``log_q()`` is the log probability (n, d, K) of each release given each category; of twins with what is wrong."""
    d = log_q().shape[1]
    x = np.array(list(product(range(n_categories), repeat=d)))

    def exact(base=base, alpha=alpha, discount=discount, **changes):
        return oracle.categorical_posterior(log_q(**changes), base, x, alpha, discount)

    twins = {"another base measure": {"base": 4 * base}, **wrong, **mixing_twins(alpha, discount)}
    return Case(mechanism, CategoricalKernel(n_categories, base), mixing_of(alpha, discount), Z, x, exact, twins)


def answers(Z, matrices, base, wrong, alpha=1.0, discount=0.0):
    """The matrices of all questions; ``wrong`` are those of twins."""
    Z = np.array(Z, dtype=float).reshape(len(Z), -1)

    def log_q(matrices=matrices):
        with np.errstate(divide="ignore"):
            return np.log([[np.array(one)[:, int(z)] for one, z in zip(matrices, row, strict=True)] for row in Z])

    mechanism = FiniteChannelMechanism(matrices if len(matrices) > 1 else matrices[0])
    wrong = {name: {"matrices": other} for name, other in wrong.items()}
    return categorical(mechanism, log_q, Z, len(matrices[0]), base, wrong, alpha, discount)


def bits(Z, epsilon, n_categories, kind, base, alpha=1.0, discount=0.0):
    Z = np.array(Z, dtype=float)

    def log_q(epsilon=epsilon, kind=kind, only_own=False):
        e = np.exp(np.broadcast_to(epsilon, len(Z)) / (Z.shape[1] // n_categories))[:, None, None, None]
        p, q = (0.5, 1 / (e + 1)) if kind == "optimised" else (e**0.5 / (e**0.5 + 1), 1 / (e**0.5 + 1))
        own = np.eye(n_categories, dtype=bool)
        bit = Z.reshape(len(Z), -1, 1, n_categories)
        one = np.where(own, p, q)
        log_p = np.log(np.where(bit == 1, one, 1 - one))
        return (log_p * own).sum(axis=3) if only_own else log_p.sum(axis=3)

    wrong = {
        "half the epsilon": {"epsilon": np.asarray(epsilon) / 2},
        "bits of other categories say nothing": {"only_own": True},
    }
    mechanism = UnaryEncodingMechanism(epsilon, n_categories, kind)
    return categorical(mechanism, log_q, Z, n_categories, base, wrong, alpha, discount)


THREE = [[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 0.0, 0.5]]
RING = [[0.7, 0.3, 0.0], [0.0, 0.6, 0.4], [0.2, 0.0, 0.8]]
WARNER, FORCED = [[0.75, 0.25], [0.25, 0.75]], [[5 / 6, 1 / 6], [1 / 12, 11 / 12]]

# --- noise of one's own -----------------------------------------------------------------------------------------------


def stairs(Z, scale, bounds=(0.0, 1.0), alpha=1.0):
    """Normal records, moved to the bounds, under the staircase mechanism."""
    Z, x = np.array(Z)[:, None], points((bounds[0] - 0.3, bounds[1] + 0.3))
    noise, (low, high) = Stairs(scale, bounds=bounds), bounds

    def exact(scale=scale, alpha=alpha, at_bounds=1.0):
        grid, found = oracle.NormalGrid(**NORMAL, bounds=bounds), []
        for z in Z[:, 0]:
            g = np.exp(oracle.log_release(grid, lambda y, z=z: noise.log_noise(z - y, scale), z - jumps(scale, 4.0)))
            g += at_bounds * np.exp(noise.log_noise(z - low, scale)) * ndtr((low - grid.mu) / grid.sigma)
            g += at_bounds * np.exp(noise.log_noise(z - high, scale)) * ndtr((grid.mu - high) / grid.sigma)
            found.append(np.log(g))
        return oracle.local_posterior(grid, np.array(found), x, alpha)

    twins = {
        "half the scale": {"scale": scale / 2},
        **mixing_twins(alpha, 0.0),
        "records beyond the bounds are forgotten": {"at_bounds": 1e-9},
    }
    return Case(noise, NormalKernel(**NORMAL), mixing_of(alpha, 0.0), Z, x, exact, twins)


FAMILIES |= {
    "stairs-normal": {
        "three": stairs((-0.1, 0.31, 1.23), 0.25),
        "two": stairs((0.2, 0.27), 0.6, alpha=2.0),
    },
    "square-wave-beta": {
        "four": windows(square_wave, SquareWaveMechanism, (-0.04, 0.05, 0.12, 0.85), 3.0),
        "three, on other bounds": windows(
            square_wave, SquareWaveMechanism, (-1.1, 2.5, 2.7), 4.0, (-1.0, 3.0), (3.0, 1.0), 2.0
        ),
    },
    "square-wave-normal": {
        "three": windows(square_wave, SquareWaveMechanism, (-0.05, 0.3, 1.05), 3.0, normal=True),
        "four, on other bounds": windows(
            square_wave, SquareWaveMechanism, (-1.04, -1.0, 0.4, 3.03), 5.0, (-1.0, 3.0), alpha=2.0, normal=True
        ),
    },
    "windows of their own": {
        "four": windows(square_wave, SquareWaveMechanism, (0.05, 0.3, 0.36, 1.02), (6.0, 1.0, 8.0, 3.0), normal=True),
        "three": windows(piecewise, PiecewiseMechanism, (-0.08, 0.3, 1.08), (5.0, 7.0, 2.0), alpha=2.0, normal=True),
        "beta": windows(square_wave, SquareWaveMechanism, (-0.04, 0.05, 0.12, 0.85), (3.0, 1.0, 6.0, 3.0)),
    },
    "narrow-window-normal": {
        "four": windows(square_wave, SquareWaveMechanism, (0.05, 0.3, 0.33, 1.00001), 12.0, normal=True),
        "three": windows(piecewise, PiecewiseMechanism, (0.2, 0.25, 1.0002), 16.0, normal=True),
    },
    "piecewise-beta": {
        "four": windows(piecewise, PiecewiseMechanism, (-0.08, 0.05, 0.12, 0.85), 5.0),
        "two, on other bounds": windows(piecewise, PiecewiseMechanism, (-1.5, 2.5), 4.0, (-1.0, 3.0), (3.0, 1.0), 2.0),
    },
    "piecewise-normal": {
        "three": windows(piecewise, PiecewiseMechanism, (-0.08, 0.3, 1.08), 5.0, normal=True),
        "four": windows(piecewise, PiecewiseMechanism, (-0.55, 0.2, 0.25, 1.4), 2.0, alpha=0.5, normal=True),
    },
    "hybrid-beta": {
        "four": hybrid(([1], 0.05, [1], 0.85), 3.0),
        "three, coins alone": hybrid(([1], [1], [-1]), 0.55, (-1.0, 3.0), (3.0, 1.0), 2.0),
    },
    "hybrid-normal": {
        "three": hybrid(([1], 0.3, [1]), 4.0, normal=True),
        "four, coins alone": hybrid(([1], [1], [-1], [1]), 0.6, normal=True),
        "four, on other bounds": hybrid(([-1], [-1], 0.4, 1.4), 2.0, (-1.0, 1.5), alpha=0.5, normal=True),
    },
    "designs": {
        "four": answers(
            (0, 0, 3, 0), [THREE], 0.3,
            {"rows in another order": [THREE[::-1]],
             "answers taken for categories": [(0.6 * np.eye(3, 4) + 0.1).tolist()],
             "answers in another order": [[row[::-1] for row in THREE]]},
        ),
        "three, a yes or no": answers((1, 1, 0), [FORCED], 0.5, {}, alpha=2.0),
    },
    "two-designs": {
        "three": answers(
            ((0, 1), (0, 1), (1, 1)), [WARNER, FORCED], 0.4,
            {"questions exchanged": [FORCED, WARNER], "one design for both": [WARNER, WARNER]},
        ),
        "four, of more answers than categories": answers((0, 0, 3, 0), [THREE], 0.3, {}),
        "four, categories excluded": answers((0, 0, 2, 1), [RING], 0.5, {}, alpha=2.0),
        "one": answers((1,), [FORCED], 0.7, {}, alpha=0.5),
    },
    "bits": {
        "three": bits(((1, 0, 0), (1, 0, 1), (0, 0, 0)), 2.5, 3, "optimised", 0.3),
        "three, own epsilon each": bits(((1, 0), (1, 0), (1, 1)), np.array([4.0, 2.0, 1.0]), 2, "symmetric", 0.5, 2.0),
    },
    "answers of their own": {
        "four": categories((0, 2, 0, 0), np.array([1.0, 4.0, 1.0, 3.0]), 3, 0.3),
        "three pairs": categories(((0, 1), (0, 1), (1, 0)), np.array([6.0, 3.0, 3.0]), 3, 0.4, alpha=2.0),
        "three bits": bits(((1, 0), (1, 0), (1, 1)), np.array([4.0, 2.0, 1.0]), 2, "symmetric", 0.5, 2.0),
    },
    "four-bits": {"three": bits(((1, 0, 0, 0), (1, 0, 0, 1), (1, 0, 0, 0)), 3.0, 4, "optimised", 0.6, 1.5)},
    "two-bits": {"three": bits(((1, 0, 0, 1), (1, 0, 0, 1), (1, 1, 1, 0)), 5.0, 2, "symmetric", 0.4)},
}  # fmt: skip
