"""A walk's kept draws: the mixing measure, with the number of its atoms that records came from."""

from math import log

from ...._base.compiled import apart, apart_sums, entry, helper
from ._walk_atoms import OUTSIDE, TOTAL, at, draw_poisson, n_all, number, row

SURELY = 30.0  # expected records from which on an atom is taken to have one: it has none with probability e^-30


@helper
def keep_draw(rng, chart, walk, are_records, weights, theta, start):
    """Write P into rows from ``start`` on; return (number of atoms with records, number of atoms).

    Those with records come first, largest first; then the others.  The last one has what the atoms left out weigh
    together.
    """
    n, marks = n_all(walk), walk.marks
    rest = walk.masses.left_out(walk)
    total = walk.law[TOTAL] + rest
    n_occupied = draw_occupied(rng, walk, are_records)
    occupied, free = start, start + n_occupied
    for k in range(n):  # numbers of atoms are in the first column until these are in order
        place = occupied if marks[k] == 1.0 else free
        occupied, free = occupied + (marks[k] == 1.0), free + (marks[k] != 1.0)
        weights[place], theta[place, 0] = mass_of(walk, k), k
    sort_down(weights, theta, start, occupied)
    sort_down(weights, theta, occupied, free)
    for place in range(start, free):
        weights[place] = weights[place] / total
        chart.put(walk, at(walk, number(walk, int(theta[place, 0]))), theta, place)
    weights[start + n] = rest / total
    chart.kernel.draw_prior(rng, theta, start + n)
    return n_occupied, n + 1


@helper
def sort_down(weights, theta, first, end):
    """Put weights in order, the largest first, and the numbers in the first column with them (Shell 1959)."""
    gap = 1
    while 3 * gap < end - first:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, end):
            weight, number_there, j = weights[i], theta[i, 0], i
            while j >= first + gap and weights[j - gap] < weight:
                weights[j], theta[j, 0] = weights[j - gap], theta[j - gap, 0]
                j -= gap
            weights[j], theta[j, 0] = weight, number_there
        gap //= 3


@helper
def mass_of(walk, k):
    return walk.atoms[at(walk, number(walk, k))]


@helper
def g_of(walk, k, m):
    return walk.tables[row(walk, number(walk, k)) + m]


@apart_sums
def n_expected(walk, k):
    """Expected number of records of an atom."""
    weights, mix, tables, g, value = walk.weights, walk.mix, walk.tables, row(walk, number(walk, k)), 0.0
    for m in range(walk.n_seen):
        value += weights[m] * tables[g + m] / mix[m]
    return mass_of(walk, k) * value


@apart
def draw_occupied(rng, walk, are_records):
    """Mark with 1 the atoms that records came from, else 0; return how many.

    Given P records are independent, from atom k with probability r_k(z) = J_k g_k(z)/Σ J g.  Where nodes are records,
    each draws its atom.  Else large atoms have records for sure.  A record is of a small one with probability
    r(z) = Σ_small r_k(z), which is that of at least one point of a Poisson process with rate -log(1 - r(z)).  Its
    points fall on nodes; one at a node of ω records meets a record already hit with the chance of ω even ones, and what
    is computed so is a polynomial in such sums over records as nodes give exactly.
    """
    n_nodes, n, weights, marks = walk.n_seen, n_all(walk), walk.weights, walk.marks
    for k in range(n):
        marks[k] = 0.0
    if are_records:
        for m in range(n_nodes):
            inside = walk.mix[m] - walk.law[OUTSIDE] * walk.outside[m]
            for _ in range(int(weights[m])):
                if walk.law[OUTSIDE] == 0.0 or rng.random() * walk.mix[m] < inside:
                    marks[draw_atom(rng, walk, m, inside, n, False)] = 1.0
    else:
        small, hits, rates = walk.trial, walk.score, walk.n_nodes  # rates of nodes from there on in ``score``
        for m in range(n_nodes):
            small[m] = hits[m] = 0.0
        largest, most = 0, -1.0
        for k in range(n):
            expected = n_expected(walk, k)
            if expected > most:
                largest, most = k, expected
            if expected >= SURELY:
                marks[k] = 1.0
        marks[largest] = 1.0
        for k in range(n):
            if marks[k] == 0.0:
                mass = mass_of(walk, k)
                for m in range(n_nodes):
                    small[m] += mass * g_of(walk, k, m)
        rate = 0.0
        for m in range(n_nodes):
            walk.score[rates + m] = weights[m] * log_odds(small[m], walk.mix[m])
            rate += walk.score[rates + m]
        for _ in range(draw_poisson(rng, rate)):
            u, m = rng.random() * rate, -1
            for h in range(n_nodes):
                if small[h] > 0.0:
                    m = h
                    u -= walk.score[rates + h]
                    if u < 0.0:
                        break
            if rng.random() * weights[m] >= hits[m]:
                hits[m] += 1.0
                marks[draw_atom(rng, walk, m, small[m], n, True)] = 2.0
    n_occupied = 0
    for k in range(n):
        if marks[k] > 0.0:
            marks[k] = 1.0
            n_occupied += 1
    if n_occupied == 0:  # all records are outside of the mixture: the largest atom counts as if it had one
        largest = 0
        for k in range(1, n):
            if mass_of(walk, k) > mass_of(walk, largest):
                largest = k
        marks[largest] = 1.0
        n_occupied = 1
    return n_occupied


@helper
def log_odds(small, mix):
    """-log(1 - r), r the share of the small atoms."""
    return -log(max(1.0 - small / mix, 1e-16))


@apart
def draw_atom(rng, walk, m, total, n, among_small):
    """An atom at node m, by J g: among all, or among those that are not large."""
    u, chosen = rng.random() * total, 0
    for k in range(n):
        if not among_small or walk.marks[k] != 1.0:
            value = mass_of(walk, k) * g_of(walk, k, m)
            if value > 0.0:
                chosen = k
                u -= value
                if u < 0.0:
                    break
    return chosen


@apart
def draw_atoms(rng, walk, chosen):
    """Draw an atom at each node, by J g among all."""
    left, n = walk.score, n_all(walk)
    for m in range(walk.n_nodes):
        left[m], chosen[m] = rng.random() * walk.mix[m], 0.0
    for k in range(n):
        mass, g = mass_of(walk, k), row(walk, number(walk, k))
        for m in range(walk.n_nodes):
            value = mass * walk.tables[g + m]
            is_next = left[m] >= 0.0 and value > 0.0
            chosen[m] = k if is_next else chosen[m]
            left[m] = left[m] - value if is_next else left[m]


@entry
def fill_densities(channel, chart, walk, theta, densities):
    """Densities of components at nodes, (components, nodes)."""
    for k in range(len(theta)):
        chart.take(theta, k, walk)
        chart.fill(channel, walk, 0)
        for m in range(densities.shape[1]):
            densities[k, m] = walk.tables[m]
