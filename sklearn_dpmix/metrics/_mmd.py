"""Maximum mean discrepancy between two samples (Gretton, Borgwardt, Rasch, Schölkopf, Smola 2012)."""

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist
from sklearn.metrics import pairwise_distances_chunked

from .._base.generators import as_generator
from .._base.parameters import as_floats, check_flag, numbers, positive_integer
from .._base.typing import Seed

WORKING_MEMORY = 64  # MiB for a block of distances


def mmd(
    X: ArrayLike,
    Y: ArrayLike,
    *,
    bandwidth: float | str = "median",
    biased: bool = False,
    squared: bool = False,
    n_median: int = 1000,
    random_state: Seed = None,
) -> float:
    """Return the maximum mean discrepancy between the distributions of two samples, with a normal kernel.

    The kernel is k(x, y) = exp(-‖x - y‖²/(2 bandwidth²)), and MMD² = E k(x, x') + E k(y, y') - 2 E k(x, y) for
    independent draws x, x' and y, y' is 0 for equal distributions, and otherwise positive and at most 2.  Features are
    used as they are: scale them first if their units differ.  Only a few blocks of distances are in memory at a time,
    so the only cost is time, for (n_x + n_y)² kernel values.

    Parameters
    ----------
    X : array-like of shape (n_x, n_features) or (n_x,)
        Draws, such as those of a private posterior; (n_x,) is one feature.
    Y : array-like of shape (n_y, n_features) or (n_y,)
        Draws from the other distribution.
    bandwidth : "median" or float > 0, default="median"
        Standard deviation of the kernel, in the units of the features.  "median": the median distance between points of
        both samples together.  Then MMDs between other samples are on another scale, so to compare methods with one
        reference, pass the same number for all.
    biased : bool, default=False
        True: means over all pairs, including each point with itself.  This is never negative, but for equal
        distributions it has MMD² up to 1/n_x + 1/n_y on average.  False: no point is paired with itself, and the
        estimate of MMD² has no bias.
    squared : bool, default=False
        True: the estimate of MMD², which is sometimes negative if not ``biased``.  False: its root, or 0 if it is
        negative.
    n_median : int, default=1000
        If there are more points than this, the median is over this many, drawn at random without replacement.
    random_state : None, int, Generator or RandomState
        Chooses these points; it does not matter if there are no more points.

    Returns
    -------
    mmd : float
        MMD, or MMD² if ``squared``.  Rounding changes MMD² by about 1e-16, so it changes an MMD of 0 by as much as
        1e-8.

    Raises
    ------
    ValueError
        For samples with different numbers of features, NaN or infinity, too few points, a bandwidth that is not
        positive, and a median distance of 0.

    References
    ----------
    Gretton, Borgwardt, Rasch, Schölkopf, Smola (2012), A kernel two-sample test, JMLR 13: equations 3 and 5, median §8.
    Räisä (2021) reports MMD with a median over subsamples; Bernstein and Sheldon (2018) report MMD² without bias and
    with ``bandwidth=1``, and also leave out pairs (x_i, y_i) with one index.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.metrics import mmd
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(1000, 2)), rng.normal(size=(800, 2))
    >>> mmd(X, Y, bandwidth=1.0) < 0.1 < mmd(X, Y + 1.0, bandwidth=1.0)
    True
    >>> mmd(X, X, biased=True, random_state=0)
    0.0
    """
    biased, squared = check_flag("biased", biased), check_flag("squared", squared)
    least = 1 if biased else 2
    X, Y = _points("X", X, least), _points("Y", Y, least)
    if X.shape[1] != Y.shape[1]:
        raise ValueError(
            f"X and Y must have the same features, got X of shape {X.shape} and Y of shape {Y.shape}: pass one column "
            "for each"
        )
    width = _width(X, Y, bandwidth, n_median, random_state)
    with np.errstate(over="ignore"):
        X, Y = X / width, Y / width
    if not (np.all(np.isfinite(X)) and np.all(np.isfinite(Y))):
        raise ValueError(f"bandwidth={width:g} is too small: the points divided by it overflow; pass a larger one")
    n, m = len(X), len(Y)
    within_x, within_y, between = _kernel_sum(X, X), _kernel_sum(Y, Y), _kernel_sum(X, Y)
    if biased:  # each mean on its own, so that equal samples give exactly 0
        estimate = within_x / (n * n) + within_y / (m * m) - 2.0 * (between / (n * m))
    else:
        estimate = (within_x - n) / (n * (n - 1)) + (within_y - m) / (m * (m - 1)) - 2.0 * (between / (n * m))
    if squared:
        return max(estimate, 0.0) if biased else estimate
    return sqrt(max(estimate, 0.0))


def _kernel_sum(X, Y):
    """Return Σ_ij exp(-‖x_i - y_j‖²/2), block by block."""

    def row_sums(distances, start):
        return np.exp(np.multiply(distances, -0.5, out=distances), out=distances).sum(axis=1)

    # "sqeuclidean" takes differences; the faster expansion ‖x‖² + ‖y‖² - 2xy loses them if points are far from 0
    blocks = pairwise_distances_chunked(X, Y, reduce_func=row_sums, metric="sqeuclidean", working_memory=WORKING_MEMORY)
    return float(np.sum(np.concatenate(list(blocks))))


def _width(X, Y, bandwidth, n_median, random_state):
    """Return the bandwidth as a number; the median distance is between different points of both samples together."""
    positive_integer("n_median", n_median, least=2)
    rng = as_generator(random_state)
    if not isinstance(bandwidth, str) or bandwidth != "median":
        width = numbers(bandwidth)
        if width is None or width.ndim or not 0.0 < width < np.inf:
            raise ValueError(
                f"bandwidth must be 'median' or a positive finite number, got bandwidth={bandwidth!r}: for a width "
                "per feature, divide each feature by its own"
            )
        return float(width)
    points = np.concatenate([X, Y])
    if len(points) > n_median:
        points = points[rng.choice(len(points), n_median, replace=False)]
    median = float(np.median(pdist(points)))
    if not 0.0 < median < np.inf:
        raise ValueError(
            f"bandwidth='median' is {median:g} for these points, most of which coincide or overflow: pass a number"
        )
    return median


def _points(name, values, least):
    """Return a sample as floats of shape (n, n_features)."""
    array = as_floats(name, values, ", all rows of one length")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(
            f"{name} must have shape (n_points, n_features) or (n_points,), got shape {np.shape(values)}: put the "
            "draws of all chains one after the other"
        )
    if len(array) < least:
        raise ValueError(
            f"{name} must have at least {least} point(s), got shape {np.shape(values)}"
            + (": pass more, or biased=True" if least == 2 else ": pass more")
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}: find out why, or drop these")
    return array
