"""Channels that release a number near the record or anywhere: density p in a window around it, q elsewhere.

On [-1, 1], where t is the record and v its release,

    q(v | t) = p  where |v - a t| <= h,   p e^-ε  elsewhere on [-a - h, a + h],    1/p = 2h + 2a e^-ε,

since the window has length 2h and the rest 2a.  A mechanism is a choice of a >= 1 and h for each ε; any choice is ε-DP
and attains ε.  As a function of the record, the channel is flat inside and outside of |t - v/a| <= h/a, so that

    g(z | θ) = q + (p - q) ∫_window f(y | θ) dy

takes one interval of the kernel's distribution function.
"""

from math import exp, inf, log, log1p
from typing import Any

import numpy as np

from .._base.chunks import chunks
from .._base.compiled import compiled, lower
from .._base.parameters import check_array, check_one_each
from .._base.typing import Array, Floats
from ._channel import Share
from ._estimated import EstimatedChannel
from ._losses import RecordLosses
from ._noised_normal import fill_normal_window
from ._noised_scales import fill_normal_window_scales
from ._own_draws import OwnDraws
from ._randomized_response import CELLS, integer_odds

#: Number of equal cells into which the range of releases is cut under ``secure=True``
N_CELLS = 2**60
#: A window is at least this many times as wide as the gaps between floating-point numbers at the bounds
FINEST = 2.0**16
#: Cells of nodes, in standard deviations of the narrowest component, in the record's unit
SPACING = 2.0
#: How far from the ends of a window chains start, as a share of it
MARGIN = 0.01
#: Half the width of a window, in units of half the bounds' distance, below which records are proposed within it
NARROW = 0.1
#: By what share of its range a release may lie outside, since it was rounded
ROUNDING = 1e-9
N_PARTS = 8  # of the range, whose shares say whether a release can be one of the mechanism's


class WindowChannel(OwnDraws, RecordLosses, EstimatedChannel):
    """Base class.  A subclass has ``epsilon`` and ``bounds``, and defines ``_window(epsilon)``, a and h for each ε."""

    piece_shape = "flat"
    # --- parameters --------------------------------------------------------------------------------------------------

    def check(self, n_features: int | None = None) -> None:
        self._losses()
        self.bounds_for(n_features)

    def _middles(self, n_features):
        """Middle and half the width of each feature's bounds, (n_features,) each."""
        lo, hi = self.bounds_for(n_features).T
        return 0.5 * lo + 0.5 * hi, 0.5 * (hi - lo)

    def _windows(self, n_records, n_features):
        """(ε, a, h) of a feature, each of shape (n_records, 1)."""
        epsilon = self._losses_of(max(n_records, 1), n_features)[: np.size(self.epsilon), None]  # there may be none
        bounds = self.bounds_for(n_features)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            a, h = self._window(epsilon)
            reach = np.max(a + h) * np.max(np.abs(bounds))
            widths = np.min(h / a) * (bounds[:, 1] - bounds[:, 0])
        if not reach < 1e300:
            raise ValueError(
                f"{type(self).__name__} with epsilon={self.epsilon!r} has releases too large for floating point: "
                "choose a larger epsilon"
            )
        gaps = np.spacing(np.abs(bounds).max(axis=1))
        if not np.all(widths > FINEST * gaps):
            narrowest = widths[np.argmin(widths / gaps)]
            raise ValueError(
                f"{type(self).__name__} with epsilon={self.epsilon!r} has a window of width {narrowest:.2g}, which "
                f"floating-point numbers between bounds={self.bounds!r} hardly distinguish from a point: such a "
                "release hides nothing; use a smaller epsilon"
            )
        return tuple(np.broadcast_to(one, (n_records, 1)) for one in (epsilon, a, h))

    # --- releases ----------------------------------------------------------------------------------------------------

    def _records(self, X):
        """Records on [-1, 1]."""
        X = check_array(X, dtype=np.float64, input_name="X", estimator=type(self).__name__)
        middle, half = self._middles(X.shape[1])
        with np.errstate(over="ignore"):  # a warning would tell of a record
            return np.clip((X - middle) / half, -1.0, 1.0)

    def _simulate(self, rng, t):
        return self._from_unit(self._draw(rng, t, *self._windows(*t.shape)))

    def _secure(self, t):
        return self._from_unit(self._draw_securely(t, *self._windows(*t.shape)))

    def _from_unit(self, v):
        """Releases on the scale of the records."""
        middle, half = self._middles(v.shape[1])
        return middle + half * v

    def _draw(self, rng, t, epsilon, a, h):
        inside = rng.random(t.shape) * (h + a * np.exp(-epsilon)) < h
        u = 2.0 * rng.random(t.shape) - 1.0
        outside = a * u + np.where(u < t, -h, h)  # the rest, joined together, has length 2a, and its gap is at a t
        return np.where(inside, a * t + h * u, outside)

    def _draw_securely(self, t, epsilon, a, h):
        """The window has the same number of cells for every record, and begins at one of them."""
        from secrets import randbelow

        v = np.empty(t.shape)
        for i, j in np.ndindex(t.shape):
            n_inside = max(int(N_CELLS * (h[i, 0] / (a[i, 0] + h[i, 0]))), 1)
            first = min(int(0.5 * (t[i, j] + 1.0) * (N_CELLS - n_inside)), N_CELLS - n_inside)
            if randbelow(N_CELLS * CELLS) < integer_odds(epsilon[i, 0], N_CELLS, n_inside):
                cell = first + randbelow(n_inside)
            else:
                cell = randbelow(N_CELLS - n_inside)
                cell += n_inside if cell >= first else 0
            v[i, j] = (a[i, 0] + h[i, 0]) * ((2 * cell + 1 - N_CELLS) / N_CELLS)
        return v

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        self._check_values(Z)

    def _check_values(self, Z):
        """Raise ValueError if a value of Z is one that this mechanism never releases."""
        middle, half = self._middles(Z.shape[1])
        for rows in self._parts(Z):
            _, a, h = self._windows(*Z[rows].shape)
            wrong = np.abs(Z[rows] - middle) > half * ((1.0 + ROUNDING) * (a + h))
            if wrong.any():
                i, j = np.argwhere(wrong)[0]
                reach, i = half[j] * (a + h)[i, 0], i + rows.start
                raise ValueError(
                    f"Z must lie in [{middle[j] - reach:g}, {middle[j] + reach:g}], the range of {self!r}, but row "
                    f"{i}, column {j} has {Z[i, j]:g}: pass the release as it was published, with the epsilon and the "
                    "bounds that it was made with"
                )

    def _parts(self, Z):
        """Slices of some rows each, or of all where each has a window of its own."""
        return chunks(len(Z)) if self.has_one_law else [slice(0, len(Z))]

    def shares(self, Z: Array) -> list[Share]:
        """Of each of ``N_PARTS`` equal parts of the range, which a window may miss or overlap as far as it is wide."""
        if not self.has_one_law:
            return []
        epsilon, a, h = (part.item() for part in self._windows(1, Z.shape[1]))
        middle, half = self._middles(Z.shape[1])
        reach = half * (a + h)
        near, width = 1.0 / (2.0 * h + 2.0 * a * np.exp(-epsilon)), 2.0 * (a + h) / N_PARTS
        low = near * np.exp(-epsilon) * width
        high = low + near * -np.expm1(-epsilon) * min(width, 2.0 * h)
        found = []
        for j in range(Z.shape[1]):
            ends = middle[j] + reach[j] * np.linspace(-1.0, 1.0, N_PARTS + 1)
            shares = np.histogram(Z[:, j], [-inf, *ends[1:-1], inf])[0] / len(Z)  # in blocks: there may be many
            words = (f"a number from {ends[k]:.4g} to {ends[k + 1]:.4g} in feature {j}" for k in range(N_PARTS))
            found += [Share(word, share, low, high) for word, share in zip(words, shares, strict=True)]
        return found

    def _log_law(self, Z, t):
        check_one_each(Z, t)
        self._check_values(Z)
        middle, half = self._middles(t.shape[1])
        return self._log_densities((Z - middle) / half, t, half, *self._windows(*t.shape)).sum(axis=1)

    def _log_densities(self, v, t, half, epsilon, a, h):
        """Log density of each release, on the scale of the records."""
        away = np.abs(v - a * t) > h
        return -np.log(2.0 * h + 2.0 * a * np.exp(-epsilon)) - epsilon * away - np.log(half)

    # --- releases as a line ------------------------------------------------------------------------------------------

    def law(self) -> tuple[Any, ...]:
        """A key that is equal for two mechanisms whose releases of one feature have the same distribution."""
        return type(self), tuple(np.asarray(self.epsilon).ravel().tolist()), tuple(self.bounds_for(1)[0].tolist())

    def _line(self, n_features, scales=None):
        """Middle and half the width of each feature's bounds, a, and half the window, of a feature: (n_features, 1).

        The last two are (1, n) and (n_features, n) for releases with these ``scales``.
        """
        of_each = self if scales is None else self.of_scales(scales, n_features)
        _, a, h = (part.T for part in of_each._windows(1 if scales is None else len(scales), n_features))
        middle, half = (part[:, None] for part in self._middles(n_features))
        return middle, half, a, half * (h / a)

    def kinks(self, n_features: int) -> Floats:
        """The ends of the range of releases, and where a bound enters or leaves the window.

        There the density has steps, in proportion to the records beyond the bound.  None are common to several ε.
        """
        if not self.has_one_law:
            return super().kinks(n_features)
        middle, half, a, reach = self._line(n_features)
        return np.sort(middle + a * np.hstack([-half - reach, reach - half, half - reach, half + reach]), axis=1)

    def node_spacing(self, sd: float) -> float:
        """Cell width at which the nodes are accurate for releases of normal components with this standard deviation.

        The zeros of q + (p - q) Φ(t) nearest to the line are about π/√(2ε) from it if ε is large.
        """
        epsilon = np.max(self._losses())
        return float(SPACING * self._window(epsilon)[0] * sd * min(1.0, 2.0 / np.sqrt(epsilon)))

    def near(self, places: Floats, scales: Floats | None = None) -> Floats:
        middle, _, a, _ = self._line(len(places), scales)
        return np.clip(middle + (places - middle) / a, *self.bounds_for(len(places)).T[:, :, None])

    def reach(self, low: float, high: float) -> tuple[float, float]:
        """All releases: what tells a record are the releases for which it is at an end of the window."""
        return -inf, inf

    def lookup(self, places: Floats, scales: Floats | None = None) -> Floats:
        """What ``fill_normal`` looks up for each release in a list: the ends of the window, (2 n_features, n).

        With ``scales`` (4 n_features, n): the density outside of it, and how much higher it is within, too.
        """
        n_features, n = places.shape
        middle, half, a, reach = self._line(n_features, scales)
        centre, (low, high) = middle + (places - middle) / a, self.bounds_for(n_features).T[:, :, None]
        first = np.where(centre - reach > low, np.minimum(centre - reach, high), -inf)
        last = np.where(centre + reach < high, np.maximum(centre + reach, low), inf)
        found = [first, last]
        if scales is not None:
            outside = np.exp(-scales) / (2.0 * half * a * (reach / half + np.exp(-scales)))
            found += [outside, outside * np.expm1(scales)]
        return np.stack(found, axis=1).reshape(-1, n)

    def moments(self, Z: Array) -> tuple[Floats, Floats]:
        if not self.has_one_law:
            return super().moments(Z)
        n = len(Z)
        mean = sum(self.on_line(Z[rows]).sum(axis=0) for rows in self._parts(Z)) / n
        squares = sum(np.square(self.on_line(Z[rows]) - mean).sum(axis=0) for rows in self._parts(Z))
        return self.moments_of(n, mean, squares / n)

    def moments_of(self, n: int, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        middle, half = self._middles(len(mean))
        parts, v, spread = self._windows(1, len(mean)), (mean - middle) / half, variance / half**2
        u, u_squared = self._unbiased(v, v**2 + spread, *parts)
        error = spread / (2.0 * self._gain(*parts)) ** 2 / max(n - 1, 1)
        return self._possible(n, u.ravel(), None if u_squared is None else u_squared.ravel(), error.ravel())

    def _noise_error(self, mean, n):
        """Error of the mean of (v² - 2 a t v)/(k a²), v uniform around c = a t with probability k, else on the line."""
        epsilon, a, h = self._windows(np.size(self.epsilon), len(mean))
        k, c = self._share_near(epsilon, a, h), a * (2.0 * mean - 1.0)
        first, second = k * c, k * (c**2 + h**2 / 3.0) + (1.0 - k) * (a + h) ** 2 / 3.0
        third, fourth = k * (c**3 + c * h**2), k * (c**4 + 2.0 * (c * h) ** 2 + h**4 / 5.0)
        fourth += (1.0 - k) * (a + h) ** 4 / 5.0
        spread = fourth - second**2 - 4.0 * c * (third - first * second) + 4.0 * c**2 * (second - first**2)
        return 0.25 * np.sqrt(np.mean(spread / (k * a**2) ** 2, axis=0) / n)

    def _share_near(self, epsilon, a, h):
        """k, the share of releases that are drawn around the record, and not anywhere."""
        return -h * np.expm1(-epsilon) / (h + a * np.exp(-epsilon))

    def _gain(self, epsilon, a, h):
        """The factor g such that a release's place on the line has mean g times the record."""
        return self._share_near(epsilon, a, h) * a

    def _unbiased(self, v, v_squared, epsilon, a, h):
        """Estimates of u and u² from E v = k a t and E v² = k (a² t² + h²/3) + (1 - k)(a + h)²/3."""
        k = self._share_near(epsilon, a, h)
        t = v / (k * a)
        t_squared = (v_squared - (k * h**2 + (1.0 - k) * (a + h) ** 2) / 3.0) / (k * a**2)
        return 0.5 * (t + 1.0), 0.25 * (t_squared + 2.0 * t + 1.0)

    def _estimates(self, Z):
        middle, half = self._middles(Z.shape[1])
        v = (self.on_line(Z) - middle) / half
        return self._unbiased(v, v**2, *self._windows(*Z.shape))

    def guess(self, Z: Array) -> Floats | None:
        """Those estimates, moved into the windows: proposals from a kernel hardly ever hit a narrow one."""
        middle, half = self._middles(Z.shape[1])
        _, a, h = self._windows(*Z.shape)
        v = (self.on_line(Z) - middle) / half
        low, high = np.maximum((v - h) / a, -1.0), np.minimum((v + h) / a, 1.0)
        margin = MARGIN * np.maximum(high - low, 0.0)  # a window holds no side of the coin of a hybrid mechanism
        t = (super().guess(Z) - middle) / half
        return middle + half * np.where(low < high, np.clip(t, low + margin, high - margin), t)

    # --- compiled ----------------------------------------------------------------------------------------------------

    def _lower(self, *, n_records, n_features, **context):
        return lower(type(self), self._fields(n_records, n_features))

    def _fields(self, n_records, n_features):
        """What is known of windows; of that of record i in entry ``i * each``, of one for all or of n."""
        n, each = self._number_of_losses(n_records)
        epsilon, a, h = (column[:, 0] for column in self._windows(n, n_features))
        middle, half = self._middles(n_features)
        lo, hi = self.bounds_for(n_features).T
        log_outside = -np.log(2.0 * h + 2.0 * a * np.exp(-epsilon)) - epsilon
        fields = {"low": lo, "high": hi, "middle": middle, "half": half, "log_half": np.log(half)}
        fields |= {"shrink": 1.0 / a, "narrow": h / a, "loss": epsilon, "gain": np.expm1(epsilon)}
        fields |= {"log_outside": log_outside, "narrowest": float(np.min(h / a))}
        return fields | {"each": each}

    @compiled
    def window(self, Z, i, j):
        """Records that the release is near to; if a bound is one of them, all records beyond it are too."""
        at = i * self.each
        centre = self.middle[j] + (Z[i, j] - self.middle[j]) * self.shrink[at]
        reach, low, high = self.half[j] * self.narrow[at], self.low[j], self.high[j]
        lo = min(centre - reach, high) if centre - reach > low else -inf
        hi = max(centre + reach, low) if centre + reach < high else inf
        return lo, hi

    @compiled
    def log_channel(self, Z, i, j, y):
        lo, hi = self.window(Z, i, j)
        return self.log_outside[i * self.each] - self.log_half[j] + (self.loss[i * self.each] if lo <= y <= hi else 0.0)

    @compiled
    def can_reverse(self):
        return self.narrowest < NARROW

    @compiled
    def within(self, Z, i, j):
        """The window between the bounds."""
        lo, hi = self.window(Z, i, j)
        return max(lo, self.low[j]), min(hi, self.high[j])

    @compiled
    def draw_reverse(self, rng, Z, i, j):
        """Draw y from the window, or anywhere between the bounds, with equal chances: records leave and come back."""
        lo, hi = self.within(Z, i, j)
        if lo >= hi or rng.random() < 0.5:
            lo, hi = self.low[j], self.high[j]
        return lo + (hi - lo) * rng.random()

    @compiled
    def log_reverse(self, Z, i, j, y):
        lo, hi = self.within(Z, i, j)
        if not self.low[j] <= y <= self.high[j]:
            return -inf
        density = 1.0 / (self.high[j] - self.low[j])
        if lo >= hi:
            return log(density)
        return log(0.5 * density + (0.5 / (hi - lo) if lo <= y <= hi else 0.0))

    @compiled
    def n_pieces(self):
        return 3

    @compiled
    def piece(self, Z, i, j, p):
        """Below the window, in it, above it."""
        lo, hi = self.window(Z, i, j)
        outside = self.log_outside[i * self.each] - self.log_half[j]
        if p == 0:
            return -inf, lo, 0.0, outside, 0.0, 0.0
        if p == 1:
            return lo, hi, 0.0, outside + self.loss[i * self.each], 0.0, 0.0
        return hi, inf, 0.0, outside, 0.0, 0.0

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        return self.log_window(kernel, Z, i, j, theta, k)

    @compiled
    def log_window(self, kernel, Z, i, j, theta, k):
        """The window's mass counts e^ε times: one interval instead of three."""
        lo, hi = self.window(Z, i, j)
        mass = exp(kernel.log_tilted_mass(theta, k, j, lo, hi, 0.0, 0.0, 0.0))
        return self.log_outside[i * self.each] - self.log_half[j] + log1p(self.gain[i * self.each] * mass)

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """g(x | μ, σ²) of feature j of a normal kernel at all nodes, and its derivatives (``_noised_normal``)."""
        outside = exp(self.log_outside[0]) / self.half[j]
        gain = outside * self.gain[0]
        fill_normal_window(nodes, 3 * j * n, n, outside, gain, mean, log_variance, out, first, second)


class WindowOfScales(WindowChannel):
    """The compiled form for an ε per record; separate, so that the form for one ε compiles faster."""

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        fill_normal_window_scales(nodes, 5 * j * n, n, mean, log_variance, out, first, second)
