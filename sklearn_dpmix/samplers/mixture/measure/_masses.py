"""Moves of the atoms' masses: between two atoms, of one, births and deaths, the dust and the concentration."""

from math import exp, lgamma, log

from ...._compiled import helper
from ._walk_state import (
    CONCENTRATION,
    CUT,
    DUST_RANGE,
    LARGEST,
    LOG_LIKELIHOOD,
    N_ATOMS,
    N_DUST,
    TILT,
    TOTAL,
    accepts,
    add_to,
    at,
    copy_atom,
    draw_poisson,
    keep_trial,
    log_likelihood,
    log_tilt,
    remove,
    try_one,
    try_three,
)

EULER_GAMMA = 0.5772156649015329


@helper
def move_mass(rng, walk):
    """Move mass from one atom to another: a step of random size of log(J_j/J_k), with their sum kept."""
    n, atoms, cut = int(walk.law[N_ATOMS]), walk.atoms, walk.law[CUT]
    if n < 2:
        return
    j = int(rng.random() * n)
    k = int(rng.random() * (n - 1))
    k += k >= j
    a, b = at(walk, j), at(walk, k)
    both = atoms[a] + atoms[b]
    z = log(atoms[a] / atoms[b]) + 2.0 * exp(-5.0 * rng.random()) * rng.standard_normal()
    new = both / (1.0 + exp(-z))
    if new < cut or both - new < cut:
        return
    value = try_three(walk, new - atoms[a], j, atoms[a] - new, k, 0.0, k)
    if accepts(rng, value - walk.law[LOG_LIKELIHOOD]):
        atoms[a], atoms[b] = new, both - new
        keep_trial(walk, walk.law[TOTAL], value)


@helper
def change_mass(rng, walk):
    """Change the mass of one atom."""
    k, law, atoms = int(rng.random() * walk.law[N_ATOMS]), walk.law, walk.atoms
    a = at(walk, k)
    new = atoms[a] * exp(1.5 * exp(-4.0 * rng.random()) * rng.standard_normal())
    if new < law[CUT] or new > LARGEST:
        return
    total = law[TOTAL] + new - atoms[a]
    value = try_one(walk, new - atoms[a], k, total)
    if accepts(rng, value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
        atoms[a] = new
        keep_trial(walk, total, value)


@helper
def bear_or_kill(rng, channel, chart, walk):
    """Add an atom with log J uniform and θ from G0, or take one away.

    In (log J, θ) the Poisson process has intensity α G0, and a birth density G0/T, T the range of log J.
    """
    n, law, atoms = int(walk.law[N_ATOMS]), walk.law, walk.atoms
    log_range = log(LARGEST / law[CUT])
    if rng.random() < 0.5:
        if n >= walk.capacity - 1:
            return
        new = law[CUT] * exp(rng.random() * log_range)
        chart.draw_base(rng, walk, n)
        chart.fill(channel, walk, n)
        total = law[TOTAL] + new
        value = try_one(walk, new, n, total)
        ratio = log(law[CONCENTRATION] * log_range / (n + 1.0))
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
            atoms[at(walk, n)] = new
            law[N_ATOMS] = n + 1.0
            keep_trial(walk, total, value)
    elif n > 1:
        k = int(rng.random() * n)
        mass = atoms[at(walk, k)]
        total = law[TOTAL] - mass
        value = try_one(walk, -mass, k, total)
        ratio = log(n / (law[CONCENTRATION] * log_range))
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
            keep_trial(walk, total, value)
            remove(walk, k)


@helper
def renew_dust(rng, channel, chart, walk, concentration, log_ratio):
    """Propose this concentration, and dust drawn given it; ``log_ratio`` is the prior's for the concentration.

    The dust's law is that of the Poisson process, so that only the likelihood and the law of S are left.  Atoms below
    e^-5 of the cut are left out: they hold some 10^-4 records.
    """
    n_new, law, atoms = draw_poisson(rng, concentration * DUST_RANGE), walk.law, walk.atoms
    n_old, first = int(law[N_DUST]), walk.capacity
    if n_old + n_new > walk.capacity:
        return False
    total = law[TOTAL]
    for m in range(walk.n_nodes):
        walk.trial[m] = walk.mix[m]
    for k in range(first, first + n_old):
        mass = atoms[at(walk, k)]
        total -= mass
        add_to(walk, walk.trial, -mass, k)
    for k in range(first + n_old, first + n_old + n_new):
        mass = law[CUT] * exp(-DUST_RANGE * rng.random())
        atoms[at(walk, k)] = mass
        chart.draw_base(rng, walk, k)
        chart.fill(channel, walk, k)
        total += mass
        add_to(walk, walk.trial, mass, k)
    value = log_likelihood(walk, walk.trial, total)
    if not accepts(rng, log_ratio + value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
        return False
    if n_old > 0:
        for k in range(first, first + n_new):
            copy_atom(walk, k, k + n_old)
    law[N_DUST] = n_new
    keep_trial(walk, total, value)
    return True


@helper
def move_concentration(rng, channel, chart, mixing, walk):
    """The concentration and the dust: a step of random size of log α under its gamma prior.

    Given α the atoms above the cut u have density α^K e^(-α E1(u)), and the law of S has the constant
    Γ(α + c)/Γ(α) (1 + c)^-(α + c), c = ``TILT``, to be divided by.
    """
    concentration = walk.law[CONCENTRATION]
    new, ratio = concentration, 0.0
    if mixing.prior_shape > 0.0:
        new = concentration * exp(1.2 * exp(-2.0 * rng.random()) * rng.standard_normal())
        ratio = log_concentration(mixing, walk, new) - log_concentration(mixing, walk, concentration)
    if renew_dust(rng, channel, chart, walk, new, ratio):
        walk.law[CONCENTRATION] = new


@helper
def log_concentration(mixing, walk, concentration):
    """Log density of log α given the atoms above the cut, up to a constant."""
    cut = walk.law[CUT]
    n_expected = cut - 0.25 * cut * cut - log(cut) - EULER_GAMMA  # E1(cut), to cut³/18
    value = (mixing.prior_shape + walk.law[N_ATOMS]) * log(concentration) - mixing.prior_rate * concentration
    value -= concentration * n_expected
    return value + lgamma(concentration) - lgamma(concentration + TILT) + concentration * log(1.0 + TILT)
