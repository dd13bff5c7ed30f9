"""Noise calibrated by a smooth sensitivity, whose scale is published and paid for."""

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import numbers
from .._base.typing import Array
from ._dilated import DilatedLaw
from ._smooth_noise import ApproximateSmoothMechanism

N_DILATIONS = 129  # cells of t, odd
REACH, N_SCALES = 40, 400  # cells of the scale's noise, in its own units: beyond them, e^-40 is left
LARGEST_SHARE = 0.9


@dataclass(frozen=True)
class PublishedLaplaceLaw(DilatedLaw):
    """The distribution of (log scale, value): w ~ Laplace(ξ/(share ε)), u of density exp(-|u|)/2 in units of m e^w.

    In units of SS(x), the release of x has scale m e^w around 0.  That of a neighbour x' with SS(x') = e^t SS(x) has
    w + t in place of w, around s, abs(s) <= min(1, e^t).  With λ(w) = (abs(w - t) - abs(w)) / b, the loss of w,

        E_ε(s, t) = ∫ p(w) H(ε - λ(w), s e^-w / m) dw,    H(ε, d) = max(1 - exp((ε - d)/2), 0),

    where H is the value for two Laplace distributions that are d apart, ε >= 0.
    """

    share: float
    n_cells = N_DILATIONS

    def bounds(self, epsilon, xi, multiplier, n_cells):
        """(n_cells,) bounds of E_ε(s, t), for t in each cell of [-ξ, ξ] and all s that go with it.

        Nothing depends on the choice of points.  H grows with d and falls with ε, so the largest shift counts.  In a
        cell t_i <= t <= t_i + c, λ is at most c/b above its value at t_i.  In a cell of w, e^-w is largest on the left,
        and λ, which is monotone, at one of the ends.  Beyond the cells of w the whole mass counts.
        """
        b, width = 1.0 / (self.share * epsilon), 2.0 / n_cells  # of w and t in units of ξ
        start = (np.arange(-n_cells, n_cells, 2) / n_cells)[:, None]
        w = np.linspace(-REACH, REACH, N_SCALES + 1) * b
        shift = np.exp(np.minimum(xi * (start + width), 0.0)) / multiplier
        loss = (np.abs(w - start) - np.abs(w)) / b
        left = epsilon - np.maximum(loss[:, :-1], loss[:, 1:]) - width / b
        mass = 0.5 * np.exp(-np.minimum(np.abs(w[:-1]), np.abs(w[1:])) / b) * -np.expm1(-np.diff(w) / b)
        apart = -np.expm1(np.minimum(0.5 * (left - shift * np.exp(np.minimum(-xi * w[:-1], 600.0))), 0.0))
        return apart @ mass + np.exp(-REACH)


class PublishedScaleMechanism(ApproximateSmoothMechanism):
    """Release (z, h): z = s(x) + h u with Laplace u, and its scale h = m SS_ξ(x) e^v with Laplace v of scale ξ/ε₁.

    Under the other mechanisms with a smooth sensitivity, the scale of the noise is as confidential as the data.  Here
    it is published, and (ε, δ) covers both numbers.  log SS_ξ changes by at most ξ between neighbours, so v makes h
    ε₁-DP, with ε₁ = ``share`` × ε; and given h, the noise on z has one scale.  The price is a larger m, 4.7 instead of
    1.8 at ε = 1, δ = 1e-6, because the h that was drawn may be small for SS_ξ.

    Parameters
    ----------
    epsilon : float
        ε of (ε, δ)-DP, for both numbers, from 1e-100 to 300.
    delta : float
        δ, from 1e-15 to 1.
    query, xi, multiplier :
        As in :class:`SmoothLaplaceMechanism`.
    share : float in (0, 0.9], default=0.5
        The share of ε that the scale uses.

    Attributes
    ----------
    xi_, multiplier_ : float
        ξ and m that are used; they need no fit.

    Raises
    ------
    ValueError, TypeError
        As in :class:`SmoothLaplaceMechanism`; for a share beyond its limits.

    Notes
    -----
    Inference models both numbers: a simulator returns the value and the smooth sensitivity of the simulated data.
    With the value alone, ``LaplaceMechanism(scale=h)`` describes z given h, and ignores what h says about the data.

    References
    ----------
    Nissim, Raskhodnikova, Smith (2007), §2; Gong (2022), §3, on the scale.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import PublishedScaleMechanism
    >>> from sklearn_dpmix.queries import SmoothMedian
    >>> mechanism = PublishedScaleMechanism(1.0, 1e-6, query=SmoothMedian(bounds=(0, 100)))
    >>> z, h = mechanism.privatize(np.full((1000, 1), 40.0), random_state=0)
    >>> bool(abs(z - 40.0) < 10 * h), mechanism.guarantee().delta
    (True, 1e-06)
    """

    n_hidden = 0  # both statistics, value and smooth sensitivity, have a number in the release
    n_released = 2

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        query: Any = None,
        share: float = 0.5,
        xi: float | None = None,
        multiplier: float | None = None,
    ) -> None:
        super().__init__(epsilon, delta, query=query, xi=xi, multiplier=multiplier)
        self.share = share

    @property
    def _law(self):
        share = numbers(self.share)
        if share is None or share.ndim or not 0 < share <= LARGEST_SHARE:
            raise ValueError(
                f"share must be above 0 and at most {LARGEST_SHARE}, the part of epsilon that pays for the scale, got "
                f"share={self.share!r}"
            )
        return PublishedLaplaceLaw(float(share))

    def check_width(self, k: int) -> None:
        if k != 2:
            raise ValueError(f"PublishedScaleMechanism releases two numbers, a value and its noise's scale, got {k}")

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if the second number of a release is not a scale.

        Parameters
        ----------
        Z : array-like of shape (n_releases, 2)
        """
        Z = np.atleast_2d(np.asarray(Z, dtype=np.float64))
        if Z.shape[1] == 2 and not np.all(Z[:, 1] > 0):
            wrong = Z[~(Z[:, 1] > 0)][0].tolist()
            raise ValueError(f"the second number of a release is the scale of its noise, positive, got {wrong}")

    def log_release_mode(self, S: ArrayLike) -> float | None:
        """Return the density of each release given itself, which :meth:`release_density` never exceeds, as a log."""
        S = np.atleast_2d(np.asarray(S, dtype=np.float64))
        self.check_width(S.shape[1])
        self.check_release(S)
        return float(np.sum(-log(4.0 * self._spread()) - 2.0 * np.log(S[:, 1])))

    def _spread(self):
        """ξ/ε₁, the scale of v."""
        return self.xi_ / (self._law.share * self._budget()[0])

    def _draw(self, rng, statistics):
        median = self._scale(statistics)
        scale = median * np.exp(self._spread() * rng.laplace(size=len(statistics)))
        return np.column_stack([scale * rng.laplace(size=len(statistics)), scale - statistics[:, 1]])

    def _log_noise(self, E, statistics, widen):
        scale, spread = E[:, 1] + statistics[:, 1], widen * self._spread()
        with np.errstate(divide="ignore", invalid="ignore"):
            log_scale = np.log(scale)
            off = np.abs(log_scale - np.log(self._scale(statistics))) / spread
            value = -off - np.abs(E[:, 0]) / (widen * scale) - 2.0 * log_scale - log(4.0 * spread * widen)
        return np.where(scale > 0.0, value, -np.inf)
