"""What draws of a mixture say of releases: their density g(z), averaged over the draws."""

from collections.abc import Callable
from functools import partial
from math import inf, log
from typing import Any, NamedTuple

import numpy as np

from .._base.compiled import entry, helper
from .._base.distinct import distinct_rows
from .._base.numeric import log_sum_in
from ..samplers.mixture._state import n_cached
from ..samplers.mixture.measure._any_noise import with_densities
from .by_records import N_DRAWS, mean_by_records
from .many_points import log_density_at
from .mixture import POINTS, in_chunks, moments_of_atoms

N_SCORED = 500  # draws averaged in g(z)


class Releases(NamedTuple):
    """Privatised records, and what their densities under a component need."""

    Z: np.ndarray
    channel: Any
    kernel: Any
    has_marginal: bool  # whether g(z | θ) has a closed form
    n_jobs: int | None = None
    noised: Any = None  # the mechanism, if it offers densities of the kernel's records at many places at once
    log_outside: np.ndarray | None = None  # log density of each for records outside the mixture, if there are any
    noised_theta: Callable[[np.ndarray], np.ndarray] | None = None  # θ of releases, if the kernel has their law, too

    def nodes(self, rows):
        """Of each feature, places of releases, and what ``noised`` looks up there for densities (``fill_normal``).

        An array of shape (n_features, numbers, rows).
        """
        mechanism, places = self.noised, self.noised.folded(self.Z[rows]).T
        n_features = len(places)
        scales = () if mechanism.has_one_law else (mechanism.scales(len(self.Z), n_features)[rows],)
        lookup = mechanism.lookup(places, *scales).reshape(n_features, -1, places.shape[1])
        return np.concatenate([places[:, None], lookup], axis=1)

    def with_cache(self, theta):
        """``theta``, of releases if the kernel has their law, with the columns that the channel keeps for itself."""
        if self.noised_theta is not None:
            theta = self.noised_theta(theta)
        if n_spare := n_cached(self.channel):
            theta = np.hstack([theta, np.zeros((len(theta), n_spare))])
            fill_cache(self.channel, self.kernel, theta)
        return theta


def log_folding(mechanism, Z):
    """log g(z) of releases less that at their nodes' places, which is the same for all records."""
    places = mechanism.folded(Z)
    places = np.where(places == mechanism.on_line(Z), Z, places)
    if np.array_equal(places, Z):
        return np.zeros(len(Z))
    return mechanism.log_density(Z, places) - mechanism.log_density(places, places)


def released_shares(draws, channel, chosen):
    """R(P_t), the probability that a record's release appears, under the mixtures P_t of the draws ``chosen``.

    For noise of one scale.
    """
    start, log_weights, theta = draws.atoms_of(chosen)
    shares = np.zeros(len(start) - 1)
    add_shares(channel, start, np.exp(log_weights), theta, shares)
    return np.minimum(shares, 1.0)


def atoms_of_releases(draws, channel, chosen):
    """``draws.atoms_of(chosen)``, with weights for densities of releases.

    These are densities of releases that appear, divided by R(P_t), and of people who follow the design.
    """
    start, log_weights, theta = draws.atoms_of(chosen)
    if draws.flat.outside.size:
        log_weights = log_weights + np.repeat(np.log1p(-draws.flat.outside[chosen]), np.diff(start))
    if getattr(channel, "threshold", -inf) > -inf:
        log_weights = log_weights - np.repeat(np.log(released_shares(draws, channel, chosen)), np.diff(start))
    return start, log_weights, theta


def release_log_density(draws, releases, one_law=False, repeats=False):
    """(n,) logs of the predictive density of releases: the mean of g(z) over draws.

    ``one_law`` says that the noise is the same for all releases, ``repeats`` that many of them are likely to be equal.
    """
    Z, channel, kernel = releases[:3]
    has_marginal = releases.has_marginal or releases.noised is not None
    chosen = draws.every(N_SCORED if has_marginal else N_DRAWS)
    start, log_weights, theta = atoms_of_releases(draws, channel, chosen)
    theta = releases.with_cache(theta)

    def by_records(Z, rows):
        start, log_weights, theta = atoms_of_releases(draws, channel, draws.every(N_DRAWS))
        return mean_by_records(releases._replace(Z=Z), start, log_weights, releases.with_cache(theta))(rows)

    def log_density(Z):
        if has_marginal:
            far = None if releases.has_marginal else partial(by_records, Z)
            score = partial(mean_density(releases._replace(Z=Z), far), start, log_weights, theta)
        else:
            score = mean_by_records(releases._replace(Z=Z), start, log_weights, theta)
        size = 256 if releases.noised is None else 8 * POINTS
        chunks = in_chunks(lambda rows: score(np.arange(rows.start, rows.stop)), len(Z), size, releases.n_jobs)
        return np.concatenate(chunks)

    if one_law and repeats:
        different, of, _ = distinct_rows(Z)
        values = log_density(different)[of]
    elif one_law and has_marginal and Z.shape[1] == 1:
        values = log_density_at(Z[:, 0], lambda z: log_density(z[:, None]), moments_of_atoms(kernel, theta))
    else:
        values = log_density(Z)
    if releases.log_outside is None:
        return values
    return np.logaddexp(values, np.log(np.mean(draws.flat.outside[chosen])) + releases.log_outside)


def mean_density(releases, far=None):
    """A function of draws' atoms, (start, log weights, theta), and of numbers of releases: logs of the mean of g(z).

    ``far`` is one of numbers alone, for releases whose density is next to nothing, if it has no closed form there.
    """
    Z, channel, kernel = releases[:3]

    def exact(start, log_weights, theta, rows):
        return mean_marginal(channel, kernel, start, log_weights, theta, Z, rows)

    if releases.noised is None:
        return exact
    dense, nodes = with_densities(channel), releases.nodes(np.arange(len(Z)))
    factor = log_folding(releases.noised, Z)

    def at_once(start, log_weights, theta, rows):
        density = np.zeros(len(rows))
        mix_noised(dense, np.ascontiguousarray(nodes[..., rows]), np.exp(log_weights), theta, density)
        is_far = ~((density >= releases.noised.least_density) & (density < inf))
        found = np.log(np.where(is_far, 1.0, density) / (len(start) - 1)) + factor[rows]
        if is_far.any():
            found[is_far] = far(rows[is_far]) if far else exact(start, log_weights, theta, rows[is_far])
        return found

    return at_once


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def fill_cache(channel, kernel, theta):
    for h in range(theta.shape[0]):
        channel.cache(kernel, theta, h)


@entry
def add_shares(channel, start, weights, theta, shares):
    found = np.empty(3)
    for t in range(shares.size):
        for h in range(start[t], start[t + 1]):
            channel.fill_released(1.0, channel.noise[0], theta[h, 0], 2.0 * theta[h, 3], found, 0, 1, 2)
            shares[t] += weights[h] * found[0]


@entry
def mean_marginal(channel, kernel, start, log_weights, theta, Z, rows):
    """Log of the mean over draws of g(z) for the releases ``rows``, in closed form."""
    result = np.empty(rows.size)
    for r in range(rows.size):
        top, total = -inf, 0.0
        for h in range(log_weights.size):
            if log_weights[h] > -inf:
                value = log_weights[h] + kernel.log_marginal_record(channel, Z, rows[r], theta, h)
                top, total = log_sum_in(top, total, value)
        result[r] = top + log(total / (start.size - 1)) if total > 0.0 else -inf
    return result


@entry
def mix_noised(channel, nodes, weights, theta, density):
    """Add Σ_h w_h g(z | θ_h) for normal kernels; ``nodes`` are as of :meth:`Releases.nodes`."""
    block, out, product = np.empty(nodes[..., 0].size * POINTS), np.empty(3 * POINTS), np.empty(POINTS)
    for a in range(0, density.size, POINTS):
        size = min(POINTS, density.size - a)
        take_block(nodes, a, size, block)
        for h in range(weights.size):
            if weights[h] > 0.0:
                fill_product(channel, len(nodes), block, size, weights[h], theta, h, out, product)
                for p in range(size):
                    density[a + p] += product[p]


@helper
def take_block(nodes, first, size, block):
    """Copy ``size`` releases of :meth:`Releases.nodes`, row after row."""
    at = 0
    for j in range(nodes.shape[0]):
        for e in range(nodes.shape[1]):
            for p in range(size):
                block[at] = nodes[j, e, first + p]
                at += 1


@helper
def fill_product(channel, n_features, block, size, weight, theta, h, out, product):
    """w Π_j g(z_j | θ_h) for the releases of a block."""
    for j in range(n_features):
        channel.fill_normal(j, block, size, theta[h, 4 * j], 2.0 * theta[h, 4 * j + 3], out, 0, size)
        for p in range(size):
            product[p] = (weight if j == 0 else product[p]) * out[p]
