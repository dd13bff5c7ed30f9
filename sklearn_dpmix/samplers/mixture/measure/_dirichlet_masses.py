"""The masses of a Dirichlet process: a gamma process, whose small atoms are drawn anew with its concentration."""

from math import exp, lgamma, log

from ...._base.compiled import apart, compiled, helper
from ...._base.restore import require_range
from .._sampler import check_concentration
from ._mass_law import MassLaw
from ._walk_state import (
    CONCENTRATION,
    CUT,
    DUST_RANGE,
    LOG_LIKELIHOOD,
    MAX_ATOMS,
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
    """Masses of the Poisson process of intensity α J⁻¹ e⁻ᴶ; besides them, α may be random."""

    def start(self, n_atoms):
        return n_atoms, self.mixing.start

    def check_random(self, mixing, value, n_atoms):
        check_concentration(mixing, value, n_atoms)
        require_range(0.0, MAX_ATOMS, floats=value)  # with as many atoms a concentration is less than that

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


@apart
def renew_dust(rng, channel, chart, masses, walk, share, value, log_ratio):
    """Propose to redraw a share of the dust; return whether it was accepted.

    Each of its atoms is dropped with that probability, and new ones come from a Poisson process, given ``value``,
    whatever is random besides the masses; ``log_ratio`` is the prior's for a change of that.  So the dust keeps its
    law, and only the likelihood and the law of S decide.  Atoms below the dust are left out: they hold next to no
    records.  """
    law, atoms, marks, first = walk.law, walk.atoms, walk.marks, walk.capacity
    n_old, n_new = int(law[N_DUST]), draw_poisson(rng, share * masses.dust_rate(walk, value))
    if n_old + n_new > walk.capacity:
        return False
    total, n_left = law[TOTAL], 0
    for m in range(walk.n_nodes):
        walk.trial[m] = walk.mix[m]
    for k in range(n_old + n_new):
        h = first + k
        goes = k < n_old and (share == 1.0 or rng.random() < share)
        marks[k] = 1.0 if goes else 0.0
        if k >= n_old:
            atoms[at(walk, h)] = masses.draw_dust(rng, walk)
            chart.draw_base(rng, walk, h)
            chart.fill(channel, walk, h)
        if goes or k >= n_old:
            mass = -atoms[at(walk, h)] if goes else atoms[at(walk, h)]
            total += mass
            add_to(walk, walk.trial, mass, h)
    log_ratio += log_tilt(walk, law[N_ATOMS], total) - log_tilt(walk, law[N_ATOMS], law[TOTAL])
    log_likelihood_then = log_likelihood(walk, walk.trial, total)
    if not accepts(rng, log_ratio + log_likelihood_then - law[LOG_LIKELIHOOD]):
        return False
    for k in range(n_old + n_new):
        if marks[k] == 0.0:
            if n_left < k:
                copy_atom(walk, first + n_left, first + k)
            n_left += 1
    law[N_DUST] = n_left
    keep_trial(walk, total, log_likelihood_then)
    return True


@helper
def move_concentration(rng, channel, chart, masses, walk):
    """The concentration and the dust: a step of random size of log α under its gamma prior.

    Given α the atoms from v on, the dust among them, have density α^K e^(-α E1(v)).  The dust is proposed with the rate
    α log(u/v), u the cut, and without its e⁻ᴶ, which is in the law of S; that law has the constant
    Γ(α + c)/Γ(α) (1 + c)^-(α + c), c = ``TILT``, to be divided by.
    """
    concentration = walk.law[CONCENTRATION]
    new, ratio = concentration, 0.0
    if masses.prior_shape > 0.0:
        new = concentration * exp(1.2 * exp(-2.0 * rng.random()) * rng.standard_normal())
        ratio = log_concentration(masses, walk, new) - log_concentration(masses, walk, concentration)
    if renew_dust(rng, channel, chart, masses, walk, 1.0, new, ratio):
        walk.law[CONCENTRATION] = new


@helper
def log_concentration(masses, walk, concentration):
    """Log density of log α given the atoms above the cut, up to a constant, and beyond what proposes the dust."""
    cut = walk.law[CUT]
    n_expected = cut * exp(-DUST_RANGE) - log(cut) - EULER_GAMMA  # E1(v) - log(u/v), to v²/4
    value = (masses.prior_shape + walk.law[N_ATOMS]) * log(concentration) - masses.prior_rate * concentration
    value -= concentration * n_expected
    return value + lgamma(concentration) - lgamma(concentration + TILT) + concentration * log(1.0 + TILT)
