"""(α, β, σ) under which sums that involve y do not change while the predictors of imputed records change.

Let u = (1, x, e), with e the standardised residual of a record, and κ = (α, β, σ) in units in which the bounds of y are
[-1, 1], so that y = κ'u before it is clamped.  For fixed records (x, e) the sums F(κ) = (Σ y, Σ x y, Σ y²), with y
clamped, are as many as the numbers in κ.  When x goes to x' with e held, κ goes to the κ' with F'(κ') = F(κ), where F'
is F with x' for x.  Given (x, x', e) that is a map of κ alone, with the Jacobian |dF/dκ| / |dF'/dκ'|; its inverse is
the same map from x' to x.

There is at most one κ'.  Given σ, (Σ y, Σ x y) is the gradient of a convex function of (α, β).  When σ grows and (α, β)
keep these sums, y of a record within the bounds grows by the residual r of e in a regression on (1, x) of those
records, and Σ y² by 2σ Σ r² > 0.  Newton's iterations look for κ' from a point that depends neither on x nor on κ, so
whether they find it depends only on (x', e) and F, and each move has its inverse.  A step is shortened as a whole if σ
would fall to a fifth, and halved if it brings F no closer, since otherwise iterations go round in circles.

Sums of what is not clamped are polynomials in κ: an iteration is one pass that looks for clamped records.
"""

from math import inf

from ..._base.compiled import helper
from ..._base.linear import eliminate

MOST_STEPS, SHORTEST = 50, 1e-3  # passes at most; a step is not halved below this share of itself
CLOSE = 1e-8  # error of a sum, per record, from which one more step is enough: it squares the error


@helper
def products(records, n, p, out):
    """Sums of u u' over records (x, e)."""
    for a in range(p + 2):
        for b in range(p + 2):
            out[a, b] = 0.0
    for i in range(n):
        for a in range(1, p + 2):
            w = records[i, a - 1]
            out[a, 0] += w
            for b in range(1, a + 1):
                out[a, b] += w * records[i, b - 1]
    out[0, 0] = n
    for a in range(p + 2):
        for b in range(a):
            out[b, a] = out[a, b]


@helper
def new_products(records, n, p, j, sums, out):
    """``sums`` of u u' where predictor j has changed."""
    for a in range(p + 2):
        for b in range(p + 2):
            out[a, b] = sums[a, b]
    row = out[j + 1]
    for b in range(p + 2):
        row[b] = 0.0
    for i in range(n):
        w = records[i, j]
        row[0] += w
        for b in range(1, p + 2):
            row[b] += w * records[i, b - 1]
    for b in range(p + 2):
        out[b, j + 1] = row[b]


@helper
def response_sums(records, n, p, d, kappa, sums, value, slope):
    """F(κ), p + 2 numbers, and their derivatives by the first ``d`` of κ; ``sums`` has those of u u'."""
    square = 0.0
    for r in range(p + 2):
        line = 0.0
        for c in range(p + 2):
            line += sums[r, c] * kappa[c]
        square += line * kappa[r]
        value[r] = line
    for c in range(d):
        for r in range(p + 1):
            slope[r, c] = sums[r, c]
        slope[p + 1, c] = 2.0 * value[c]
    value[p + 1] = square
    for i in range(n):
        y = kappa[0]
        for c in range(p + 1):
            y += kappa[1 + c] * records[i, c]
        if abs(y) > 1.0:
            take_out(records, i, p, d, y, value, slope)


@helper
def take_out(records, i, p, d, y, value, slope):
    """A clamped record's y is its bound, whatever κ is near by."""
    bound = 1.0 if y > 0.0 else -1.0
    value[p + 1] += 1.0 - y * y
    for r in range(p + 1):
        w = 1.0 if r == 0 else records[i, r - 1]
        value[r] += w * (bound - y)
        for c in range(d):
            slope[r, c] -= w * (1.0 if c == 0 else records[i, c - 1])
    for c in range(d):
        slope[p + 1, c] -= 2.0 * y * (1.0 if c == 0 else records[i, c - 1])


@helper
def solve(records, n, p, d, target, sums, kappa, value, slope):
    """Move κ to where the first ``d`` of F are those of ``target``; ``value`` has the others then.

    The last row of ``slope``, one more than F has, keeps the step.  Returns log |dF/dκ| there, -inf
    where Newton's iterations do not get there.
    """
    step, before, share = slope[p + 2], inf, 1.0
    for _ in range(MOST_STEPS):
        response_sums(records, n, p, d, kappa, sums, value, slope)
        worst = 0.0
        for r in range(d):
            value[r] = target[r] - value[r]
            worst = max(worst, abs(value[r]))
        if worst >= before and share > SHORTEST:  # half of the way back
            share *= 0.5
            for r in range(d):
                step[r] *= 0.5
                kappa[r] -= step[r]
            continue
        determinant = eliminate(slope, value, d, 1e-12)
        if determinant == -inf:
            return -inf
        before, share, length = worst, 1.0, 1.0
        if d == p + 2 and value[d - 1] < -0.8 * kappa[d - 1]:
            length = -0.8 * kappa[d - 1] / value[d - 1]
        for r in range(d):
            step[r] = length * value[r]
            kappa[r] += step[r]
        if worst < CLOSE * n:
            return determinant
    return -inf
