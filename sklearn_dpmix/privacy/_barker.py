"""What one noisy Barker test on a batch reveals: a normal release whose variance depends on the records too."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from .._base.typing import Array
from ._number_checks import check_count, check_number, check_orders


def barker_rdp(batch_size: int, variance: float = 2.0, clip: float = 1.0) -> Callable[[Array], Array]:
    """Return the Rényi divergences of one Barker test, as a function of an array of orders.

    The test of Heikkilä, Jälkö, Dikmen & Honkela (2019) releases N(λ, variance - σ²) where, for a batch of b of the n
    records with log-likelihood ratios r_j and tempering T, λ = (nT/b)·Σ r_j plus what is public, and σ² = (nT)²/b·S²
    estimates the variance of λ over batches, S² = Σ(r_j - r̄)²/(b-1) (times 1 - b/n or not: the bound covers both).
    Ratios are clipped so that abs(T·r_j) <= clip·√b/n.

    *What neighbours can do.*  Let a_j = n·T·r_j, in [-c, c] with c = clip·√b, so that λ is their mean and σ² = Σ(a_j -
    ā)²/(b(b-1)).  One record changes from x to x'; the others have the mean m and the sum of squared deviations S, with
    S <= (b-1)(c² - m²).  The whole sum of squares is S + (b-1)/b·(x-m)².  In units of c, with κ = clip²,

        σ² <= κ·(1 - m² + (x-m)²/b),   λ - λ' = √(κ/b)·(x - x'),   σ² - σ'² = κ/b·((x-m)² - (x'-m)²),

    and σ² <= κ·b/(b-1) whatever m and x.  (Leaving out the second term of neighbours' difference is not private.)

    *Rényi divergence* (Gil, Alajaji & Linder 2013).  For P = N(m1, v), Q = N(m2, v'), V = variance, v = V - σ²,
    v* = αv' + (1-α)v > 0 and r = (v - v')/v',

        D_α(P, Q) = α(m1 - m2)²/(2v*) + F(r),   F(r) = -½·log(1+r) - log(1 - (α-1)r)/(2(α-1)),

    which grows with S, so S is taken at its bound.  The two terms are bounded separately.

    *The first term.*  Write p = abs(x'-m), o = abs(x-m); by symmetry m >= 0, so p <= 1+m.  Where p <= o, v* >= v' >= V
    - κ·b/(b-1), and abs(x - x') <= 2.  Where o < p, the term is at most α·κ/(2b)·min{(p+o)², 4}/v* with v* = A + B·o²,
    B = (α-1)κ/b and A = V - κ(1-m²) - ακ/b·p².  As long as A > B·o·p it grows with o up to p+o = 2 (or o = p, where v*
    = v' again) and falls beyond, so it is largest at o = 2-p, where v* = V - κ(1-m²) - κ/b·(p² + 4(α-1)(p-1)) is least
    at p = 1+m; and over m,

        v* >= v1 = V - κ(1 + 1/b) - κ(2α-1)²/(b(b-1)),   which is below V - κ·b/(b-1) too, so
        α(m1 - m2)²/(2v*) <= 2ακ/(b·v1).

    A - B·o·p is least at o = 2-p, p = 1+m and m = α/(b-1), where it is V - κ(1 + (2α-1)/b) - κα²/(b(b-1)): where that
    or v1 is not positive, the bound is inf.

    *The second term.*  F'(r) = ½·αr/((1+r)(1-(α-1)r)) has the sign of r, so F is largest at an end of the range of r.
    r is at most κ/b·p²/(V - κ(1-m²) - κ/b·p²), at p = 1+m =: 1/z at most (κ/b)/(V·z² - 2κz + κ(1-1/b)), which is
    largest at z = κ/V or the end of [½, 1] next to it: call that R.  Exchanging P and Q, r >= -R/(1+R).  Altogether

        D_α <= 2ακ/(b·v1) + max{F(R), F(-R/(1+R))}.

    The thesis (Theorem 8) bounds the logarithms of v and v' separately, which leaves ½·log(2)/(α-1) however large the
    batch is.

    Parameters
    ----------
    batch_size : int
        b, at least 2.
    variance : float, default=2.0
        Variance of all normal noise of the test, from the batch and for privacy; above clip²·b/(b-1).  (A Barker test
        needs variance < π²/3.)
    clip : float, default=1.0
        Clipping bound in units of √b/n, positive.  A smaller bound costs less and clips more.

    Returns
    -------
    rdp : BarkerCurve
        ``rdp(orders)`` has the shape of ``orders``; nats.  For :class:`SubsampledReleases`.

    Raises
    ------
    ValueError
        For a number out of its range, or if clipped ratios could use up all of the variance.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import barker_rdp
    >>> barker_rdp(batch_size=1000)([2.0, 10.0, 400.0]).round(5)
    array([0.00401, 0.02004, 2.22348])
    """
    return BarkerCurve(
        check_count("batch_size", batch_size, 2), _positive("variance", variance), _positive("clip", clip)
    )


@dataclass(frozen=True)
class BarkerCurve:
    """The function that :func:`barker_rdp` returns, as an object that can be compared, stored and sent."""

    batch_size: int
    variance: float = 2.0
    clip: float = 1.0

    def __post_init__(self):
        if self.most_batch_variance >= self.variance:
            most = self.clip * sqrt(self.variance / self.most_batch_variance)
            raise ValueError(
                f"clip={self.clip} lets the variance over batches reach {self.most_batch_variance:.6g}, and that must "
                f"stay below variance={self.variance}: pass clip < {most:.6g}"
            )

    @property
    def most_batch_variance(self):
        """The largest σ² that clipped ratios can have."""
        return self.clip**2 * self.batch_size / (self.batch_size - 1)

    def __call__(self, orders):
        """Return the bound for each order."""
        orders = check_orders(orders)
        b, kappa, variance = self.batch_size, self.clip**2, self.variance
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            least = variance - kappa * (1.0 + 1.0 / b) - kappa * (2.0 * orders - 1.0) ** 2 / (b * (b - 1.0))
            condition = variance - kappa * (1.0 + (2.0 * orders - 1.0) / b) - kappa * orders**2 / (b * (b - 1.0))
            mean = 2.0 * orders * kappa / (b * least)
            z = min(max(kappa / variance, 0.5), 1.0)
            ratio = kappa / b / (variance * z * z - 2.0 * kappa * z + kappa * (1.0 - 1.0 / b))
            spread = np.maximum(_spread(ratio, orders), _spread(-ratio / (1.0 + ratio), orders))
            holds = (least > 0) & (condition > 0) & ((orders - 1.0) * ratio < 1.0)
            return np.where(holds, mean + np.maximum(spread, 0.0), np.inf)


def _spread(r, orders):
    """F(r): what the change of variance reveals on its own."""
    return -0.5 * np.log1p(r) - 0.5 * np.log1p(-(orders - 1.0) * r) / (orders - 1.0)


def _positive(name, value):
    check_number(name, value, 0)
    return float(value)
