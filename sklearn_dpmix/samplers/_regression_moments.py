"""A linear regression given the design, from noisy moments: a random walk on what the moments are made of.

The state is a point of :class:`MomentRegression`, which has γ integrated out and says what all moments are.  A sweep:

1. γ, then τ, given the moments, both conjugate; the moments stay, and e and q go along.  Free where noise is little;
2. steps of a random walk of the whole point, the moments going along: prior, and noise at the release, decide.  Its
   covariance starts at that of the linearised posterior and is adapted in the warm-up (Vihola 2012), and learns what is
   pinned, by the noise where there is little of it and by the prior where there is much;
3. among them, e along a circle: √(1 - δ²) e + δ N(0, I), and q from its prior, for which the noise alone decides.

γ is drawn for the draws that are kept.  A sweep costs the same for any number of records.
"""

from math import exp, sqrt
from typing import NamedTuple

import numpy as np

from .._compiled import Component, compiled, entry, helper, lower
from ._augmented_state import N_ADAPTED
from ._carry import adapt_factor
from ._parameter_draws import n_kept, new_statistic_draws
from ._release import log_release

N_SWEEPS, PROPOSED, ACCEPTED, ADAPTED, N_INTS = 0, 1, 2, 3, 6
MARGIN = 0.02  # of the way to the centre of the possible moments, where a chain starts


class MomentsState(NamedTuple):
    """All of a chain but its random generator: arrays that a sweep changes in place."""

    point: np.ndarray  # (2, n_coordinates): where the chain is; a proposal
    moments: np.ndarray  # (2, n_statistics)
    theta: np.ndarray  # (d + 1,): γ and τ
    step: np.ndarray  # (n_coordinates, n_coordinates): lower factor of the random walk
    direction: np.ndarray  # (n_coordinates,)
    work: np.ndarray  # (2 d + 2, d)
    ints: np.ndarray


class MomentsSampler(Component):
    """Sampler of :class:`MomentRegression`; ``n_steps`` of the random walk in a sweep."""

    def __init__(self, n_steps):
        self.n_steps = n_steps

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        current = log_target(model, channel, counter, S, C, state, 0)
        if model.sigma == 0.0:
            model.update_tau(rng, state.point[0], state.theta, state.work)
            current = log_target(model, channel, counter, S, C, state, 0)
        for i in range(int(self.n_steps)):
            current = walk(rng, model, channel, counter, S, C, state, current, warming_up)
            if i % 4 == 0:
                current = refresh(rng, model, channel, counter, S, C, state, current)


@helper
def log_target(model, channel, counter, S, C, state, which):
    """Log density of a point, whose moments are written; -inf where it is impossible."""
    point, moments = state.point[which], state.moments[which]
    if not model.set_moments(point, moments, state.work):
        return -np.inf
    value = model.log_prior(point, state.work) + log_release(channel, S, moments)
    n = model.number(point)
    for r in range(C.shape[0]):
        value += counter.log_release(C, r, 0, n)
    return value


@helper
def accept(rng, state, gain):
    """Take the proposal, or do not."""
    state.ints[PROPOSED] += 1
    if not (gain >= 0.0 or rng.standard_exponential() > -gain):
        return False
    state.ints[ACCEPTED] += 1
    for i in range(state.point.shape[1]):
        state.point[0, i] = state.point[1, i]
    for j in range(state.moments.shape[1]):
        state.moments[0, j] = state.moments[1, j]
    return True


@helper
def walk(rng, model, channel, counter, S, C, state, current, adapt):
    """Step 2.  Returns the log density of the point."""
    point, step, direction = state.point, state.step, state.direction
    size = point.shape[1]
    for a in range(size):
        direction[a] = rng.standard_normal()
    for a in range(size):
        value = point[0, a]
        for b in range(a + 1):
            value += step[a, b] * direction[b]
        point[1, a] = value
    proposed = log_target(model, channel, counter, S, C, state, 1)
    if adapt:
        adapt_factor(step, direction, size, exp(min(proposed - current, 0.0)), state.ints[ADAPTED:])
    return proposed if accept(rng, state, proposed - current) else current


@helper
def refresh(rng, model, channel, counter, S, C, state, current):
    """Step 3: e, or q, or both.  Returns the log density of the point."""
    point, at, d = state.point, model.design, model.d
    for a in range(point.shape[1]):
        point[1, a] = point[0, a]
    which, ratio = rng.random(), 0.0  # of prior densities, now over then: what the proposal has in it
    if which < 0.7:
        delta = exp(-6.0 * rng.random())
        keep = sqrt(max(1.0 - delta * delta, 0.0))
        for a in range(d):
            e = point[0, at + a]
            point[1, at + a] = keep * e + delta * rng.standard_normal()
            ratio += 0.5 * (point[1, at + a] ** 2 - e * e)
    if which > 0.4:
        half = 0.5 * model.degrees(model.number(point[0]))
        old, new = point[0, at + d], np.log(2.0 * rng.standard_gamma(half))
        point[1, at + d] = new
        ratio += half * (old - new) - 0.5 * (exp(old) - exp(new))
    proposed = log_target(model, channel, counter, S, C, state, 1)
    return proposed if accept(rng, state, proposed - current + ratio) else current


@entry
def run_moments(sampler, model, channel, counter, S, C, state, rng, until, n_warmup, thin, theta, statistic, records):
    """Sweep up to sweep ``until``; write a draw after every ``thin`` sweeps beyond the warm-up into the next rows."""
    n_drawn, d = 0, model.d
    while state.ints[N_SWEEPS] < until:
        sweep = state.ints[N_SWEEPS] + 1 - n_warmup
        sampler.sweep(model, channel, counter, S, C, state, rng, sweep <= 0)
        state.ints[N_SWEEPS] += 1
        if sweep > 0 and sweep % thin == 0:
            n, tau = model.number(state.point[0]), model.tau(state.point[0])
            model.draw_coefs(rng, n, tau, state.moments[0], state.theta, state.work)
            state.theta[d] = tau
            for a in range(d + 1):
                theta[n_drawn, a] = state.theta[a]
            for j in range(statistic.shape[1]):
                statistic[n_drawn, j] = state.moments[0, j]
            records[n_drawn] = n
            n_drawn += 1


def advance_moments(values, S, C, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws).

    Parameters
    ----------
    values : tuple (sampler, model, channel, counter) of component values
    S : ndarray of shape (n_releases, n_statistics)
    C : ndarray of shape (n_counts, 1)
    """
    done = int(state.ints[N_SWEEPS])
    draws = new_statistic_draws(n_kept(done, n_sweeps, n_warmup, thin), len(state.theta), S.shape[1])
    S, C = np.array(S), np.array(C)  # writable: one compiled version, wherever they come from
    run_moments(*values, S, C, state, rng, done + n_sweeps, n_warmup, thin, *draws)
    return state, draws


# --- where a chain starts --------------------------------------------------------------------------------------------


def start_moments(model, S, n_records, variance, count_variance, rng):
    """Start a chain near what the release says: a draw from the linearised posterior, or nearer where that is nothing.

    Parameters
    ----------
    model : MomentRegression
    S : ndarray of shape (n_releases, n_statistics)
    n_records : int
        Or what is likely of it.
    variance, count_variance : float
        Of the noise on each moment, and on the number of records.
    """
    value, mean = model._lower(), S.mean(axis=0)
    d, n = len(model.prior.mean), max(n_records, len(model.prior.mean) + 1)
    centre = first_point(model, mean / n, n)
    work, moments = np.zeros((2 * d + 2, d)), np.zeros(S.shape[1])
    size = len(centre)
    jacobian = np.zeros((len(moments), size))
    for i in range(size):
        ends = []
        for step in (1e-5, -1e-5):
            moved = centre.copy()
            moved[i] += step
            if i == size - 1 and not model.n_records:
                moved[i] = n + np.sign(step)
            value.set_moments(moved, moments, work)
            ends.append(moments.copy())
        jacobian[:, i] = (ends[0] - ends[1]) / (2e-5 if model.n_records or i < size - 1 else 2.0)
    own = np.full(size, 3.0)
    own[model.n_design :] = 1.0
    own[model.n_design + d] = 0.5 * (n - d)
    if not model.n_records:
        own[-1] = 1.0 / (count_variance + 0.1)
    precision = jacobian.T @ jacobian / (variance / len(S)) + np.diag(own)
    root = np.linalg.inv(np.linalg.cholesky(precision)).T  # upper: root @ root.T is the covariance
    covariance = root @ root.T
    point, spread = centre, 1.0
    for _ in range(30):
        trial = centre + spread * root @ rng.standard_normal(size)
        if value.set_moments(trial, moments, work):
            point = trial
            break
        spread *= 0.7
    state = MomentsState(
        point=np.array([point, point]),
        moments=np.zeros((2, S.shape[1])),
        theta=np.zeros(d + 1),
        step=np.linalg.cholesky(covariance * 2.38**2 / size),
        direction=np.zeros(size),
        work=work,
        ints=np.zeros(N_INTS, dtype=np.int64),
    )
    return state


def first_point(model, mean, n):
    """A possible point near noisy means of products: these are drawn towards the centre until they are possible."""
    value, prior = model._lower(), model.prior
    d, at = len(prior.mean), model.n_design
    p = d - 1
    rows, columns = np.triu_indices(p)
    even = np.concatenate([np.zeros(p), np.where(rows == columns, 1.0 / 3.0, 0.0)])  # of a uniform law
    noisy = np.clip(mean[d + 1 :], -1.0, 1.0)
    point = np.zeros(model.n_coordinates)
    if not model.n_records:
        point[-1] = n
    work, moments = np.zeros((2 * d + 2, d)), np.zeros(len(mean))
    for shrink in [0.0, *np.geomspace(1e-3, 1.0, 30)]:
        point[:at] = (1.0 - shrink) * noisy + shrink * even
        if value.set_moments(point, moments, work):
            break
    shrink = shrink + MARGIN * (1.0 - shrink)
    point[:at] = (1.0 - shrink) * noisy + shrink * even
    value.set_moments(point, moments, work)
    root = np.tril(work[:d])
    fit = np.linalg.solve(root @ root.T + 1e-3 * np.eye(d), mean[:d])
    reach = prior.mean + 3.0 * np.sqrt(np.diag(prior.covariance)) * np.array([[-1.0], [1.0]])
    fit = np.clip(fit, *reach)
    score = root.T @ fit
    tau = prior.sigma or sqrt(max(mean[d] - score @ score, 1e-3))
    point[at + d] = np.log(n - d)
    if prior.sigma is None:
        point[at + d + 1] = np.log(tau)
    work[2 * d] = score
    value.set_scores(point, work)
    return point
