"""The prior of a walk by SciPy, and what moves propose as they come to be judged: for ``test_acceptance_ratios``."""

from functools import cache
from math import exp, log, pi
from types import SimpleNamespace

import numpy as np
from scipy.special import gammaln, multigammaln
from scipy.stats import gamma, invgamma, invwishart, multivariate_normal, norm
from walks_of_the_prior import (
    CATEGORIES,
    CORRELATED,
    FINITE,
    FIXED,
    POWER_LAW,
    SCALE,
    Channel,
    add_up,
    chart_of,
    in_lists,
    law_of_walks,
    start,
)

from sklearn_dpmix.samplers.mixture.measure import _walk_atoms
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import CONCENTRATION, N_ATOMS, N_DUST, TILT

PRIORS = np.array([[0.3, -1.0], [0.5, 0.2], [3.0, 2.5], [2.0, 0.7]])  # of chart_of
SEEN = 2e-3  # a tenth of what a factor of 1.02 is; numeric Jacobians are nearer


# --- the prior, by SciPy ---------------------------------------------------------------------------------------------


@cache
def log_base(features, *place):
    """Log density of G0 in an atom's coordinates."""
    place = np.array(place)
    if features == CATEGORIES:
        return np.sum(gamma.logpdf(np.exp(place), 0.8) + place)
    if features in CORRELATED:
        d = CORRELATED[features]
        mean, covariance = moments(place, d)
        value = multivariate_normal.logpdf(mean, np.arange(d) - 0.5, covariance / 0.8)
        value += invwishart.logpdf(covariance, d + 4.0, SCALE[:d, :d])
        return value + log_jacobian(lambda x: np.append(moments(x, d)[0], packed(moments(x, d)[1])), place)
    mean, log_variance, value = place[::2], place[1::2], 0.0
    for j in range(features):
        prior_mean, precision, shape, scale = PRIORS[:, j]
        variance = exp(log_variance[j])
        value += norm.logpdf(mean[j], prior_mean, np.sqrt(variance / precision))
        value += invgamma.logpdf(variance, shape, scale=scale) + log_variance[j]
    return value


def log_prior(features, mixing, walk, atoms):
    """Log density of atoms in log J and coordinates, given all else that is random."""
    total, found = sum(atom[0] for atom in atoms) + dust_of(walk), sum(log_base(features, *atom[1:]) for atom in atoms)
    masses, n = np.array([atom[0] for atom in atoms]), len(atoms)
    if mixing in FINITE:
        n_all, shape = n + int(walk.law[CONCENTRATION]), mixing.concentration
        if np.ndim(mixing.prior) == 0:
            found += n_all * log(1.0 - mixing.prior)
        else:
            chance = dict(enumerate(mixing.prior, 1)).get(n_all, 0.0)
            found += log(chance) if chance else -np.inf
        found += gammaln(n_all + 1.0) + np.sum(gamma.logpdf(masses, shape) + np.log(masses))
        return found + gamma.logpdf(total, TILT, scale=1.0 / (TILT + 1.0)) - gamma.logpdf(total, shape * n_all)
    rate, discount = walk.law[CONCENTRATION], 0.0
    if mixing is POWER_LAW:
        discount = mixing.discount
        rate *= discount / exp(gammaln(1.0 - discount))
    return found + n * log(rate) - discount * np.log(masses).sum() + TILT * log(total) - (TILT + 1.0) * total


def dust_of(walk):
    first = walk.capacity * walk.width
    return sum(walk.atoms[first : first + int(walk.law[N_DUST]) * walk.width : walk.width])


def moments(place, d):
    """μ and Σ of correlated coordinates."""
    scales, factor = np.exp(place[1 : 2 * d : 2]) * np.sqrt(np.diag(SCALE)[:d]), np.eye(d)
    factor[np.tril_indices(d, -1)] = place[2 * d :]
    root = np.linalg.inv(factor / scales[:, None])
    return place[: 2 * d : 2], root @ root.T


def place_of(mean, covariance):
    """The way back."""
    root, d = np.linalg.cholesky(covariance), len(mean)
    scales = np.diag(root)
    slopes = (scales[:, None] * np.linalg.inv(root))[np.tril_indices(d, -1)]
    return np.append(np.stack([mean, np.log(scales / np.sqrt(np.diag(SCALE)[:d]))], axis=1).ravel(), slopes)


def packed(matrix):
    return matrix[np.tril_indices(len(matrix))]


def unpacked(entries, d):
    matrix = np.zeros((d, d))
    matrix[np.tril_indices(d)] = entries
    return matrix + np.tril(matrix, -1).T


def log_jacobian(function, x, room=1.0):
    """Log absolute determinant, by differences of so many 1e-5 of the room that there is."""
    steps = np.diag(1e-5 * np.broadcast_to(room, np.shape(x)))
    columns = [(function(x + step) - function(x - step)) / (2.0 * step.sum()) for step in steps]
    return np.linalg.slogdet(np.array(columns))[1]


# --- moves as they come to be judged ---------------------------------------------------------------------------------


def parts_of(features, mixing):
    chart = chart_of(features)
    return in_lists(chart.value()), law_of_walks(chart, mixing)[1]


def atoms_of(walk, first=0):
    width = walk.width
    return [walk.atoms[k * width : (k + 1) * width] for k in range(first, first + int(walk.law[N_ATOMS]))]


def proposals(monkeypatch, module, move, features=1, mixing=FIXED, n=60):
    """Of moves that are not accepted: the atoms that change, those that stay, and what the ratio has beyond the prior.

    Atoms before and after are told apart by their number, and of a move from more to fewer the ratio is turned around.
    """
    last, rng, (chart, law) = SimpleNamespace(least=None), np.random.default_rng(5), parts_of(features, mixing)
    draw_mass = _walk_atoms.random_mass

    def draw_level(rng, walk, ratio):
        last.ratio = ratio
        return np.inf

    def try_some(walk, *changes):
        last.changes, last.raw = {}, list(walk.atoms)
        for change, k in zip(changes[::2], changes[1::2], strict=True):
            last.changes[k] = last.changes.get(k, 0.0) + change
        return -np.inf

    def random_mass(rng, walk):
        last.least = draw_mass(rng, walk)
        return last.least

    for name, function in {"draw_level": draw_level, "random_mass": random_mass}.items():
        monkeypatch.setattr(module, name, function, raising=False)
    monkeypatch.setattr(module, "try_three", lambda walk, *args: try_some(walk, *args[:6]), raising=False)
    monkeypatch.setattr(module, "try_one", lambda walk, *args: try_some(walk, *args[:2]), raising=False)
    for i in range(n):
        walk = start(features, mixing, 0, i).copy(law)
        add_up(walk)
        last.ratio, before = None, atoms_of(walk)
        move(rng, Channel(), chart, walk)
        if last.ratio is None:
            continue
        kept = {k: atom for k, atom in enumerate(before) if k not in last.changes}
        one, other = [], []
        for k, change in last.changes.items():
            if k < len(before):
                one.append(before[k])
                other.append([before[k][0] + change, *before[k][1:]])
            elif change:
                other.append([change, *last.raw[k * walk.width + 1 : (k + 1) * walk.width]])
        other = [atom for atom in other if atom[0] > 1e-12]
        is_up = len(other) >= len(one)
        fewer, more = (one, other) if is_up else (other, one)
        kept = list(kept.values())
        ratio = last.ratio if is_up else -last.ratio
        change = log_prior(features, mixing, walk, kept + more) - log_prior(features, mixing, walk, kept + fewer)
        if np.isinf(change):  # the prior excludes so many
            assert np.sign(ratio) == np.sign(change) and abs(ratio) > 1e290
            continue
        parts = {"fewer": fewer, "more": more, "kept": kept, "least": last.least, "is_up": is_up}
        yield SimpleNamespace(walk=walk, chart=chart, beyond=ratio - change, **parts)


# --- splits ----------------------------------------------------------------------------------------------------------


def log_shift(shift):
    """Log density of how far apart the two of a split are."""
    return log(0.5 + (0.5 / (shift * log(1.0 / 0.003)) if shift > 0.003 else 0.0))


def two_of(x):
    """The two atoms of a split: log J, share, then of each feature μ, log σ², shift and spread."""
    one, other, share = [x[0] + log(x[1])], [x[0] + log(1.0 - x[1])], x[1]
    for mean, log_variance, shift, spread in x[2:].reshape(-1, 4):
        away, left = shift * exp(0.5 * log_variance), (1.0 - shift**2) * exp(log_variance)
        one += [mean - away * np.sqrt((1.0 - share) / share), log(spread * left / share)]
        other += [mean + away * np.sqrt(share / (1.0 - share)), log((1.0 - spread) * left / (1.0 - share))]
    return np.array(one + other)


def split_of_normals(whole, one, other):
    """(Log Jacobian, log density) of a split beside that of the share."""
    share, found, room, density = one[0] / whole[0], [log(whole[0]), one[0] / whole[0]], [1.0], 0.0
    room.append(min(share, 1.0 - share))
    for e in range(1, len(whole), 2):
        shift = (other[e] - one[e]) * np.sqrt(share * (1.0 - share)) * exp(-0.5 * whole[e + 1])
        spread = share * exp(one[e + 1])
        spread /= spread + (1.0 - share) * exp(other[e + 1])
        found += [whole[e], whole[e + 1], shift, spread]
        room += [1.0, 1.0, min(abs(shift), 1.0 - abs(shift)), min(spread, 1.0 - spread)]
        z, centre = log(spread / (1.0 - spread)), log(share / (1.0 - share))
        of_spread = 0.6 * norm.pdf(z, centre, 0.7) + 0.4 * norm.pdf(z, centre, 0.07)
        density += log_shift(abs(shift)) + log(of_spread / (spread * (1.0 - spread))) - (log(2.0) if e > 1 else 0.0)
    return log_jacobian(two_of, np.array(found), room), density


def split_of_correlated(whole, one, other):
    """The same, with a shift v in half of a ball and a spread P of a matrix beta law."""
    d = 2 if len(whole) == 6 else 3
    share, n = one[0] / whole[0], len(whole) - 1
    (mean, covariance), (first, of_first), second = (moments(np.array(a[1:]), d) for a in (whole, one, other))
    v = np.linalg.solve(np.linalg.cholesky(covariance), mean - first) * np.sqrt(share / (1.0 - share))
    inner = np.linalg.inv(np.linalg.cholesky(share * of_first + (1.0 - share) * second[1]))
    spread = share * inner @ of_first @ inner.T

    def both(x):
        mean, covariance = moments(x[2 : 2 + n], d)
        share, v, spread = x[1], x[2 + n : 2 + n + d], unpacked(x[2 + n + d :], d)
        away = np.linalg.cholesky(covariance) @ v
        inner = np.linalg.cholesky(covariance - np.outer(away, away))
        one = place_of(mean - np.sqrt((1.0 - share) / share) * away, inner @ spread @ inner.T / share)
        rest = inner @ (np.eye(d) - spread) @ inner.T / (1.0 - share)
        other = place_of(mean + np.sqrt(share / (1.0 - share)) * away, rest)
        return np.hstack([x[0] + log(share), one, x[0] + log(1.0 - share), other])

    length, values = np.linalg.norm(v), np.linalg.eigvalsh(spread)
    x = np.hstack([log(whole[0]), share, whole[1:], v, packed(spread)])
    of_ball, of_spread = min(length, 1.0 - length), min(values[0], 1.0 - values[-1])
    room = [1.0, min(share, 1.0 - share), *np.ones(n), *np.full(d, of_ball), *np.full(d * (d + 1) // 2, of_spread)]
    density = 0.0
    for worth, chance in ((6.0, 0.6), (150.0, 0.4)):
        a, b = 0.5 * (d + worth * share), 0.5 * (d + worth * (1.0 - share))
        power = (a - 0.5 * (d + 1)) * np.log(values).sum() + (b - 0.5 * (d + 1)) * np.log1p(-values).sum()
        density += chance * exp(power + multigammaln(a + b, d) - multigammaln(a, d) - multigammaln(b, d))
    half_sphere = 0.5 * d * log(pi) - gammaln(0.5 * d) + (d - 1) * log(length)
    return log_jacobian(both, x, room), log(density) + log_shift(length) - half_sphere
