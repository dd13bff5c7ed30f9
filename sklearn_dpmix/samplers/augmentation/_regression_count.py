"""A number of imputed records that changes by many at once, in a linear regression.

Records that are added or taken out change the released sums.  Here all records move with that, by an affine map of x
and y, so that the sums before clamping stay as they were, and so does θ, such that the standardised predictors and
residuals (z, e) stay.  Let FF' be Σ (1, x, y)(1, x, y)' before, F₊F₊' the same of the records that there are then,
before they move, and F₀F₀' the same after they moved: FF' with another number in its corner.  The map is

    (1, x, y) -> G (1, x, y),   G = F₀F₊⁻¹,   all lower triangular.

If W makes (1, z, e) of (1, x, y), and K and K₊ are the factors of the products of (1, z, e), then W = KF⁻¹ goes to
K₊F₀⁻¹ = WG⁻¹.  The entries of FF' below the corner stay, so that with q = p + 1 coordinates

    |dF/dW| = F_00^q Π_i F_ii^(q-i+1) / Π_i W_ii^(i+1),   |d(FF')/dF| = 2^q F_00^q Π_i F_ii^(q-i+1),   i = 1..q,

and alike on the way back.  For θ = (α, β, log σ, m, L with the logs of its diagonal), x = m + Lz, |dW/dθ| is
W_qq^(q+1) Π_(i<q) W_ii^(p+1).  All of it together is

    |dθ'/dθ| = Π_(i<q) G_ii^(p-i) · (R/R₀)²,   R = F_00^q Π_i F_ii^(q-i+1).

Predictors that are known, or have no m and L, stay where they are.  Then F₀F₀' has only the last row of FF', G changes
y alone, and |dθ'/dθ| is (R/R₀)² with R = Π_i F_ii, i = 0..q.
"""

from math import exp, inf, log

from ..._base.compiled import compiled, helper
from ..._base.linear import divide_triangle, try_factor
from .._release_density import log_release
from ._augmented_state import N_RECORDS
from ._carry import carried_total, carry_records
from ._number import NoisyNumber, move_record

N_TRIES = 2  # in a sweep; each costs a pass over the records


class NoisyRegressionNumber(NoisyNumber):
    """Births and deaths of many records at once, too, unless σ is known."""

    @compiled
    def leap(self, rng, model, channel, count, S, state, current):
        for _ in range(N_TRIES if model.knows_sigma == 0.0 else 0):
            current = leap_once(self, rng, model, channel, count, S, state, current)
        return current


@helper
def leap_once(counting, rng, model, channel, count, S, state, current):
    """Try another number of records.  Returns the log density of the release.

    The first rows of the scratch have the lower triangle of FF', which the update of θ left; they have it at the end.
    """
    theta, work, d, n = state.theta, state.work, model.p + 2, state.ints[N_RECORDS]
    total, to, moves_x = work[d][: state.total.size], work[d + 1], model.x.takes_any_map()
    before, after, image = work[d + 2 :], work[2 * d + 2 :], work[3 * d + 2 :]
    size = 1 + int(counting.scale * exp(2.0 - 3.0 * rng.random()) * abs(rng.standard_normal()))
    new = n + size if rng.random() < 0.5 else n - size
    if min(n, new) < d or new > state.records.shape[0] - 1:
        return current
    for i in range(n, new):
        model.draw_record(rng, theta, state.records, i)
    for i in range(n - 1, new - 1, -1):  # the last ones may go: any of them
        swap_with_earlier(rng, state, i)
    set_squares(state.records, work, n, new, before, after, image, d, moves_x)
    if min(try_factor(before, d), try_factor(after, d), try_factor(image, d)) == -1e300:
        return current
    gain = counting.gain(count, n, new) + 2.0 * (log_volume(before, d, moves_x) - log_volume(image, d, moves_x))
    divide_triangle(image, after, d)  # G
    for i in range(1, d - 1):
        gain += (d - 2 - i) * log(image[i, i])
    for a in range(theta.size):
        to[a] = theta[a]
    model.map_theta(theta, image, to)
    block = 1 if moves_x else 0
    for b in range(block + 1):
        gain += model.log_prior_block(to, b) - model.log_prior_block(theta, b)
    if not gain > -inf:
        return current
    state.ints[N_RECORDS] = new
    carried_total(model, to, block, state, total)
    proposed = log_release(channel, S, total)
    gain += proposed - current
    if not (gain >= 0.0 or rng.random() < exp(gain)):
        state.ints[N_RECORDS] = n
        return current
    keep_squares(work, new, after, d, moves_x)
    carry_records(model, to, block, state, total)
    for i in range(n, new):
        swap_with_earlier(rng, state, i)
    return proposed


@helper
def set_squares(records, sums, n, new, before, after, image, d, moves_x):
    """FF' of the n records, F₊F₊' of the new number of them, and F₀F₀' of these when they have moved."""
    for a in range(d):
        for b in range(a + 1):
            before[a, b] = image[a, b] = after[a, b] = sums[a, b]
    sign = 1.0 if new > n else -1.0
    for i in range(min(n, new), max(n, new)):
        for a in range(d):
            for b in range(a + 1):
                left, right = 1.0 if a == 0 else records[i, a - 1], 1.0 if b == 0 else records[i, b - 1]
                after[a, b] += sign * left * right
    for a in range(1 if moves_x else d - 1):
        for b in range(a + 1):
            image[a, b] = after[a, b]


@helper
def keep_squares(sums, new, after, d, moves_x):
    """What changes in FF': the number, and of predictors that stay the rows of F₊."""
    sums[0, 0] = new
    for a in range(1, 0 if moves_x else d - 1):
        for b in range(a + 1):
            sums[a, b] = 0.0
            for r in range(b + 1):
                sums[a, b] += after[a, r] * after[b, r]


@helper
def log_volume(factor, d, moves_x):
    """log R of the module's docstring, where predictors move and where they stay."""
    value = (d - 1.0 if moves_x else 1.0) * log(factor[0, 0])
    for i in range(1, d):
        value += (d - i if moves_x else 1.0) * log(factor[i, i])
    return value


@helper
def swap_with_earlier(rng, state, i):
    """Let record i change places with one of those up to it, by way of the spare row."""
    records, contributions, spare = state.records, state.contributions, state.records.shape[0] - 1
    j = min(int(rng.random() * (i + 1)), i)
    move_record(records, contributions, i, spare)
    move_record(records, contributions, j, i)
    move_record(records, contributions, spare, j)
