"""The masses of a Dirichlet process: a gamma process, whose small atoms are drawn anew with its concentration."""

from math import exp, lgamma, log

from ...._base.compiled import compiled, helper
from .._sampler import check_concentration
from ._mass_law import MassLaw
from ._walk_state import (
    CONCENTRATION,
    CUT,
    DUST_RANGE,
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
)

EULER_GAMMA = 0.5772156649015329
P_DUST = 0.25  # of a sweep: it draws the dust anew, where the concentration is fixed


class DirichletMasses(MassLaw):
    """Masses of the Poisson process of intensity α J⁻¹ e⁻ᴶ; what is random beside them is α."""

    def start(self, n_atoms):
        return n_atoms, self.mixing.start

    def check_random(self, mixing, value, n_atoms):
        check_concentration(mixing, value, n_atoms)

    def fields(self):
        return {"prior_shape": self.mixing.prior_shape, "prior_rate": self.mixing.prior_rate}

    @compiled
    def power(self, walk, n_atoms):
        return TILT

    @compiled
    def log_growth(self, walk, n_atoms):
        return log(walk.law[CONCENTRATION])

    @compiled
    def dust_rate(self, walk, concentration):
        return concentration * DUST_RANGE

    @compiled
    def draw_dust(self, rng, walk):
        return walk.law[CUT] * exp(-DUST_RANGE * rng.random())

    @compiled
    def renew(self, rng, channel, chart, walk):
        if self.prior_shape > 0.0 or rng.random() < P_DUST:
            move_concentration(rng, channel, chart, self, walk)

    @compiled
    def left_out(self, walk):
        return walk.law[CONCENTRATION] * walk.law[CUT] * exp(-DUST_RANGE)

    @compiled
    def kept(self, walk):
        return walk.law[CONCENTRATION]


@helper
def renew_dust(rng, channel, chart, masses, walk, concentration, log_ratio):
    """Propose this concentration, and dust drawn given it; ``log_ratio`` is the prior's for the concentration.

    The dust's law is that of the Poisson process, so that only the likelihood and the law of S are left.  Atoms below
    e^-5 of the cut are left out: they hold some 10^-4 records.
    """
    n_new, law, atoms = draw_poisson(rng, masses.dust_rate(walk, concentration)), walk.law, walk.atoms
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
        mass = masses.draw_dust(rng, walk)
        atoms[at(walk, k)] = mass
        chart.draw_base(rng, walk, k)
        chart.fill(channel, walk, k)
        total += mass
        add_to(walk, walk.trial, mass, k)
    value = log_likelihood(walk, walk.trial, total)
    log_ratio += log_tilt(walk, law[N_ATOMS], total) - log_tilt(walk, law[N_ATOMS], law[TOTAL])
    if not accepts(rng, log_ratio + value - law[LOG_LIKELIHOOD]):
        return False
    if n_old > 0:
        for k in range(first, first + n_new):
            copy_atom(walk, k, k + n_old)
    law[N_DUST] = n_new
    keep_trial(walk, total, value)
    return True


@helper
def move_concentration(rng, channel, chart, masses, walk):
    """The concentration and the dust: a step of random size of log α under its gamma prior.

    Given α the atoms above the cut u have density α^K e^(-α E1(u)), and the law of S has the constant
    Γ(α + c)/Γ(α) (1 + c)^-(α + c), c = ``TILT``, to be divided by.
    """
    concentration = walk.law[CONCENTRATION]
    new, ratio = concentration, 0.0
    if masses.prior_shape > 0.0:
        new = concentration * exp(1.2 * exp(-2.0 * rng.random()) * rng.standard_normal())
        ratio = log_concentration(masses, walk, new) - log_concentration(masses, walk, concentration)
    if renew_dust(rng, channel, chart, masses, walk, new, ratio):
        walk.law[CONCENTRATION] = new


@helper
def log_concentration(masses, walk, concentration):
    """Log density of log α given the atoms above the cut, up to a constant."""
    cut = walk.law[CUT]
    n_expected = cut - 0.25 * cut * cut - log(cut) - EULER_GAMMA  # E1(cut), to cut³/18
    value = (masses.prior_shape + walk.law[N_ATOMS]) * log(concentration) - masses.prior_rate * concentration
    value -= concentration * n_expected
    return value + lgamma(concentration) - lgamma(concentration + TILT) + concentration * log(1.0 + TILT)
