"""The masses of a Pitman–Yor process: a generalised gamma process, run for a random time.

Jumps of a process of intensity ζ c J^(-1 - d) e⁻ᴶ dJ, c = d/Γ(1 - d), with ζ of law Gamma(α/d, 1), have a total S of
law Gamma(α, 1) that is independent of their shares, and those are the weights of a Pitman–Yor process with
concentration α > 0 and discount d (Pitman & Yor 1997, Proposition 21).  So the law of S may be chosen, as for a
Dirichlet process.

Small masses are many.  Those below the cut, the dust, hold some records here, and a random share of them is drawn anew
at a time; ζ is drawn given all of them, and moved together with those below a random place.
"""

from math import ceil, exp, expm1, gamma, isfinite, log, log2

from scipy.special import gammaincc

from ...._base.compiled import compiled
from ...._base.restore import require
from ._mass_law import MassLaw
from ._small_masses import n_renewals, renew_small, step_with_small
from ._walk_atoms import CONCENTRATION, CUT, N_ATOMS, N_DUST, TILT, n_above

IN_DUST, LEFT_OUT = 50.0, 0.005  # records that the dust holds, and masses below it
LARGEST_CUT = 0.02
MOST_ATOMS = 1500
N_REFRESH, N_TIMES, N_STEPS = 2, 4, 4  # in a sweep: of the dust; of ζ given all masses, and with small ones
SHARES = 4.0  # of the dust, in logs: from all of it down to e^-4


class PitmanYorMasses(MassLaw):
    """Masses of that process; besides them, ζ is random."""

    def __init__(self, mixing):
        super().__init__(mixing)
        self.alpha, self.discount = mixing.start, mixing.discount
        self.intensity = self.discount / gamma(1.0 - self.discount)  # c
        self.dust_range = log(IN_DUST / LEFT_OUT) / (1.0 - self.discount)

    def cut(self, n_records):
        """Masses below u hold n (α/d) c u^(1 - d)/(1 - d) records."""
        of_one = n_records * self.alpha / self.discount * self.intensity / (1.0 - self.discount)
        return min((IN_DUST / of_one) ** (1.0 / (1.0 - self.discount)), LARGEST_CUT)

    def check(self, label, n_records):
        n = self.n_expected(n_records)
        if n > MOST_ATOMS:
            raise ValueError(
                f"sampler {label} would have to walk over some {n:.0f} masses, more than its limit of {MOST_ATOMS}, "
                f"with concentration={self.alpha:g}, discount={self.discount:g} and {n_records} records: use a "
                'smaller discount, or sampler="auto"'
            )

    def n_expected(self, n_records):
        """How many masses are expected, the dust included."""
        return self.n_atoms(self.cut(n_records))

    def n_atoms(self, cut):
        """As above, for a cut."""
        low, d = cut * exp(-self.dust_range), self.discount
        above = low**-d * exp(-low) - gamma(1.0 - d) * gammaincc(1.0 - d, low)  # d ∫ J^(-1 - d) e⁻ᴶ dJ, by parts
        return self.alpha / d * self.intensity * above / d

    def room(self, cut):
        return max(super().room(cut), 2 ** ceil(log2(4.0 * self.n_atoms(cut))))

    def start(self, n_atoms):
        return n_atoms, self.alpha / self.discount

    def check_random(self, mixing, value, n_atoms):
        require(value > 0 and isfinite(value), "floats", "has a number that is not positive and finite")

    def fields(self):
        d, fields = self.discount, {"alpha": self.alpha, "intensity": self.intensity, "dust_range": self.dust_range}
        return fields | {"discount": d, "whole": gamma(1.0 - d)}

    @compiled
    def shape(self):
        return -self.discount

    @compiled
    def log_ratio(self, new, old):
        return -self.discount * log(new / old)

    @compiled
    def power(self, walk, n_atoms):
        return TILT

    @compiled
    def log_growth(self, walk, n_atoms):
        return log(walk.law[CONCENTRATION] * self.intensity)

    @compiled
    def rate(self, top, reach):
        """Expected number of masses from e^-``reach`` of ``top`` on, for ζ = 1 and but for e⁻ᴶ, which is in S's law."""
        return self.intensity / self.discount * top**-self.discount * expm1(reach * self.discount)

    @compiled
    def draw_below(self, rng, walk, top, reach):
        """A mass of density J^(-1 - d)."""
        return top * (1.0 + expm1(reach * self.discount) * rng.random()) ** (-1.0 / self.discount)

    @compiled
    def renew(self, rng, channel, chart, walk):
        """Of three moves one at random each time: in a fixed order they would be less likely backwards."""
        cut, reach = walk.law[CUT], self.dust_range
        for _ in range(n_renewals(rng, walk, N_REFRESH + N_TIMES + N_STEPS)):
            u = (N_REFRESH + N_TIMES + N_STEPS) * rng.random()
            if u < N_REFRESH:
                share = exp(-SHARES * rng.random())
                n_expected = share * walk.law[CONCENTRATION] * self.rate(cut, reach)
                renew_small(rng, channel, chart, walk, cut, reach, share, n_expected, 0.0)
            elif u < N_REFRESH + N_TIMES:
                self.draw_time(rng, walk)
            else:
                step_with_small(rng, channel, chart, walk, reach, 0.0)

    @compiled
    def draw_time(self, rng, walk):
        """Draw ζ given all masses."""
        law, cut = walk.law, walk.law[CUT]
        rate = 1.0 + self.intensity * self.above(walk, cut) + self.rate(cut, self.dust_range)
        law[CONCENTRATION] = rng.standard_gamma(self.alpha / self.discount + law[N_ATOMS] + law[N_DUST]) / rate

    @compiled
    def log_given_above(self, walk, time, top):
        """Log density of log ζ given the atoms above ``top``, up to a constant, beyond what proposes those below it."""
        rate = 1.0 + self.intensity * self.above(walk, top)
        return (self.alpha / self.discount + n_above(walk, top)) * log(time) - time * rate

    @compiled
    def above(self, walk, top):
        """∫_t^∞ J^(-1 - d) e⁻ᴶ dJ, t = ``top``, less what e⁻ᴶ takes from masses below; by parts and to u^(2 - d)."""
        u, d = walk.law[CUT], self.discount
        first, second = u ** (1.0 - d) / (1.0 - d), u ** (2.0 - d) / (2.0 - d)
        taken = first * (1.0 - exp(-self.dust_range * (1.0 - d))) - 0.5 * second
        beyond = (u**-d * exp(-u) - self.whole + first - second) / d - taken
        return beyond - (u**-d - top**-d) / d

    @compiled
    def left_out(self, walk):
        end, d = walk.law[CUT] * exp(-self.dust_range), self.discount
        return walk.law[CONCENTRATION] * self.intensity * end ** (1.0 - d) / (1.0 - d)

    @compiled
    def kept(self, walk):
        """The concentration, which is given."""
        return self.alpha
