"""Distances between densities that are known at the points of a grid."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid

from .._base.parameters import as_floats
from .._base.typing import Floats

__all__ = ["hellinger_distance", "integrated_squared_error"]


def hellinger_distance(p: ArrayLike, q: ArrayLike, grid: ArrayLike | None = None) -> float | Floats:
    """Return the Hellinger distance √(1 - ∫√(pq)) between densities evaluated at the same points.

    Each density is first divided by its own integral over the grid, so constants do not matter.  Whatever lies outside
    the grid is ignored, so let the grid cover both densities.  Integrals use the trapezoid rule, on (√p - √q)²/2, which
    is the same and loses no digits where p and q are close.

    Parameters
    ----------
    p, q : array-like of shape (..., n_points)
        Densities at the points, at least 0.  Leading axes broadcast: draws of shape (n_chains, n_draws, n_points)
        against one density (n_points,) give (n_chains, n_draws) distances.
    grid : array-like of shape (n_points,), optional
        The points, increasing; they need not be evenly spaced.  None: evenly spaced, and the spacing does not matter.

    Returns
    -------
    distance : float, or ndarray of the broadcast leading shape
        Between 0 (equal) and 1 (nowhere both positive).

    Raises
    ------
    ValueError
        For densities that are negative, not finite or 0 on the whole grid, and for shapes or a grid that do not fit.

    References
    ----------
    Hellinger (1909); the distance of Beraha, Favaro, Rao, Figure 1, and Sart (2023).

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from sklearn_dpmix.metrics import hellinger_distance
    >>> grid = np.linspace(-10, 11, 500)
    >>> round(hellinger_distance(norm.pdf(grid), norm.pdf(grid, loc=1), grid), 6)  # √(1 - exp(-1/8))
    0.342787
    >>> draws = norm.pdf(grid, loc=np.zeros((4, 100, 1)))
    >>> hellinger_distance(draws, norm.pdf(grid), grid).shape
    (4, 100)
    """
    p, q = _values("p", p), _values("q", q)
    grid = _points(p, q, grid)
    root_p, root_q = _root_density("p", p, grid), _root_density("q", q, grid)
    half = 0.5 * trapezoid((root_p - root_q) ** 2, grid, axis=-1)
    distance = np.sqrt(np.minimum(half, 1.0))
    return distance if np.ndim(distance) else float(distance)


def integrated_squared_error(p: ArrayLike, q: ArrayLike, grid: ArrayLike) -> float | Floats:
    """Return ∫(p - q)² over the grid, by the trapezoid rule; nothing is normalised.

    Parameters
    ----------
    p, q : array-like of shape (..., n_points)
        Values at the points; an estimate of a density may be negative.  Leading axes broadcast.
    grid : array-like of shape (n_points,)
        The points, increasing; they need not be evenly spaced.

    Returns
    -------
    error : float, or ndarray of the broadcast leading shape
        In 1/(unit of the grid).

    Raises
    ------
    ValueError
        For values that are not finite, and for shapes or a grid that do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.stats import norm
    >>> from sklearn_dpmix.metrics import integrated_squared_error
    >>> grid = np.linspace(-10, 10, 500)
    >>> round(integrated_squared_error(norm.pdf(grid), 0 * grid, grid), 6)  # 1 / (2 √π)
    0.282095
    """
    p, q = _values("p", p), _values("q", q)
    if grid is None:
        raise ValueError("grid=None: the points themselves are needed, pass the array at which p and q were evaluated")
    points = _points(p, q, grid)
    error = trapezoid((p - q) ** 2, points, axis=-1)
    return error if np.ndim(error) else float(error)


def _values(name, values):
    """Return values on a grid as floats of shape (..., n_points)."""
    array = as_floats(name, values)
    if array.ndim == 0 or array.shape[-1] < 2:
        raise ValueError(
            f"{name} must have shape (..., n_points) with at least 2 points, got shape {array.shape}: evaluate the "
            "density on a grid"
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}: pass densities, not their logs")
    return array


def _points(p, q, grid):
    """Return the grid, checked against the shapes of p and q."""
    try:
        if p.shape[-1] != q.shape[-1]:  # a last axis of 1 would broadcast
            raise ValueError
        np.broadcast_shapes(p.shape, q.shape)
    except ValueError:
        raise ValueError(
            f"p and q must be evaluated at the same points, shapes (..., n_points) with leading axes that broadcast, "
            f"got p of shape {p.shape} and q of shape {q.shape}"
        ) from None
    if grid is None:
        return np.arange(float(p.shape[-1]))
    points = as_floats("grid", grid)
    if points.shape != (p.shape[-1],):
        raise ValueError(
            f"grid must have shape ({p.shape[-1]},), one point for each value of p and q, got shape {points.shape}"
        )
    if not np.all(np.isfinite(points)) or not np.all(np.diff(points) > 0):
        raise ValueError(f"grid must be finite and increasing without ties, got grid={grid!r}: sort it, with p and q")
    return points


def _root_density(name, values, grid):
    """Return √(density), the density normalised on the grid."""
    if np.any(values < 0):
        raise ValueError(f"{name} must be at least 0, got {values.min()}: set the negative part of an estimate to 0")
    largest = values.max(axis=-1, keepdims=True)
    if np.any(largest == 0):
        raise ValueError(f"{name} is 0 at each point of the grid, at least in one row: use a grid that covers it")
    values = values / largest  # integrals of very small or large values would leave the range of floats
    return np.sqrt(values / trapezoid(values, grid, axis=-1)[..., None])
