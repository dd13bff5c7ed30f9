"""Coefficients with their intervals."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import check_level
from .._chains.draws import central_interval
from ._display_checks import check_estimator, interval, names_of_features, vector
from ._style import BLACK, BLUE, ORANGE, PALE, label, legend_at_top, one_axes, require_matplotlib

APART = 0.13  # distance, in rows, from the middle of a row to either method


class CoefficientDisplay:
    """Posterior intervals of coefficients, one row per coefficient, next to a naive estimate and the truth.

    Use :meth:`from_estimator` or :meth:`from_draws`; the constructor takes the numbers themselves.

    Parameters
    ----------
    estimate : array-like of shape (n_features,)
    band : pair (lower, upper) of array-likes of shape (n_features,)
        The intervals.
    level : float in (0, 1), optional
        Level of the intervals; it goes into the legend.
    naive : array-like of shape (n_features,), optional
        Another estimate, such as the one that ignores the noise; NaN if there is none.
    naive_band : pair (lower, upper) of array-likes of shape (n_features,), optional
        Its intervals; NaN if there is none.
    truth : array-like of shape (n_features,), optional
        True coefficients of a simulation, or those without privacy.
    feature_names : list of str, optional
        None: x0, x1, ...
    unit : str, optional
        Unit of the coefficients, such as "log share per log income".
    naive_name, truth_name : str
        Names in the legend.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    estimates_ : matplotlib Line2D
    intervals_ : matplotlib LineCollection
    naive_ : matplotlib Line2D or None
    naive_intervals_ : matplotlib LineCollection or None
    truth_ : matplotlib Line2D or None
        Vertical strokes.

    Raises
    ------
    ValueError
        For arrays that do not fit together, and a level outside (0, 1).

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateLinearRegressionDA
    >>> from sklearn_dpmix.plotting import CoefficientDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = X @ [2.0, -1.0] + rng.normal(size=200)
    >>> model = PrivateLinearRegressionDA(n_chains=2, n_draws=500, random_state=1).fit(X, y)
    >>> display = CoefficientDisplay.from_estimator(model, truth=[2.0, -1.0], feature_names=["age", "dose"])
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['age', 'dose']
    >>> plt.close(display.figure_)
    """

    def __init__(
        self,
        *,
        estimate: ArrayLike,
        band: ArrayLike,
        level: float | None = None,
        naive: Any = None,
        naive_band: ArrayLike | None = None,
        truth: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        unit: str | None = None,
        naive_name: str = "naive",
        truth_name: str = "truth",
    ) -> None:
        self.estimate = vector("estimate", estimate, what="one per coefficient")
        n = len(self.estimate)
        self.band = interval("band", band, n)
        self.level = None if level is None else check_level(level)
        self.naive = None if naive is None else vector("naive", naive, n, "one per coefficient", allow_nan=True)
        if naive_band is not None and naive is None:
            raise ValueError("naive_band was given without naive: pass the estimates as well")
        self.naive_band = None if naive_band is None else interval("naive_band", naive_band, n)
        self.truth = None if truth is None else vector("truth", truth, n, "one per coefficient")
        self.feature_names = names_of_features(feature_names, None, n)
        self.unit, self.naive_name, self.truth_name = unit, naive_name, truth_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        level: float = 0.95,
        naive: Any = None,
        naive_band: ArrayLike | None = None,
        truth: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        unit: str | None = None,
        naive_name: str = "naive",
        truth_name: str = "truth",
        ax: Any = None,
    ) -> Self:
        """Plot the coefficients of a fitted regression or classifier.

        Parameters
        ----------
        estimator : fitted estimator with ``coef_`` and ``coef_draws_``
            Such as :class:`~sklearn_dpmix.PrivateLinearRegressionDA` and
            :class:`~sklearn_dpmix.DPLogisticRegressionMCMC`.  The intercept is left out.
        level : float in (0, 1), default=0.95
            Level of the central posterior intervals.
        naive : array-like of shape (n_features,) or fitted estimator with ``coef_``, optional
            If the latter has ``coef_draws_``, its own intervals of the same level are shown.
        naive_band, truth, unit, naive_name, truth_name :
            As for the class.
        feature_names : list of str, optional
            None: the estimator's ``feature_names_in_``, otherwise x0, x1, ...
        ax : matplotlib Axes, optional

        Returns
        -------
        display : CoefficientDisplay

        Raises
        ------
        TypeError
            For an estimator without draws of coefficients.
        ValueError
            For arrays that do not fit together, and a level outside (0, 1).
        sklearn.exceptions.NotFittedError
        """
        caller = f"{cls.__name__}.from_estimator"
        require_matplotlib(caller)
        check_estimator(estimator, caller, "coef_", "coef_draws_", instead="other estimates go into naive=")
        if hasattr(naive, "fit"):
            check_estimator(naive, f"naive= of {caller}", "coef_")
            if hasattr(naive, "coef_draws_"):
                naive_band = central_interval(naive.coef_draws_, level)
            naive = np.ravel(naive.coef_)
        estimate = np.ravel(estimator.coef_)
        return cls(
            estimate=estimate,
            band=central_interval(estimator.coef_draws_, level),
            level=level,
            naive=naive,
            naive_band=naive_band,
            truth=truth,
            feature_names=names_of_features(feature_names, estimator, len(estimate)),
            unit=unit,
            naive_name=naive_name,
            truth_name=truth_name,
        ).plot(ax)

    @classmethod
    def from_draws(cls, draws: ArrayLike, *, level: float = 0.95, ax: Any = None, **parameters: Any) -> Self:
        """Plot means and central intervals of draws.

        Parameters
        ----------
        draws : array-like of shape (..., n_features)
            The leading axes are draws.
        level : float in (0, 1), default=0.95
        ax : matplotlib Axes, optional
        **parameters :
            ``naive``, ``naive_band``, ``truth``, ``feature_names``, ``unit`` and names, as for the class.

        Returns
        -------
        display : CoefficientDisplay
        """
        require_matplotlib(f"{cls.__name__}.from_draws")
        draws = np.asarray(draws, dtype=np.float64)
        if draws.ndim < 2 or draws.size == 0:
            raise ValueError(
                f"draws must have shape (..., n_features), one column per coefficient, got shape {draws.shape}"
            )
        estimate = draws.reshape(-1, draws.shape[-1]).mean(axis=0)
        return cls(estimate=estimate, band=central_interval(draws, level), level=level, **parameters).plot(ax)

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
        n = len(self.estimate)
        ax = one_axes(ax, f"{type(self).__name__}.plot", figsize=(6.0, 1.4 + 0.5 * n))
        self.ax_, self.figure_, handles = ax, ax.figure, {}
        self.naive_ = self.naive_intervals_ = self.truth_ = None
        rows, apart = np.arange(n), 0.0 if self.naive is None else APART
        ax.axvline(0.0, color=PALE, linewidth=1.0, zorder=0)
        self.intervals_ = _draw_intervals(ax, rows - apart, self.band, BLUE, "-")
        (self.estimates_,) = ax.plot(self.estimate, rows - apart, "o", color=BLUE, markersize=6)
        share = "interval" if self.level is None else f"{100 * self.level:g} % interval"
        handles[f"posterior, {share}"] = self.intervals_, self.estimates_
        if self.naive is not None:
            (self.naive_,) = ax.plot(self.naive, rows + apart, "D", color=ORANGE, markersize=5)
            handles[self.naive_name] = (self.naive_,)  # type: ignore[assignment]
            if self.naive_band is not None:
                self.naive_intervals_ = _draw_intervals(ax, rows + apart, self.naive_band, ORANGE, "--")
                handles[self.naive_name] = self.naive_intervals_, self.naive_
        if self.truth is not None:
            (self.truth_,) = ax.plot(self.truth, rows, "|", color=BLACK, markersize=17, markeredgewidth=1.8, zorder=3)
            handles[self.truth_name] = (self.truth_,)  # type: ignore[assignment]
        ax.set_yticks(rows, self.feature_names)
        ax.set_ylim(n - 0.5, -0.5)
        ax.set_xlabel(label("coefficient", self.unit))
        legend_at_top(ax, list(handles.values()), list(handles))
        return self


def _draw_intervals(ax, rows, band, color, line):
    has = np.isfinite(band[0]) & np.isfinite(band[1])
    return ax.hlines(rows[has], band[0][has], band[1][has], color=color, linestyle=line, linewidth=1.8)
