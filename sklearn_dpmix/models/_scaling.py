"""Statistics in the units of public bounds, so that all entries of a release are worth their share of the noise.

A record x adds gain · t((x - centre)/unit) + offset, entry by entry, where t is the statistic of its family.  With
noise of one size, (Σx, Σx²) of records up to 100 says much less about the mean than about the variance.  The scaled
sums say as much about either, and the size of the noise does not depend on the unit of the records.
"""

from math import log, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from .._base.typing import Array
from ._continuous import Beta, Exponential, Gamma, Normal


class Scaling(NamedTuple):
    """How one family's statistic is scaled, for one pair of bounds."""

    labels: tuple[str, ...]
    centre: float  # of records
    unit: float
    gain: Array  # (n_statistics,)
    offset: Array
    low: tuple[float, ...]  # of each entry, over records inside the bounds
    high: tuple[float, ...]
    diameter: tuple[float, float]  # max ‖t̃(x) - t̃(x')‖ over records inside the bounds, in L1 and in L2
    radius: tuple[float, float]  # max ‖t̃(x)‖

    def statistics(self, family: Any, x: Array) -> Array:
        """What records (n,) inside the bounds add, (n, n_statistics); rounding does not take it out of its range."""
        scaled = self.gain * family.statistics((x - self.centre) / self.unit) + self.offset
        return np.clip(scaled, self.low, self.high)

    def bounds(self, lo: float, hi: float) -> tuple[float, float]:
        """The bounds in the units of this scaling."""
        return (lo - self.centre) / self.unit, (hi - self.centre) / self.unit


def scaling_of(family: Any, lo: float, hi: float) -> Scaling | None:
    """The scaling of a family between bounds; None for families of integers and for your own, which have none.

    It depends on the exact class, since a subclass may have another statistic.
    """
    make = SCALINGS.get(type(family))
    return None if make is None else make(float(lo), float(hi))


def middle(lo, hi):
    """(centre, half width) of an interval."""
    return 0.5 * lo + 0.5 * hi, 0.5 * hi - 0.5 * lo


def affine(name, centre, unit):
    """``(name - centre)/unit`` in words."""
    shifted = name if centre == 0.0 else f"({name}{-centre:+g})"
    return shifted if unit == 1.0 else f"{shifted}/{unit:g}"


def scale_normal(lo, hi):
    """t̃(x) = (u, 2u² - 5/4), with u from -1 at one bound to 1 at the other.

    *Diameter.*  abs(u - v) (1 + 2 abs(u + v)) in L1 and abs(u - v) √(1 + 4 (u + v)²) in L2 grow with abs(u - v) if u +
    v is fixed, so one of a furthest pair is a bound, by symmetry v = 1.  L1: (1 - u)(3 + 2u) is largest at u = -1/4,
    where it is 25/8.  L2: (1 - u)² (1 + 4 (1 + u)²) has the derivative -2 (1 - u)(8u² + 8u + 1), and is largest at u =
    √2/4 - 1/2, where it is (71 + 8√2)/16.

    *Radius.*  abs(u) + abs(2u² - 5/4) is 7/4 at a bound and at most 11/8 where the second is negative (u = 1/4).  In
    L2, s + (2s - 5/4)² is convex in s = u²: 5/4, squared 25/16, at s = 0 and at s = 1 alike.

    *The weight 2.*  With a weight w the L1 diameter is (1 + 2w)²/(4w), w >= 1/2.  With noise of that size, (sd of the
    mean)² + (sd of the sd)² is proportional to its square times 1 + (w · 2 sd)^-2, which is 1 + 4/w² for a population
    that fills half of the bounds (u of sd 1/4 about 0).  The smallest value is at w = 1.77, and w = 2 costs 1 % more
    variance (in L2: at w = 1.67, and 5 %).

    *The offset.*  Only the radius depends on it, for which 5/4 is the best in L2; in L1, 7/4 compares with 25/16 (half
    of the diameter) at an offset of 23/16.  Chebyshev's polynomial, offset 1, has 2 and √2.
    """
    c, h = middle(lo, hi)
    u = affine("x", c, h)
    square = f"2{u}^2" if u == "x" else f"2({u})^2"
    return Scaling(
        (u, f"{square}-5/4"), c, h, np.array([1.0, 2.0]), np.array([0.0, -1.25]), (-1.0, -1.25), (1.0, 0.75),
        (25.0 / 8.0, sqrt(71.0 + 8.0 * sqrt(2.0)) / 4.0), (1.75, 1.25),
    )  # fmt: skip


def scale_positive(lo, hi):
    """t̃(x) = (x - c)/h, from -1 to 1; the parameter is a rate, so the records keep their origin."""
    c, h = middle(lo, hi)
    return Scaling(
        (affine("x", c, h),), 0.0, h, np.ones(1), np.array([-c / h]), (-1.0,), (1.0,), (2.0, 2.0), (1.0, 1.0)
    )  # fmt: skip


def scale_beta(lo, hi):
    """log x and log(1 - x), each mapped to [-1, 1].

    Both are monotone, one up and the other down: the bounds are (-1, 1) and (1, -1), furthest from each other and from
    0.
    """
    c, h = middle(log(lo), log(hi))
    d, k = middle(log1p(-hi), log1p(-lo))
    return Scaling(
        (affine("log(x)", c, h), affine("log(1-x)", d, k)), 0.0, 1.0,
        np.array([1.0 / h, 1.0 / k]), np.array([-c / h, -d / k]), (-1.0, -1.0), (1.0, 1.0),
        (4.0, 2.0 * sqrt(2.0)), (2.0, sqrt(2.0)),
    )  # fmt: skip


SCALINGS: dict[type, Any] = {Normal: scale_normal, Exponential: scale_positive, Gamma: scale_positive, Beta: scale_beta}
