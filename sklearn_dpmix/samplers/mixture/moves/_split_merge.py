"""Split and merge of clusters in one step, with their records, so that only the channel and the priors decide.

The sampler decides how records follow (``shift``, ``keep``, ``undo``): by their residuals, integrated out, or drawn
again.

A split picks a cluster, a size for the new part with probability proportional to 1/n_1 + 1/n_2, and that many of its
records at random; the new part gets parameters from the base measure or near the old ones.  A merge picks an ordered
pair of clusters and carries the second's records to the first's parameters.  Each is the other's reverse.  With sizes
log-uniform, clusters of every size are born and die in one move, which single-record moves do in as many sweeps as the
cluster has records.
"""

from math import exp, inf, lgamma, log

from ...._base.compiled import helper
from .._places import CONCENTRATION, FIRST, N_CLUSTERS, N_SLOTS
from .._state import compact, fill_cache, occupy, take_slot, vacate

NEAR = 0.3  # step of a near proposal, in prior spreads and in log σ


@helper
def first_record(state, k):
    """Where cluster k's records begin in ``order``; sorts again if k has gained records since the last sort."""
    if state.work[FIRST, k] < 0.0:
        sort_records(state)
    return int(state.work[FIRST, k])


@helper
def sort_records(state):
    """Sort record numbers by cluster into ``order``; cluster k's begin at ``work[FIRST, k]``."""
    first, total = state.work[FIRST], 0.0
    for k in range(state.ints[N_SLOTS]):
        first[k] = total
        total += state.counts[k]
    for i in range(state.alloc.size):
        k = state.alloc[i]
        state.order[int(first[k])] = i
        first[k] += 1.0
    for k in range(state.ints[N_SLOTS]):
        first[k] -= state.counts[k]


@helper
def harmonic(n):
    """1 + 1/2 + ... + 1/n."""
    if n > 32:
        return log(n) + 0.5772156649015329 + 0.5 / n - 1.0 / (12.0 * n * n) + 1.0 / (120.0 * float(n) ** 4)
    total = 0.0
    for i in range(1, n + 1):
        total += 1.0 / i
    return total


@helper
def draw_part(rng, n):
    """A size m in 1..n-1 with probability n / (m (n - m) · 2 H_{n-1}): by rejection from a log-uniform, and a coin."""
    while True:
        m = int(exp(rng.random() * log(n)))
        if m < n and rng.random() < 0.6931471805599453 / (m * log(1.0 + 1.0 / m)):
            return m if rng.random() < 0.5 else n - m


@helper
def log_split_prior(mixing, concentration, n_clusters, n1, n2):
    """Log ratio p(partition with n1, n2 apart) / p(together), n_clusters before, plus that of the sizes' proposals.

    The urn's factor is w Γ(n1 - d) Γ(n2 - d) / (Γ(n - d) Γ(1 - d)), w a new cluster's weight; the subset is chosen with
    probability n / (n1 n2 2 H_{n-1}) / C(n, n2); a split picks one of K clusters, the merge back one of (K+1) K pairs.
    """
    n, discount = n1 + n2, mixing.discount
    fresh = mixing.new_cluster_weight(concentration, n_clusters)
    if fresh <= 0.0:  # a finite mixture is full
        return -inf
    urn = log(fresh) + lgamma(n1 - discount) + lgamma(n2 - discount)
    urn -= lgamma(n - discount) + lgamma(1.0 - discount)
    subsets = lgamma(n + 1.0) - lgamma(n1 + 1.0) - lgamma(n2 + 1.0)
    size = log(n / (n1 * n2 * 2.0 * harmonic(int(n - 1))))
    return urn + subsets - size - log(n_clusters + 1.0)


@helper
def log_new_params(kernel, theta, k, new, near):
    """log of (base measure / proposal) of the new part's parameters: 0 if they were drawn from the base measure."""
    return kernel.log_near_ratio(theta, k, new, NEAR) if near else 0.0


@helper
def draw_occupied(rng, state):
    """An occupied slot, each with the same probability (slots are compact up to those emptied since)."""
    while True:
        k = min(int(rng.random() * state.ints[N_SLOTS]), state.ints[N_SLOTS] - 1)
        if state.counts[k] > 0.0:
            return k


@helper
def try_split(sampler, rng, channel, kernel, mixing, Z, state, near):
    """Split a random cluster; the new part's parameters are ``near`` the old ones, or from the base measure."""
    k = draw_occupied(rng, state)
    n = int(state.counts[k])
    if n < 2:
        return
    new = take_slot(state)
    part = draw_part(rng, n)
    theta, order, first = state.theta, state.order, first_record(state, k)
    if near:
        kernel.perturb_cluster(rng, theta, k, new, NEAR, NEAR)
    else:
        kernel.draw_prior(rng, theta, new)
    fill_cache(channel, kernel, theta, new)
    concentration, n_clusters = state.floats[CONCENTRATION], state.ints[N_CLUSTERS]
    gain = log_split_prior(mixing, concentration, n_clusters, float(n - part), float(part))
    gain += log_new_params(kernel, theta, k, new, near)
    for r in range(part):  # a random subset, moved to the end of the cluster's part of ``order``
        last = first + n - 1 - r
        other = first + min(int(rng.random() * (n - r)), n - r - 1)
        order[other], order[last] = order[last], order[other]
    start, end = first + n - part, first + n
    gain += sampler.shift(rng, channel, kernel, Z, state, start, end, k, new)
    if gain < log(rng.random()):
        sampler.undo(channel, Z, state, start, end)
        return
    occupy(state)
    state.counts[k] -= part
    state.counts[new] = part
    state.work[FIRST, new] = start
    sampler.keep(channel, kernel, Z, state, start, end, k, new)
    for r in range(start, end):
        state.alloc[order[r]] = new


@helper
def try_merge(sampler, rng, channel, kernel, mixing, Z, state, near):
    """Merge a random cluster into another: the reverse of :func:`try_split` with the same ``near``."""
    if state.ints[N_CLUSTERS] < 2:
        return
    k, gone = draw_occupied(rng, state), draw_occupied(rng, state)
    while gone == k:
        gone = draw_occupied(rng, state)
    order, first = state.order, first_record(state, gone)
    gain = -log_split_prior(
        mixing, state.floats[CONCENTRATION], state.ints[N_CLUSTERS] - 1, state.counts[k], state.counts[gone]
    )
    gain -= log_new_params(kernel, state.theta, k, gone, near)
    end = first + int(state.counts[gone])
    gain += sampler.shift(rng, channel, kernel, Z, state, first, end, gone, k)
    if gain < log(rng.random()):
        sampler.undo(channel, Z, state, first, end)
        return
    sampler.keep(channel, kernel, Z, state, first, end, gone, k)
    for r in range(first, end):
        state.alloc[order[r]] = k
    state.counts[k] += state.counts[gone]
    state.counts[gone] = 0.0
    state.work[FIRST, k] = -1.0
    vacate(state, gone)


@helper
def split_merge(sampler, rng, n_tries, channel, kernel, mixing, Z, state):
    """``n_tries`` attempts, split or merge, far or near, each by a coin.

    Needs that many spare slots, and ``order`` sorted by cluster.
    """
    for _ in range(n_tries):
        near = rng.random() < 0.5
        if rng.random() < 0.5:
            try_split(sampler, rng, channel, kernel, mixing, Z, state, near)
        else:
            try_merge(sampler, rng, channel, kernel, mixing, Z, state, near)
    compact(state)
