"""Data augmentation for a linear regression, with Hamiltonian paths at the cost of a pass over the records for each.

What paths hold fixed is K⁻¹(1, z_i, e_i) of all records.  They move θ = (α, β, σ, m, C) and K, that is the mean and the
covariance of the records, too, on a posterior in which records are clamped as normal ones are (:class:`RecordMoments`);
that is reversible.  The end of each is a proposal for the exact posterior, and is accepted by the ratio of the two at
both ends (the surrogate transition method: Liu 2001, *Monte Carlo Strategies in Scientific Computing*, §9.4.3).  If no
record is clamped, nothing is rejected.  At a reference point, which is chosen in the warm-up, both are the same.

Without K, the records' mean and covariance would move by proposals of single records only, and θ as far as these let
it; this is slow where there is little noise.  Paths follow the narrow ways along which σ, the slopes and the covariance
of the predictors explain the same release.
"""

from math import exp

from ..._base.compiled import Component, compiled, helper
from ..._base.linear import factor, multiply_triangles
from .._release_density import log_release
from ._augmented_state import MOVES_ACCEPTED, MOVES_PROPOSED, N_RECORDS, N_SWEEPS, TUNED
from ._carry import move_blocks
from ._regression_paths import N_SWEEPS as SWEEPS_OF_PATHS
from ._regression_paths import Paths, follow, learn, linearise, log_target

SUFFICES = 0.5  # acceptance rate of whole paths
LINEARISED = 10  # sweeps from one linearisation to the next
SHARE, FEWEST = 0.25, 1000  # then a sweep updates this share of the records, but at least so many


class RegressionAugmentation(Component):
    """Data augmentation of Ju et al., and in each sweep two paths, or ``n_walks`` where most are rejected.

    If many records are clamped, the surrogate may be wrong far away; the share of paths of one step follows from that
    and is tuned only in the warm-up.  Where most paths are accepted, a sweep updates a part of the records only.

    Parameters
    ----------
    sd : float
        Standard deviation of the noise.
    n_warmup : int
        Sweeps that adapt.
    n_walks : int
        0: no paths.
    """

    def __init__(self, sd=1.0, n_warmup=1000, n_walks=0):
        self.sd = sd
        self.n_warmup = n_warmup
        self.n_walks = n_walks

    @compiled
    def n_updates(self, state):
        """Records of a sweep.  Paths move their moments, and the rest matters only where records are clamped."""
        n = state.ints[N_RECORDS]
        return min(max(int(SHARE * n), FEWEST), n) if state.floats[TUNED] > SUFFICES else n

    @compiled
    def move(self, model, channel, S, state, rng, current, warming_up):
        """The paths.  ``current`` is the log density of the release."""
        if self.n_walks > 0.0:
            walk_or_step(self, model, channel, S, state, rng, current, warming_up)


@helper
def walk_or_step(sampler, model, channel, S, state, rng, current, warming_up):
    """Walks, or, where there is no K, steps that hold (z, e)."""
    if set_standard(model, state):
        walk(sampler, model, channel, S, state, rng, current, warming_up)
    else:
        move_blocks(rng, int(sampler.n_walks), model, channel, S, state, current, warming_up)


@helper
def walk(sampler, model, channel, S, state, rng, current, warming_up):
    """Paths on the surrogate, the end of each accepted or not; records move when all is done."""
    theta, work = state.theta, state.work
    shift, to, total = work[model.shift_row()], work[model.theta_row()], work[model.total_row()][: state.total.size]
    paths = Paths(
        state.point,
        state.path_moments,
        state.vectors,
        state.metric,
        state.path_products,
        work,
        state.path_ints,
        state.path_floats,
    )
    point, last, moments = paths.point[0], paths.vectors[4], paths.moments[0]
    if warming_up and rng.random() < 0.1:
        for a in range(theta.size):
            state.reference[a] = theta[a]
    set_shift(model, state, shift, total)
    set_spread(model, work)
    for a in range(theta.size):
        to[a] = theta[a]
    for which in range(2):
        model.set_expected(theta, paths.moments[which], work, True)
    model.set_point(theta, work, point, total)
    if warming_up:
        adapt(sampler, model, S, state, paths)
    target, moves = log_target(model, channel, channel, S, S[:0], paths, 0), False
    for _ in range(2 if state.floats[TUNED] > SUFFICES else int(sampler.n_walks)):
        long = rng.random() < long_share(state)
        before, start = target, log_release(channel, S, moments)
        for a in range(point.size):
            last[a] = point[a]
        reach = 1.0 if long else 0.0
        target = follow(rng, sampler, model, channel, channel, S, S[:0], paths, target, warming_up, reach)
        model.set_moments(point, moments, work)
        set_carried(model, state, total)
        proposed = log_release(channel, S, total)
        gain = proposed - log_release(channel, S, moments) - (current - start)
        state.floats[MOVES_PROPOSED] += 1.0
        if warming_up and long:
            rate = state.floats[TUNED]
            state.floats[TUNED] = max(rate + 0.05 * (exp(min(gain, 0.0)) - rate), 1e-3)
        if gain >= 0.0 or rng.random() < exp(gain):
            state.floats[MOVES_ACCEPTED] += 1.0
            current, moves = proposed, True
            for j in range(total.size):
                state.total[j] = total[j]
        else:
            target = before
            for a in range(point.size):
                point[a] = last[a]
            model.set_moments(point, moments, work)
    if moves:
        move_records(model, state)
        for a in range(theta.size):
            theta[a] = to[a]


@helper
def adapt(sampler, model, S, state, paths):
    """The metric: linearised again and again until draws are collected, then that of draws."""
    paths.ints[SWEEPS_OF_PATHS], third = state.ints[N_SWEEPS], int(sampler.n_warmup / 3.0)
    learn(sampler, paths)
    if state.ints[N_SWEEPS] < third // 4 and state.ints[N_SWEEPS] % LINEARISED == 0:
        linearise(model, sampler.sd**2 / S.shape[0], paths)


@helper
def long_share(state):
    """Probability of a long walk: near 1 if their ends are accepted, small if clamping makes most of them rejected."""
    rate = state.floats[TUNED]
    return 0.5 if rate == 0.0 else min(max(2.0 * rate, 0.1), 0.9)


@helper
def set_standard(model, state):
    """W, which makes (1, z, e) of (1, x, y), and the factor F of the sums that the update of θ left: K = WF.

    A column of W is what standardising makes of a unit vector, less what it makes of 0.  Returns False if records are
    too few, or predictors too much alike, for a K.
    """
    p, records, work = model.p, state.records, state.work
    standard, spare = work[model.standard_rows()], records.shape[0] - 1
    if state.ints[N_RECORDS] < p + 2:
        return False
    for k in range(p + 2):
        for a in range(p + 1):
            records[spare, a] = 1.0 if a == k - 1 else 0.0
        model.standardise(state.theta, records, spare, spare)
        standard[0, k] = 1.0 if k == 0 else 0.0
        for a in range(p + 1):
            standard[1 + a, k] = records[spare, a] - (standard[1 + a, 0] if k > 0 else 0.0)
    factor(work, p + 2)
    set_spread(model, work)
    return model.has_root(work)


@helper
def set_spread(model, work):
    """K = WF."""
    multiply_triangles(work[model.standard_rows()], work, 1.0, work[model.root_rows()], model.p + 2)


@helper
def set_shift(model, state, shift, total):
    """What clamping changes of the query's value at the reference: under its θ, and where K is as expected.

    Any function of what a path holds may shift the surrogate; this one makes it nearly right where many records are
    clamped.
    """
    work, point = state.work, state.point[1]
    for j in range(total.size):
        shift[j] = 0.0
    for a in range(point.size):
        point[a] = 0.0
    model.set_root(point, 0, work[model.root_rows()])
    model.set_expected(state.reference, total, work, True)
    set_carried(model, state, shift)
    for j in range(total.size):
        shift[j] -= total[j]


@helper
def set_carried(model, state, total):
    """The query's value where scaled coordinates are ``image`` F⁻¹ (1, x, y)."""
    p, records, work = model.p, state.records, state.work
    image, carried, many = work[model.image_rows()], work[model.carried_rows()], work[model.root_rows()][0, 0]
    set_map(model, work)
    spare, at = records.shape[0] - 1, 2 * p + 2
    total[0], total[p + 1] = many * image[p, 0], product(image, p, p)
    for j in range(p):
        total[1 + j], total[p + 2 + j] = product(image, j, p), many * image[j, 0]
        for r in range(j, p):
            total[at] = product(image, j, r)
            at += 1
    for i in range(state.ints[N_RECORDS]):
        if carry(records, i, spare, carried, p):
            add_clamped(records[spare], p, total)


@helper
def set_map(model, work):
    """``image`` F⁻¹"""
    p, image, carried = model.p, work[model.image_rows()], work[model.carried_rows()]
    for a in range(p + 1):
        for b in range(p + 1, -1, -1):
            value = image[a, b]
            for r in range(b + 1, p + 2):
                value -= carried[a, r] * work[r, b]
            carried[a, b] = value / work[b, b]


@helper
def product(image, a, b):
    """Sum of the products of two coordinates before clamping, a <= b: the first has nothing beyond place a + 1."""
    value = 0.0
    for r in range(a + 2):
        value += image[a, r] * image[b, r]
    return value


@helper
def carry(records, i, row, carried, p):
    """Write the scaled coordinates of record i into a row; return whether one is beyond [-1, 1]."""
    beyond = False
    for a in range(p, -1, -1):  # x_j depends on those before it only
        value = carried[a, 0]
        for r in range(a + 1):
            value += carried[a, 1 + r] * records[i, r]
        records[row, a] = value
        beyond = beyond or abs(value) > 1.0
    return beyond


@helper
def add_clamped(u, p, total):
    """Add what clamping one record changes."""
    at, y = 2 * p + 2, min(max(u[p], -1.0), 1.0)
    total[0] += y - u[p]
    total[p + 1] += y * y - u[p] * u[p]
    for j in range(p):
        x = min(max(u[j], -1.0), 1.0)
        total[1 + j] += x * y - u[j] * u[p]
        total[p + 2 + j] += x - u[j]
        for r in range(j, p):
            total[at] += x * min(max(u[r], -1.0), 1.0) - u[j] * u[r]
            at += 1


@helper
def move_records(model, state):
    """Move all records to where ``image`` has them; predictors without a block stay to the last bit."""
    p, records = model.p, state.records
    set_map(model, state.work)
    carried, first = state.work[model.carried_rows()], 0 if model.n_blocks() > 1 else p
    for i in range(state.ints[N_RECORDS]):
        for a in range(p, first - 1, -1):
            value = carried[a, 0]
            for r in range(a + 1):
                value += carried[a, 1 + r] * records[i, r]
            records[i, a] = model.centre[a] + value / model.rate[a]
        model.contribute(records, i, state.contributions, i)
