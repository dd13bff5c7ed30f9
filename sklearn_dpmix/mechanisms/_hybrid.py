"""The hybrid mechanism (Wang et al. 2019): the piecewise mechanism, or a coin whose odds are linear in the record."""

from fractions import Fraction
from math import erfc, exp, log, sqrt

import numpy as np
from scipy.special import expit

from .._base.compiled import compiled, helper
from .._base.numeric import INV_SQRT_2PI, SQRT_HALF
from .._base.typing import Array, Floats
from ._channel import Share
from ._noised_normal import fill_normal_window
from ._piecewise import PiecewiseMechanism
from ._randomized_response import CELLS, integer_odds
from ._window import ROUNDING

#: ε up to which the coin alone has the least worst variance (Wang et al., §III-C)
COIN_ALONE = float(np.log((-5 + 2 * np.cbrt(6353 - 405 * sqrt(241)) + 2 * np.cbrt(6353 + 405 * sqrt(241))) / 27))
#: How near to a side of the coin a release counts as that side, at most and as a share of a window: one in single
#: precision does, and hardly any by chance
OF_SIDES, OF_WINDOW = 2e-6, 1e-3
NEARLY, SMALL = 1e-3, 6.0  # how near is suspect, and up to what ε: beyond, many releases are almost the record
FEW_SIDES, LEAST_SIDES = 0.25, 60.0  # a share of the expected sides that is too few, if so many are expected
#: Where the coin's sides are on the line on which nodes are laid out, in multiples of C: beyond all other releases
AWAY = 1.25


class HybridMechanism(PiecewiseMechanism):
    r"""Release an unbiased number for a record t in [-1, 1], by the piecewise mechanism or by a coin with two sides.

    With probability 1 - e^(-ε/2), if ε > 0.61, the release is that of :class:`PiecewiseMechanism` with this ε;
    otherwise (always, for smaller ε) it is D = (e^ε + 1)/(e^ε - 1) with probability 1/2 + t/(2D), or -D (Duchi et al.).
    The choice between the two does not depend on the record, and each is ε-DP, attained at the two bounds, so the
    hybrid is too.  Its worst-case variance is the smallest of the three.  For other ``bounds``, both record and release
    are in their unit.  A record of d features spends ε/d on each, and records outside the bounds are moved to the
    bound.

    Inference is exact for kernels with a distribution function and a first moment: the coin's odds given a cluster are
    linear in the mean of its clamped records.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,)
        Privacy loss of a record; an array gives every record its own.
    bounds : pair (lo, hi) or array of shape (n_features, 2), default=(-1, 1)
        Public bounds, to be passed unless records are within the default ones: all others are moved to a bound.

    Raises
    ------
    ValueError
        On use, for a parameter out of range, or an ε so large that the window is almost a point (about 50 on (-1, 1));
        for releases outside [-C, C], C = (e^(ε/2) + 1)/(e^(ε/2) - 1), or for small ε other than -D and D.

    References
    ----------
    Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu (2019), Collecting and analyzing multidimensional data with local
    differential privacy, §III-C; Duchi, Jordan, Wainwright (2018), Minimax optimal procedures for locally private
    estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import HybridMechanism
    >>> mechanism = HybridMechanism(epsilon=1.0, bounds=(0, 10))
    >>> Z = mechanism.privatize(np.full((100_000, 1), 7.0), random_state=0)
    >>> bool(abs(Z.mean() - 7.0) < 0.2)
    True
    >>> mechanism.guarantee().epsilon
    1.0
    """

    noised_kernels = frozenset({"beta", "normal", "truncated_normal"})
    piece_shape = "mean"

    # --- parameters: all on [-1, 1] ----------------------------------------------------------------------------------

    @staticmethod
    def _share(epsilon):
        """Probability of the piecewise mechanism."""
        return np.where(epsilon > COIN_ALONE, -np.expm1(-0.5 * epsilon), 0.0)

    @staticmethod
    def _side(epsilon):
        """D."""
        return 1.0 / np.tanh(0.5 * epsilon)

    def _sides(self, v, epsilon, a, h):
        """1 or -1 if a release on [-C, C] is a side of the coin, also at its place from ``on_line``; otherwise 0."""
        is_side = np.abs(np.abs(v) - self._side(epsilon)) <= self._near(epsilon, h)
        return np.where(is_side | (np.abs(v) > (1.0 + 2.0 * ROUNDING) * (a + h)), np.sign(v), 0.0)

    def _near(self, epsilon, h):
        """How near to a side of the coin a release counts as that side."""
        return np.minimum(OF_SIDES, OF_WINDOW * h) * self._side(epsilon)

    # --- releases ----------------------------------------------------------------------------------------------------

    def _draw(self, rng, t, epsilon, a, h):
        v = super()._draw(rng, t, epsilon, a, h)
        is_coin = rng.random(t.shape) >= self._share(epsilon)
        sign = np.where(rng.random(t.shape) < 0.5 + 0.5 * t / self._side(epsilon), 1.0, -1.0)
        return np.where(is_coin, sign * self._side(epsilon), v)

    def _draw_securely(self, t, epsilon, a, h):
        """The coin's odds are between e^ε and e^-ε, rounded to less, in proportion to the record."""
        from secrets import randbelow

        v, share, side = super()._draw_securely(t, epsilon, a, h), self._share(epsilon), self._side(epsilon)
        for i, j in np.ndindex(t.shape):
            most = integer_odds(epsilon[i, 0], 2)
            least = 2 * CELLS - most
            odds = least + int((most - least) * Fraction(0.5 * (t[i, j] + 1.0)))
            if randbelow(2**64) >= int(2**64 * Fraction(float(share[i, 0]))):
                v[i, j] = side[i, 0] if randbelow(2 * CELLS) < odds else -side[i, 0]
        return v

    def shares(self, Z: Array) -> list[Share]:
        """Of nothing: :meth:`check_release` looks at how many coins there are."""
        return []

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism, or was rounded."""
        nearly, found, wanted = 0, 0, 0.0
        for rows in self._parts(Z):
            v, side, is_side, epsilon = self._coins(Z[rows])
            nearly += np.sum((np.abs(np.abs(v) - side) <= NEARLY * side) & (epsilon <= SMALL) & ~is_side)
            found += is_side.sum()
            wanted += np.sum(np.broadcast_to(1.0 - self._share(epsilon), v.shape))
        if nearly > max(10, found) or (wanted > LEAST_SIDES and found < FEW_SIDES * wanted):
            low, high = self._coin_values(Z, 0, 0)
            raise ValueError(
                f"Z was rounded, or has another epsilon or other bounds: of {Z.size} values {found} equal, to six "
                f"digits, {low:.12g} or {high:.12g} (or those of their own row and column), and {self!r} releases "
                f"about {wanted:.0f} such: pass the release as it was published"
            )
        super().check_release(Z)

    def _check_values(self, Z):
        super()._check_values(Z)
        for rows in self._parts(Z):
            *_, is_side, epsilon = self._coins(Z[rows])
            wrong = ~is_side & (self._share(epsilon) == 0.0)
            if wrong.any():
                i, j = np.argwhere(wrong)[0]
                low, high = self._coin_values(Z[rows], i, j)
                i += rows.start
                raise ValueError(
                    f"Z must hold only {low:.12g} and {high:.12g}, the values that {self!r} releases, but row {i}, "
                    f"column {j} has {Z[i, j]:.12g}: pass the release as it was published, with the epsilon and bounds "
                    "that it was made with"
                )

    def _coins(self, Z):
        """Releases on the scale of the records, a coin's sides, where a release is one, and ε."""
        epsilon, a, h = self._windows(*Z.shape)
        middle, half = self._middles(Z.shape[1])
        v = (Z - middle) / half
        return v, self._side(epsilon), self._sides(v, epsilon, a, h) != 0.0, epsilon

    def _coin_values(self, Z, i, j):
        """The two values that a coin releases in row i and column j of Z."""
        middle, half = (part[j] for part in self._middles(Z.shape[1]))
        side = self._side(self._windows(*Z.shape)[0][i, 0])
        return middle - half * side, middle + half * side

    def _log_densities(self, v, t, half, epsilon, a, h):
        """Log densities of releases; log probabilities for the coin's sides."""
        sign, share, least = self._sides(v, epsilon, a, h), self._share(epsilon), expit(-epsilon)
        odds = least + (1.0 - 2.0 * least) * np.clip(0.5 + 0.5 * sign * t, 0.0, 1.0)  # ½ - 1/(2D) would cancel
        with np.errstate(divide="ignore"):
            of_coin = np.where(share > 0.0, -0.5 * epsilon, 0.0) + np.log(odds)
            of_window = np.log(share) + super()._log_densities(v, t, half, epsilon, a, h)
        return np.where(sign != 0.0, of_coin, of_window)

    # --- releases as a line: the coin's sides are beyond all other releases -------------------------------------------

    def on_line(self, z: Floats) -> Floats:
        line = z[:, None] if z.ndim == 1 else z
        middle, half = self._middles(line.shape[1])
        moved = np.empty(line.shape)
        for rows in self._parts(line):
            epsilon, a, h = self._windows(*line[rows].shape)
            sign = self._sides((line[rows] - middle) / half, epsilon, a, h)
            moved[rows] = np.where(sign != 0.0, middle + half * (AWAY * sign * (a + h)), line[rows])
        return moved.reshape(z.shape)

    def kinks(self, n_features: int) -> Floats:
        """The kinks of the windows, and the coin's sides: the very numbers of ``on_line``, lest folding moves them."""
        middle, half = (part[:, None] for part in self._middles(n_features))
        _, a, h = self._windows(1, n_features)
        ends = middle + half * (AWAY * np.array([-1.0, 1.0]) * (a + h))
        has_windows = self._share(self._windows(1, n_features)[0]).item() > 0.0
        return np.sort(np.hstack([ends, super().kinks(n_features)]), axis=1) if has_windows else ends

    def _signs(self, places):
        """Sides of the coin for places on the line, (n_features, n)."""
        middle, half = (part[:, None] for part in self._middles(len(places)))
        _, a, h = self._windows(1, len(places))
        distance, reach = places - middle, half * (a + h).item() * 0.5 * (1.0 + AWAY)
        return np.where(np.abs(distance) > reach, np.sign(distance), 0.0)

    def near(self, places: Floats, scales: Floats | None = None) -> Floats:
        middle, half = (part[:, None] for part in self._middles(len(places)))
        sign = self._signs(places)
        return np.where(sign != 0.0, middle + 0.5 * half * sign, super().near(places))

    def lookup(self, places: Floats, scales: Floats | None = None) -> Floats:
        """The ends of the window, and the side of the coin: (3 n_features, n)."""
        n_features, n = places.shape
        ends = super().lookup(places).reshape(n_features, 2, n)
        return np.concatenate([ends, self._signs(places)[:, None]], axis=1).reshape(-1, n)

    # --- where a chain starts ----------------------------------------------------------------------------------------

    def _gain(self, epsilon, a, h):
        share = self._share(epsilon)
        return share + (1.0 - share) * AWAY * (a + h) / self._side(epsilon)

    def _unbiased(self, v, v_squared, epsilon, a, h):
        """Estimates of u and u² from places on the line; None for u² if all are sides of the coin."""
        t, share, k = v / self._gain(epsilon, a, h), self._share(epsilon), self._share_near(epsilon, a, h)
        if np.any(share == 0.0):
            return 0.5 * (t + 1.0), None
        rest = share * (k * h**2 + (1.0 - k) * (a + h) ** 2) / 3.0 + (1.0 - share) * (AWAY * (a + h)) ** 2
        t_squared = (v_squared - rest) / (share * k * a**2)
        return 0.5 * (t + 1.0), 0.25 * (t_squared + 2.0 * t + 1.0)

    def _noise_error(self, mean, n):
        """Error of the mean of v²/(s k a²) - 2 t v/gain, for v on the line: uniform near a t or anywhere, or a side."""
        epsilon, a, h = self._windows(np.size(self.epsilon), len(mean))
        share, k, gain = self._share(epsilon), self._share_near(epsilon, a, h), self._gain(epsilon, a, h)
        if np.any(share == 0.0):
            return 0.0
        t, away = 2.0 * mean - 1.0, AWAY * (a + h)
        c, odd, even = a * t, away * t / self._side(epsilon), away**2
        near = c, c**2 + h**2 / 3.0, c**3 + c * h**2, c**4 + 2.0 * (c * h) ** 2 + h**4 / 5.0
        anywhere = 0.0, (a + h) ** 2 / 3.0, 0.0, (a + h) ** 4 / 5.0
        sides = odd, even, even * odd, even**2
        parts = zip(near, anywhere, sides, strict=True)
        m = [share * (k * one + (1.0 - k) * other) + (1.0 - share) * side for one, other, side in parts]
        p, q = 1.0 / (share * k * a**2), 2.0 * t / gain
        spread = p**2 * (m[3] - m[1] ** 2) - 2.0 * p * q * (m[2] - m[0] * m[1]) + q**2 * (m[1] - m[0] ** 2)
        return 0.25 * np.sqrt(np.mean(spread, axis=0) / n)

    # --- compiled ----------------------------------------------------------------------------------------------------

    def _fields(self, n_records, n_features):
        n, _ = self._number_of_losses(n_records)
        epsilon, a, h = (column[:, 0] for column in self._windows(n, n_features))
        share = self._share(epsilon)
        with np.errstate(divide="ignore"):
            log_outside = np.log(share) - np.log(2.0 * h + 2.0 * a * np.exp(-epsilon)) - epsilon
        fields = super()._fields(n_records, n_features)
        fields |= {"log_outside": log_outside, "side": self._side(epsilon), "reach": a + h, "of_coin": 1.0 - share}
        fields["near"] = self._near(epsilon, h)
        return fields | {"least": 1.0 / (1.0 + np.exp(epsilon))}

    @compiled
    def sign(self, Z, i, j):
        """The side of the coin that the release is, or 0."""
        v, at = (Z[i, j] - self.middle[j]) / self.half[j], i * self.each
        if abs(abs(v) - self.side[at]) <= self.near[at] or abs(v) > (1.0 + 2.0 * ROUNDING) * self.reach[at]:
            return 1.0 if v > 0.0 else -1.0
        return 0.0

    @compiled
    def odds(self, i, j, sign, y):
        """Probability of a side for records with this mean within the bounds."""
        share = (y - self.low[j]) / (2.0 * self.half[j])
        share = min(max(share if sign > 0.0 else 1.0 - share, 0.0), 1.0)
        least = self.least[i * self.each]
        return least + (1.0 - 2.0 * least) * share

    @compiled
    def log_channel(self, Z, i, j, y):
        sign = self.sign(Z, i, j)
        if sign != 0.0:
            return log(self.of_coin[i * self.each] * self.odds(i, j, sign, y))
        lo, hi = self.window(Z, i, j)
        return self.log_outside[i * self.each] - self.log_half[j] + (self.loss[i * self.each] if lo <= y <= hi else 0.0)

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        sign = self.sign(Z, i, j)
        if sign != 0.0:
            mean = kernel.clamped_mean(theta, k, j, self.low[j], self.high[j])
            return log(self.of_coin[i * self.each] * self.odds(i, j, sign, mean))
        return self.log_window(kernel, Z, i, j, theta, k)

    @compiled
    def impute(self, rng, kernel, Z, i, j, theta, k):
        """For a side of the coin: from the kernel, accepted by the odds; otherwise within the window or outside."""
        sign = self.sign(Z, i, j)
        if sign != 0.0:
            most = 1.0 - self.least[i * self.each]
            while True:
                y = kernel.draw(rng, theta, k, j)
                if rng.random() * most < self.odds(i, j, sign, y):
                    return y
        return self.impute_by_pieces(rng, kernel, Z, i, j, theta, k)

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """g(x | μ, σ²) of feature j of a normal kernel at all nodes, and its derivatives (``_noised_normal``)."""
        outside, x = exp(self.log_outside[0]) / self.half[j], 4 * j * n
        fill_normal_window(nodes, x, n, outside, outside * self.gain[0], mean, log_variance, out, first, second)
        slope = self.of_coin[0] * (1.0 - 2.0 * self.least[0]) / (2.0 * self.half[j])
        value = self.of_coin[0] * self.least[0]
        low, high = self.low[j], self.high[j]
        fill_coin(nodes, x, n, value, slope, low, high, mean, log_variance, out, first, second)


@helper
def fill_coin(nodes, x, n, value, slope, low, high, mean, log_variance, out, first, second):
    """The coin's sides among the nodes: ``value`` and ``slope`` times how far records are from the other bound.

    With t and u the bounds minus μ over σ, E(y - low)₊ = σ(φ(t) - t Φ(-t)), with derivatives Φ(-t) and φ(t) by μ and σ.
    """
    sd = exp(0.5 * log_variance)
    t, u = (low - mean) / sd, (high - mean) / sd
    f_low, f_high = INV_SQRT_2PI * exp(-0.5 * t * t), INV_SQRT_2PI * exp(-0.5 * u * u)
    above_low, above_high = 0.5 * erfc(t * SQRT_HALF), 0.5 * erfc(u * SQRT_HALF)
    up = sd * (f_low - f_high) - sd * (t * above_low - u * above_high)
    for m in range(n):
        sign = nodes[x + 3 * n + m]
        if sign != 0.0:
            distance = up if sign > 0.0 else high - low - up
            out[first + m] = value + slope * min(max(distance, 0.0), high - low)
            out[second + m] = sign * slope * (above_low - above_high)
            out[second + n + m] = sign * slope * 0.5 * sd * (f_low - f_high)
