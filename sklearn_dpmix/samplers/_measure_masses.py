"""Moves of the atoms' masses: between two atoms, of one, births and deaths, the dust and the concentration."""

from math import exp, lgamma, log

from .._compiled import helper
from ._measure_state import (
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
    copy_to,
    draw_base,
    draw_poisson,
    fill,
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
    n, mass, cut = walk.ints[N_ATOMS], walk.mass, walk.law[CUT]
    if n < 2:
        return
    j = int(rng.random() * n)
    k = int(rng.random() * (n - 1))
    k += k >= j
    both = mass[j] + mass[k]
    z = log(mass[j] / mass[k]) + 2.0 * exp(-5.0 * rng.random()) * rng.standard_normal()
    new = both / (1.0 + exp(-z))
    if new < cut or both - new < cut:
        return
    g = walk.table[k, 0]
    value = try_three(walk, new - mass[j], walk.table[j, 0], mass[j] - new, g, 0.0, g)
    if accepts(rng, value - walk.law[LOG_LIKELIHOOD]):
        mass[j], mass[k] = new, both - new
        keep_trial(walk, walk.law[TOTAL], value)


@helper
def change_mass(rng, walk):
    """Change the mass of one atom."""
    k, law = int(rng.random() * walk.ints[N_ATOMS]), walk.law
    new = walk.mass[k] * exp(1.5 * exp(-4.0 * rng.random()) * rng.standard_normal())
    if new < law[CUT] or new > LARGEST:
        return
    total = law[TOTAL] + new - walk.mass[k]
    value = try_one(walk, new - walk.mass[k], walk.table[k, 0], total)
    if accepts(rng, value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
        walk.mass[k] = new
        keep_trial(walk, total, value)


@helper
def bear_or_kill(rng, channel, kernel, walk):
    """Add an atom with log J uniform and θ from G0, or take one away.

    In (log J, θ) the Poisson process has intensity α G0, and a birth density G0/T, T the range of log J.
    """
    n, law = walk.ints[N_ATOMS], walk.law
    log_range = log(LARGEST / law[CUT])
    if rng.random() < 0.5:
        if n >= walk.mass.size - 1:
            return
        new = law[CUT] * exp(rng.random() * log_range)
        draw_base(rng, kernel, walk.place, n)
        fill(channel, walk, walk.place, n, walk.table[n])
        total = law[TOTAL] + new
        value = try_one(walk, new, walk.table[n, 0], total)
        ratio = log(law[CONCENTRATION] * log_range / (n + 1.0))
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
            walk.mass[n] = new
            walk.ints[N_ATOMS] = n + 1
            keep_trial(walk, total, value)
    elif n > 1:
        k = int(rng.random() * n)
        total = law[TOTAL] - walk.mass[k]
        value = try_one(walk, -walk.mass[k], walk.table[k, 0], total)
        ratio = log(n / (law[CONCENTRATION] * log_range))
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
            keep_trial(walk, total, value)
            remove(walk, k)


@helper
def renew_dust(rng, channel, kernel, walk, concentration, log_ratio):
    """Propose this concentration, and dust drawn given it; ``log_ratio`` is the prior's for the concentration.

    The dust's law is that of the Poisson process, so that only the likelihood and the law of S are left.  Atoms below
    e^-5 of the cut are left out: they hold some 10^-4 records.
    """
    n_new, law, ints = draw_poisson(rng, concentration * DUST_RANGE), walk.law, walk.ints
    n_old = ints[N_DUST]
    if n_old + n_new > walk.dust_mass.size:
        return False
    total = law[TOTAL]
    copy_to(walk.trial, walk.mix)
    for k in range(n_old):
        total -= walk.dust_mass[k]
        add_to(walk.trial, -walk.dust_mass[k], walk.dust_table[k, 0])
    for k in range(n_old, n_old + n_new):
        walk.dust_mass[k] = law[CUT] * exp(-DUST_RANGE * rng.random())
        draw_base(rng, kernel, walk.dust_place, k)
        fill(channel, walk, walk.dust_place, k, walk.dust_table[k])
        total += walk.dust_mass[k]
        add_to(walk.trial, walk.dust_mass[k], walk.dust_table[k, 0])
    value = log_likelihood(walk, walk.trial, total)
    if not accepts(rng, log_ratio + value - law[LOG_LIKELIHOOD] + log_tilt(total) - log_tilt(law[TOTAL])):
        return False
    for k in range(n_new):
        walk.dust_mass[k] = walk.dust_mass[n_old + k]
        walk.dust_place[k, 0], walk.dust_place[k, 1] = walk.dust_place[n_old + k, 0], walk.dust_place[n_old + k, 1]
        copy_to(walk.dust_table[k, 0], walk.dust_table[n_old + k, 0])
    ints[N_DUST] = n_new
    keep_trial(walk, total, value)
    return True


@helper
def move_concentration(rng, channel, kernel, mixing, walk):
    """The concentration and the dust: a step of random size of log α under its gamma prior.

    Given α the atoms above the cut u have density α^K e^(-α E1(u)), and the law of S has the constant
    Γ(α + c)/Γ(α) (1 + c)^-(α + c), c = ``TILT``, to be divided by.
    """
    concentration = walk.law[CONCENTRATION]
    if mixing.prior_shape == 0.0:
        renew_dust(rng, channel, kernel, walk, concentration, 0.0)
        return
    new = concentration * exp(1.2 * exp(-2.0 * rng.random()) * rng.standard_normal())
    ratio = log_concentration(mixing, walk, new) - log_concentration(mixing, walk, concentration)
    if renew_dust(rng, channel, kernel, walk, new, ratio):
        walk.law[CONCENTRATION] = new


@helper
def log_concentration(mixing, walk, concentration):
    """Log density of log α given the atoms above the cut, up to a constant."""
    cut = walk.law[CUT]
    n_expected = cut - 0.25 * cut * cut - log(cut) - EULER_GAMMA  # E1(cut), to cut³/18
    value = (mixing.prior_shape + walk.ints[N_ATOMS]) * log(concentration) - mixing.prior_rate * concentration
    value -= concentration * n_expected
    return value + lgamma(concentration) - lgamma(concentration + TILT) + concentration * log(1.0 + TILT)
