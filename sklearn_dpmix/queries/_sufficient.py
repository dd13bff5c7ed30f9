"""The sum of an exponential family's sufficient statistics (Bernstein & Sheldon 2018, §2 and §3.3)."""

import numpy as np
from numpy.typing import ArrayLike

from .._base.typing import Array
from ..models import Family, resolve_family
from ..models._scaling import scaling_of
from ._query import Query, as_records, named_bounds


class SufficientStatistics(Query):
    """Sum of the sufficient statistics t(x) of an exponential family, over records inside public bounds.

    Entries that are not integers are first mapped to roughly [-1, 1] by the bounds (``scaled``), so that the noise is
    divided well among them, whatever unit the records are in.

    A record outside the bounds is moved to the bound (``outside="clamp"``), or contributes 0 (``"drop"``, the
    truncation of Bernstein & Sheldon, §3.3).  These are different releases, and inference must know which one was made.

    Sensitivity, with x, x' inside the bounds:

    ==============  ===================  ===================================================
    ``outside``     ``"add_remove"``     ``"replace"``
    ==============  ===================  ===================================================
    ``"clamp"``     max ‖t(x)‖           max ‖t(x) - t(x')‖
    ``"drop"``      max ‖t(x)‖           the larger of both: a dropped record contributes 0
    ==============  ===================  ===================================================

    Both maxima have closed forms and are attained.  They are joint over the entries of t; the paper's supplement C adds
    up the entries' ranges, which gives at least as much.  For scaled statistics, with c the centre of the bounds and h
    their half width, they are:

    ===================  =============================  ==============  ===================
    family               t(x)                           max ‖t(x)‖      max ‖t(x) - t(x')‖
    ===================  =============================  ==============  ===================
    normal               (u, 2u² - 5/4), u = (x - c)/h  7/4; L2: 5/4    25/8; √(71 + 8√2)/4
    exponential, gamma   (x - c)/h                      1; 1            2; 2
    beta                 log x and log(1 - x), each     2; √2           4; 2√2
                         mapped to [-1, 1]
    ===================  =============================  ==============  ===================

    Parameters
    ----------
    family : str or Family
        ``"bernoulli"`` (or ``"binomial"``), ``"multinomial"`` (``"categorical"``), ``"poisson"``, ``"exponential"``,
        ``"gamma"``, ``"normal"``, ``"beta"``, or an object of :mod:`sklearn_dpmix.models`.
    bounds : pair (lo, hi), optional
        Public bounds, in the records' unit; inside the family's support, and integers if records are.  Bernoulli and
        multinomial records are bounded already and take none; the others have a sensitivity only with bounds.
    outside : {"clamp", "drop"}, default="clamp"
        What happens to a record outside the bounds.
    neighbours : {"replace", "add_remove"}, default="replace"
        The relation for which the guarantee holds.
    scaled : bool, default=True
        Whether the statistic of normal, exponential, gamma and beta records between bounds is scaled as above.  False:
        t(x) itself, (x, x²), x or (log x, log(1 - x)), for releases that were made in this way; the sensitivities are
        then ``radius`` and ``diameter`` of the family.  Other families have no scaling.

    Raises
    ------
    ValueError
        On use, for a wrong parameter; for records outside the family's support; for the sensitivity without bounds.

    References
    ----------
    Bernstein, Sheldon (2018), "Differentially private Bayesian inference for exponential families".

    Examples
    --------
    >>> from sklearn_dpmix.queries import SufficientStatistics
    >>> query = SufficientStatistics("normal", bounds=(0, 100))
    >>> query.statistic_names()
    ['sum((x-50)/50)', 'sum(2((x-50)/50)^2-5/4)']
    >>> query.value([75.0, 25.0, 130.0])  # clamped: 130 counts as 100
    array([ 1.  , -0.75])
    >>> query.sensitivity(norm=1)
    3.125
    >>> SufficientStatistics("normal", bounds=(0, 100), scaled=False).value([75.0, 25.0, 130.0])
    array([  200., 16250.])
    >>> SufficientStatistics("exponential", bounds=(2, 5), scaled=False).sensitivity()
    3.0
    >>> SufficientStatistics("exponential", bounds=(2, 5), outside="drop", scaled=False).sensitivity()
    5.0
    """

    def __init__(
        self,
        family: Family | str,
        bounds: ArrayLike | None = None,
        *,
        outside: str = "clamp",
        neighbours: str = "replace",
        scaled: bool = True,
    ) -> None:
        self.family = family
        self.bounds = bounds
        self.outside = outside
        self.neighbours = neighbours
        self.scaled = scaled

    @property
    def n_statistics(self) -> int:
        return self._family().n_statistics

    def statistic_names(self) -> list[str]:
        family = self._family()
        scaling = self._scaling(family)
        return [f"sum({label})" for label in (family.labels if scaling is None else scaling.labels)]

    def check(self) -> None:
        super().check()
        if not isinstance(self.outside, str) or self.outside not in ("clamp", "drop"):
            raise ValueError(
                'outside must be "clamp" (a record outside the bounds is moved to the bound) or "drop" (it contributes '
                f"0), got outside={self.outside!r}"
            )
        if not isinstance(self.scaled, (bool, np.bool_)):
            raise ValueError(f"scaled must be True or False, got scaled={self.scaled!r}")
        self._bounds(self._family())

    def _family(self):
        """The family, with everything set that a release needs."""
        family = resolve_family(self.family)
        family.check()
        if family.n_statistics is None:
            raise ValueError(
                f"family={self.family!r} must know its number of categories before anything is released: pass "
                f"{type(family).__name__}(n_categories=...)"
            )
        return family

    def _bounds(self, family):
        """(lo, hi) on which t is bounded, or None."""
        who = f"family {type(family).__name__}"
        if self.bounds is None:
            return family.support if family.is_bounded else None
        if family.is_bounded:
            raise ValueError(
                f"{who} is bounded as it is and takes no bounds, got bounds={self.bounds!r}: leave them out"
            )
        pair = named_bounds("bounds", self.bounds, 1)[0]
        lo, hi = family.support
        with np.errstate(over="ignore"):
            finite = np.isfinite(family.statistics(np.clip(pair, lo, hi))).all()
        if not finite or pair[0] < lo or pair[1] > hi:
            raise ValueError(
                f"bounds must be where the statistic of {who} is finite, inside its support from {lo:g} to {hi:g}, got "
                f"bounds={self.bounds!r}: move them inside"
            )
        if family.is_integer and not np.all(pair == np.floor(pair)):
            raise ValueError(f"bounds must be integers for {who}, as its records are, got bounds={self.bounds!r}")
        return tuple(pair.tolist())

    def _scaling(self, family):
        """The :class:`Scaling` of the statistic, or None."""
        bounds = self._bounds(family)
        return scaling_of(family, *bounds) if self.scaled and bounds is not None else None

    def contributions(self, records: ArrayLike) -> Array:
        self.check()
        family = self._family()
        who = f"family {type(family).__name__}"
        x = as_records(records, 1, "one number per record")[:, 0]
        lo, hi = family.support
        _refuse((x < lo) | (x > hi), x, f"inside the support of {who}, from {lo:g} to {hi:g}")
        if family.is_integer:
            _refuse(x != np.floor(x), x, f"integers for {who}")
        bounds = self._bounds(family)
        with np.errstate(over="ignore"):  # values that are not finite are refused
            inside = x if bounds is None else np.clip(x, *bounds)
            scaling = self._scaling(family)
            statistics = family.statistics(inside) if scaling is None else scaling.statistics(family, inside)
        _refuse(~np.isfinite(statistics).all(axis=1), x, f"where the statistic of {who} is finite; give bounds")
        if bounds is not None and self.outside == "drop":
            statistics[(x < bounds[0]) | (x > bounds[1])] = 0.0
        return statistics

    def _reach(self, norm, relation):
        family = self._family()
        bounds = self._bounds(family)
        if bounds is None:
            raise ValueError(
                f"bounds=None: one record can move the statistic of family {type(family).__name__} without limit; give "
                "bounds=(lo, hi), public and inside the support"
            )
        scaling = self._scaling(family)
        if scaling is None:
            radius, diameter = family.radius(*bounds, norm), family.diameter(*bounds, norm)
        else:
            radius, diameter = scaling.radius[norm - 1], scaling.diameter[norm - 1]
        if relation == "add_remove":
            return radius
        return max(radius, diameter) if self.outside == "drop" and not family.is_bounded else diameter


def _refuse(wrong, x, what):
    """Raise ValueError if ``wrong`` is true of a record."""
    if np.any(wrong):
        first = int(np.argmax(wrong))
        raise ValueError(
            f"records must be {what}, got {float(x[first])} at position {first}: correct it or leave it out"
        )
