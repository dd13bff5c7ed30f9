"""What one noisy Barker test on a batch reveals: a normal release whose variance depends on the records, too."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ._checks import check_count, check_number, check_orders

__all__ = ["BarkerCurve", "barker_rdp"]


def barker_rdp(batch_size, variance=2.0, clip=1.0):
    """Return the Rényi divergences of one Barker test, as a function of an array of orders.

    The test of Heikkilä, Jälkö, Dikmen & Honkela (2019) releases N(λ, variance - σ²) where, for a batch of b of the n
    records with log-likelihood ratios r_j and tempering T, λ = (nT/b)·Σ r_j plus what is public, and σ² = (nT)²/b·S²
    estimates the variance of λ over batches, S² = Σ(r_j - r̄)²/(b-1) (times 1 - b/n or not: the bound covers both).
    Ratios are clipped so that abs(T·r_j) <= clip·√b/n.

    *What neighbours can do.*  With a_j = n·T·r_j in [-c, c], c = clip·√b, λ is the mean of the a_j and σ² = Σ(a_j -
    ā)²/(b(b-1)).  Replacing x by x' moves λ by at most 2c/b = 2·clip/√b =: d.  The sum of squares is at most b·c² (even
    b; (b - 1/b)·c² for odd b), so σ² lies between 0 and w = clip²·b/(b-1) (clip²·(b+1)/b).  With m the mean of the
    others, the sum of squares moves by (b-1)/b·((x-m)² - (x'-m)²), and both squares lie in [0, (2c)²], so σ² moves by
    at most 4c²/b² = 4·clip²/b =: h.  All are attained, though not together; the supremum below is over all variances in
    [variance - w, variance] at most h apart and means at most d apart, which is more than what records can do.

    *Rényi divergence.*  For P = N(m1, v), Q = N(m2, v'), v* = αv' + (1-α)v = v' - (α-1)(v - v') > 0 (Gil, Alajaji &
    Linder 2013),

        D_α(P, Q) = α(m1 - m2)²/(2v*) + F(r),   F(r) = -½·log(1+r) - 1/(2(α-1))·log(1 - (α-1)r),   r = (v - v')/v'.

    v* is least at the least v' and the largest v - v'.  F'(r) = ½·αr/((1+r)(1-(α-1)r)) has the sign of r, so F is
    largest at an end of the range of r, which is [-h/(v0+h), h/v0] with v0 = variance - w.  So with v* = v0 - (α-1)h,

        D_α <= α·d²/(2v*) + max{F(h/v0), F(-h/(v0+h))},   and inf where v* <= 0.

    At α >= 2 the first of the two is the larger, and the bound is that supremum itself.  Theorem 8 of the thesis bounds
    the logarithms of v and v' apart from each other, which leaves ½·log(2)/(α-1) for ever so large a batch.

    Parameters
    ----------
    batch_size : int
        b, at least 2.
    variance : float, default=2.0
        Variance of the whole normal noise of the test, batch and privacy together; above clip²·b/(b-1).  (A Barker test
        needs variance < π²/3.)
    clip : float, default=1.0
        Clipping bound in units of √b/n, positive.  A smaller one costs less and clips more.

    Returns
    -------
    rdp : BarkerCurve
        ``rdp(orders)`` has the shape of ``orders``; nats.  For :class:`SubsampledReleases`.

    Raises
    ------
    ValueError
        For a number out of its range, or where clipped ratios could use up all of the variance.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import barker_rdp
    >>> barker_rdp(batch_size=1000)([2.0, 10.0, 400.0]).round(5)
    array([0.00403, 0.02081,     inf])
    """
    return BarkerCurve(
        check_count("batch_size", batch_size, 2), _positive("variance", variance), _positive("clip", clip)
    )


@dataclass(frozen=True)
class BarkerCurve:
    """The function that :func:`barker_rdp` returns; a value, so that it can be compared, stored and sent."""

    batch_size: int
    variance: float = 2.0
    clip: float = 1.0

    def __post_init__(self):
        if self.least_variance <= 0:
            most = self.clip * sqrt(self.variance / self.most_batch_variance)
            raise ValueError(
                f"clip={self.clip} lets the variance over batches reach {self.most_batch_variance:.6g}, and that must "
                f"stay below variance={self.variance}: pass clip < {most:.6g}"
            )

    @property
    def shift(self):
        """d: how far neighbours' means can be apart."""
        return 2.0 * self.clip / sqrt(self.batch_size)

    @property
    def most_batch_variance(self):
        """w: the largest σ² of clipped ratios."""
        b = self.batch_size
        return self.clip**2 * (b / (b - 1) if b % 2 == 0 else (b + 1) / b)

    @property
    def least_variance(self):
        """v0: the least variance of a release."""
        return self.variance - self.most_batch_variance

    @property
    def variance_change(self):
        """h: how far neighbours' variances can be apart."""
        return 4.0 * self.clip**2 / self.batch_size

    def __call__(self, orders):
        """Return the bound for each order."""
        orders = check_orders(orders)
        h, v0 = self.variance_change, self.least_variance
        with np.errstate(invalid="ignore", divide="ignore"):
            v_star = v0 - (orders - 1.0) * h
            mean = 0.5 * orders * self.shift**2 / v_star
            spread = np.maximum(_spread(h / v0, orders), _spread(-h / (v0 + h), orders))
            return np.where((v_star > 0) & np.isfinite(orders), mean + np.maximum(spread, 0.0), np.inf)


def _spread(r, orders):
    """F(r): what the change of variance alone reveals."""
    return -0.5 * np.log1p(r) - 0.5 * np.log1p(-(orders - 1.0) * r) / (orders - 1.0)


def _positive(name, value):
    check_number(name, value, 0)
    return float(value)
