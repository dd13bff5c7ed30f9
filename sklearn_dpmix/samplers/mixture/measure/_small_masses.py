"""Small masses drawn anew, many at a time: those of the dust, and with the concentration those above the cut, too."""

from math import exp, log

from ...._base.compiled import apart, helper
from ._walk_atoms import (
    CONCENTRATION,
    CUT,
    LOG_LIKELIHOOD,
    MORE_RENEWALS,
    N_ATOMS,
    N_DUST,
    TOTAL,
    accepts,
    at,
    copy_atom,
    draw_poisson,
    log_tilt,
    n_all,
    number,
)
from ._walk_likelihood import add_to, begin_trial, keep_trial, try_sum

LARGEST_TOP = 1.0  # masses below a place up to this come and go with the number that their rate is proportional to


@helper
def n_renewals(rng, walk, n):
    """How often a sweep draws small masses anew that does so ``n`` times without excursions."""
    more = walk.law[MORE_RENEWALS]
    return n if more == 0.0 else int(n * (1.0 + more) + rng.random())


@helper
def step_with_small(rng, channel, chart, walk, dust_range, p_all):
    """A step of random size of the log of what the rate of masses is proportional to, with those below a random place.

    Of these as many are dropped, or come, as makes the others those of a process with the new rate: their number would
    else hold it in place.  With probability ``p_all`` the whole dust is drawn anew instead.
    """
    law, masses, old = walk.law, walk.masses, walk.law[CONCENTRATION]
    new = old * exp(1.2 * exp(-2.0 * rng.random()) * rng.standard_normal())
    top, reach, share, gain = law[CUT], dust_range, 1.0, new
    if p_all == 0.0 or rng.random() >= p_all:
        above = rng.random() * log(LARGEST_TOP / law[CUT])
        top, reach = law[CUT] * exp(above), dust_range + above
        share, gain = max(1.0 - new / old, 0.0), max(new - old, 0.0)
    ratio = masses.log_given_above(walk, new, top) - masses.log_given_above(walk, old, top)
    if renew_small(rng, channel, chart, walk, top, reach, share, gain * masses.rate(top, reach), ratio):
        law[CONCENTRATION] = new


@apart
def renew_small(rng, channel, chart, walk, top, reach, share, rate, log_ratio):
    """Propose to redraw a share of the masses below ``top``; return whether it was accepted.

    Each of them is dropped with that probability, and a Poisson number of new ones comes, from e^-``reach`` of ``top``
    on, ``rate`` of them on average.  A Poisson process keeps its law so, or gets another intensity; thus the prior of
    these masses need not be looked at, but for what is in the law of S, e⁻ᴶ, and for what ``log_ratio`` says.
    """
    law, atoms, marks, capacity = walk.law, walk.atoms, walk.marks, int(walk.capacity)
    n_new, n_atoms, n_dust, total = draw_poisson(rng, rate), int(law[N_ATOMS]), int(law[N_DUST]), law[TOTAL]
    n_gone = 0  # of those above the cut
    begin_trial(walk)
    for k in range(n_all(walk)):
        h = number(walk, k)
        mass = atoms[at(walk, h)]
        goes = mass < top and (share == 1.0 or (share > 0.0 and rng.random() < share))
        marks[h] = 1.0 if goes else 0.0
        if goes:
            n_gone += h < capacity
            total -= mass
            add_to(walk, walk.trial, -mass, h)
    for _ in range(n_new):
        mass = walk.masses.draw_below(rng, walk, top, reach)
        is_dust = mass < law[CUT]
        if n_dust >= capacity or n_atoms >= capacity:
            return False
        h = capacity + n_dust if is_dust else n_atoms
        n_dust, n_atoms = n_dust + is_dust, n_atoms + (not is_dust)
        atoms[at(walk, h)], marks[h] = mass, 0.0
        chart.draw_base(rng, walk, h)
        chart.fill(channel, walk, h)
        total += mass
        add_to(walk, walk.trial, mass, h)
    if n_gone == n_atoms or not total > 0.0:
        return False
    value = try_sum(walk, total)
    log_ratio += log_tilt(walk, law[N_ATOMS], total) - log_tilt(walk, law[N_ATOMS], law[TOTAL])
    if not accepts(rng, log_ratio + value - law[LOG_LIKELIHOOD]):
        return False
    law[N_ATOMS], law[N_DUST] = close_gaps(walk, 0, n_atoms), close_gaps(walk, capacity, n_dust)
    keep_trial(walk, total, value)
    return True


@helper
def close_gaps(walk, first, n):
    """Put those of n atoms that are not dropped in a row; return how many they are."""
    n_left = 0
    for h in range(first, first + n):
        if walk.marks[h] == 0.0:
            if first + n_left < h:
                copy_atom(walk, first + n_left, h)
            n_left += 1
    return n_left
