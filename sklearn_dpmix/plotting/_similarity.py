"""Which records are together: posterior similarity."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from .._base.parameters import numbers
from .._base.typing import Seed
from .._posterior.partition import similarity as similarity_of
from ._display_checks import check_estimator
from ._style import ORANGE, one_axes, require_matplotlib

ORDERS = ("partition", "hierarchical")
ROUNDING = 1e-8
MOST_SHARP = 500  # with more records, there are several per pixel


class SimilarityDisplay:
    """Posterior probability that two records are in the same cluster, as an image with similar records side by side.

    Use :meth:`from_estimator` or :meth:`from_partitions`; the constructor takes the numbers themselves.

    Parameters
    ----------
    similarity : array-like of shape (n, n)
        Symmetric, between 0 and 1, with ones on the diagonal.
    labels : array-like of int, of shape (n,), optional
        A partition: its clusters are shown one after the other, with a box around each.  Within a cluster, and without
        labels, the order is that of hierarchical clustering (average linkage of 1 - similarity).

    Attributes
    ----------
    order : ndarray of int, of shape (n,)
        Row ``order[i]`` of ``similarity`` is shown at place i.
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    image_ : matplotlib AxesImage
    colorbar_ : matplotlib Colorbar
    boxes_ : list of matplotlib Rectangle
        Boxes of clusters of two records or more.

    Raises
    ------
    ValueError
        For a matrix that is not a similarity, and labels that do not fit.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from sklearn_dpmix.plotting import SimilarityDisplay
    >>> display = SimilarityDisplay.from_partitions([[0, 1, 0, 1], [0, 1, 0, 0], [2, 1, 2, 1]])
    >>> display.similarity[0].round(2)
    array([1.  , 0.  , 1.  , 0.33])
    >>> display.order
    array([0, 2, 1, 3])
    >>> plt.close(display.figure_)
    """

    def __init__(self, similarity: ArrayLike, *, labels: ArrayLike | None = None) -> None:
        self.similarity = _check_similarity(similarity)
        n = len(self.similarity)
        self.labels = None if labels is None else np.asarray(labels)
        if self.labels is not None and self.labels.shape != (n,):
            raise ValueError(f"labels must have shape ({n},), one per record, got shape {self.labels.shape}")
        place = np.zeros(n, dtype=np.int64)
        place[_hierarchical(self.similarity)] = np.arange(n)
        self.order = np.argsort(place) if self.labels is None else np.lexsort((place, self.labels))

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        order: Any = "partition",
        n_partitions: int = 500,
        random_state: Seed = None,
        ax: Any = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Plot the similarity of the records to which an estimator was fitted.

        Parameters
        ----------
        estimator : fitted estimator with ``similarity(n_partitions=, random_state=)``
            Such as :class:`~sklearn_dpmix.PrivateDPMixture`, for at most 5000 records released one by one.
        order : {"partition", "hierarchical"}, default="partition"
            "partition": cluster by cluster of the estimator's ``point_partition``, with boxes.
        n_partitions : int, default=500
            Number of draws of the partition.
        random_state : int, Generator, RandomState or None
        ax : matplotlib Axes, optional
        **plot_kwargs :
            For :meth:`plot`.

        Returns
        -------
        display : SimilarityDisplay

        Raises
        ------
        TypeError
            For an estimator without ``similarity``, for example if records were not released one by one.
        ValueError
            For another ``order``; and what the estimator's own methods raise.
        sklearn.exceptions.NotFittedError
        """
        caller = f"{cls.__name__}.from_estimator"
        require_matplotlib(caller)
        if order not in ORDERS:
            raise ValueError(f"order must be one of {ORDERS}, got order={order!r}")
        needed = ("similarity", "point_partition")[: 1 + (order == "partition")]
        check_estimator(
            estimator, caller, *needed, instead="records have clusters only where they were released one by one"
        )
        options = {"n_partitions": n_partitions, "random_state": random_state}
        similarity = estimator.similarity(**options)
        labels = estimator.point_partition(**options) if order == "partition" else None
        return cls(similarity, labels=labels).plot(ax, **plot_kwargs)

    @classmethod
    def from_partitions(
        cls, label_draws: ArrayLike, *, labels: ArrayLike | None = None, ax: Any = None, **plot_kwargs: Any
    ) -> Self:
        """Plot the similarity under draws of a partition.

        Parameters
        ----------
        label_draws : array-like of int, of shape (n_draws, n)
        labels : array-like of int, of shape (n,), optional
            A partition that represents the draws.
        ax : matplotlib Axes, optional
        **plot_kwargs :
            For :meth:`plot`.

        Returns
        -------
        display : SimilarityDisplay
        """
        require_matplotlib(f"{cls.__name__}.from_partitions")
        return cls(similarity_of(label_draws), labels=labels).plot(ax, **plot_kwargs)

    def plot(self, ax: Any = None, *, cmap: Any = "Blues", colorbar: bool = True) -> Self:
        """Plot the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            None: a new figure.
        cmap : str or matplotlib Colormap, default="Blues"
            Colours from 0 to 1; a map with monotone lightness can be read in grey.
        colorbar : bool, default=True

        Returns
        -------
        self
        """
        ax = one_axes(ax, f"{type(self).__name__}.plot", figsize=(5.6, 4.2))
        from matplotlib.patches import Rectangle

        self.ax_, self.figure_, self.boxes_ = ax, ax.figure, []
        ordered = self.similarity[np.ix_(self.order, self.order)]
        smoothing = "nearest" if len(ordered) <= MOST_SHARP else "auto"
        self.image_ = ax.imshow(ordered, cmap=cmap, vmin=0.0, vmax=1.0, interpolation=smoothing)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = ax.figure.colorbar(self.image_, ax=ax, label="posterior probability of one cluster")
        if self.labels is not None:
            _, starts, sizes = np.unique(self.labels[self.order], return_index=True, return_counts=True)
            for start, size in zip(starts.tolist(), sizes.tolist()):
                if size > 1:
                    box = Rectangle((start - 0.5, start - 0.5), size, size, fill=False, edgecolor=ORANGE, linewidth=1.6)
                    box.set(zorder=3, clip_on=False)
                    self.boxes_.append(ax.add_patch(box))
        what = "hierarchical clustering" if self.labels is None else "point partition"
        ax.set(xlabel=f"{len(ordered)} records, by {what}", ylabel="the same records")
        ax.set(xticks=[], yticks=[])
        return self


def _check_similarity(similarity):
    matrix = numbers(similarity)
    if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        got = repr(similarity) if matrix is None else f"shape {matrix.shape}"
        raise ValueError(
            f"similarity must be a matrix of shape (n, n), got {got}: pass what model.similarity() returns"
        )
    if not np.all((matrix >= 0) & (matrix <= 1)):
        raise ValueError(
            f"similarity must be probabilities, got values from {matrix.min():g} to {matrix.max():g}: pass 1 - d for "
            "distances d"
        )
    if not np.allclose(matrix, matrix.T, rtol=0, atol=ROUNDING) or not np.allclose(np.diag(matrix), 1.0, rtol=0):
        raise ValueError("similarity must be symmetric with ones on its diagonal: pass what model.similarity() returns")
    return matrix


def _hierarchical(similarity):
    """The order of the leaves of average linkage."""
    if len(similarity) < 3:
        return np.arange(len(similarity))
    return leaves_list(linkage(squareform(1.0 - similarity, checks=False), "average"))
