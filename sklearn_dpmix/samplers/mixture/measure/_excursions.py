"""Excursions: many moves over a few nodes that stand for all, then one look at all.

Moves over a few nodes with weights keep the posterior under the likelihood L' of these.  A number of them, each chosen
at random and reversible, is a reversible step as a whole.  It is a proposal for the posterior under all nodes,
accepted with probability min(1, L(y) L'(x) / L(x) L'(y)): exact however far L' is from L (the surrogate transition
method: Liu 2001, §9.4.3; Christen & Fox 2005).  Dust and concentration move on excursions, too, before the other moves
as often as after them: in a fixed order the whole would not be reversible.
"""

from ...._base.compiled import apart, entry, helper
from ._walk_atoms import (
    CONCENTRATION,
    IS_FILLED,
    LOG_LIKELIHOOD,
    N_ATOMS,
    N_DUST,
    N_SWEEPS,
    TOTAL,
    accepts,
    at,
    copy_numbers,
    n_all,
    number,
)
from ._walk_likelihood import add_to, keep_trial, log_likelihood, refresh_changed


def set_out(walk, few):
    """Begin an excursion where the walk is."""
    few.atoms[:] = walk.atoms
    for i in (N_ATOMS, N_DUST, CONCENTRATION):
        few.law[i] = walk.law[i]
    few.law[N_SWEEPS] = 0.0


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def come_home(channel, chart, walk, few, rng):
    """Take what an excursion came to, or go back; whether it is taken.  Both walks' tables are filled."""
    walk.law[IS_FILLED] = 1.0
    refresh_changed(walk)
    refresh_changed(few)
    if n_all(few) > walk.capacity:  # there is no room to look at all of them
        return False
    likelier = few.law[LOG_LIKELIHOOD] - log_likelihood_before(channel, chart, walk, few)
    go_there(channel, chart, walk, few)
    value = log_likelihood(walk, walk.trial, few.law[TOTAL])
    if not accepts(rng, value - walk.law[LOG_LIKELIHOOD] - likelier):
        go_back(channel, chart, walk, few)
        return False
    walk.law[N_ATOMS], walk.law[N_DUST] = few.law[N_ATOMS], few.law[N_DUST]
    walk.law[CONCENTRATION] = few.law[CONCENTRATION]
    keep_trial(walk, few.law[TOTAL], value)
    return True


@apart
def log_likelihood_before(channel, chart, walk, few):
    """The log likelihood of the few nodes where the excursion began."""
    spare = 2 * few.capacity
    for m in range(few.n_nodes):
        few.trial[m] = 0.0
    for k in range(n_all(walk)):
        a, b = at(walk, number(walk, k)), at(few, spare)
        for e in range(few.width):
            few.atoms[b + e] = walk.atoms[a + e]
        chart.fill(channel, few, spare)
        add_to(few, few.trial, few.atoms[b], spare)
    return log_likelihood(few, few.trial, walk.law[TOTAL])


@apart
def go_there(channel, chart, walk, few):
    """Put atoms where the excursion's are, and their mixture into ``trial``; what they were is kept for the way back.

    In place, as most excursions are taken: to copy the tables of all atoms takes as long as to fill them.
    """
    kept = 2 * walk.capacity
    for m in range(walk.n_nodes):
        walk.trial[m] = 0.0
    for k in range(n_all(few)):
        h = number(few, k)
        walk.marks[h] = 0.0 if is_there(walk, few, h) else 1.0
        copy_numbers(walk, kept + k, h)
        for e in range(walk.width):
            walk.atoms[at(walk, h) + e] = few.atoms[at(few, h) + e]
        if walk.marks[h] != 0.0:
            chart.fill(channel, walk, h)
        add_to(walk, walk.trial, walk.atoms[at(walk, h)], h)


@apart
def go_back(channel, chart, walk, few):
    """Put atoms back where they were."""
    kept = 2 * walk.capacity
    for k in range(n_all(few)):
        h = number(few, k)
        copy_numbers(walk, h, kept + k)
        if walk.marks[h] != 0.0 and is_used(walk, h):
            chart.fill(channel, walk, h)


@helper
def is_used(walk, h):
    """Whether the walk has an atom there, above the cut or of the dust."""
    is_dust = h >= walk.capacity
    return h - walk.capacity < walk.law[N_DUST] if is_dust else h < walk.law[N_ATOMS]


@helper
def is_there(walk, few, h):
    """Whether the walk has the excursion's atom h in the same row, but for its mass."""
    if not is_used(walk, h):
        return False
    a = at(walk, h)
    for e in range(1, walk.width):
        if walk.atoms[a + e] != few.atoms[a + e]:
            return False
    return True
