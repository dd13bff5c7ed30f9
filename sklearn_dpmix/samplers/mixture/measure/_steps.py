"""Langevin steps of one atom, or of two together, in log J and the atoms' coordinates.

The mass of records outside of the mixture, where there are such, goes along as the last coordinate.

The metric is that of the records, Σ_m ω_m s(x_m) s(x_m)ᵀ with s the score of log f, and the prior's curvature: no step
size is tuned.  It depends on where the walk is, and both proposal densities are in the acceptance probability (Girolami
& Calderhead 2011, the simplified manifold MALA).
"""

from math import exp

from ...._base.compiled import apart, apart_sums, helper, sums_helper
from ...._base.linear import solve_lower, solve_upper, try_factor
from ._walk_atoms import (
    CENTRE,
    CUT,
    LARGEST,
    LARGEST_OUTSIDE,
    LINE,
    LOG_LIKELIHOOD,
    N_ATOMS,
    OUTSIDE,
    OUTSIDE_A,
    OUTSIDE_B,
    PER_FEATURE,
    REACH,
    TILT,
    TOTAL,
    accepts,
    at,
    copy_numbers,
    draw_above,
    log_tilt,
    random_mass,
    row,
)
from ._walk_likelihood import LEAST_DENSITY, keep_trial, try_replaced

LONGEST = 1.8  # of the steps' lengths, which go down to a fifth of it
SHORTER = 4.0  # ... to e^-4, where the mass outside may be hard to tell from the atoms: along a bend of many records
MASS_CURVATURE = 0.25
CHUNK = 256  # nodes
LEAST_OF_CHUNK, ENOUGH = 64, 1000  # nodes of a chunk that the metric is of, at least, and of all, about
# a step's fence: masses stay above the least, and one coordinate nearer than the limit to where it is measured from;
# those that move are this many from the first on
LEAST, AXIS, FROM, LIMIT, FIRST, N_MOVING = range(6)


@helper
def step_one(rng, channel, chart, walk):
    """A step of one atom among those above a random mass; it must stay above it."""
    least = random_mass(rng, walk)
    k = draw_above(rng, walk, least)
    step_of(rng, channel, chart, walk, least, k, k)


@helper
def step_two(rng, channel, chart, walk):
    """A step of two atoms at random."""
    n = walk.law[N_ATOMS]
    step_of(rng, channel, chart, walk, 0.0, int(rng.random() * n), int(rng.random() * n))


@helper
def step_above(rng, channel, chart, walk):
    """A step of two atoms among those above a random mass; they must stay above it."""
    least = random_mass(rng, walk)
    k, other = draw_above(rng, walk, least), draw_above(rng, walk, least)
    step_of(rng, channel, chart, walk, least, k, other)


@helper
def step_of(rng, channel, chart, walk, least, k, other):
    """A step of these two, if there are such, which must stay above this mass."""
    if k >= 0:
        walk.fence[LEAST], walk.fence[AXIS], walk.fence[LIMIT] = least, 1.0, 1e300
        chart.choose_moving(rng, walk)
        step(rng, channel, chart, walk, k, other)


@helper
def step_nearest(rng, channel, chart, walk, j):
    """A step of the two atoms that are nearest to a random place, of those above a random mass; both must stay so."""
    law, atoms, fence = walk.law, walk.atoms, walk.fence
    place = PER_FEATURE + 3 * j
    centre = law[place + CENTRE] + law[place + REACH] * (2.0 * rng.random() - 1.0)
    least = random_mass(rng, walk)
    first, second = -1, -1
    nearest, next_one, limit = 1e300, 1e300, 1e300  # the three least distances
    for k in range(int(law[N_ATOMS])):
        a = at(walk, k)
        if atoms[a] > least:
            distance = abs(atoms[a + 1 + 2 * j] - centre)
            if distance < nearest:
                first, second = k, first
                nearest, next_one, limit = distance, nearest, next_one
            elif distance < next_one:
                second = k
                next_one, limit = distance, next_one
            elif distance < limit:
                limit = distance
    if first >= 0:
        fence[LEAST], fence[AXIS], fence[FROM], fence[LIMIT] = least, 1 + 2 * j, centre, limit
        chart.choose_along(rng, walk, j)
        step(rng, channel, chart, walk, first, second if second >= 0 else first)


@helper
def some_of_many(walk):
    """Nodes at a time, and how many of these the metric is of, which says but how long steps are."""
    block = min(CHUNK, walk.n_nodes)
    n_of_block = min(block, block * ENOUGH // walk.n_nodes)
    return block, max(LEAST_OF_CHUNK, n_of_block // LINE * LINE)


@apart_sums
def add_products(score, n, n_rows, n_nodes, metric):
    """Add the products of ``n`` rows with each other, of their first ``n_nodes``, to the metric's lower half.

    Two rows with two at a time, of as many nodes as fit into the nearest cache: what it takes is to read the rows.
    """
    done = 0
    while done < n_nodes:
        size, i = min(n_nodes - done, CHUNK), 0
        while i < n:
            a = i * n_rows + done
            b = a + n_rows if i + 1 < n else a
            j = 0
            while j <= i:
                c = j * n_rows + done
                d = c + n_rows if j + 1 < n else c
                ac, ad, bc, bd = 0.0, 0.0, 0.0, 0.0
                for m in range(size):
                    ac += score[a + m] * score[c + m]
                    ad += score[a + m] * score[d + m]
                    bc += score[b + m] * score[c + m]
                    bd += score[b + m] * score[d + m]
                metric[i, j] += ac
                if j < i:
                    metric[i, j + 1] += ad
                if i + 1 < n:
                    metric[i + 1, j] += bc
                    metric[i + 1, j + 1] += bd
                j += 2
            i += 2
        done += size


@apart_sums
def add_scores(chart, walk, size, k, other, density, total, block, done, n_block, n_kept):
    """Add what the ``n_block`` nodes from ``done`` on say of slopes; write the scores of the first ``n_kept`` of them.

    Each coordinate has a row of ``block`` numbers.  The row after all has what makes scores of derivatives, beyond
    ``n_kept`` what makes terms of a slope of them.
    """
    score, roots, weights, gradient, atoms = walk.score, walk.roots, walk.weights, walk.gradient, walk.atoms
    width, first, outside = 1 + int(walk.fence[N_MOVING]), int(walk.fence[FIRST]), walk.law[OUTSIDE]
    n_inside = size * width
    scaled = (n_inside + (1 if outside > 0.0 else 0)) * block
    for m in range(n_kept):
        score[scaled + m] = roots[done + m] / max(density[done + m], LEAST_DENSITY)
    for m in range(n_kept, n_block):
        score[scaled + m] = weights[done + m] / max(density[done + m], LEAST_DENSITY)
    for i in range(n_inside):
        h, e = (other, i - width) if i >= width else (k, i)
        mass, to = atoms[at(walk, h)], i * block
        if e == 0:
            gradient[i] += add_slope(walk, walk.tables, row(walk, h) + done, to, mass, scaled, done, n_kept, n_block)
            gradient[i] -= subtract_share(walk, to, mass / (total + outside), done, n_kept, n_block)
        else:
            gradient[i] += chart.add_slope(walk, h, e + first - 1, to, mass, scaled, block, done, n_kept, n_block)
    if outside > 0.0:
        to = n_inside * block
        gradient[n_inside] += add_slope(walk, walk.outside, done, to, outside, scaled, done, n_kept, n_block)
        gradient[n_inside] -= subtract_share(walk, to, outside / (total + outside), done, n_kept, n_block)


@sums_helper
def add_slope(walk, tables, g, to, mass, scaled, done, n_kept, n_block):
    """Write the row of ``score`` from ``to`` on, of derivatives from ``g`` on; return what these say of a slope.

    The row from ``scaled`` on is what they are multiplied by; it may be the one that is written.
    """
    score, signed, value, rest = walk.score, walk.signed, 0.0, 0.0
    for m in range(n_kept):
        score[to + m] = mass * tables[g + m] * score[scaled + m]
        value += score[to + m] * signed[done + m]
    for m in range(n_kept, n_block):
        rest += tables[g + m] * score[scaled + m]
    return value + mass * rest


@sums_helper
def subtract_share(walk, to, share, done, n_kept, n_block):
    """Subtract the derivative of log S from a row of scores; return what that takes off the slope."""
    score, roots, weights, value = walk.score, walk.roots, walk.weights, 0.0
    for m in range(n_kept):
        score[to + m] -= share * roots[done + m]
    for m in range(n_block):
        value += weights[done + m]
    return share * value


@apart_sums
def fill_geometry(chart, walk, size, k, other, density, total):
    """Gradient and metric, into ``gradient`` and ``metric``, of atom k and with ``size`` 2 of another one."""
    gradient, metric, atoms, n_nodes = walk.gradient, walk.metric, walk.atoms, walk.n_nodes
    width, n_atoms, outside = 1 + int(walk.fence[N_MOVING]), int(walk.law[N_ATOMS]), walk.law[OUTSIDE]
    n_inside, (block, n_of_block) = size * width, chart.blocks(walk)
    n, done, n_read = n_inside + (1 if outside > 0.0 else 0), 0, 0
    for i in range(n):
        gradient[i] = 0.0
        for j in range(n):
            metric[i, j] = 0.0
    while done < n_nodes:
        n_block = min(block, n_nodes - done)
        n_kept = min(n_of_block, n_block)
        add_scores(chart, walk, size, k, other, density, total, block, done, n_block, n_kept)
        add_products(walk.score, n, block, n_kept, metric)
        done += n_block
        n_read += n_kept
    if n_read < n_nodes:
        for i in range(n):
            for j in range(n):
                metric[i, j] *= n_nodes / n_read
    if outside > 0.0:
        a, b, share = walk.law[OUTSIDE_A], walk.law[OUTSIDE_B], outside / (total + outside)
        gradient[n_inside] = gradient[n_inside] + a - (a + b) * share
    for c in range(size):
        i, a = c * width, at(walk, other if c else k)
        share = atoms[a] / total
        gradient[i] += walk.masses.shape() + walk.masses.power(walk, n_atoms) * share - (TILT + 1.0) * atoms[a]
        for b in range(c + 1):
            metric[i, b * width] += TILT * share * atoms[at(walk, other if b else k)] / total
        metric[i, i] += MASS_CURVATURE
        chart.add_prior(walk, a, i)
    if outside > 0.0:
        metric[n_inside, n_inside] += MASS_CURVATURE


@helper
def draw_move(rng, walk, n, length):
    """Draw a step of ``n`` numbers by the gradient and factored metric; return its log density, up to a constant."""
    move, value = walk.move, 0.0
    solve_lower(walk.metric, walk.gradient, n)
    for i in range(n):
        z = rng.standard_normal()
        value -= 0.5 * z * z
        move[i] = length * (z + 0.5 * length * walk.gradient[i])
    solve_upper(walk.metric, move, n)
    return value


@helper
def log_way_back(walk, n, length):
    """The same of the step back from where ``move`` led, under the gradient and factored metric there."""
    value = 0.0
    solve_lower(walk.metric, walk.gradient, n)
    for i in range(n):
        back = 0.0
        for j in range(i, n):
            back -= walk.metric[j, i] * walk.move[j]
        z = back / length - 0.5 * length * walk.gradient[i]
        value -= 0.5 * z * z
    return value


@helper
def put_trial(chart, walk, c, h, i):
    """Write atom ``h``, moved by ``move`` from i on, as the proposal's atom c; whether it stays within the fence."""
    atoms, move, fence = walk.atoms, walk.move, walk.fence
    width, first, axis, trial = 1 + int(fence[N_MOVING]), int(fence[FIRST]), int(fence[AXIS]), 2 * walk.capacity
    b = at(walk, trial + c)
    if not abs(move[i]) < 20.0:
        return False
    copy_numbers(walk, trial + c, h)
    atoms[b] = atoms[at(walk, h)] * exp(move[i])
    for e in range(1, width):
        atoms[b + first - 1 + e] += move[i + e]
    if not chart.is_proper(walk, b):
        return False
    if atoms[b] < walk.law[CUT] or atoms[b] > LARGEST or atoms[b] <= fence[LEAST]:
        return False
    return abs(atoms[b + axis] - fence[FROM]) < fence[LIMIT]


@apart
def step(rng, channel, chart, walk, k, other):
    """A step of atom k, or of atoms k and ``other``, which must stay within the fence.

    The mass outside is set back where the step is not taken.
    """
    outside = walk.law[OUTSIDE]
    if not try_step(rng, channel, chart, walk, k, other):
        walk.law[OUTSIDE] = outside


@helper
def try_step(rng, channel, chart, walk, k, other):
    """Propose such a step; return whether it was taken."""
    law, atoms, metric, trial = walk.law, walk.atoms, walk.metric, 2 * walk.capacity
    size, width, outside = 1 if other == k else 2, 1 + int(walk.fence[N_MOVING]), law[OUTSIDE]
    n = size * width + (1 if outside > 0.0 else 0)
    chart.fill_slopes(channel, walk, k)
    chart.fill_slopes(channel, walk, other)
    fill_geometry(chart, walk, size, k, other, walk.mix, law[TOTAL])
    log_forth = try_factor(metric, n)
    if log_forth < -1e200:
        return False
    length = LONGEST * exp(-(SHORTER if outside > 0.0 else 1.6) * rng.random())
    log_forth += draw_move(rng, walk, n, length)
    ratio, total, n_atoms = 0.0, law[TOTAL], int(law[N_ATOMS])
    for c in range(size):
        h = other if c else k
        if not put_trial(chart, walk, c, h, c * width):
            return False
        ratio += chart.log_base(walk, trial + c) - chart.log_base(walk, h)
        ratio += walk.masses.log_ratio(atoms[at(walk, trial + c)], atoms[at(walk, h)])
        total += atoms[at(walk, trial + c)] - atoms[at(walk, h)]
    ratio -= log_tilt(walk, n_atoms, law[TOTAL])
    if outside > 0.0:
        if not abs(walk.move[n - 1]) < 20.0:
            return False
        law[OUTSIDE] *= exp(walk.move[n - 1])
        ratio += law[OUTSIDE_A] * walk.move[n - 1]
    for c in range(size):
        chart.fill_moved(channel, walk, trial + c, other if c else k)
    value = try_replaced(walk, k, other, trial, total, law[OUTSIDE] - outside)
    ratio += value - law[LOG_LIKELIHOOD] + log_tilt(walk, n_atoms, total)
    if ratio < -30.0 or not law[OUTSIDE] < LARGEST_OUTSIDE:  # no step back is e^30 times likelier than one forth
        return False
    for c in range(size):
        chart.fill_slopes(channel, walk, trial + c)
    fill_geometry(chart, walk, size, trial, trial + 1, walk.trial, total)
    log_back = try_factor(metric, n)
    if log_back < -1e200 or not accepts(rng, ratio + log_back + log_way_back(walk, n, length) - log_forth):
        return False
    for c in range(size):
        chart.keep_moved(walk, other if c else k, trial + c)
    keep_trial(walk, total, value)
    return True
