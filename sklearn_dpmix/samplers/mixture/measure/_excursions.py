"""Excursions: many moves over a few nodes that stand for all, then one look at all.

Moves over a few nodes with weights keep the posterior under the likelihood L' of these.  A number of them, each chosen
at random and reversible, is a reversible step as a whole.  It is a proposal for the posterior under all nodes,
accepted with probability min(1, L(y) L'(x) / L(x) L'(y)): exact however far L' is from L (the surrogate transition
method: Liu 2001, §9.4.3; Christen & Fox 2005).  Dust and concentration move on excursions, too.
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
    copy_atom,
    n_all,
    number,
)
from ._walk_likelihood import add_to, keep_trial, log_likelihood, refresh


def set_out(walk, few):
    """Begin an excursion where the walk is."""
    few.atoms[:] = walk.atoms
    for i in (N_ATOMS, N_DUST, CONCENTRATION):
        few.law[i] = walk.law[i]
    few.law[N_SWEEPS] = 0.0


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def come_home(channel, chart, walk, few, rng):
    """Take what an excursion came to, or stay; whether it is taken.  Both walks' tables are filled."""
    walk.law[IS_FILLED] = 1.0
    refresh(walk)
    refresh(few)
    if n_all(few) > walk.capacity:  # there is no room to look at all of them
        return False
    likelier = few.law[LOG_LIKELIHOOD] - log_likelihood_before(channel, chart, walk, few)
    try_all(channel, chart, walk, few)
    value = log_likelihood(walk, walk.trial, few.law[TOTAL])
    is_taken = accepts(rng, value - walk.law[LOG_LIKELIHOOD] - likelier)
    if is_taken:
        for k in range(n_all(few)):
            h = number(few, k)
            if walk.marks[h] != 0.0:
                copy_atom(walk, h, 2 * walk.capacity + k)
            walk.atoms[at(walk, h)] = few.atoms[at(few, h)]
        walk.law[N_ATOMS], walk.law[N_DUST] = few.law[N_ATOMS], few.law[N_DUST]
        walk.law[CONCENTRATION] = few.law[CONCENTRATION]
        keep_trial(walk, few.law[TOTAL], value)
    return is_taken


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
def try_all(channel, chart, walk, few):
    """Write the mixture that an excursion came to into ``trial``; atoms that are not where they were are marked."""
    trial = 2 * walk.capacity
    for m in range(walk.n_nodes):
        walk.trial[m] = 0.0
    for k in range(n_all(few)):
        h = number(few, k)
        source, a, b = same_place(walk, few, h), at(few, h), at(walk, trial + k)
        walk.marks[h] = 0.0 if source == h else 1.0
        if source < 0:
            for e in range(walk.width):
                walk.atoms[b + e] = few.atoms[a + e]
            chart.fill(channel, walk, trial + k)
        elif source != h:
            copy_atom(walk, trial + k, source)
        add_to(walk, walk.trial, few.atoms[a], h if source == h else trial + k)


@helper
def same_place(walk, few, k):
    """The walk's atom that is where the excursion's atom k is, but for its mass; -1 if there is none.

    Atoms above the cut stay above it, and dust stays dust.
    """
    is_dust = k >= walk.capacity
    first = int(walk.capacity) if is_dust else 0
    end = first + int(walk.law[N_DUST] if is_dust else walk.law[N_ATOMS])
    if k < end and is_at(walk, k, few, k):
        return k
    for h in range(first, end):
        if is_at(walk, h, few, k):
            return h
    return -1


@helper
def is_at(walk, h, few, k):
    """Whether the walk's atom h is where the excursion's atom k is."""
    a, b = at(walk, h), at(few, k)
    for e in range(1, walk.width):
        if walk.atoms[a + e] != few.atoms[b + e]:
            return False
    return True
