"""Beta kernel on bounded records, with independent gamma priors on its two shapes (Beraha et al., §4.2)."""

from math import exp, inf, lgamma, log, pi
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln
from scipy.stats import gamma

from .._base.beta_numeric import draw_beta, draw_beta_interval, log_beta, log_beta_cdf, log_beta_interval
from .._base.compiled import compiled, helper, lower
from .._base.numeric import SQRT_HALF
from .._base.parameters import check_bounds, is_real
from .._base.restore import require
from .._base.typing import Array
from .._base.vector import exp_bounded
from ._beta_moves import LEAST, MOST, draw_logs, jump, langevin_move
from ._kernel import Kernel

JUMPS = 0.2  # share of updates that begin with an independence move
ROUNDED = 16.0  # units in the last place of an end, within which the place of a record is not known
TARGET = 0.574  # acceptance rate that a Langevin move should have (Roberts & Rosenthal 1998)


class BetaKernel(Kernel):
    """Records on an interval, Beta(a, b) after mapping it to [0, 1], with a, b ~ Gamma(shape, rate) independently.

    It is for one feature.  The parameters of a cluster move by the Metropolis-adjusted Langevin algorithm on (log a,
    log b), preconditioned by the Fisher information at the current point (Girolami & Calderhead 2011, the simplified
    manifold version); its step is tuned only in the warm-up, separately for each octave of the cluster's size.  One
    update in five begins with an independence move from a Student t at the mode, which finds the bulk from anywhere.

    Parameters
    ----------
    shape, rate : float, default=0.5, 0.05
        Shape and rate of the gamma priors on a and b, which are restricted to [0.001, 1,000,000].  Positive.  The
        default hardly allows components, away from the ends, with a standard deviation below a twentieth of the
        interval: if records may be as narrow as that, pass a smaller rate, such as 0.001.  The paper's Gamma(2, 2) is
        ``shape=2, rate=0.5`` if its second number is a scale, as its results suggest.  Under ``shape=2, rate=2``
        components as narrow as a sixth of the interval hardly occur, and under much noise populations seem wider than
        they are.
    bounds : pair (lo, hi), optional
        The interval.  None: the mechanism's bounds, or (0, 1) without a mechanism.

    References
    ----------
    Beraha, Favaro, Rao, §4.2 (Gamma(2, 2) on both; Langevin step 0.05).

    Examples
    --------
    >>> from sklearn_dpmix.kernels import BetaKernel
    >>> BetaKernel(shape=2.0, rate=1.0)
    BetaKernel(rate=1.0, shape=2.0)
    """

    tilts = frozenset({"flat", "binomial", "mean"})
    noised_as = "beta"

    def __init__(self, shape: float = 0.5, rate: float = 0.05, *, bounds: ArrayLike | None = None) -> None:
        self.shape = shape
        self.rate = rate
        self.bounds = bounds

    def check_state(self, theta: Array, records: Array) -> None:
        require(theta[:, :2] > 0, "theta", "has shapes that are not positive")
        constant = -betaln(theta[:, 0], theta[:, 1]) - self._lower(n_features=1).log_width
        is_same = np.isclose(theta[:, 2], constant, rtol=1e-6, atol=1e-6)
        require(is_same, "theta", "has inconsistent columns")

    def sizes(self, n_features: int) -> tuple[int, int]:
        if n_features != 1:
            raise ValueError(f"BetaKernel takes records of one feature, but these have {n_features}")
        # a, b, log of the normalising constant, spare; Σ log x, Σ log(1 - x), numbers of records left out of either
        return 4, 4

    def resolve(self, release: Any) -> Self:
        """Fill in the bounds, and check noise-free records against them."""
        for name in ("shape", "rate"):
            value = getattr(self, name)
            if not (is_real(value) and 0 < value < inf):
                raise ValueError(f"{name} must be a positive number, got {name}={value!r}")
        if np.diff(gamma.cdf([LEAST, MOST], self.shape, scale=1.0 / self.rate)).item() < 0.01:
            raise ValueError(
                f"shape={self.shape!r}, rate={self.rate!r} put nearly all of the prior on a and b outside "
                f"[{LEAST:g}, {MOST:g}]: choose others; their prior mean is shape/rate"
            )
        self.sizes(release.n_features)
        known = release.bounds()
        bounds = self.bounds if self.bounds is not None else (0.0, 1.0) if known is None else tuple(known[0].tolist())
        lo, hi = check_bounds(bounds, 1)[0]
        if release.channel.piece_shape == "binomial" and not np.array_equal(known[0], (lo, hi)):
            raise ValueError(
                f"bounds={self.bounds!r} of BetaKernel are not those of mechanism={release.mechanism!r}, whose "
                "closed form needs equal bounds: leave the kernel's out"
            )
        if release.mechanism is None and not np.all((release.Z > lo) & (release.Z < hi)):
            worst = release.Z[np.argmax(np.maximum(lo - release.Z, release.Z - hi))].item()
            raise ValueError(
                f"BetaKernel needs records strictly inside its bounds={bounds!r}, got {worst:g}: pass wider bounds"
            )
        return type(self)(shape=self.shape, rate=self.rate, bounds=bounds)

    def _lower(self, *, n_features, **context):
        lo, hi = check_bounds(self.bounds if self.bounds is not None else (0.0, 1.0), 1)[0]
        shape, rate = float(self.shape), float(self.rate)
        inside = np.diff(gamma.cdf([LEAST, MOST], shape, scale=1.0 / rate)).item()
        constant = shape * log(rate) - lgamma(shape) - log(inside)
        fields = {"n_features": 1, "low": lo, "width": hi - lo, "log_width": float(np.log(hi - lo))}
        fields |= {"least": LEAST, "most": MOST}
        # nearer to an end a record is rounded: its logarithm, from which small shapes are known, is not that of y
        near_low = max(ROUNDED * np.spacing(abs(lo)) / (hi - lo), 1e-300)
        near_high = ROUNDED * max(np.spacing(0.5), np.spacing(abs(hi)) / (hi - lo))
        fields |= {"near_low": float(near_low), "near_high": float(near_high)}
        return lower(
            type(self), fields | {"prior_shape": shape, "prior_rate": rate, "log_prior_constant": 2.0 * constant}
        )

    # --- parameters --------------------------------------------------------------------------------------------------

    @compiled
    def put_params(self, theta, k, a, b):
        theta[k, 0], theta[k, 1] = a, b
        theta[k, 2] = -log_beta(a, b) - self.log_width

    @compiled
    def draw_prior(self, rng, theta, k):
        self.put_params(theta, k, self.draw_shape(rng), self.draw_shape(rng))

    @compiled
    def draw_shape(self, rng):
        while True:
            a = rng.standard_gamma(self.prior_shape) / self.prior_rate
            if LEAST <= a <= MOST:
                return a

    @compiled
    def add(self, stats, k, j, y, sign):
        x = (y - self.low) / self.width
        if x > self.near_low:
            stats[k, 0] += sign * log(x)
        else:
            stats[k, 2] += sign
        if 1.0 - x > self.near_high:
            stats[k, 1] += sign * log(1.0 - x)
        else:
            stats[k, 3] += sign

    @compiled
    def target_acceptance(self):
        return TARGET

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        self.move_params(rng, theta, k, stats, n, 1.0)

    @compiled
    def move_params(self, rng, theta, k, stats, n, step):
        a, b = theta[k, 0], theta[k, 1]
        s = stats[k, 0] + draw_logs(rng, a, stats[k, 2], self.near_low)
        t = stats[k, 1] + draw_logs(rng, b, stats[k, 3], self.near_high)
        if rng.random() < JUMPS:
            a, b = jump(rng, a, b, s, t, n, self.prior_shape, self.prior_rate)
        a, b, probability = langevin_move(rng, a, b, s, t, n, self.prior_shape, self.prior_rate, step)
        self.put_params(theta, k, a, b)
        return probability

    # --- the record given θ ------------------------------------------------------------------------------------------

    @compiled
    def log_likelihood(self, theta, k, j, y):
        """Of a record next to an end, which is rounded, the log probability that it is there."""
        x = (y - self.low) / self.width
        if x <= self.near_low:
            return log_beta_cdf(theta[k, 0], theta[k, 1], self.near_low) if x >= -self.near_low else -inf
        if 1.0 - x <= self.near_high:
            return log_beta_cdf(theta[k, 1], theta[k, 0], self.near_high) if 1.0 - x >= -self.near_high else -inf
        return self.log_density(theta, k, j, y)

    @compiled
    def log_density(self, theta, k, j, y):
        x = (y - self.low) / self.width
        if x <= 0.0 or x >= 1.0:
            return -inf
        return (theta[k, 0] - 1.0) * log(x) + (theta[k, 1] - 1.0) * log(1.0 - x) + theta[k, 2]

    @compiled
    def draw(self, rng, theta, k, j):
        return self.low + self.width * draw_beta(rng, theta[k, 0], theta[k, 1])

    @compiled
    def cdf(self, theta, k, j, y):
        x = min(max((y - self.low) / self.width, 0.0), 1.0)
        return exp(log_beta_cdf(theta[k, 0], theta[k, 1], x))

    @compiled
    def ends(self, j):
        return self.low, self.low + self.width

    @compiled
    def mean(self, theta, k, j):
        return self.low + self.width * theta[k, 0] / (theta[k, 0] + theta[k, 1])

    @compiled
    def clamped_mean(self, theta, k, j, lo, hi):
        """Mean of the record moved to [lo, hi]; u f(u | a, b) is a/(a + b) times the density of a + 1 and b."""
        if lo <= self.low and hi >= self.low + self.width:
            return self.mean(theta, k, j)
        a, b = theta[k, 0], theta[k, 1]
        first, last = max((lo - self.low) / self.width, 0.0), min((hi - self.low) / self.width, 1.0)
        below, above, inside, part = 1.0, 1.0, 0.0, 0.0
        if first < last:
            below = exp(log_beta_cdf(a, b, first)) if first > 0.0 else 0.0
            above = exp(log_beta_cdf(b, a, 1.0 - last)) if last < 1.0 else 0.0
            inside = exp(log_beta_interval(a, b, first, last))
            part = a / (a + b) * exp(log_beta_interval(a + 1.0, b, first, last))
        elif lo >= self.low + self.width:
            above = 0.0
        else:
            below = 0.0
        return lo * below + hi * above + self.low * inside + self.width * part

    @compiled
    def variance(self, theta, k, j):
        a, b = theta[k, 0], theta[k, 1]
        return self.width * self.width * a * b / ((a + b) * (a + b) * (a + b + 1.0))

    @compiled
    def log_tilted_mass(self, theta, k, j, lo, hi, anchor, slope, curvature):
        lo, hi = max((lo - self.low) / self.width, 0.0), min((hi - self.low) / self.width, 1.0)
        return log_beta_interval(theta[k, 0], theta[k, 1], lo, hi) if lo < hi else -inf

    @compiled
    def bin_masses(self, channel, theta, k, first):
        """All bins except the first and the last at once, if they divide the kernel's own interval."""
        size = channel.last_cell + 1
        divides = channel.low == self.low and abs(channel.width * size - self.width) < 1e-12 * self.width
        if divides:
            norm = theta[k, 2] + self.log_width
            fill_inner_masses(theta, k, first, size, norm, channel.log_middle, channel.log_rest)
        for b in range(size):
            if not divides or b == 0 or b == size - 1 or theta[k, first + b] < 0.0:
                theta[k, first + b] = exp(channel.log_mass(self, theta, k, b))

    @compiled
    def draw_tilted(self, rng, theta, k, j, lo, hi, anchor, slope, curvature):
        lo, hi = max((lo - self.low) / self.width, 0.0), min((hi - self.low) / self.width, 1.0)
        return self.low + self.width * draw_beta_interval(rng, theta[k, 0], theta[k, 1], lo, hi)

    # --- steps in (log a - log b)/√2 and (log a + log b)/√2: location and concentration ------------------------------

    @compiled
    def perturb(self, rng, theta, k, to, j, mean_step, scale_step):
        u, v = mean_step * rng.standard_normal() * SQRT_HALF, scale_step * rng.standard_normal() * SQRT_HALF
        # outside the support it is rejected, wherever it is
        a = min(max(theta[k, 0] * exp(min(v + u, 50.0)), 0.5 * LEAST), 2.0 * MOST)
        b = min(max(theta[k, 1] * exp(min(v - u, 50.0)), 0.5 * LEAST), 2.0 * MOST)
        self.put_params(theta, to, a, b)

    @compiled
    def log_perturb(self, theta, k, to, j, mean_step, scale_step):
        a, b = log(theta[to, 0] / theta[k, 0]), log(theta[to, 1] / theta[k, 1])
        u, v = (a - b) * SQRT_HALF / mean_step, (a + b) * SQRT_HALF / scale_step
        return -0.5 * (u * u + v * v) - log(2.0 * pi * mean_step * scale_step)

    @compiled
    def prior_spread(self, j):
        return 1.0

    @compiled
    def log_prior(self, theta, k, j):
        a, b = theta[k, 0], theta[k, 1]
        if not (LEAST <= a <= MOST and LEAST <= b <= MOST):
            return -inf
        return self.log_prior_constant + self.prior_shape * (log(a) + log(b)) - self.prior_rate * (a + b)

    # u^s (1 - u)^(n - s), with u the record on [0, 1], turns Beta(a, b) into Beta(a + s, b + n - s)

    @compiled
    def log_binomial_mass(self, theta, k, j, n, s):
        """log ∫ u^s (1 - u)^(n - s) f(y | θ) dy."""
        return log_beta(theta[k, 0] + s, theta[k, 1] + (n - s)) + theta[k, 2] + self.log_width

    @compiled
    def draw_binomial(self, rng, theta, k, j, n, s):
        """A record with density proportional to u^s (1 - u)^(n - s) f(y | θ)."""
        return self.low + self.width * draw_beta(rng, theta[k, 0] + s, theta[k, 1] + (n - s))


@helper
def fill_inner_masses(theta, k, first, size, norm, log_middle, log_rest):
    """Masses of the inner bins of ``size`` equal bins of [0, 1]; -1 where the density varies too much within a bin.

    It uses the Taylor series of the density about the middle of a bin, whose coefficients follow from the differential
    equation x (1 - x) f' = ((a - 1) (1 - x) - (b - 1) x) f.  All bins are done together, so that the loops run along
    memory.  ``norm`` is the log of the normalising constant; ``log_middle`` and ``log_rest`` are log x and log(1 - x)
    at the middles.
    """
    a, b = theta[k, 0], theta[k, 1]
    inner = size - 2
    if inner < 1:
        return
    padded = (inner + 7) // 8 * 8  # whole vectors; entries beyond the end repeat the last bin
    work = np.empty((7, padded))
    slope, curve, difference, product = work[0], work[1], work[2], work[3]
    term, before, total = work[4], work[5], work[6]
    for c in range(padded):
        at = min(c, inner - 1) + 1.0
        hx, hy = 1.0 / (2.0 * at + 1.0), 1.0 / (2.0 * (size - at) - 1.0)  # half a width over x, over 1 - x
        slope[c] = min(max((a - 1.0) * hx - (b - 1.0) * hy, -10.0), 10.0)
        curve[c] = min((a + b - 2.0) * hx * hy, 4.0)
        difference[c], product[c] = hx - hy, hx * hy
        term[c], before[c], total[c] = 1.0, 0.0, 1.0
    # for all bins: slope is monotone or convex, curve over its sign is convex; difference is at most 1/3, product 1/9
    steepest, most_curved = max(abs(slope[0]), abs(slope[inner - 1])), max(abs(curve[0]), abs(curve[inner - 1]))
    n, bound, bound_before = 0.0, 1.0, 0.0
    while bound + bound_before > 1e-17 and n < 400.0:
        first_part, second_part, third_part = 1.0 / (n + 1.0), 1.0 / (n + 2.0), 1.0 / (n + 3.0)
        for c in range(padded):
            last = (slope[c] - difference[c] * n) * term[c] - (curve[c] - product[c] * (n - 1.0)) * before[c]
            last *= first_part
            after = (slope[c] - difference[c] * (n + 1.0)) * last - (curve[c] - product[c] * n) * term[c]
            after *= second_part
            before[c], term[c] = last, after
            total[c] += after * third_part
        for m in (n, n + 1.0):
            bigger = (steepest + m / 3.0) * bound + (most_curved + abs(m - 1.0) / 9.0) * bound_before
            bound, bound_before = bigger / (m + 1.0), bound
        n += 2.0
    for c in range(inner):
        total[c] *= exp_bounded((a - 1.0) * log_middle[c + 1] + (b - 1.0) * log_rest[c + 1] + norm) / size
    for c in range(inner):
        varies = abs(slope[c]) >= 10.0 or curve[c] >= 4.0
        theta[k, first + 1 + c] = -1.0 if varies else total[c]
