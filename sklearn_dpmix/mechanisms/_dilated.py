"""Privacy of noise calibrated by a smooth sensitivity: between neighbours its centre *and* its scale change.

Let x and x' be neighbours, h = m SS_ξ the scale of the noise, and η its density at scale 1, symmetric and falling away
from 0.  In units of h(x), the releases of x and x' have densities p(u) = η(u) and q(u) = η((u - s) e^-t) e^-t with

    |t| <= ξ,   |s| <= min(1, e^t)/m,

the latter because a replacement moves the value by no more than LS(x) <= SS(x) and by no more than LS(x') <= SS(x').
(ε, δ) claims that E_ε(s, t) = ∫ max(p - e^ε q, 0) <= δ for all these s and t.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, floor, inf, log

import numpy as np

#: Number of cells of [-ξ, ξ]; odd, so that no cell starts at 0, where closed forms divide by the change of scale
N_CELLS = 513
#: Relative excess of the stated value over the computed one, far above the rounding errors of the closed forms
GUARD = 1e-6
#: Least δ for which those errors were measured
SMALLEST_DELTA = 1e-15
#: range of ε in which the closed forms neither overflow nor underflow
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-100, 300.0


@dataclass(frozen=True)
class DilatedLaw:
    """Base class of noise at scale 1: its log density, draws, and what it spends.

    A subclass defines ``log_density(u)``, (...) log η(u); ``draw(rng, size)``, draws from η; and, unless it has its own
    ``bounds`` or ``spent``, ``hockey_stick(epsilon, shift, log_dilation)``, E_ε(s, t) for arrays of s >= 0 and t != 0
    below ε.
    """

    #: cells of [-ξ, ξ]
    n_cells = N_CELLS

    def spent(self, epsilon, xi, multiplier):
        """Return (ε, δ) that hold for noise of scale ``multiplier`` × SS_ξ."""
        return epsilon, (1.0 + GUARD) * float(np.max(self.bounds(epsilon, xi, multiplier, self.n_cells)))

    def bounds(self, epsilon, xi, multiplier, n_cells):
        """(n_cells,) bounds of E_ε(s, t) for t in each cell of [-ξ, ξ], and all s that go with it.

        Nothing depends on the choice of points:

        - E_ε(s, t) does not fall as |s| grows.  It is 1 - ∫ min(p, e^ε q), and that integral is the length, integrated
          over levels, of the overlap of two intervals around 0 and s where p and e^ε q exceed the level.  So only the
          largest shift counts.
        - In a cell t_i <= t <= t_i + w, q at t_i is at most e^w times q at t, as η falls away from its centre.  So
          p - e^ε q <= p - e^(ε - w) q_i, and E_ε(s, t) <= E_{ε-w}(s, t_i).  The largest over cells is a bound, and
          tends to the supremum as cells get narrow.
        """
        width, start = 2.0 * xi / n_cells, xi * np.arange(-n_cells, n_cells, 2) / n_cells
        shift = np.exp(np.minimum(start + width, 0.0)) / multiplier
        return self.hockey_stick(epsilon - width, shift, start)

    def holds(self, epsilon, delta, xi, multiplier):
        """Whether noise of this scale is verified to be (ε, δ)-DP."""
        spent = self.spent(epsilon, xi, multiplier)
        return spent[0] <= epsilon and spent[1] <= delta


@lru_cache(maxsize=1000)
def least_multiplier(law, epsilon, delta, xi, precision=1e-9):
    """Return the smallest m, up to ``precision``, that is verified at ξ; None if the change of scale costs more.

    What is spent falls with m, so bisection finds it; the end that is verified is returned.
    """
    low, high = log(1e-3 / epsilon), log(1e6 / epsilon)
    if xi >= epsilon or not law.holds(epsilon, delta, xi, exp(high)):
        return None
    while high - low > precision:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if law.holds(epsilon, delta, xi, exp(middle)) else (middle, high)
    return exp(high)


@lru_cache(maxsize=1000)
def balanced_xi(law, epsilon, delta):
    """Return the ξ with the least noise for regular data, among ε 2^(-j/64) for whole j; None if none holds.

    A small ξ leaves more of ε for the shift; a large one makes SS_ξ smaller.  Data are regular if the local sensitivity
    after k replacements is proportional to k + 1, as for order statistics of evenly spaced records.  The noise is then
    proportional to m(ξ) max over k of (k + 1) e^(-ξk).  Candidates are first an eighth of an octave apart, then finer
    around the best.
    """

    def noise(j):
        xi = epsilon * 2.0 ** (-j / 64.0)
        multiplier, k = least_multiplier(law, epsilon, delta, xi, 1e-4), floor(max(1.0 / xi - 1.0, 0.0))
        return inf if multiplier is None else multiplier * max((i + 1) * exp(-xi * i) for i in (k, k + 1))

    coarse = min(range(8, 640, 8), key=noise)
    best = min(range(coarse - 7, coarse + 8), key=noise)
    return epsilon * 2.0 ** (-best / 64.0) if noise(best) < inf else None
