"""What privacy costs: an answer, or its error, as ε grows."""

from collections.abc import Mapping
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.choices import in_proportion
from .._base.parameters import numbers, tails
from ._display_checks import check_estimator, interval, vector
from ._style import BLACK, MARKERS, label, legend_at_top, one_axes, require_matplotlib, style

DODGE = 1.04  # factor between the ε at which two methods' points are plotted, so that their bars can be told apart
MOST_TICKS = 8


class UtilityCurve(NamedTuple):
    """One method's values."""

    epsilon: np.ndarray
    value: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None


class PrivacyUtilityDisplay:
    """A quantity against ε, on a log axis: estimates with intervals, or errors, of one or several methods.

    Use :meth:`from_estimators` or :meth:`from_values`; the constructor takes the numbers themselves.  Points of several
    methods are drawn a little apart, so that their bars can be told apart.

    Parameters
    ----------
    curves : dict of str to (epsilon, value) or (epsilon, value, lower, upper)
        Array-likes of shape (n_epsilons,) by the name of the method; ``lower`` and ``upper`` may be NaN if there is no
        interval.
    reference : float or dict of str to float, optional
        Horizontal lines: the truth, or the answer without privacy.  A number is named "truth".
    value_name : str, default="estimate"
    unit : str, optional
        Unit of the value.

    Attributes
    ----------
    curves : dict of str to UtilityCurve
        Sorted by ε.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to Line2D
        The values, each with a marker.
    intervals_ : dict of str to LineCollection
        Those of the methods that have intervals.
    references_ : dict of str to Line2D

    Raises
    ------
    ValueError
        For ε that are not positive, and arrays that do not fit together.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_dpmix import PrivateExpFamilyGibbs
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.plotting import PrivacyUtilityDisplay
    >>> from sklearn_dpmix.queries import SufficientStatistics
    >>> models = {}
    >>> for epsilon in (0.01, 0.1, 1.0):
    ...     mechanism = LaplaceMechanism(epsilon, query=SufficientStatistics("binomial"))
    ...     model = PrivateExpFamilyGibbs(mechanism, family="binomial", n_records=1000, random_state=0)
    ...     models[epsilon] = model.fit([300.0])
    >>> display = PrivacyUtilityDisplay.from_estimators(
    ...     models, lambda model: model.theta_draws_, reference=0.3, value_name="share of ones"
    ... )
    >>> curve = display.curves["posterior"]
    >>> (curve.upper - curve.lower).round(2)
    array([0.52, 0.08, 0.06])
    >>> plt.close(display.figure_)
    """

    def __init__(
        self,
        curves: Any,
        *,
        reference: float | Mapping[str, float] | None = None,
        value_name: str = "estimate",
        unit: str | None = None,
    ) -> None:
        if not isinstance(curves, Mapping) or not curves:
            raise TypeError(f"curves must be a dict of a name to (epsilon, value[, lower, upper]), got {curves!r}")
        self.curves = {str(name): _curve(name, arrays) for name, arrays in curves.items()}
        self.reference = _references(reference)
        self.value_name, self.unit = value_name, unit

    @classmethod
    def from_values(
        cls,
        epsilon: ArrayLike,
        values: ArrayLike | Mapping[str, ArrayLike],
        *,
        intervals: Any = None,
        reference: float | Mapping[str, float] | None = None,
        value_name: str = "estimate",
        unit: str | None = None,
        name: str = "posterior",
        ax: Any = None,
    ) -> Self:
        """Plot numbers that you already have.

        Parameters
        ----------
        epsilon : array-like of shape (n_epsilons,)
        values : array-like of shape (n_epsilons,), or dict of str to such
            Values of one method, or of several by name.
        intervals : pair (lower, upper) of array-likes of shape (n_epsilons,), or dict of str to such, optional
            A dict may leave methods out.
        reference, value_name, unit :
            As for the class.
        name : str, default="posterior"
            Name of the method, if ``values`` is not a dict.
        ax : matplotlib Axes, optional

        Returns
        -------
        display : PrivacyUtilityDisplay
        """
        require_matplotlib(f"{cls.__name__}.from_values")
        if not isinstance(values, Mapping):
            values, intervals = {name: values}, {name: intervals}
        intervals = {} if intervals is None else intervals
        if not isinstance(intervals, Mapping) or not set(intervals) <= set(values):
            raise ValueError(
                f"intervals must be a dict with names among {list(values)}, as values is, got {intervals!r}"
            )
        curves = {}
        for key, value in values.items():
            ends = intervals.get(key)
            if ends is not None and (not hasattr(ends, "__len__") or len(ends) != 2):
                raise ValueError(f"intervals must be pairs (lower, upper), got {ends!r} for {key!r}")
            curves[key] = (epsilon, value, *(ends if ends is not None else ()))
        return cls(curves, reference=reference, value_name=value_name, unit=unit).plot(ax)

    @classmethod
    def from_estimators(
        cls,
        estimators: Any,
        quantity: Any,
        *,
        level: float = 0.95,
        reference: float | Mapping[str, float] | None = None,
        value_name: str = "estimate",
        unit: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Plot the posterior mean and interval of a quantity for models that were fitted at several ε.

        Parameters
        ----------
        estimators : dict of float to fitted estimator, or dict of str to such
            By ε, or by method and then by ε.
        quantity : function of a fitted estimator
            Returns draws of one number, an array of any shape such as ``model.moment_draws().mean``; or one number,
            such as ``model.score(X)``, which gets no interval.  A model whose draws have ``weights_`` is given to it
            with draws repeated in proportion to them.
        level : float in (0, 1), default=0.95
            Level of the central interval of the draws.
        reference, value_name, unit :
            As for the class.
        ax : matplotlib Axes, optional

        Returns
        -------
        display : PrivacyUtilityDisplay

        Raises
        ------
        TypeError
            For something that is not a fitted estimator, and a quantity that is not a function.
        sklearn.exceptions.NotFittedError
        """
        caller = f"{cls.__name__}.from_estimators"
        require_matplotlib(caller)
        if not isinstance(estimators, Mapping) or not estimators:
            raise TypeError(f"estimators must be a dict of ε to a fitted estimator, got {estimators!r}")
        if not callable(quantity):
            raise TypeError(
                f"quantity must be a function of a fitted estimator that returns draws, got {quantity!r}: such as "
                "lambda model: model.moment_draws().mean"
            )
        ends = tails(level)
        methods = estimators
        if not all(isinstance(models, Mapping) for models in estimators.values()):
            methods = {"posterior": estimators}
        curves = {}
        for name, models in methods.items():
            rows = []
            for epsilon, model in models.items():
                check_estimator(model, caller)
                rows.append((epsilon, *_mean_and_interval(quantity(_without_weights(model)), ends)))
            curves[name] = tuple(zip(*rows, strict=True))
        return cls(curves, reference=reference, value_name=value_name, unit=unit).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Plot the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: a new figure.

        Returns
        -------
        self
        """
        ax = one_axes(ax, f"{type(self).__name__}.plot")
        self.ax_, self.figure_, self.references_, self.lines_, self.intervals_ = ax, ax.figure, {}, {}, {}
        for i, (name, value) in enumerate(self.reference.items()):
            dashes = (":", (0, (1, 3)), (0, (4, 2, 1, 2)))[i % 3]
            self.references_[name] = ax.axhline(value, color=BLACK, linestyle=dashes, linewidth=1.3, label=name)
        middle = 0.5 * (len(self.curves) - 1)
        for i, (name, curve) in enumerate(self.curves.items()):
            x, look = curve.epsilon * DODGE ** (i - middle), style(i)
            if curve.lower is not None and np.any(np.isfinite(curve.lower)):
                has = np.isfinite(curve.lower) & np.isfinite(curve.upper)
                self.intervals_[name] = ax.vlines(
                    x[has], curve.lower[has], curve.upper[has], color=look["color"], linewidth=1.8
                )
            (self.lines_[name],) = ax.plot(
                x, curve.value, marker=MARKERS[i % len(MARKERS)], markersize=5, linewidth=1.0, label=name, **look
            )
        self._label_axes(ax)
        if len(self.lines_) + len(self.references_) > 1:
            legend_at_top(ax, [*self.lines_.values(), *self.references_.values()])
        return self

    def _label_axes(self, ax):
        from matplotlib.ticker import FixedLocator, NullLocator

        epsilons = np.unique(np.concatenate([curve.epsilon for curve in self.curves.values()]))
        ax.set_xscale("log")
        apart = np.diff(np.log(epsilons)).min() if len(epsilons) > 1 else 1.0
        span = np.log(epsilons[-1] / epsilons[0])
        if len(epsilons) <= MOST_TICKS and apart >= 0.05 * span:
            ax.xaxis.set_major_locator(FixedLocator(epsilons))
            ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("ε (smaller is more private)")
        ax.set_ylabel(label(self.value_name, self.unit))


def _curve(name, arrays):
    """Check one method's arrays and sort them by ε."""
    if not hasattr(arrays, "__len__") or isinstance(arrays, str) or len(arrays) not in (2, 4):
        raise ValueError(f"curves[{name!r}] must be (epsilon, value) or (epsilon, value, lower, upper), got {arrays!r}")
    arrays = tuple(arrays)
    epsilon = vector("epsilon", arrays[0], what="one ε a value")
    if np.any(epsilon <= 0):
        raise ValueError(f"epsilon must be positive, got {epsilon.min():g}: the axis is logarithmic")
    value = vector(f"values of {name!r}", arrays[1], len(epsilon), "one a value of epsilon", allow_nan=True)
    order = np.argsort(epsilon)
    ends = [end[order] for end in interval(f"interval of {name!r}", arrays[2:], len(epsilon))] if arrays[2:] else []
    return UtilityCurve(epsilon[order], value[order], *ends)


def _references(reference: Any) -> dict[str, float]:
    if reference is None:
        return {}
    named = reference if isinstance(reference, Mapping) else {"truth": reference}
    for name, value in named.items():
        number = numbers(value)
        if number is None or number.ndim or not np.isfinite(number):
            raise ValueError(f"reference must be a number, or a dict of a name to one, got {value!r} for {name!r}")
    return {str(name): float(value) for name, value in named.items()}


def _without_weights(model):
    """The model, or a copy in which draws with weights are repeated in proportion (systematic resampling)."""
    weights = getattr(model, "weights_", None)
    if weights is None or np.ptp(weights) == 0.0:
        return model
    n, model = len(weights), copy(model)
    rows = in_proportion(weights, n)
    draws = {name: value[rows] for name, value in vars(model).items() if name.endswith("_draws_")}
    vars(model).update(draws, weights_=np.full(n, 1.0 / n))
    return model


def _mean_and_interval(draws, ends):
    draws = numbers(draws)
    if draws is None or draws.size == 0:
        raise ValueError("quantity must return numbers, the draws of one quantity, or one number")
    if draws.size == 1:
        return draws.item(), np.nan, np.nan
    return (draws.mean(), *np.quantile(draws, ends))
