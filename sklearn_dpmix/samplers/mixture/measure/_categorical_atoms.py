"""Categorical atoms under a channel of answers: logarithms of gamma variables, whose shares are the probabilities."""

from math import exp, lgamma, log

import numpy as np

from ...._base.compiled import apart, compiled, helper
from ...._base.restore import require_range
from ._chart import Chart
from ._gamma_shares import log_gammas
from ._outside import move_outside
from ._trades import N_TRADES, trade
from ._walk_atoms import CUT, N_ATOMS, OUTSIDE, TOTAL, at, copy_atom, draw_level, log_one_more, remove, row
from ._walk_likelihood import keep_trial, try_three

CURVATURE = 0.5


class CategoricalChart(Chart):
    """Coordinates η = log γ of each feature and category, γ ~ Gamma(alpha, 1) independently: π = γ/Σγ is Dirichlet."""

    is_finite = True
    worth = 4.0

    def n_coordinates(self):
        return self.n_features * int(self.kernel.size)

    def n_params(self):
        return self.n_coordinates()

    def start(self, places, rng):
        """The prior's draws given one record at each place, whose answer, if there is such, is its category."""
        size, n_atoms = int(self.kernel.size), places.shape[1]
        shape = np.full((n_atoms, self.n_features, size), self.kernel.concentration)
        shape[np.arange(n_atoms)[:, None], np.arange(self.n_features), places.T.astype(int).clip(0, size - 1)] += 1.0
        u = 1.0 - rng.random(shape.shape)  # a gamma variable of one shape more keeps small ones from underflow
        return (np.log(rng.standard_gamma(shape + 1.0)) + np.log(u) / shape).reshape(n_atoms, -1)

    def densities(self, theta, points):
        values = np.ones((len(theta), points.shape[1]))
        size = int(self.kernel.size)
        for j, x in enumerate(points.astype(int).clip(0, size - 1)):  # there may be more answers than categories
            values *= theta[:, j * size + x]
        return values

    def moments(self, theta, j):
        size = int(self.kernel.size)
        shares, values = theta[:, j * size : (j + 1) * size], np.arange(size)
        mean = shares @ values
        return mean, np.sqrt(np.maximum(shares @ values**2 - mean**2, 0.0))

    def check_places(self, **places):
        require_range(-1e100, 500.0, **places)

    @compiled
    def log_base(self, walk, k):
        value, a = 0.0, at(walk, k) + 1
        for c in range(walk.width - 1):
            eta = walk.atoms[a + c]
            value += self.kernel.concentration * eta - exp(eta)
        return value - (walk.width - 1) * self.log_gamma

    def fields(self):
        return super().fields() | {"log_gamma": lgamma(self.kernel.concentration)}

    @compiled
    def draw_base(self, rng, walk, k):
        shape, a = self.kernel.concentration, at(walk, k)
        for c in range(1, walk.width):
            walk.atoms[a + c] = log(rng.standard_gamma(shape + 1.0)) + log(1.0 - rng.random()) / shape

    @compiled
    def add_prior(self, walk, a, i):
        shape = self.kernel.concentration
        for e in range(1, walk.width):
            gamma = exp(walk.atoms[a + e])
            walk.gradient[i + e] += shape - gamma
            walk.metric[i + e, i + e] += CURVATURE * (shape + gamma)

    @compiled
    def is_proper(self, walk, a):
        for e in range(1, walk.width):
            if not -1e100 < walk.atoms[a + e] < 500.0:
                return False
        return True

    @compiled
    def near(self, walk, e):
        return 1.0

    @compiled
    def fill(self, channel, walk, k):
        fill_answers(self.kernel, walk, k)

    @compiled
    def put(self, walk, a, theta, row):
        size = self.kernel.size
        for j in range(self.n_features):
            highest, total = log_gammas(walk, a + 1 + j * size, size)
            for c in range(j * size, (j + 1) * size):
                theta[row, c] = exp(walk.atoms[a + 1 + c] - highest) / total

    @compiled
    def take(self, theta, row, walk):
        for c in range(walk.width - 1):
            walk.atoms[1 + c] = log(max(theta[row, c], 1e-300))

    @compiled
    def split(self, rng, channel, walk):
        if rng.random() < 0.5:
            part_with_rest(rng, channel, self, walk)
        else:
            join_with_rest(rng, channel, self, walk)

    @compiled
    def log_volume(self, ratio):
        """Log ratio of J^(-K alpha): what the law of an atom's M_c = J π_c of a question has beside M_c^(alpha - 1)."""
        return -self.kernel.size * self.kernel.concentration * log(ratio)

    @compiled
    def slide(self, rng, channel, walk):
        if walk.law[OUTSIDE] > 0.0:
            move_outside(rng, walk)
            for _ in range(N_TRADES):
                trade(rng, channel, self, walk)


@apart
def fill_answers(kernel, walk, k):
    """g = Π_j Σ_c π_jc q(z_j | c) of atom k, with ∂g/∂η_jc = π_jc (q(z_j | c) - g_j) Π_i≠j g_i."""
    tables, chances, n, d, size = walk.tables, walk.chances, walk.n_nodes, walk.n_features, kernel.size
    a, start = at(walk, k) + 1, row(walk, k)
    factors = start if d == 1 else start + walk.width * n
    for j in range(d):
        highest, total = log_gammas(walk, a + j * size, size)
        for m in range(n):
            tables[factors + j * n + m] = 0.0
        for c in range(size):
            share, slopes = exp(walk.atoms[a + j * size + c] - highest) / total, start + (1 + j * size + c) * n
            for m in range(n):
                tables[slopes + m] = share * chances[(j * size + c) * n + m]
                tables[factors + j * n + m] += tables[slopes + m]
        for c in range(size):
            share, slopes = exp(walk.atoms[a + j * size + c] - highest) / total, start + (1 + j * size + c) * n
            for m in range(n):
                tables[slopes + m] -= share * tables[factors + j * n + m]
    if d == 1:
        return
    for m in range(n):
        g = 1.0
        for j in range(d):
            g *= tables[factors + j * n + m]
        tables[start + m] = g
        for j in range(d):
            others = 1.0
            for i in range(d):
                if i != j:
                    others *= tables[factors + i * n + m]
            for c in range(size):
                tables[start + (1 + j * size + c) * n + m] *= others


# --- a part goes anywhere, and the rest makes up for it: the shares of each feature stay as they are -----------------


@helper
def mix_shares(walk, first, second, new, mass, other, size):
    """Write as atom ``new`` the shares of what a mass of atom ``first`` and one of ``second``, or less than none, make.

    The sum of the γ is that of the first one.  Return whether all shares are positive.
    """
    atoms, a, b, c = walk.atoms, at(walk, first) + 1, at(walk, second) + 1, at(walk, new) + 1
    for e in range(0, walk.n_features * size, size):
        highest, total = log_gammas(walk, a + e, size)
        highest_other, total_other = log_gammas(walk, b + e, size)
        for i in range(e, e + size):
            share, of_other = exp(atoms[a + i] - highest) / total, exp(atoms[b + i] - highest_other) / total_other
            both = (mass * share + other * of_other) / (mass + other)
            if not both > 0.0:
                return False
            atoms[c + i] = highest + log(total) + log(both)
    return True


@helper
def log_rest(chart, walk, whole, rest, both, mass):
    """Log ratio of prior and proposal of parting, from atom ``whole`` of mass ``both``, what leaves ``rest``.

    The part's mass J is log-uniform and its place from G0, so that both cancel.  What is left has
    π' = (J π - J₁ π₁)/J', with ∂π'/∂π = J/J' in all categories of a feature but one.
    """
    size, a, b = chart.kernel.size, at(walk, whole) + 1, at(walk, rest) + 1
    value, log_ratio = 0.0, log(both / mass)
    for j in range(walk.n_features):
        first = j * size
        highest, total = log_gammas(walk, a + first, size)
        highest_rest, total_rest = log_gammas(walk, b + first, size)
        shift = highest_rest - highest + log(total_rest / total)
        for c in range(first, first + size):
            value += (chart.kernel.concentration - 1.0) * (walk.atoms[b + c] - walk.atoms[a + c] - shift)
        value += (size - 1.0) * log_ratio
    return value + log_ratio


@apart
def part_with_rest(rng, channel, chart, walk):
    """Part from an atom some mass that goes anywhere, with the rest making up for it."""
    n, law, atoms, trial = int(walk.law[N_ATOMS]), walk.law, walk.atoms, 2 * walk.capacity
    k, cut, size = int(rng.random() * n), law[CUT], chart.kernel.size
    both = atoms[at(walk, k)]
    if n >= walk.capacity - 1 or both <= 2.0 * cut:
        return
    log_range = log((both - cut) / cut)
    mass = cut * exp(rng.random() * log_range)
    rest = both - mass
    if rest < cut:
        return
    chart.draw_base(rng, walk, n)
    if not mix_shares(walk, k, n, trial, both, -mass, size):
        return
    atoms[at(walk, trial)] = rest
    chart.fill(channel, walk, n)
    chart.fill(channel, walk, trial)
    ratio = log_rest(chart, walk, k, trial, both, rest) + log(log_range / (n + 1.0))
    ratio += log_one_more(walk, n) + walk.masses.log_ratio(rest * mass, both)
    level = draw_level(rng, walk, ratio)
    value = try_three(walk, -both, k, rest, trial, mass, n, level)
    if value > level:
        copy_atom(walk, k, trial)
        atoms[at(walk, n)] = mass
        law[N_ATOMS] = n + 1.0
        keep_trial(walk, law[TOTAL], value)


@apart
def join_with_rest(rng, channel, chart, walk):
    """The way back: an atom and a part of it, in which all shares are the two atoms' mean."""
    n, law, atoms, trial = int(walk.law[N_ATOMS]), walk.law, walk.atoms, 2 * walk.capacity
    if n < 2:
        return
    k, h, cut, size = int(rng.random() * n), int(rng.random() * (n - 1)), law[CUT], chart.kernel.size
    h += h >= k
    rest, mass = atoms[at(walk, k)], atoms[at(walk, h)]
    both = rest + mass
    if not mix_shares(walk, k, h, trial, rest, mass, size):
        return
    atoms[at(walk, trial)] = both
    chart.fill(channel, walk, trial)
    ratio = log_rest(chart, walk, trial, k, both, rest) + log(log((both - cut) / cut) / n)
    ratio += log_one_more(walk, n - 1) + walk.masses.log_ratio(rest * mass, both)
    level = draw_level(rng, walk, -ratio)
    value = try_three(walk, -rest, k, -mass, h, both, trial, level)
    if value > level:
        copy_atom(walk, k, trial)
        keep_trial(walk, law[TOTAL], value)
        remove(walk, h)
