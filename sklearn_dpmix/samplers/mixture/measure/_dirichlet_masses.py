"""The masses of a Dirichlet process: a gamma process, whose small atoms are drawn anew with its concentration."""

from math import exp, lgamma, log

from ...._base.compiled import compiled
from ...._base.restore import require_range
from .._sampler import check_concentration
from ._mass_law import MassLaw
from ._small_masses import n_renewals, renew_small, step_with_small
from ._walk_atoms import CONCENTRATION, CUT, DUST_RANGE, TILT, n_above
from ._walk_state import MAX_ATOMS

EULER_GAMMA = 0.5772156649015329
P_DUST = 0.25  # of a sweep: it draws the dust anew, where the concentration is fixed
N_STEPS, P_ALL = 24, 0.1  # steps of a random concentration in a sweep; of these: they draw the dust anew


class DirichletMasses(MassLaw):
    """Masses of the Poisson process of intensity α J⁻¹ e⁻ᴶ; besides them, α may be random."""

    def cut(self, n_records):
        """The dust holds a tenth of a record for each unit of the concentration: its likelihood hardly changes."""
        return min(0.1 / n_records, 0.01)

    def start(self, n_atoms):
        return n_atoms, self.mixing.start

    def check_random(self, mixing, value, n_atoms):
        check_concentration(mixing, value, n_atoms)
        require_range(0.0, MAX_ATOMS, floats=value)  # with as many atoms a concentration is less than that

    def fields(self):
        return {"prior_shape": self.mixing.prior_shape, "prior_rate": self.mixing.prior_rate}

    @compiled
    def lightest(self, walk):
        """A fifth of a record."""
        return 2.0 * walk.law[CUT]

    @compiled
    def power(self, walk, n_atoms):
        return TILT

    @compiled
    def log_growth(self, walk, n_atoms):
        return log(walk.law[CONCENTRATION])

    @compiled
    def draw_below(self, rng, walk, top, reach):
        """A mass of density J⁻¹."""
        return top * exp(-reach * rng.random())

    @compiled
    def rate(self, top, reach):
        """Expected number of masses from e^-``reach`` of ``top`` on, for α = 1 and but for e⁻ᴶ, which is in S's law."""
        return reach

    @compiled
    def log_given_above(self, walk, concentration, top):
        """Log density of log α given the atoms above ``top``, up to a constant, beyond what proposes those below it.

        Given α the atoms from v on, the end of the dust, have a density whose part in α is α^K e^(-α E1(v)), with K the
        atoms above t, ``top``.  Those below are proposed with the rate α log(t/v), and without their e⁻ᴶ, which is in
        the law of S; that law has the constant Γ(α + c)/Γ(α) (1 + c)^-(α + c), c = ``TILT``, to be divided by.
        """
        n_expected = walk.law[CUT] * exp(-DUST_RANGE) - log(top) - EULER_GAMMA  # E1(v) - log(t/v), to v²/4
        value = (self.prior_shape + n_above(walk, top)) * log(concentration) - self.prior_rate * concentration
        value -= concentration * n_expected
        return value + lgamma(concentration) - lgamma(concentration + TILT) + concentration * log(1.0 + TILT)

    @compiled
    def renew(self, rng, channel, chart, walk):
        if self.prior_shape > 0.0:
            for _ in range(n_renewals(rng, walk, N_STEPS)):
                step_with_small(rng, channel, chart, walk, DUST_RANGE, P_ALL)
            return
        for _ in range(n_renewals(rng, walk, 1)):
            if rng.random() < P_DUST:
                rate = walk.law[CONCENTRATION] * self.rate(walk.law[CUT], DUST_RANGE)
                renew_small(rng, channel, chart, walk, walk.law[CUT], DUST_RANGE, 1.0, rate, 0.0)

    @compiled
    def left_out(self, walk):
        return walk.law[CONCENTRATION] * walk.law[CUT] * exp(-DUST_RANGE)

    @compiled
    def kept(self, walk):
        return walk.law[CONCENTRATION]
