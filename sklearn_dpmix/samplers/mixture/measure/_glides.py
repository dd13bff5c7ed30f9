"""Steps of several atoms along a sheet on which the density of releases stays as it is at some points.

Many records know the density of releases well, and what noise hides not at all.  So what is likely is a thin and
curved sheet, on which steps along a straight line must be short.  A glide of atoms with coordinates x goes along the
tangent of the sheet T(x) = const, T what these atoms add to the density at the points, and their mass; then back to the
sheet along its normal at x, by Newton's method.  On each sheet the target is the posterior's density over √det(DT DTᵀ).
A glide is accepted by it, by the densities of both ways' steps along the tangents, and if the way back comes to where
it began (Zappa, Holmes-Cerfon & Goodman 2018, algorithm 1).  The points do not depend on where the walk is, and the
chance of these atoms is the same on both ways: so the law on each sheet is kept, and with it the posterior.
"""

from math import exp, inf, log

from ...._base.compiled import apart, entry, helper
from ...._base.linear import eliminate, solve_lower, solve_upper, try_factor
from ._sheet import MOST_ATOMS, add_normal, fill_gram, fill_sheet
from ._walk_atoms import LOG_LIKELIHOOD, N_MOVES, TOTAL, accepts, at, choose_above, copy_atom
from ._walk_likelihood import begin_trial, keep_trial, refresh, replace_in_trial, try_sum

GLIDES, FEW_POINTS = 0.15, 6.0  # for each move of a sweep, and fewer where points are more than a few
LONGEST_GLIDE = 1.0  # of the steps along the tangent, which go down to a twelfth of it
LIGHTEST = 1e-3  # mass above which atoms glide
FEW_ATOMS, SPARE_ATOMS = 4, 2  # that glide together: at least so many, or by so many more than have T's coordinates
N_NEWTON = 8
CLOSE = 1e-5  # to the sheet, in standard errors
BACK = 0.01  # to where it began, of a way back


@entry
def glide_often(channel, chart, walk, sheet, rng, n_sweeps):
    """As many glides as there go with some sweeps, of a walk whose tables are filled."""
    refresh(walk)
    share = GLIDES * min(1.0, FEW_POINTS / sheet.n_points)
    for _ in range(int(share * walk.law[N_MOVES] * n_sweeps)):
        glide(rng, channel, chart, walk, sheet)


@helper
def glide(rng, channel, chart, walk, sheet):
    """Glide of some atoms above a random mass; they must stay above it."""
    law, atoms, trial = walk.law, walk.atoms, 2 * walk.capacity
    lightest = max(walk.masses.lightest(walk), LIGHTEST)
    least = lightest * exp(log(0.1 / lightest) * rng.random())
    most = min(max(FEW_ATOMS, (sheet.n_points + 1) // 3 + SPARE_ATOMS), MOST_ATOMS)
    r = choose_above(rng, walk, least, most, sheet.chosen)
    p, start, end, shift = 3 * r, sheet.start, sheet.end, sheet.shift
    if p <= sheet.n_points + 1:
        return
    for c in range(r):
        a = at(walk, int(sheet.chosen[c]))
        start[3 * c], start[3 * c + 1] = log(atoms[a]), (atoms[a + 1] - sheet.centre) / sheet.unit
        start[3 * c + 2] = atoms[a + 2]
    densities = chart.kept_by(channel)
    fill_sheet(densities, sheet, r, start, sheet.aim, sheet.normal)
    length = LONGEST_GLIDE * exp(-2.0 * rng.random())
    for e in range(p):
        shift[e] = length * rng.standard_normal()
    ratio = to_tangent(sheet, p, sheet.normal, shift)
    if ratio < -1e200:
        return
    ratio -= log_tangent(shift, p, length)
    for e in range(p):
        end[e] = start[e] + shift[e]
    if not to_sheet(densities, sheet, r, end, sheet.normal, sheet.slopes):
        return
    for e in range(p):
        shift[e] = start[e] - end[e]
    log_volume = to_tangent(sheet, p, sheet.slopes, shift)
    if log_volume < -1e200:
        return
    ratio += log_tangent(shift, p, length) - log_volume
    for c in range(r):
        k = int(sheet.chosen[c])
        a, b = at(walk, k), at(walk, trial + c)
        atoms[b], atoms[b + 1] = exp(end[3 * c]), sheet.centre + sheet.unit * end[3 * c + 1]
        atoms[b + 2] = end[3 * c + 2]
        if not atoms[b] > least:
            return
        ratio += chart.log_base(walk, trial + c) - chart.log_base(walk, k) + walk.masses.log_ratio(atoms[b], atoms[a])
    if not accepts(rng, ratio):  # before the likelihood, which hardly changes, is looked at (Christen & Fox 2005)
        return
    begin_trial(walk)
    for c in range(r):
        chart.fill(channel, walk, trial + c)
        replace_in_trial(walk, int(sheet.chosen[c]), trial + c)
    value = try_sum(walk, law[TOTAL])
    if accepts(rng, value - law[LOG_LIKELIHOOD]) and comes_back(densities, sheet, r):
        for c in range(r):
            copy_atom(walk, int(sheet.chosen[c]), trial + c)
        keep_trial(walk, law[TOTAL], value)


@apart
def to_tangent(sheet, p, normal, shift):
    """Take off ``shift`` what is along the normal; return log √det(DT DTᵀ), or -1e300 if there is none."""
    q, right = sheet.n_points + 1, sheet.right
    fill_gram(sheet, p, normal, normal)
    log_volume = try_factor(sheet.metric, q)
    if log_volume > -1e200:
        for i in range(q):
            right[i] = 0.0
            for e in range(p):
                right[i] -= normal[i * p + e] * shift[e]
        solve_lower(sheet.metric, right, q)
        solve_upper(sheet.metric, right, q)
        add_normal(sheet, p, normal, shift)
    return log_volume


@helper
def log_tangent(shift, p, length):
    """Log density of a step along the tangent, up to a constant."""
    value = 0.0
    for e in range(p):
        value -= 0.5 * (shift[e] / length) ** 2
    return value


@apart
def to_sheet(densities, sheet, r, place, normal, slopes):
    """Newton's method from ``place`` along a normal to where T is the aim, with DT there; whether it gets there."""
    q, p, right, last = sheet.n_points + 1, 3 * r, sheet.right, 1e300
    for _ in range(N_NEWTON):
        fill_sheet(densities, sheet, r, place, sheet.value, slopes)
        worst = 0.0
        for i in range(q):
            right[i] = sheet.aim[i] - sheet.value[i]
            worst = max(worst, abs(right[i]))
        if worst < CLOSE:
            return True
        if not worst < last:
            return False
        last = worst
        fill_gram(sheet, p, slopes, normal)
        if not eliminate(sheet.metric, right, q, 0.0) > -inf:
            return False
        add_normal(sheet, p, normal, place)
        for e in range(p):
            if not abs(place[e]) < 400.0:
                return False
    return False


@helper
def comes_back(densities, sheet, r):
    """Whether the same step from the end, along the tangent there, comes to where the glide began."""
    start, place = sheet.start, sheet.shift
    for e in range(3 * r):
        place[e] += sheet.end[e]
    if not to_sheet(densities, sheet, r, place, sheet.slopes, sheet.normal):
        return False
    for e in range(3 * r):
        if not abs(place[e] - start[e]) < BACK:
            return False
    return True
