"""Trades between those outside the mixture and atoms: what more of the former add to the answers, atoms take away.

If s is the product over questions of the law of answers of some signed shares σ_j of categories, a mass t outside adds
to the answers what t ⊗σ_j adds to the table of true ones, Σ_k J_k ⊗π_kj.  Of one question j let the masses
M_kc = J_k π_kjc change, and all else stay: the table loses t ⊗σ_j if M_k loses t β_k σ_j, where Σ_k β_k ⊗π_ki = ⊗σ_i
over the other questions.  That is linear in β, and takes as many atoms as the others' table has cells; with fewer, β is
by least squares.  So the answers' probabilities stay along a straight line in the masses, or nearly so.  Where one more
atom of the mixture takes the place of those outside, atoms trade among themselves.

In the scratch of the walk, from the start of a trade to its end:

============  =========================================================================================================
``marks``     the atoms that trade; among themselves, the last one gets what the others give
``gradient``  σ_j: what is traded of each category
``given``     what a mass of that adds to the answers to question j, at each node over the root of its weight
``move``      β: the part of each atom; -1 of the one that gets
``score``     by how much each node's density changes: what all atoms' parts leave over of ⊗σ
``metric``    M_kc, an atom a row; before that the matrix of the least squares
============  =========================================================================================================
"""

from math import exp, log, sqrt

from ...._base.compiled import apart, apart_sums, helper
from ...._base.linear import solve_lower, solve_upper, try_factor
from ._gamma_shares import log_gammas
from ._outside import log_outside, take_outside
from ._walk_atoms import (
    CUT,
    LARGEST,
    LARGEST_OUTSIDE,
    N_RECORDS,
    OUTSIDE,
    TOTAL,
    at,
    choose_above,
    row,
)

LONGEST, SMALLER = 0.5, 9.0  # of trades, which go down to e^-9 of it
HEAVY, LIGHTER = 0.1, 7.0  # masses above which atoms trade, from a tenth down to e^-7 of it
MOST_ATOMS = 10  # that trade together
N_TRADES = 4  # for each other move of the mass outside
AMONG = 0.5  # of trades, where there are several questions
N_STEPS = 4  # along one line
RIDGE = 1e-10
TINY = 1e-290


@apart
def trade(rng, channel, chart, walk):
    """Some steps along a line on which chosen atoms give, of one question's masses M_kc, what another one gets."""
    j, size, n_features = int(rng.random() * walk.n_features), chart.kernel.size, walk.n_features
    least = max(HEAVY * exp(-LIGHTER * rng.random()), walk.law[CUT])
    most = int(min(float(size) ** (n_features - 1), MOST_ATOMS))  # they can match anything in the other questions
    among = n_features > 1 and rng.random() < AMONG
    n = choose_above(rng, walk, least, most + 1 if among else most, walk.marks)
    n_giving = n - 1 if among else n
    if n_giving < 1:
        return
    draw_shares(rng, walk, j, size, n, among)
    fill_given(walk, j, size, n, among)
    longest, moved = find_parts(walk, j, n_giving), False
    walk.move[n_giving] = -1.0
    read_masses(walk, j, size, n)
    for _ in range(N_STEPS):
        step = longest * exp(-SMALLER * rng.random()) * rng.standard_normal()
        moved = step_along(rng, chart, walk, n, least, step, 0.0 if among else step) or moved
    if moved:
        write_masses(walk, j, size, n)
        for i in range(n):
            chart.fill(channel, walk, int(walk.marks[i]))


@helper
def draw_shares(rng, walk, j, size, n, among):
    """What is traded: what those outside answer; among atoms one category, or one for another, and who gets it."""
    for c in range(size):
        walk.gradient[c] = 0.0 if among else walk.shares[j * size + c]
    if among:
        i, last = int(rng.random() * n), walk.marks[n - 1]
        walk.marks[n - 1] = walk.marks[i]
        walk.marks[i] = last
        c, e = int(rng.random() * size), int(rng.random() * (size + 1))
        walk.gradient[c] = 1.0
        if e < size and e != c:
            walk.gradient[e] = -1.0


@helper
def read_masses(walk, j, size, n):
    """M_kc of the atoms that trade."""
    for i in range(n):
        a = at(walk, int(walk.marks[i]))
        highest, total = log_gammas(walk, a + 1 + j * size, size)
        for c in range(size):
            walk.metric[i, c] = walk.atoms[a] * (exp(walk.atoms[a + 1 + j * size + c] - highest) / total)


@helper
def write_masses(walk, j, size, n):
    """The same back into the atoms, whose mass is theirs by now; the sum of the γ stays."""
    for i in range(n):
        a = at(walk, int(walk.marks[i]))
        highest, total = log_gammas(walk, a + 1 + j * size, size)
        for c in range(size):
            walk.atoms[a + 1 + j * size + c] = highest + log(total) + log(walk.metric[i, c] / walk.atoms[a])


@helper
def fill_given(walk, j, size, n, among):
    """Fill ``given``, and ``score`` with the same for all questions."""
    to, n_nodes = walk.given, walk.n_nodes
    if not among:
        for m in range(n_nodes):
            to[m] = walk.copies[j * n_nodes + m] / walk.roots[m]
            walk.score[m] = walk.outside[m] / walk.roots[m]
        return
    for m in range(n_nodes):
        to[m] = 0.0
    for c in range(size):
        if walk.gradient[c] != 0.0:
            for m in range(n_nodes):
                to[m] += walk.gradient[c] * walk.chances[(j * size + c) * n_nodes + m]
    factors = row(walk, int(walk.marks[n - 1])) + walk.width * n_nodes
    for m in range(n_nodes):
        to[m] /= walk.roots[m]
        walk.score[m] = to[m]
    for e in range(walk.n_features):
        if e != j:
            for m in range(n_nodes):
                walk.score[m] *= walk.tables[factors + e * n_nodes + m]


@helper
def step_along(rng, chart, walk, n, least, step, more):
    """Propose a step after which there is so much more mass outside; return whether it was accepted.

    In (M, Σγ) an atom's law has the density J^(shape - K) Π γ_c^(alpha - 1), and J₀ has one factor less than in log J₀.
    """
    law, atoms, masses, part, marks, what = walk.law, walk.atoms, walk.metric, walk.move, walk.marks, walk.gradient
    size, alpha, old, total = chart.kernel.size, chart.kernel.concentration, law[OUTSIDE], law[TOTAL] - more
    new = old + more
    if not 0.0 < new < LARGEST_OUTSIDE:
        return False
    ratio, each = 0.0, 0.0
    for c in range(size):
        each += what[c]
    for i in range(n):
        t = step * part[i]
        mass = atoms[at(walk, int(marks[i]))] - t * each
        if not least <= mass <= LARGEST:
            return False
        for c in range(size):
            one = masses[i, c]
            if not min(one, one - t * what[c]) > TINY:
                return False
    for i in range(n):
        t, mass = step * part[i], atoms[at(walk, int(marks[i]))]
        ratio += walk.masses.log_ratio(mass - t * each, mass) + chart.log_volume((mass - t * each) / mass)
        if alpha != 1.0:
            for c in range(size):
                one = masses[i, c]
                ratio += (alpha - 1.0) * log((one - t * what[c]) / one)
    if more != 0.0:
        ratio += log_outside(walk, new, total) - log(new / old)
    for m in range(walk.n_nodes):
        walk.trial[m] = walk.mix[m] + step * walk.score[m]
    if not take_outside(rng, walk, new, total, ratio):
        return False
    for i in range(n):
        atoms[at(walk, int(marks[i]))] -= step * part[i] * each
        for c in range(size):
            masses[i, c] -= step * part[i] * what[c]
    return True


@apart_sums
def find_parts(walk, j, n_giving):
    """Write how much of a mass outside each chosen atom gives up into ``move``, and what is left over into ``score``.

    Least squares of s at the nodes, in the metric of the answers that were given; the parts add up to 1.  It depends on
    the other questions' shares alone, which stay, so that the way back is the same.  Return about how far it may go.
    """
    n, score, part, metric, roots = walk.n_nodes, walk.score, walk.move, walk.metric, walk.roots
    q, trace, left, both = n_giving - 1, 0.0, 0.0, walk.law[TOTAL] + walk.law[OUTSIDE]
    for i in range(n_giving):  # in rows: what is left, and what each atom gives
        to, factors = (1 + i) * n, row(walk, int(walk.marks[i])) + walk.width * n
        for m in range(n):
            score[to + m] = walk.given[m]
        for e in range(walk.n_features):
            if e != j:
                for m in range(n):
                    score[to + m] *= walk.tables[factors + e * n + m]
        if i > 0:  # in place of the first one's
            for m in range(n):
                score[to + m] -= score[n + m]
    for m in range(n):
        score[m] -= score[n + m]
    for i in range(q):
        for e in range(i + 1):
            value, one, other = 0.0, (2 + i) * n, (2 + e) * n
            for m in range(n):
                value += score[one + m] * score[other + m]
            metric[i, e] = value
        trace += metric[i, i]
        value = 0.0
        for m in range(n):
            value += score[(2 + i) * n + m] * score[m]
        part[i] = value
    for i in range(q):
        metric[i, i] += RIDGE * trace + 1e-300
    if q > 0 and try_factor(metric, q) < -1e200:
        return 0.0
    solve_lower(metric, part, q)
    solve_upper(metric, part, q)
    first = 1.0
    for i in range(q - 1, -1, -1):
        part[1 + i] = part[i]
        first -= part[i]
        for m in range(n):
            score[m] -= part[1 + i] * score[(2 + i) * n + m]
    part[0] = first
    for m in range(n):
        left += score[m] * score[m]
        score[m] *= roots[m]
    return LONGEST / sqrt(1.0 + (LONGEST * walk.law[N_RECORDS] / both) ** 2 * left)
