"""Traces: each chain's draws in their order."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.choices import evenly_spaced
from ._chains import of_draws, of_estimator
from ._style import BLACK, BLUE, PALE, SKY, many_axes, require_matplotlib

MOST_TICKS = 12
MOST_LINES = 30  # more lines between chains would hide the draws


class TraceDisplay:
    """Draws of each monitored quantity in their order, with the chains side by side.

    Chains that have mixed look alike, at one level, without drift.  Side by side they can be told apart without colour,
    a hundred chains as well as two.  Use :meth:`from_estimator` or :meth:`from_draws`.

    Parameters
    ----------
    quantities : dict of str to Quantity
        Draws (n_chains, n_draws), R-hat and effective sample size by name, as :meth:`from_estimator` makes them.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes, one per quantity
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
    lines_ : dict of str to list of Line2D, one per chain

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_dpmix import PrivateExpFamilyGibbs
    >>> from sklearn_dpmix.plotting import TraceDisplay
    >>> model = PrivateExpFamilyGibbs(family="binomial", n_records=50, n_draws=100, random_state=0).fit([20.0])
    >>> display = TraceDisplay.from_estimator(model)
    >>> {name: len(lines) for name, lines in display.lines_.items()}
    {'probability': 4}
    >>> plt.close(display.figure_)
    """

    def __init__(self, quantities: Any) -> None:
        self.quantities = quantities

    @classmethod
    def from_estimator(cls, estimator: Any, *, names: Sequence[str] | str | None = None, ax: Any = None) -> Self:
        """Plot the monitored quantities of a fitted estimator with chains.

        Parameters
        ----------
        estimator : fitted estimator with chains
            One with ``r_hat_``, or whose ``sampler_`` has it.
        names : str or list of str, optional
            Names in ``r_hat_``; "theta" means "theta[0]", "theta[1]", ...  None: all, or the eight with the largest
            R-hat.
        ax : matplotlib Axes or array of them, one per quantity, optional
            None: a new figure.

        Returns
        -------
        display : TraceDisplay

        Raises
        ------
        TypeError
            For an estimator without chains.
        ValueError
            For unknown names, and too few axes.
        sklearn.exceptions.NotFittedError
        """
        caller = f"{cls.__name__}.from_estimator"
        require_matplotlib(caller)
        return cls(of_estimator(estimator, names, caller)).plot(ax)

    @classmethod
    def from_draws(
        cls, draws: Mapping[str, ArrayLike], *, names: Sequence[str] | str | None = None, ax: Any = None
    ) -> Self:
        """Plot draws.

        Parameters
        ----------
        draws : dict of str to array-like of shape (n_chains, n_draws) or (n_chains, n_draws, size)
        names, ax :
            As for :meth:`from_estimator`.

        Returns
        -------
        display : TraceDisplay
        """
        require_matplotlib(f"{cls.__name__}.from_draws")
        return cls(of_draws(draws, names)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Plot the display.

        Parameters
        ----------
        ax : matplotlib Axes or array of them, one per quantity, optional
            None: a new figure.

        Returns
        -------
        self
        """
        self.axes_ = many_axes(ax, len(self.quantities), f"{type(self).__name__}.plot")
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        self.lines_: dict[str, list[Any]] = {}
        for (name, quantity), axes in zip(self.quantities.items(), self.axes_):
            n_chains, n_draws = quantity.draws.shape
            self.lines_[name] = []
            for c, values in enumerate(quantity.draws):
                if c and n_chains <= MOST_LINES:
                    axes.axvline(c * n_draws - 0.5, color=PALE, linewidth=0.8, zorder=0)
                x = np.arange(c * n_draws, (c + 1) * n_draws)
                look = {"color": (BLUE, SKY)[c % 2], "linewidth": 0.6, "marker": "" if n_draws > 1 else "o"}
                self.lines_[name] += axes.plot(x, values, **look)
            axes.axhline(quantity.draws.mean(), color=BLACK, linestyle="--", linewidth=1.0)
            axes.set_title(str(quantity), loc="right", fontsize="small")
            axes.set(xlim=(-0.5, n_chains * n_draws - 0.5), ylabel=name)
            shown = evenly_spaced(n_chains, MOST_TICKS)
            axes.set_xticks((shown + 0.5) * n_draws - 0.5, [f"{c + 1}" for c in shown])
            axes.tick_params(axis="x", length=0)
        is_same = len({quantity.draws.shape[1] for quantity in self.quantities.values()}) == 1
        draws = f"{n_draws} draw{'s' * (n_draws > 1)} each; " if is_same else ""
        self.axes_[-1].set_xlabel(f"chain ({draws}dashed: mean of all)")
        return self
