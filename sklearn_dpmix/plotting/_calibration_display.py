"""Whether posteriors are calibrated: ranks of the truth against the uniform distribution."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import check_level
from .._base.typing import Seed
from ..metrics import RankUniformity, posterior_ranks, rank_uniformity
from ._style import BLACK, PALE, legend_at_top, one_axes, require_matplotlib, style

MOST_NAMED = 6  # lines in the legend, those with the smallest p-values


class CalibrationDisplay:
    """Distribution function of the ranks of true values among posterior draws, minus the uniform one, with its band.

    Simulate parameters, records and releases, fit each release, and rank the truth among the draws.  If the posterior
    is right, ranks are uniform, and all lines stay within the band with probability at least ``level``.  A line above 0
    on the left and below 0 on the right means that the posterior is too narrow; the mirror image means that it is too
    wide.  A line all above 0 means that draws are too high; a line all below 0 means that they are too low.  Use
    :meth:`from_draws` or :meth:`from_ranks`.

    Parameters
    ----------
    uniformity : dict of str to RankUniformity
        What :func:`~sklearn_dpmix.metrics.rank_uniformity` returns, by name; all with the same number of simulations
        and draws.
    level : float in (0, 1)
        Joint level of the band, for all lines at all points.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    lines_ : dict of str to Line2D
    band_ : matplotlib FillBetweenPolyCollection

    References
    ----------
    Säilynoja, Bürkner, Vehtari (2022), Graphical test for discrete uniformity and its applications, Statistics and
    Computing 32:32.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_dpmix.plotting import CalibrationDisplay
    >>> rng = np.random.default_rng(0)
    >>> truth, draws = rng.normal(size=300), rng.normal(size=(300, 99))
    >>> display = CalibrationDisplay.from_draws({"right": draws, "too narrow": 0.5 * draws}, truth, level=0.999)
    >>> {name: found.inside for name, found in display.uniformity.items()}
    {'right': True, 'too narrow': False}
    >>> plt.close(display.figure_)
    """

    def __init__(self, uniformity: Mapping[str, RankUniformity], *, level: float) -> None:
        self.uniformity, self.level = dict(uniformity), check_level(level)
        if not self.uniformity:
            raise ValueError("uniformity must hold at least one quantity, got an empty dict")
        sizes = {(found.n_simulations, found.n_draws) for found in self.uniformity.values()}
        if len(sizes) > 1:
            raise ValueError(
                "uniformity must be of ranks with the same numbers of simulations and draws, which share one band, got "
                f"(n_simulations, n_draws) of {sorted(sizes)}: make a display of each"
            )

    @classmethod
    def from_ranks(
        cls,
        ranks: ArrayLike | Mapping[str, ArrayLike],
        n_draws: int,
        *,
        level: float = 0.95,
        names: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Plot ranks that you already have.

        Parameters
        ----------
        ranks : array-like of int, of shape (n_simulations[, n_quantities]), or dict of str to (n_simulations,)
            Number of draws below each true value, from 0 to ``n_draws``.
        n_draws : int
            Number of draws among which each truth was ranked.
        level : float in (0, 1), default=0.95
            Joint level for all quantities: each is tested at 1 - (1 - level)/n_quantities.
        names : list of str, optional
            Names of the quantities, if ``ranks`` is an array.
        ax : matplotlib Axes, optional

        Returns
        -------
        display : CalibrationDisplay

        Raises
        ------
        ValueError
            For ranks that are not integers from 0 to n_draws, names that do not fit, a level outside (0, 1).
        """
        require_matplotlib(f"{cls.__name__}.from_ranks")
        level, columns = check_level(level), _columns(ranks, names)
        if not columns:
            raise ValueError("ranks must hold at least one quantity, got none")
        each = 1.0 - (1.0 - level) / len(columns)
        return cls({k: rank_uniformity(v, n_draws, level=each) for k, v in columns.items()}, level=level).plot(ax)

    @classmethod
    def from_draws(
        cls,
        draws: ArrayLike | Mapping[str, ArrayLike],
        truth: Any,
        *,
        level: float = 0.95,
        names: Sequence[str] | None = None,
        random_state: Seed = None,
        ax: Any = None,
    ) -> Self:
        """Rank true values among draws, and plot the ranks.

        Parameters
        ----------
        draws : array-like of shape (n_simulations, n_draws[, n_quantities]), or dict of str to (n_simulations, n_draws)
            Nearly independent draws of each simulation's posterior; a dict compares posteriors of one quantity, or
            names quantities.
        truth : array-like of shape (n_simulations[, n_quantities]), or dict of str to (n_simulations,)
            An array of shape (n_simulations,) is used for all draws of a dict.
        level, names, ax :
            As for :meth:`from_ranks`.
        random_state : None, int, Generator or RandomState
            Breaks ties.

        Returns
        -------
        display : CalibrationDisplay
        """
        require_matplotlib(f"{cls.__name__}.from_draws")
        if isinstance(draws, Mapping):
            truths = truth if isinstance(truth, Mapping) else dict.fromkeys(draws, truth)
            if set(truths) != set(draws):
                raise ValueError(f"truth must have the names of draws, {list(draws)}, got {list(truths)}")
            counts = {np.shape(values)[1:] for values in draws.values()}
            if len(counts) > 1 or any(len(count) != 1 for count in counts):
                raise ValueError(
                    "draws must be arrays of one shape (n_simulations, n_draws), got shapes "
                    f"{[np.shape(values) for values in draws.values()]}"
                )
            ranks = {k: posterior_ranks(v, truths[k], random_state=random_state) for k, v in draws.items()}
            n_draws = next(iter(counts), (1,))[0]
        else:
            ranks = posterior_ranks(draws, truth, random_state=random_state)
            n_draws = np.shape(draws)[1]
        return cls.from_ranks(ranks, n_draws, level=level, names=names, ax=ax)

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
        self.ax_, self.figure_, self.lines_ = ax, ax.figure, {}
        first = next(iter(self.uniformity.values()))
        x = np.concatenate([[0.0], first.points, [1.0]])
        low, high = (_with_ends(end - first.points) for end in (first.lower, first.upper))
        band = f"band of uniform ranks, {100 * self.level:g} %"
        self.band_ = ax.fill_between(x, low, high, color=PALE, alpha=0.6, linewidth=0, label=band)
        ax.axhline(0.0, color=BLACK, linewidth=0.8)
        for i, (name, found) in enumerate(self.uniformity.items()):
            p = f"p = {found.pvalue:.2g}" if found.pvalue >= 1e-4 else "p < 0.0001"
            text = f"{name} ({'inside' if found.inside else 'outside'}, {p})"
            (self.lines_[name],) = ax.plot(
                x, _with_ends(found.ecdf - found.points), linewidth=1.6, label=text, **style(i)
            )
        ax.set(xlim=(0, 1), xlabel=f"rank of the truth among {first.n_draws} draws (fraction)")
        ax.set_ylabel("distribution function of ranks\nless the uniform one")
        ax.set_title(f"{first.n_simulations} simulations", loc="right", fontsize="small")
        named = sorted(self.lines_, key=lambda name: self.uniformity[name].pvalue)[:MOST_NAMED]
        legend_at_top(ax, [self.band_, *(line for name, line in self.lines_.items() if name in named)])
        return self


def _with_ends(values):
    return np.concatenate([[0.0], values, [0.0]])


def _columns(values, names):
    """Return a dict of name to array of shape (n_simulations,)."""
    if isinstance(values, Mapping):
        if names is not None:
            raise ValueError(f"names={names!r} was given, but ranks is a dict, which has names: leave names out")
        return {str(name): column for name, column in values.items()}
    array = np.asarray(values)
    columns = array.reshape(len(array), -1).T if array.ndim == 2 else [array]
    if names is None:
        names = ["ranks"] if len(columns) == 1 else [f"quantity {j}" for j in range(len(columns))]
    names = [names] if isinstance(names, str) else list(names)
    if len(set(names)) != len(columns) or len(names) != len(columns):
        raise ValueError(f"names must hold {len(columns)} different names, one per quantity, got names={names!r}")
    return dict(zip(names, columns, strict=True))
