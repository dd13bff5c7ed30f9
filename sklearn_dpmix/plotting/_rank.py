"""Ranks: do all chains visit low and high values equally often?"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import positive_integer
from .._chains.draws import at_least_two
from ._chains import of_draws, of_estimator
from ._style import BLACK, PALE, legend_at_top, many_axes, require_matplotlib, style

FEWEST_BINS, MOST_BINS = 4, 20
A_BIN = 5  # effective draws of a chain
FEWEST_DRAWS = 8  # of a chain
MOST_IN_LEGEND = 8


class RankDisplay:
    """How each chain's draws are spread over the ranks of all draws: lines are level if the chains have mixed.

    All draws of a quantity are ranked together.  A chain whose line rises to the right has more than its share of the
    high values; a line that is high at both ends means draws that are wider than the others.  Roughly 95 % of the bins
    would lie in the grey band if all chains had the same distribution, each with its own effective sample size (the
    median of these).  A single chain is split, and its halves are compared.  Use :meth:`from_estimator` or
    :meth:`from_draws`.

    Parameters
    ----------
    quantities : dict of str to Quantity
        Draws (n_chains, n_draws), R-hat and effective sample size by name, as :meth:`from_estimator` makes them.
    n_bins : int, optional
        None: 4 to 20, with five effective draws of a chain in each if there are so many.

    Attributes
    ----------
    shares : dict of str to ndarray of shape (n_chains, n_bins)
        Draws of a chain in each bin, relative to a uniform spread.
    axes_ : ndarray of matplotlib Axes, one per quantity
    ax_ : matplotlib Axes
        The first of them.
    figure_ : matplotlib Figure
    lines_ : dict of str to list of StepPatch, one per chain

    Notes
    -----
    Equal values, which discrete quantities have, share their ranks: each counts evenly in all the bins that they cover.
    This uses plain matplotlib, since arviz-plots would require xarray and limit the version of arviz-stats.
    ``to_datatree()`` passes the draws to ArviZ's own plots.

    References
    ----------
    Vehtari, Gelman, Simpson, Carpenter, Bürkner (2021), Rank-normalization, folding, and localization: an improved
    R-hat for assessing convergence of MCMC.  Bayesian Analysis 16, 667-718.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from sklearn_dpmix.plotting import RankDisplay
    >>> draws = np.arange(400.0).reshape(2, 200)  # all draws of the second chain are above those of the first
    >>> display = RankDisplay.from_draws({"mean": draws}, n_bins=4)
    >>> display.shares["mean"]
    array([[2., 2., 0., 0.],
           [0., 0., 2., 2.]])
    >>> plt.close(display.figure_)
    """

    def __init__(self, quantities: Any, *, n_bins: int | None = None) -> None:
        if n_bins is not None:
            positive_integer("n_bins", n_bins, least=2)
        self.quantities, self.n_bins = quantities, n_bins
        self.shares, self._independent = {}, {}
        for name, quantity in quantities.items():
            draws = _at_least_two_chains(name, quantity.draws)
            if np.isnan(draws).any():
                raise ValueError(f"{name} has draws that are NaN, which have no ranks: leave it out")
            size = effective_size(draws)
            fitting = np.clip(np.nan_to_num(size) // A_BIN, FEWEST_BINS, MOST_BINS)
            self.shares[name] = rank_shares(draws, int(fitting if n_bins is None else n_bins))
            self._independent[name] = size

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | str | None = None, n_bins: int | None = None, ax: Any = None
    ) -> Self:
        """Plot the monitored quantities of a fitted estimator with chains.

        Parameters
        ----------
        estimator : fitted estimator with chains
            One with ``r_hat_``, or whose ``sampler_`` has it.
        names : str or list of str, optional
            Names in ``r_hat_``; "theta" means "theta[0]", "theta[1]", ...  None: all, or the eight with the largest
            R-hat.
        n_bins : int, optional
            As for the class.
        ax : matplotlib Axes or array of them, one per quantity, optional
            None: a new figure.

        Returns
        -------
        display : RankDisplay

        Raises
        ------
        TypeError
            For an estimator without chains.
        ValueError
            For unknown names, too few draws and too few axes.
        sklearn.exceptions.NotFittedError
        """
        caller = f"{cls.__name__}.from_estimator"
        require_matplotlib(caller)
        return cls(of_estimator(estimator, names, caller), n_bins=n_bins).plot(ax)

    @classmethod
    def from_draws(
        cls,
        draws: Mapping[str, ArrayLike],
        *,
        names: Sequence[str] | str | None = None,
        n_bins: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Plot the ranks of draws.

        Parameters
        ----------
        draws : dict of str to array-like of shape (n_chains, n_draws) or (n_chains, n_draws, size)
        names, n_bins, ax :
            As for :meth:`from_estimator`.

        Returns
        -------
        display : RankDisplay
        """
        require_matplotlib(f"{cls.__name__}.from_draws")
        return cls(of_draws(draws, names), n_bins=n_bins).plot(ax)

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
        n = len(self.quantities)
        self.axes_ = many_axes(ax, n, f"{type(self).__name__}.plot", n_columns=2, panel=(4.4, 2.5))
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        self.lines_: dict[str, list[Any]] = {}
        for (name, quantity), axes in zip(self.quantities.items(), self.axes_):
            shares, is_single = self.shares[name], len(quantity.draws) == 1
            edges = np.linspace(0.0, 1.0, shares.shape[1] + 1)
            half = half_width(self._independent[name], *shares.shape)
            if np.isfinite(half):
                low = max(0.0, 1.0 - half)
                axes.axhspan(low, 1.0 + half, color=PALE, alpha=0.5, linewidth=0, label="95 % of bins, roughly")
            axes.axhline(1.0, color=BLACK, linewidth=0.8)
            self.lines_[name], width = [], 1.4 if len(shares) <= MOST_IN_LEGEND else 0.7
            for c, row in enumerate(shares):
                chain = ("first half", "second half")[c] if is_single else f"chain {c + 1}"
                line = axes.stairs(row, edges, baseline=None, linewidth=width, label=chain, **style(c))
                self.lines_[name].append(line)
            axes.set(xlim=(0, 1), ylim=(0, max(2.0, 1.08 * shares.max())))
            axes.set_title(name, loc="left", fontsize="medium")
            axes.set_title(str(quantity), loc="right", fontsize="small")
        for axes in self.axes_[-2:]:
            axes.set_xlabel("rank among all draws (fraction)")
        for axes in self.axes_[::2]:
            axes.set_ylabel("share of the chain's\ndraws / uniform share")
        if len(self.lines_[next(iter(self.lines_))]) <= MOST_IN_LEGEND:
            legend_at_top(self.ax_, self.ax_.get_legend_handles_labels()[0])
        return self


def rank_shares(draws, n_bins):
    """Return the share of each chain's draws in each bin of the ranks, times n_bins: (n_chains, n_bins).

    The ranks of equal values go from the number of draws below them to that plus their own number; each of them is
    spread evenly over that range.
    """
    draws = np.asarray(draws)
    _, group, size = np.unique(draws, return_inverse=True, return_counts=True)
    high = np.cumsum(size)
    edges = np.linspace(0.0, draws.size, n_bins + 1)
    below = np.clip((edges - (high - size)[:, None]) / size[:, None], 0.0, 1.0)  # (n_values, n_bins + 1)
    counts = np.array([np.bincount(row, minlength=len(size)) for row in group.reshape(draws.shape)])
    return counts @ np.diff(below, axis=1) * n_bins / draws.shape[1]


def effective_size(draws):
    """Median over chains of the effective sample size that a chain has by itself; NaN if it has none.

    That of all chains together is small if they disagree, and a band of that width would hide the disagreement.
    """
    from arviz_stats.base import array_stats

    if np.any(np.ptp(draws, axis=1) == 0):
        return np.nan
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.median([array_stats.ess(chain[None], chain_axis=0, draw_axis=1) for chain in draws]))


def half_width(independent, n_chains, n_bins):
    """Half width of the band: 1.96 standard deviations of a bin's relative share, given independent draws per chain.

    The count of a chain in a bin of the ranks is hypergeometric.
    """
    return 1.96 * np.sqrt((n_bins - 1) * (1.0 - 1.0 / n_chains) / independent)


def _at_least_two_chains(name, draws):
    """The draws, or the halves of a single chain."""
    chains = at_least_two(draws)
    if chains.shape[1] < FEWEST_DRAWS:
        raise ValueError(
            f"{name} has draws of shape (n_chains, n_draws) = {draws.shape}, too few from each chain to rank: "
            "increase n_draws, or use TraceDisplay"
        )
    return chains
