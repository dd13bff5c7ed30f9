"""The density of confidential records: posterior mean with its band."""

import warnings
from collections.abc import Mapping
from inspect import signature
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import check_level, feature_number, positive_integer, tails
from .._chains.draws import central_interval
from ._display_checks import check_estimator, interval, names_of_features, vector
from ._style import BLUE, PALE, label, legend_at_top, one_axes, require_matplotlib, style

FEWEST_BINS, MOST_BINS = 10, 60
CENTRAL = 0.99  # share of the population that the points cover if none are given
MARGIN = 0.15  # share of that range, added at either end


class DensityDisplay:
    """Density of a confidential record: posterior mean, with a pointwise band.

    Use :meth:`from_estimator` or :meth:`from_draws`; the constructor takes the numbers themselves.

    Parameters
    ----------
    points : array-like of shape (n_points,)
        Points at which the density is plotted, increasing, in the records' unit.
    density : array-like of shape (n_points,)
        Density per unit.
    band : pair (lower, upper) of array-likes of shape (n_points,), optional
    level : float in (0, 1), optional
        Level of the band; it goes into the legend.
    curves : dict of str to array-like of shape (n_points,), optional
        Other densities to compare with, by their names in the legend.
    records : array-like of shape (n_records,) or (n_records, 1), optional
        Confidential records, for a curator who has them: a filled histogram.
    release : array-like of shape (n_records,) or (n_records, 1), optional
        Privatised records: the outline of their histogram is the density that ignores the noise.
    feature_name : str, default="record"
    unit : str, optional
        Unit of the records, such as "kg".

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    line_ : matplotlib Line2D
        The posterior mean.
    band_ : matplotlib FillBetweenPolyCollection or None
    curves_ : dict of str to Line2D
    records_, release_ : matplotlib StepPatch or None
        Bars show the records at ``points``; their height is relative to all records.

    Raises
    ------
    ValueError
        For arrays that do not fit together, and a level outside (0, 1).

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_dpmix import PrivateDPMixture
    >>> from sklearn_dpmix.datasets import make_three_normals
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.plotting import DensityDisplay
    >>> X, _ = make_three_normals(200, random_state=0)
    >>> mechanism = LaplaceMechanism(epsilon=50.0, bounds=(-10, 10))
    >>> Z = mechanism.privatize(X, random_state=1)
    >>> model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=500, n_draws=1500, random_state=2).fit(Z)
    >>> display = DensityDisplay.from_estimator(model, level=0.9, feature_name="position", unit="km")
    >>> display.ax_.get_xlabel(), display.ax_.get_ylabel()
    ('position (km)', 'density (per km)')
    >>> plt.close(display.figure_)
    """

    def __init__(
        self,
        *,
        points: ArrayLike,
        density: ArrayLike,
        band: ArrayLike | None = None,
        level: float | None = None,
        curves: Mapping[str, Any] | None = None,
        records: ArrayLike | None = None,
        release: ArrayLike | None = None,
        feature_name: str = "record",
        unit: str | None = None,
    ) -> None:
        self.points = _check_points(points)
        size = len(self.points)
        self.density = vector("density", density, size)
        self.band = None if band is None else interval("band", band, size)
        self.level = None if level is None else check_level(level)
        self.curves = {str(name): vector(f"curves[{name!r}]", y, size) for name, y in _named("curves", curves).items()}
        self.records = None if records is None else vector("records", records, what="one number per record")
        self.release = None if release is None else vector("release", release, what="one number per record")
        self.feature_name, self.unit = feature_name, unit

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        points: ArrayLike | None = None,
        n_points: int = 200,
        level: float = 0.95,
        feature: Any = None,
        compare: Any = None,
        records: ArrayLike | None = None,
        release: ArrayLike | None = None,
        feature_name: str | None = None,
        unit: str | None = None,
        ax: Any = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Plot the posterior density of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with ``density_interval`` and ``score_samples``
            Such as :class:`~sklearn_dpmix.PrivateDPMixture`.
        points : array-like of shape (n_points,), optional
            None: ``n_points`` over the central 99 % of the population (posterior median) and a little more.
        n_points : int, default=200
        level : float in (0, 1), default=0.95
            Level of the band at each point.
        feature : int or str, optional
            Which feature, by number or name, if records have several.
        compare : dict of str to estimator, function or array-like, optional
            Other densities by name: a fitted estimator with ``score_samples`` (such as
            :class:`~sklearn_dpmix.DeconvolutionKDE`), a function of points (n_points,), or numbers at ``points``.
        records, release, unit :
            As for the class; of a table with all features, ``feature`` is shown.
        feature_name : str, optional
            None: the estimator's ``feature_names_in_``, otherwise "x0".
        ax : matplotlib Axes, optional
            None: a new figure.
        **plot_kwargs :
            For :meth:`plot`.

        Returns
        -------
        display : DensityDisplay

        Raises
        ------
        TypeError
            For an estimator that lacks these methods, and an ``ax`` that is not Axes.
        ValueError
            For several features, categories, and numbers that do not fit.
        sklearn.exceptions.NotFittedError
        """
        caller = f"{cls.__name__}.from_estimator"
        require_matplotlib(caller)
        check_estimator(
            estimator,
            caller,
            "density_interval",
            "score_samples",
            instead="a density without a band goes into compare=",
        )
        level = check_level(level)
        margin, j, n_features = _margin(estimator, feature)
        if getattr(getattr(estimator, "kernel_", None), "n_categories", None) is not None:
            raise ValueError(
                f"{caller} draws densities, but the records of estimator={estimator!r} are categories: draw bars of "
                "density_draws([[0], [1], ...])"
            )
        records, release = (_column(values, j, n_features) for values in (records, release))
        points = _default_points(estimator, n_points, j, records) if points is None else _check_points(points)
        X = points[:, None]
        if feature_name is None:
            feature_name = names_of_features(None, estimator, n_features)[j]
        display = cls(
            points=points,
            density=np.exp(_at_points(estimator.score_samples, X, **margin)),
            band=_at_points(estimator.density_interval, X, level=level, **margin),
            level=level,
            curves={name: _evaluate(curve, points, feature) for name, curve in _named("compare", compare).items()},
            records=records,
            release=release,
            feature_name=feature_name,
            unit=unit,
        )
        return display.plot(ax, **plot_kwargs)

    @classmethod
    def from_draws(
        cls, points: ArrayLike, draws: ArrayLike, *, level: float = 0.95, ax: Any = None, **parameters: Any
    ) -> Self:
        """Plot the mean and the band of draws of a density.

        Parameters
        ----------
        points : array-like of shape (n_points,)
        draws : array-like of shape (..., n_points)
            Such as ``density_draws(points[:, None])``; the leading axes are draws.
        level : float in (0, 1), default=0.95
        ax : matplotlib Axes, optional
        **parameters :
            ``curves``, ``records``, ``release``, ``feature_name``, ``unit``, as for the class.

        Returns
        -------
        display : DensityDisplay
        """
        require_matplotlib(f"{cls.__name__}.from_draws")
        points, draws = _check_points(points), np.asarray(draws, dtype=np.float64)
        if draws.ndim < 2 or draws.shape[-1] != len(points) or draws.size == 0:
            raise ValueError(
                f"draws must have shape (..., {len(points)}), one column per point, got shape {draws.shape}"
            )
        draws = draws.reshape(-1, len(points))
        band = central_interval(draws, level)
        return cls(points=points, density=draws.mean(axis=0), band=band, level=level, **parameters).plot(ax)

    def plot(
        self,
        ax: Any = None,
        *,
        line_kwargs: dict[str, Any] | None = None,
        band_kwargs: dict[str, Any] | None = None,
        records_kwargs: dict[str, Any] | None = None,
    ) -> Self:
        """Plot the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: a new figure.
        line_kwargs, band_kwargs, records_kwargs : dict, optional
            For matplotlib's ``plot``, ``fill_between`` and ``stairs``.

        Returns
        -------
        self
        """
        ax = one_axes(ax, f"{type(self).__name__}.plot")
        self.ax_, self.figure_, points = ax, ax.figure, self.points
        self.records_ = self.release_ = self.band_ = None
        edges = self._edges()
        if self.records is not None:
            filled = {"fill": True, "color": PALE, "label": "confidential records", **(records_kwargs or {})}
            self.records_ = ax.stairs(_heights(self.records, edges), edges, **filled)
        if self.release is not None:
            self.release_ = ax.stairs(
                _heights(self.release, edges), edges, linewidth=1.3, label="release, noise ignored", **style(1)
            )
        if self.band is not None:
            share = "band" if self.level is None else f"{100 * self.level:g} % band"
            look = {"facecolor": (BLUE, 0.2), "edgecolor": (BLUE, 0.4), "hatch": "///", "linewidth": 0.0}
            look |= {"label": f"pointwise {share}", **(band_kwargs or {})}
            self.band_ = ax.fill_between(points, *self.band, **look)
        self.curves_ = {}
        for i, (name, y) in enumerate(self.curves.items(), start=1):
            shift = self.release is not None  # the release has the second style
            (self.curves_[name],) = ax.plot(points, y, label=name, linewidth=1.5, **style(i + shift))
        solid = {"color": BLUE, "linewidth": 2.0, "label": "posterior mean", **(line_kwargs or {})}
        (self.line_,) = ax.plot(points, self.density, **solid)
        ax.set(xlabel=label(self.feature_name, self.unit), xlim=(points[0], points[-1]))
        ax.set_ylabel("density" if self.unit is None else f"density (per {self.unit})")
        artists = [self.line_, self.band_, *self.curves_.values(), self.release_, self.records_]
        ax.set_ylim(0.0)
        legend_at_top(ax, [artist for artist in artists if artist is not None])
        return self

    def _edges(self):
        """Bins over the points, as many as the square root of the number of records there, so that several modes show.

        Of integers each holds as many, so that none is empty for its place alone.
        """
        low, high = self.points[0], self.points[-1]
        shown = [data for data in (self.records, self.release) if data is not None]
        data = shown[0] if shown else None
        n_inside = 0 if data is None else np.count_nonzero((data >= low) & (data <= high))
        n_bins = int(np.clip(np.sqrt(n_inside), FEWEST_BINS, MOST_BINS))
        whole = [np.array_equal(one, np.rint(one)) for one in shown]
        if any(whole) and (whole[0] or high - low >= n_bins):  # else a release of bits would decide for real records
            width = max(round((high - low) / n_bins), 1.0)
            return np.arange(np.rint(low) - 0.5, high + width, width)
        return np.linspace(low, high, n_bins + 1)


def _column(values, j, n_features):
    """Column ``j`` of a table with all features, or what is none."""
    is_table = n_features > 1 and np.shape(values)[1:] == (n_features,)
    return np.asarray(values)[:, j] if is_table else values


def _heights(data, edges):
    """Histogram as a density: of all data, those beyond the edges too."""
    counts, _ = np.histogram(data, bins=edges)
    return counts / (len(data) * np.diff(edges))


def _check_points(points):
    points = vector("points", points, what="increasing")
    if len(points) < 2 or np.any(np.diff(points) <= 0):
        raise ValueError(f"points must be at least two increasing numbers, got {len(points)} points: sort them")
    return points


def _named(name, curves):
    if curves is not None and not isinstance(curves, Mapping):
        raise TypeError(f"{name} must be a dict of a name to a density, got {name}={curves!r}")
    return curves or {}


def _evaluate(curve, points, feature):
    if hasattr(curve, "score_samples"):
        margin = _margin(curve, feature)[0] if _n_features(curve) > 1 else {}
        return np.exp(_at_points(curve.score_samples, points[:, None], **margin))
    return curve(points) if callable(curve) else curve


def _at_points(method, X, **parameters):
    """What a method of an estimator returns at points of the display's, which have no names of columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
        return method(X, **parameters)


def _margin(estimator, feature):
    """Return (keyword arguments for the estimator's methods, the feature, the number of features)."""
    n_features = _n_features(estimator)
    if feature is None and n_features > 1:
        raise ValueError(
            f"DensityDisplay draws the density of one feature, and confidential records have {n_features}: pass "
            "feature=0, or another"
        )
    names = getattr(estimator, "feature_names_in_", ())
    j = feature_number(0 if feature is None else feature, names, n_features)
    if n_features == 1:
        return {}, j, n_features
    if "feature" not in signature(estimator.score_samples).parameters:
        raise ValueError(
            f"feature={feature!r}, but {type(estimator).__name__} offers no density of one of {n_features} features: "
            "draw a histogram of estimator.sample(n)[:, j]"
        )
    return {"feature": j}, j, n_features


def _n_features(estimator):
    return getattr(estimator, "_n_features_", getattr(estimator, "n_features_in_", 1))


def _default_points(estimator, n_points, j, records):
    """Evenly spaced points over the central part of the population, or of the records."""
    positive_integer("n_points", n_points, least=2)
    q = tails(CENTRAL)
    if hasattr(estimator, "quantile_draws"):
        draws = np.asarray(getattr(estimator, "_density_quantiles", estimator.quantile_draws)(q))
        draws = draws[..., j] if draws.ndim == 4 else draws
        low, high = np.median(draws.reshape(-1, 2), axis=0)
    elif records is not None:
        low, high = np.quantile(vector("records", records), q)
    else:
        raise ValueError(
            f"points=None, but {type(estimator).__name__} has no quantile_draws to say where its density is: "
            "pass points"
        )
    extra = MARGIN * (high - low) if high > low else 1.0
    return np.linspace(low - extra, high + extra, int(n_points))
