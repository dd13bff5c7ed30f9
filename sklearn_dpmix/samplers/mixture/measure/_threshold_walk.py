"""Walks where only releases above a threshold appeared: some nodes are of the records whose releases did not.

There the likelihood is divided by the probability of being released.  That and a density may both be next to nothing,
and must have all their digits.
"""

from math import exp, log

from ...._base.compiled import apart, compiled, helper
from ._parts import draw_near
from ._walk_atoms import (
    LARGEST,
    LOG_LIKELIHOOD,
    N_ATOMS,
    N_RECORDS,
    OUTSIDE,
    TOTAL,
    accepts,
    at,
    copy_atom,
    draw_above,
    n_all,
    number,
    random_mass,
    row,
)
from ._walk_likelihood import density_anew, keep_trial, log_term, refresh_changed
from ._walk_state import Walk

FAR, NEAR_ENOUGH = 1e-5, 0.1  # ratios of densities below which digits are lost: for moves, for sums that are made anew
P_WEIGH, N_STEPS = 0.15, 6  # of other moves: one atom is weighed against the others after it; steps of that


class ThresholdWalk(Walk):
    """A walk with nodes, from ``n_seen`` on, of records whose releases did not appear."""

    @compiled
    def before_move(self, rng, channel, chart):
        """Digits that a move lost are not to be missed by the next."""
        refresh_changed(self)
        if rng.random() < P_WEIGH:
            weigh(rng, channel, chart, self)

    @compiled
    def fill_unseen(self, channel, mean, log_variance, g, slopes):
        channel.fill_unseen(self.nodes, self.n_seen, self.n_nodes, mean, log_variance, self.tables, g, slopes)

    @compiled
    def judged(self, value, c, k, c2, k2, c3, k3, total, level):
        return add_anew(self, c, k, c2, k2, c3, k3, total)

    @compiled
    def is_lost(self, density):
        """Whether a density differs so much from the present one that it has lost digits, or does on the way back.

        A move that is turned down for it is so in both directions.
        """
        for m in range(self.n_nodes):
            if not FAR * self.mix[m] <= density[m] or not FAR * density[m] <= self.mix[m]:
                return True
        return False


@apart
def add_anew(walk, c, k, c2, k2, c3, k3, total):
    """The log likelihood with three atoms added, from sums of positive terms where digits were lost."""
    weights, value = walk.weights, 0.0
    for m in range(walk.n_nodes):
        if walk.trial[m] < NEAR_ENOUGH * walk.mix[m]:
            walk.trial[m] = density_anew(walk, m, c, k, c2, k2, c3, k3)
        value += log_term(weights[m], walk.trial[m])
    return value - walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])


# --- how much there is below the threshold ---------------------------------------------------------------------------


@apart
def weigh(rng, channel, chart, walk):
    """Some steps of one atom's weight against the others above a random mass, whose ratios stay; of its place, too.

    The releases that appeared say little on how much there is far below the threshold, but what they say of the ratios
    of the others may be a lot: any move of few masses must be short.  With Σ J and those ratios kept, the prior in the
    log odds of the atom is even, but for J^shape.  In a step of its place too, its part of the releases that appear is
    kept: of records that are far below, it is all that these say.
    """
    law, atoms, score, n, least = walk.law, walk.atoms, walk.score, walk.n_nodes, random_mass(rng, walk)
    k, trial = draw_above(rng, walk, least), 2 * walk.capacity
    if k < 0:
        return
    for m in range(n):
        score[m], score[n + m] = law[OUTSIDE] * walk.outside[m], 0.0
    n_others, others, lightest, heaviest = 0.0, 0.0, 1e300, 0.0
    for e in range(n_all(walk)):  # sums of what stays, and of what is scaled
        h = number(walk, e)
        mass, g, to = atoms[at(walk, h)], row(walk, h), 0
        if h == k:
            continue
        if e < law[N_ATOMS] and mass > least:
            n_others, others, to = n_others + 1.0, others + mass, n
            lightest, heaviest = min(lightest, mass), max(heaviest, mass)
        for m in range(n):
            score[to + m] += mass * walk.tables[g + m]
    if n_others == 0.0:
        return
    a, scale = at(walk, k), 1.0
    for _ in range(N_STEPS):
        odds, ratio, source = log(atoms[a] / (scale * others)), 0.0, k
        both = atoms[a] + scale * others
        if rng.random() < 0.5:
            odds += 2.0 * exp(-5.0 * rng.random()) * rng.standard_normal()
        else:
            draw_near(rng, chart, walk, k, trial, exp(-5.0 * rng.random()))
            if not chart.is_proper(walk, at(walk, trial)):
                continue
            source = trial
            chart.fill(channel, walk, trial)
            odds += log_appears(walk, k) - log_appears(walk, trial)
            ratio += chart.log_base(walk, trial) - chart.log_base(walk, k)
        new = both / (1.0 + exp(min(-odds, 500.0)))
        change = (both - new) / others / scale
        if not (least < new <= LARGEST and least < change * scale * lightest and change * scale * heaviest <= LARGEST):
            continue
        ratio += walk.masses.log_ratio(new, atoms[a]) + n_others * walk.masses.log_ratio(change, 1.0)
        value, g = -law[N_RECORDS] * log(law[TOTAL] + law[OUTSIDE]), row(walk, source)
        for m in range(n):
            walk.trial[m] = score[m] + change * scale * score[n + m] + new * walk.tables[g + m]
            value += log_term(walk.weights[m], walk.trial[m])
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD]):
            if source == trial:
                copy_atom(walk, k, trial)
            atoms[a] = new
            scale *= change
            keep_trial(walk, law[TOTAL], value)
    for h in range(int(law[N_ATOMS])):
        if h != k and atoms[at(walk, h)] > least:
            atoms[at(walk, h)] *= scale


@helper
def log_appears(walk, k):
    """Log share of an atom's records whose releases appear, over those of all noise scales; 0 where n is known."""
    value = 0.0
    for m in range(walk.n_seen, walk.n_nodes):
        value -= walk.weights[m] * walk.tables[row(walk, k) + m]
    return log(value) if value > 0.0 else 0.0
