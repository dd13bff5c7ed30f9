"""Data augmentation for a linear regression whose predictors have any shape, about which little was released.

What a release does not say about the shape of x moves by 1/√n of its spread in a sweep, because shares and n records
hold each other in place; so do the coefficients if y is clamped.  So in each sweep many records of one predictor go to
other cells at once, with shares integrated out (``_cell_counts``), the moments of x kept as nearly as cells allow, and
those with y kept exactly (``_keep_response``).  The noise on the moments of x and the prior decide.  Proposals are
first accepted as if all records were in the middles of their cells (delayed acceptance: Christen & Fox 2005, "Markov
chain Monte Carlo using an approximation", eq. 2), so that passes over the records are made only for proposals that have
a chance.
"""

from math import exp, inf, log

from ..._base.compiled import compiled, helper
from .._release_density import log_entry, log_release
from ._augmented_state import N_RECORDS, TUNED
from ._keep_response import new_products, products, response_sums, solve
from ._regression_records import RegressionAugmentation, walk_or_step

# rows of the scratch; then come sums of u u', those after a change, and the slope of F
TOTAL, TO, TARGET, VALUE, KAPPA, FOUND, SUMS = range(4, 11)
SAME = 1e-7  # κ found again
RIGHT = 0.9  # acceptance rate of whole paths where coefficients hardly depend on the shape of x
FEWER = 1 / 30  # tries there


class ShapeAugmentation(RegressionAugmentation):
    """The sampler of ``RegressionAugmentation``, and ``n_tries`` proposals of other counts in a sweep."""

    def __init__(self, sd=1.0, n_warmup=1000, n_walks=0, n_tries=0):
        super().__init__(sd, n_warmup, n_walks)
        self.n_tries = n_tries

    @compiled
    def move(self, model, channel, S, state, rng, current, warming_up):
        if self.n_tries > 0.0:
            n_tries = self.n_tries * (FEWER if state.floats[TUNED] > RIGHT else 1.0)
            current = change_shapes(self, rng, int(n_tries), model, channel, S, state, current)
            model.update_theta(rng, state.theta, state.records, state.ints[N_RECORDS], state.work)
        walk_or_step(self, model, channel, S, state, rng, current, warming_up)

    @compiled
    def log_ratio(self, model, state, before, after):
        """Of the priors of (α, β, log σ) where they go to ``TO``, and of |dF/d(α, β, log σ)| before and after."""
        to, theta, p = state.work[TO][: state.theta.size], state.theta, model.p
        jacobian = before - after + log(theta[p + 1] / to[p + 1])
        return model.log_prior_block(to, 0) - model.log_prior_block(theta, 0) + jacobian


@helper
def change_shapes(sampler, rng, n_tries, model, channel, S, state, current):
    """Proposals for one predictor after the other; meanwhile the records hold e where y was.

    Shares are integrated out: they are to be drawn next.  Returns the log density of the release.
    """
    law, p, n, records, work = model.x, model.p, state.ints[N_RECORDS], state.records, state.work
    counts, change, cells, direction = work[0], work[1], work[2], work[3]
    for i in range(n):
        model.standardise(state.theta, records, i, i)
    determinant = first_determinant(model, state)
    if determinant > -inf:
        for j in range(p):
            law.count(records, n, j, counts)
            for _ in range(n_tries):
                ratio = law.propose(rng, n, counts, cells, direction, change)
                if ratio == -inf:
                    continue
                first, second = law.change_moments(change)
                likely = ratio + nearby(channel, S, state.total, p, j, first, second)
                if likely < 0.0 and rng.random() >= exp(likely):
                    continue
                law.relocate(rng, records, n, j, counts, change, p + 1)
                exchange(records, n, j, p + 1)
                there = solve_changed(model, state, j)
                accepts, proposed = False, current
                if there > -inf:
                    proposed = log_release(channel, S, work[TOTAL][: state.total.size])
                    back = nearby(channel, S, work[TOTAL], p, j, -first, -second) - ratio
                    gain = ratio + sampler.log_ratio(model, state, determinant, there) + proposed - current
                    gain += min(back, 0.0) - min(likely, 0.0)
                    accepts = gain >= 0.0 or rng.random() < exp(gain)
                if accepts:
                    accept(model, state)
                    current, determinant = proposed, there
                else:
                    exchange(records, n, j, p + 1)
                law.count(records, n, j, counts)
    for i in range(n):
        model.respond(state.theta, records, i)
        model.contribute(records, i, state.contributions, i)
    return current


@helper
def nearby(channel, S, total, p, j, first, second):
    """Log ratio of the noise's densities where Σ x_j and Σ x_j² change by so much."""
    mean, square = p + 2 + j, 2 * p + 2 + j * p - j * (j - 1) // 2
    return (
        log_entry(channel, S, mean, total[mean] + first)
        - log_entry(channel, S, mean, total[mean])
        + log_entry(channel, S, square, total[square] + second)
        - log_entry(channel, S, square, total[square])
    )


@helper
def first_determinant(model, state):
    """Log |dF/dκ| of the state as it is, -inf where its κ is not what is found from the reference.

    Leaves F, κ and sums of u u' in the scratch.
    """
    p, n, records, work = model.p, state.ints[N_RECORDS], state.records, state.work
    sums, slope = work[SUMS : SUMS + p + 2], work[SUMS + 2 * p + 4 : SUMS + 3 * p + 6]
    products(records, n, p, sums)
    model.get_response(state.theta, work[KAPPA])
    response_sums(records, n, p, p + 2, work[KAPPA], sums, work[TARGET], slope)
    determinant = find(model, state, sums)
    for r in range(p + 2):
        if not abs(work[FOUND][r] - work[KAPPA][r]) < SAME * (1.0 + abs(work[KAPPA][r])):
            return -inf
    return determinant


@helper
def find(model, state, sums):
    """Solve for κ from the reference: log |dF/dκ|, or -inf."""
    p, n, work = model.p, state.ints[N_RECORDS], state.work
    slope, found = work[SUMS + 2 * p + 4 : SUMS + 3 * p + 7], work[FOUND]
    model.get_response(state.reference, found)
    d = p + 2
    if model.knows_sigma > 0.0:
        d, found[p + 1] = p + 1, work[KAPPA][p + 1]
    return solve(state.records, n, p, d, work[TARGET], sums, found, work[VALUE], slope)


@helper
def solve_changed(model, state, j):
    """Find κ after predictor j has changed, and with it ``TO``, θ, and ``TOTAL``.  Returns log |dF/dκ|, or -inf."""
    p, n, work = model.p, state.ints[N_RECORDS], state.work
    sums, changed = work[SUMS : SUMS + p + 2], work[SUMS + p + 2 : SUMS + 2 * p + 4]
    new_products(state.records, n, p, j, sums, changed)
    determinant = find(model, state, changed)
    for r in range(state.theta.size):
        work[TO][r] = state.theta[r]
    model.set_response(work[TO], work[FOUND])
    for r in range(p + 1 if model.knows_sigma > 0.0 else p + 2):
        work[VALUE][r] = work[TARGET][r]
    model.set_total(changed, work[VALUE], work[TOTAL])
    return determinant


@helper
def accept(model, state):
    work, p = state.work, model.p
    for r in range(state.theta.size):
        state.theta[r] = work[TO][r]
    for r in range(state.total.size):
        state.total[r] = work[TOTAL][r]
    for r in range(p + 2):
        work[TARGET][r], work[KAPPA][r] = work[VALUE][r], work[FOUND][r]
        for c in range(p + 2):
            work[SUMS + r, c] = work[SUMS + p + 2 + r, c]


@helper
def exchange(records, n, a, b):
    """Swap two columns."""
    for i in range(n):
        keep = records[i, a]
        records[i, a] = records[i, b]
        records[i, b] = keep
