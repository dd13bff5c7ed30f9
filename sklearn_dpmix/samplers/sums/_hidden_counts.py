"""Exact draws of hidden counts: binomial under a beta prior, multinomial under a Dirichlet prior, n known or not.

θ is integrated out.  For counts s_1..s_K with n = Σ s_j, A = Σ α_j and a flat prior on n, where n is unknown,

    p(s, y) ∝ Γ(n+1)/Γ(n+A) · Π_j Γ(s_j+α_j)/Γ(s_j+1) · Π_r Π_j q(y_rj - s_j) · Π_r q_c(c_r - n),

so a chain over s alone has the right distribution, whatever the noise.  θ, which would hold s within its sampling
spread, is drawn only when a draw is recorded, from its conjugate Dirichlet(α + s).  (A binomial has K = 2, with the
ones released and the zeros not.)  There are two updates, each an exact draw from a distribution on integers that is
log-concave in one variable:

- transfer: s_j given s_j + s_k and the others; n stays;
- single, where n is unknown: s_j given the others; n moves along.

Under a ``WideDirichletPrior`` all α_j are one unknown α, which moves given the counts (:mod:`_concentration`) and, if
there are few records to a category, together with them (:mod:`_carried_counts`).  It may be small: transfers of small
counts then do without auxiliary variables (:func:`draw_between`), and each category also exchanges records with the one
that is likely to be the largest, as do those that are likely to be large among each other (:func:`hub_round`).

Every factor is log-concave in it but Γ(x+α)/Γ(x+1) for α < 1 and Γ(n+1)/Γ(n+A) for A > 1, which are log-convex (their
second log-derivatives are ψ'(x+α) - ψ'(x+1) > 0).  Each is a beta integral,

    Γ(x+a)/Γ(x+b) = 1/Γ(b-a) ∫_0^1 v^(x+a-1) (1-v)^(b-a-1) dv,   a < b,

so that with v ~ Beta(x+a, b-a) given x as an auxiliary variable, drawn afresh before each update, the factor becomes
v^x: linear in x, and the joint distribution keeps its margin.  log v is of the relative size 1/√(b-a), not of 1/√n, and
holds nothing in place.
"""

import numpy as np

from ..._base.compiled import compiled, helper
from ..._base.restore import require, require_whole
from ._carried_counts import carry
from ._concentration import ALPHA, alpha_of, alpha_total_of, move_alpha
from ._log_concave import draw_log_concave
from ._statistic import StatisticSampler, draw_log_beta, draw_log_gamma, log_gamma_ratio, log_noise, new_state, shuffle

TRANSFER, SINGLE = 0.0, 1.0  # kinds of distribution
N_CARRIED, FEW = 4, 1000.0  # moves of an unknown α with all counts in a sweep; if there are few, or NEAR on average
N_HUBS = 8  # categories with the largest releases, among which all pairs exchange records then
NEAR = 32.0  # counts up to which all are summed over where α is unknown and less than 1
# state.work: the kind, the coordinates, what is fixed, exponents, and the auxiliary variables' logarithms
KIND, FIRST, SECOND, FIXED, ALPHA_FIRST, ALPHA_SECOND, ALPHA_TOTAL, LOG_V_FIRST, LOG_V_SECOND, LOG_V_TOTAL = range(10)


@helper
def log_coordinate(alpha, x, log_v):
    """Log of Γ(x+α)/Γ(x+1), or of the linear factor that stands for it."""
    if alpha < 1.0:
        return x * log_v
    return log_gamma_ratio(x, alpha, 1.0) if alpha > 1.0 else 0.0


@helper
def draw_auxiliary(rng, alpha, x):
    """log v for Γ(x+α)/Γ(x+1) = ∫ v^(x+α-1) (1-v)^-α dv / Γ(1-α), α < 1."""
    return draw_log_beta(rng, x + alpha, 1.0 - alpha) if alpha < 1.0 else 0.0


class Counts(StatisticSampler):
    """Transfers between pairs of counts in random order, and single counts if n is unknown, with θ integrated out.

    The model's value has ``alpha``, (K,), and their sum ``alpha_total``; with ``median_alpha`` > 0 they are one unknown
    number, the prior's median of which that is; it moves in each sweep, and is the last entry of the state's ``width``.

    References
    ----------
    Bernstein & Sheldon (2018), §3.2, whose normal approximation of s | θ is not needed here; Damien, Wakefield & Walker
    (1999) for auxiliary variables.
    """

    def init(self, model, n_params, n_records, given, rng):
        """Start at random counts that add up to ``n_records``; where counts are ``given``, at them."""
        counts = rng.multinomial(int(n_records), rng.dirichlet(np.ones(len(model.alpha)))).astype(np.float64)
        if given is not None:
            n_records = max(n_records, given.sum())
            counts[: len(given)] = given
            counts[len(given) :] = n_records - given.sum()
        state = new_state(n_params, counts, n_records, 2 * len(counts) + int(model.median_alpha > 0.0))
        if model.median_alpha > 0.0:
            state.width[-1] = model.median_alpha * np.exp(rng.uniform(-1.0, 1.0))
        return state

    def check_statistic(self, statistic):
        require_whole(statistic=statistic)

    def check_state(self, state):
        s = state.statistic
        self.check_statistic(s)
        require(s.sum() == state.n_records, "statistic", "does not add up to the number of records")

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        context = (channel, counter, S, C, state.work)
        few = state.n_records[0] <= max(NEAR * state.statistic.size, FEW)
        n_hubs = min(N_HUBS, state.statistic.size) if few else 1
        first = S.shape[1] if self.is_given > 0.0 else 0
        if model.median_alpha > 0.0:
            state.width[-1] = move_alpha(rng, model.median_alpha, state.statistic, state.width[-1])
            if first == 0 and few:
                for _ in range(N_CARRIED):
                    state.width[-1] = carry(
                        rng, context, model.median_alpha, state.statistic, state.order, state.width[-1], state.theta
                    )
            state.work[ALPHA] = state.width[-1]
        state.work[ALPHA_TOTAL] = alpha_total_of(model, state.work, state.statistic.size)
        if first == 0:
            transfer_round(rng, self, model, context, state.statistic, state.order, state.width)
            if model.median_alpha > 0.0:
                hub_round(rng, self, model, context, state.statistic, state.order, state.width, n_hubs)
        if C.shape[0] > 0:
            single_round(rng, self, model, context, first, state.statistic, state.n_records, state.width)

    @compiled
    def log_law(self, context, x):
        channel, counter, S, C, work = context
        j = int(work[FIRST])
        value = log_coordinate(work[ALPHA_FIRST], x, work[LOG_V_FIRST]) + log_noise(channel, S, j, x)
        if work[KIND] == TRANSFER:
            k, rest = int(work[SECOND]), work[FIXED] - x
            return value + log_coordinate(work[ALPHA_SECOND], rest, work[LOG_V_SECOND]) + log_noise(channel, S, k, rest)
        n = work[FIXED] + x
        return value + log_total(work[ALPHA_TOTAL], n, work[LOG_V_TOTAL]) + log_noise(counter, C, 0, n)

    @compiled
    def draw_theta(self, model, state, rng):
        if model.median_alpha > 0.0:
            draw_dirichlet(rng, np.full(state.statistic.size, state.width[-1]), state.statistic, state.theta)
        else:
            draw_dirichlet(rng, model.alpha, state.statistic, state.theta)


@helper
def log_total(total, n, log_v):
    """Log of Γ(n+1)/Γ(n+A), or of the linear factor that stands for it."""
    if total > 1.0:
        return n * log_v
    return log_gamma_ratio(n, 1.0, total) if total < 1.0 else 0.0


@helper
def transfer_round(rng, sampler, model, context, counts, order, width):
    """Transfers along a random cycle through the coordinates (one transfer where there are two)."""
    size = counts.size
    shuffle(rng, order)
    for i in range(size if size > 2 else 1):
        transfer(rng, sampler, model, context, counts, width, order[i], order[i + 1 if i + 1 < size else 0], NEAR)


@helper
def hub_round(rng, sampler, model, context, counts, order, width, n_hubs):
    """Transfers between each coordinate and the one whose release is the largest, and among the ``n_hubs`` largest.

    Where a few counts are large and most are 0, the large ones are hardly ever neighbours in a random cycle.
    """
    put_first(context[2], order, n_hubs)
    for i in range(1, counts.size):
        transfer(rng, sampler, model, context, counts, width, order[i], order[0], NEAR)
    for i in range(1, n_hubs):
        for k in range(i):
            transfer(rng, sampler, model, context, counts, width, order[i], order[k], np.inf)


@helper
def put_first(S, order, n_first):
    """Bring the coordinates with the largest releases to the front of ``order``."""
    for i in range(n_first):
        best, most = i, -np.inf
        for at in range(i, order.size):
            total = 0.0
            for r in range(S.shape[0]):
                total += S[r, order[at]]
            if total > most:
                best, most = at, total
        order[i], order[best] = order[best], order[i]


@helper
def transfer(rng, sampler, model, context, counts, width, j, k, near):
    """A draw of s_j given s_j + s_k; where counts may stick, by summing over all, or over those ``near`` an end too."""
    work, fixed = context[4], counts[j] + counts[k]
    if fixed == 0.0:
        return
    may_stick = pose_transfer(model, work, j, k, fixed)
    if may_stick and fixed <= 2.0 * near:
        counts[j] = draw_between(rng, context, 0.0, fixed)
    else:
        work[LOG_V_FIRST] = draw_auxiliary(rng, work[ALPHA_FIRST], counts[j])
        work[LOG_V_SECOND] = draw_auxiliary(rng, work[ALPHA_SECOND], counts[k])
        counts[j], width[j] = draw_log_concave(rng, sampler, context, 0.0, fixed, counts[j], width[j], True)
        if may_stick and counts[j] <= near:
            counts[j] = draw_between(rng, context, 0.0, near)
        elif may_stick and fixed - counts[j] <= near:
            counts[j] = draw_between(rng, context, fixed - near, fixed)
    counts[k] = fixed - counts[j]


@helper
def pose_transfer(model, work, j, k, fixed):
    """Note what the density of s_j given s_j + s_k depends on; whether a count of 0 may stick (a small α)."""
    work[KIND], work[FIRST], work[SECOND], work[FIXED] = TRANSFER, j, k, fixed
    work[ALPHA_FIRST], work[ALPHA_SECOND] = alpha_of(model, work, j), alpha_of(model, work, k)
    return model.median_alpha > 0.0 and work[ALPHA_FIRST] < 1.0


@helper
def draw_between(rng, context, low, high):
    """s_j from ``low`` to ``high`` by summing over all of them, given s_j + s_k.

    The auxiliary variable for a small α holds a count of 0 in place for about 1/α updates.
    """
    channel, _, S, _, work = context
    j, k, fixed, a, b = int(work[FIRST]), int(work[SECOND]), work[FIXED], work[ALPHA_FIRST], work[ALPHA_SECOND]
    top, total, draw = -np.inf, 0.0, low
    log_gammas, x = 0.0, low
    while x <= high:
        value = log_gammas + log_noise(channel, S, j, x) + log_noise(channel, S, k, fixed - x)
        if value > top:
            total *= np.exp(top - value)
            top = value
        weight = np.exp(value - top)
        total += weight
        if rng.random() * total < weight:
            draw = x
        if x < fixed:
            log_gammas += np.log((x + a) / (x + 1.0) * (fixed - x) / (fixed - x - 1.0 + b))
        x += 1.0
    return draw


@helper
def single_round(rng, sampler, model, context, first, counts, n_records, width):
    """Each count from ``first`` on given the others, n unknown."""
    work = context[4]
    work[KIND] = SINGLE
    for j in range(first, counts.size):
        rest = n_records[0] - counts[j]
        work[FIRST], work[FIXED], work[ALPHA_FIRST] = j, rest, alpha_of(model, work, j)
        work[LOG_V_FIRST] = draw_auxiliary(rng, work[ALPHA_FIRST], counts[j])
        if work[ALPHA_TOTAL] > 1.0:
            work[LOG_V_TOTAL] = draw_log_beta(rng, n_records[0] + 1.0, work[ALPHA_TOTAL] - 1.0)
        counts[j], width[counts.size + j] = draw_log_concave(
            rng, sampler, context, 0.0, np.inf, counts[j], width[counts.size + j], True
        )
        n_records[0] = rest + counts[j]


@helper
def draw_dirichlet(rng, alpha, counts, theta):
    """θ ~ Dirichlet(α + counts), as many of its entries as ``theta`` has."""
    top = -np.inf
    total = 0.0
    for j in range(counts.size):
        log_g = draw_log_gamma(rng, alpha[j] + counts[j])
        if j < theta.size:
            theta[j] = log_g
        total = total * np.exp(min(top - log_g, 0.0)) + np.exp(min(log_g - top, 0.0))
        top = max(top, log_g)
    for j in range(theta.size):
        theta[j] = np.exp(theta[j] - top - np.log(total))
