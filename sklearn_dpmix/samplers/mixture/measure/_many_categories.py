"""Categorical atoms of one question with many categories, whose shares move along one direction at a time.

A step of all shares at once costs categories² times answers, and must be short where many shares are near zero.  Along
one direction the log likelihood is concave, and nearly a parabola: a step of Newton's is nearly a draw.  Directions are
the main axes of what the answers say (``Ways``), which are right where many records know all shares well, and pairs of
categories, which are right where shares are small and end at zero.  So the shares of two atoms move in the masses
M_c = J π_c, their own and against each other's; of the latter moves the likelihood knows nothing.
"""

from math import exp, log, sqrt

from ...._base.compiled import apart, apart_sums, compiled, helper
from ...._base.numeric import draw_truncated_normal, log_ndtr_interval
from ...._base.vector import log_positive
from ._categorical_atoms import CategoricalChart
from ._gamma_shares import log_gammas
from ._steps import FIRST, N_MOVING
from ._walk_atoms import CUT, IS_FRESH, LARGEST, LOG_LIKELIHOOD, TOTAL, accepts, at, draw_above, random_mass, row
from ._walk_likelihood import LEAST_DENSITY, log_likelihood

MANY = 4  # categories, from which on these atoms are taken; of fewer, steps of all shares do as well
SHORTER = 4  # as many times fewer moves of two atoms' shares as categories
N_POURS = 3  # for each of them: they cost least
TINY = 1e-250  # masses that no move comes to or goes from: a sum would lose their digits
WIDEST = 100.0  # standard deviation of a step, in ranges of what is possible
ALONG, BETWEEN = 0.35, 0.65  # shares of moves: along an axis, between two categories


class ManyCategoriesChart(CategoricalChart):
    """The same coordinates; tables have densities alone, and no derivatives."""

    goes_ways = True

    @compiled
    def choose_moving(self, rng, walk):
        walk.fence[FIRST], walk.fence[N_MOVING] = 1.0, 0.0

    @compiled
    def add_prior(self, walk, a, i):
        """Of coordinates that move: none."""

    @compiled
    def fill(self, channel, walk, k):
        fill_from_answers(walk, k)

    @compiled
    def fill_moved(self, channel, walk, k, source):
        to, of = row(walk, k), row(walk, source)
        for m in range(walk.n_nodes):
            walk.tables[to + m] = walk.tables[of + m]

    @compiled
    def step(self, rng, channel, walk):
        move_shares(rng, channel, self, walk)


@apart_sums
def fill_from_answers(walk, k):
    """g = Σ_c π_c q(z | c) of atom k."""
    tables, chances, n, size = walk.tables, walk.chances, walk.n_nodes, walk.width - 1
    a, g = at(walk, k) + 1, row(walk, k)
    highest, total = log_gammas(walk, a, size)
    for m in range(n):
        tables[g + m] = 0.0
    for c in range(size):
        share, q = exp(walk.atoms[a + c] - highest) / total, c * n
        for m in range(n):
            tables[g + m] += share * chances[q + m]


@apart
def move_shares(rng, channel, chart, walk):
    """A few moves of one or two atoms above a random mass, which they stay above."""
    size, trial, least = chart.kernel.size, 2 * walk.capacity, random_mass(rng, walk)
    k, other = draw_above(rng, walk, least), draw_above(rng, walk, least)
    if k < 0:
        return
    a, b = at(walk, trial), at(walk, trial + 1)
    is_whole = take_masses(walk, k, a, size)
    if other != k:
        is_whole = take_masses(walk, other, b, size) and is_whole
    for _ in range(size // SHORTER):
        u, c, e = rng.random(), int(rng.random() * size), int(rng.random() * (size - 1))
        e += e >= c
        if other != k:
            swap(rng, chart, walk, a, b, c, e)
            for _ in range(N_POURS * is_whole):
                pour(rng, chart, walk, a, b, least)
        if u < ALONG:
            if is_whole:
                go_along(rng, chart, walk, a, int(rng.random() * (size - 1)))
        elif u < BETWEEN:
            go_between(rng, chart, walk, a, c, e)
        else:
            change_odds(rng, chart, walk, a, c, e)
    give_back(channel, chart, walk, k, a)
    if other != k:
        give_back(channel, chart, walk, other, b)
    walk.law[LOG_LIKELIHOOD] = log_likelihood(walk, walk.mix, walk.law[TOTAL])


@helper
def take_masses(walk, k, a, size):
    """Write atom k's M_c from ``a`` on, behind their sum; whether none is so small that it may not move."""
    highest, total = log_gammas(walk, at(walk, k) + 1, size)
    mass, is_whole = walk.atoms[at(walk, k)], True
    walk.atoms[a] = mass
    for c in range(1, 1 + size):
        walk.atoms[a + c] = mass * (exp(walk.atoms[at(walk, k) + c] - highest) / total)
        is_whole = is_whole and walk.atoms[a + c] > TINY
    return is_whole


@helper
def give_back(channel, chart, walk, k, a):
    """Make atom k of these masses; the sum of its γ stays."""
    atoms, to, size = walk.atoms, at(walk, k), chart.kernel.size
    highest, total = log_gammas(walk, to + 1, size)
    atoms[to] = atoms[a]
    for c in range(1, 1 + size):
        if atoms[a + c] > TINY:
            atoms[to + c] = highest + log(total * (atoms[a + c] / atoms[a]))
    chart.fill(channel, walk, k)


@helper
def log_power(chart, new, old):
    """Log ratio of M^(alpha - 1)."""
    power = chart.kernel.concentration - 1.0
    return power * log(new / old) if power != 0.0 else 0.0


# --- of one atom, whose mass stays: the direction is in ``score``, by what it adds at the nodes -----------------------


@apart
def go_along(rng, chart, walk, a, way):
    """Along an axis."""
    n, size, low, high = walk.n_nodes, chart.kernel.size, -1e300, 1e300
    first = way * size - a - 1
    for i in range(a + 1, a + 1 + size):
        v = walk.ways[first + i]
        end = (TINY - walk.atoms[i]) / v if v != 0.0 else 0.0
        if v > 0.0:
            low = max(low, end)
        elif v < 0.0:
            high = min(high, end)
    for m in range(n):
        walk.score[m] = walk.seen[way * n + m]
    t, ratio = draw_step(rng, walk, low, high)
    if not low < t < high:
        return
    for i in range(a + 1, a + 1 + size):
        new = walk.atoms[i] + t * walk.ways[first + i]
        if not new > TINY:
            return
        ratio += log_power(chart, new, walk.atoms[i])
    if keeps(rng, walk, ratio):
        for i in range(a + 1, a + 1 + size):
            walk.atoms[i] += t * walk.ways[first + i]


@apart
def go_between(rng, chart, walk, a, c, e):
    """Mass from one category to another."""
    i, j = a + 1 + c, a + 1 + e
    low, high = TINY - walk.atoms[i], walk.atoms[j] - TINY
    if not (low < 0.0 < high):
        return
    point_between(walk, c, e)
    t, ratio = draw_step(rng, walk, low, high)
    if not low < t < high:
        return
    ratio += log_power(chart, walk.atoms[i] + t, walk.atoms[i]) + log_power(chart, walk.atoms[j] - t, walk.atoms[j])
    if keeps(rng, walk, ratio):
        walk.atoms[i] += t
        walk.atoms[j] -= t


@helper
def point_between(walk, c, e):
    """Make the direction that from category e to category c."""
    n = walk.n_nodes
    for m in range(n):
        walk.score[m] = walk.chances[c * n + m] - walk.chances[e * n + m]


@apart_sums
def go_to(walk, t):
    """Write the mixture a step further into ``trial``; return its log likelihood, but for the total, with slopes there.

    Slope and curvature, with its sign changed, are along the direction.
    """
    weights, mix, trial, score = walk.weights, walk.mix, walk.trial, walk.score
    value, slope, curvature = 0.0, 0.0, 0.0
    for m in range(walk.n_nodes):
        density = max(mix[m] + t * score[m], LEAST_DENSITY)
        r = score[m] / density
        trial[m] = density
        value += weights[m] * log_positive(density)
        slope += weights[m] * r
        curvature += weights[m] * r * r
    return value, slope, curvature


@apart
def draw_step(rng, walk, low, high):
    """(A step along the direction by Newton's method, log ratio of likelihood and proposal of taking it).

    The step is normal about where the slope would be zero, between ``low`` and ``high``.
    """
    before, slope, curvature = go_to(walk, 0.0)
    least = (WIDEST * (high - low)) ** -2.0
    mean, sd = newton(slope, curvature, least)
    t = mean + sd * draw_truncated_normal(rng, (low - mean) / sd, (high - mean) / sd)
    if not low < t < high:
        return 1e300, 0.0
    log_forth = log_normal(t, mean, sd, low, high)
    after, slope, curvature = go_to(walk, t)
    mean, sd = newton(slope, curvature, least)
    return t, after - before + log_normal(-t, mean, sd, low - t, high - t) - log_forth


@helper
def newton(slope, curvature, least):
    curvature = max(curvature, least)
    return slope / curvature, 1.0 / sqrt(curvature)


@helper
def log_normal(t, mean, sd, low, high):
    """Log density of a normal variable between two ends, up to a constant."""
    z = (t - mean) / sd
    return -0.5 * z * z - log(sd) - log_ndtr_interval((low - mean) / sd, (high - mean) / sd)


@helper
def keeps(rng, walk, ratio):
    """Whether the step to ``trial`` is accepted; then it is taken."""
    if not accepts(rng, ratio):
        return False
    for m in range(walk.n_nodes):
        walk.mix[m] = walk.trial[m]
    walk.law[IS_FRESH] = 0.0
    return True


@apart
def change_odds(rng, chart, walk, a, c, e):
    """A step of random size of the log of two categories' odds, with their sum kept."""
    i, j, atoms = a + 1 + c, a + 1 + e, walk.atoms
    if not (atoms[i] > TINY and atoms[j] > TINY):
        return
    both = atoms[i] + atoms[j]
    z = log(atoms[i] / atoms[j]) + 3.0 * exp(-6.0 * rng.random()) * rng.standard_normal()
    new, rest = both / (1.0 + exp(-z)), both / (1.0 + exp(z))
    if not (new > TINY and rest > TINY):
        return
    point_between(walk, c, e)
    before, _, _ = go_to(walk, 0.0)
    after, _, _ = go_to(walk, new - atoms[i])
    ratio = after - before + log_of_odds(chart, new, atoms[i]) + log_of_odds(chart, rest, atoms[j])
    if keeps(rng, walk, ratio):
        atoms[i], atoms[j] = new, rest


@helper
def log_of_odds(chart, new, old):
    """Log ratio of M^alpha, the density of the log odds and the sum."""
    return chart.kernel.concentration * log(new / old)


# --- of two atoms, whose masses M_c together stay: the likelihood does, too -------------------------------------------


@helper
def swap(rng, chart, walk, a, b, c, e):
    """Mass of one category for mass of another, by any amount that there is; both atoms keep their J."""
    atoms, i, j, p, q = walk.atoms, a + 1 + c, a + 1 + e, b + 1 + c, b + 1 + e
    low, high = max(-atoms[i], -atoms[q]), min(atoms[j], atoms[p])
    t = low + (high - low) * rng.random()
    first, second, third, fourth = atoms[i] + t, atoms[j] - t, atoms[p] - t, atoms[q] + t
    if not (min(first, second, third, fourth) > TINY and min(atoms[i], atoms[j], atoms[p], atoms[q]) > TINY):
        return
    ratio = log_power(chart, first, atoms[i]) + log_power(chart, second, atoms[j])
    ratio += log_power(chart, third, atoms[p]) + log_power(chart, fourth, atoms[q])
    if accepts(rng, ratio):
        atoms[i], atoms[j], atoms[p], atoms[q] = first, second, third, fourth


@helper
def pour(rng, chart, walk, a, b, least):
    """Some of the second atom into the first one, with the second one's shares, or back: a step of random size."""
    atoms, size = walk.atoms, chart.kernel.size
    rest = atoms[b] * exp(3.0 * exp(-5.0 * rng.random()) * rng.standard_normal())
    t = atoms[b] - rest
    mass = atoms[a] + t
    if not (min(mass, rest) > least and min(mass, rest) >= walk.law[CUT] and max(mass, rest) <= LARGEST):
        return
    ratio = chart.log_volume(mass / atoms[a]) + walk.masses.log_ratio(mass * rest, atoms[a] * atoms[b])
    for c in range(1, 1 + size):
        new = atoms[a + c] + t * (atoms[b + c] / atoms[b])
        if not (new > TINY and atoms[b + c] * (rest / atoms[b]) > TINY):
            return
        ratio += log_power(chart, new, atoms[a + c])
    if accepts(rng, ratio):
        share = rest / atoms[b]
        for c in range(1, 1 + size):
            atoms[a + c] += t * (atoms[b + c] / atoms[b])
            atoms[b + c] *= share
        atoms[a], atoms[b] = mass, rest
