"""Binomial counts of a bounded record (Chen, Ozgur & Kairouz 2022); closed form with beta kernels (Beraha et al. §3.3).

A trial succeeds with probability p(u) = (1 - u) q_lo + u q_hi, u the record on [0, 1]: it is the randomised response to
a coin that shows heads with probability u.  So with K ~ Binomial(m, u) heads, which nobody sees,

    z | K ~ Binomial(K, q_hi) + Binomial(m - K, q_lo),    q(z | y) = Σ_k P(z | k) C(m, k) u^k (1 - u)^(m - k):

a :class:`CellChannel` whose cells are the values of K.  Under a Beta(a, b) kernel K is beta-binomial, and y given K = k
is Beta(a + k, b + m - k): every term is positive, and nothing is approximated.
"""

from math import log

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from .._base.compiled import compiled, lower
from .._base.parameters import check_array, check_one_each, is_integer, positive_array
from .._base.typing import Array, Floats
from ._cells import MOST_LOSS, CellChannel
from ._estimated import EstimatedChannel
from ._losses import RecordLosses
from ._own_draws import OwnDraws

MAX_TRIALS = 1000  # P(z | k) is then a table of a million numbers, and takes seconds
MAX_NUMBERS = 2**27  # numbers in all such tables together: a gigabyte


class BinomialLikelihood(EstimatedChannel):
    """The channel as seen by kernels that cannot integrate it: a density, and no more."""

    tables = "polynomial"

    @compiled
    def log_channel(self, Z, i, j, y):
        u = min(max((y - self.low[j]) / self.width[j], 0.0), 1.0)
        z, q, slope = Z[i, j], self.q_lo[i * self.each], self.slope[i * self.each]
        success, failure = log(q + slope * u), log(q + slope * (1.0 - u))
        return self.log_ways[int(z)] + z * success + (self.n_trials - z) * failure


class BinomialMechanism(OwnDraws, RecordLosses, CellChannel, BinomialLikelihood):
    r"""Release z ~ Binomial(m, p) of a bounded record, p rising linearly from 1 - q_hi at lo to q_hi at hi.

    q_hi = e^(ε/m)/(1 + e^(ε/m)).  It is exactly ε-DP: log q(z | y) - log q(z | y') = z log(p/p') + (m - z) log((1 -
    p)/(1 - p')) is linear in z, so it is largest at z = 0 or m, where it is at most m log(q_hi/(1 - q_hi)) = ε, which
    records on the two bounds attain.  A record of d features spends ε/d on each.  Records outside the bounds are moved
    to the bound.

    The estimate of a record in the middle has variance (hi - lo)²/(4 m tanh²(ε/(2m))), which is smallest for m near
    ε/2.2: many more trials only add noise.

    With ``BetaKernel`` on the same bounds, g(z | θ) has a closed form and records are drawn exactly.  If all records
    have one ε, ``MixingMeasure`` has g by quadrature for normal, truncated normal and beta kernels, and a fit costs the
    same for any number of records.  Otherwise only samplers that need no more than the channel's density can be used.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,)
        Privacy loss of a record, at most 700: beyond that, e^-ε is not a floating-point number and nothing is hidden.
        An array gives every record its own.
    n_trials : int
        m, from 1 to 1000.  With ``BetaKernel`` work grows with m, and a table has (m + 1)² numbers for each distinct ε.
    bounds : pair (lo, hi), or one per feature, default=(0, 1)
        Public bounds.

    Raises
    ------
    ValueError
        On use, for a parameter out of range; for releases that are not integers 0..m.

    References
    ----------
    Chen, Ozgur, Kairouz (2022), "The Poisson Binomial mechanism for unbiased federated learning with secure
    aggregation" (one record, no aggregation); Beraha, Favaro, Rao, §3.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import BinomialMechanism
    >>> mechanism = BinomialMechanism(epsilon=10.0, n_trials=5)
    >>> mechanism.privatize(np.array([[0.0], [0.5], [1.0]]), random_state=0).ravel()
    array([1., 2., 5.])
    >>> mechanism.guarantee().epsilon
    10.0
    """

    piece_shape = "binomial"
    noised_kernels = frozenset({"beta", "normal", "truncated_normal"})
    is_discrete = True

    def __init__(
        self, epsilon: float | None = None, n_trials: int | None = None, *, bounds: ArrayLike | None = (0, 1)
    ) -> None:
        self.epsilon = epsilon
        self.n_trials = n_trials
        self.bounds = bounds

    # --- parameters --------------------------------------------------------------------------------------------------

    @property
    def degree(self) -> int:
        """Degree of the polynomial that the probability of a release is."""
        return self._n_trials()

    def check(self, n_features: int | None = None) -> None:
        self._losses()
        self._n_trials()
        self.bounds_for(n_features)

    def _losses(self):
        epsilon = positive_array("epsilon", self.epsilon)
        if np.max(epsilon) > MOST_LOSS:
            raise ValueError(
                f"epsilon must be at most {MOST_LOSS:g}, got epsilon={self.epsilon!r}: e^-epsilon is then beyond "
                "floating point, and such a release hides nothing; use a smaller epsilon"
            )
        return np.atleast_1d(epsilon)

    def _n_trials(self):
        value = self.n_trials
        if not (is_integer(value) and 1 <= value <= MAX_TRIALS):
            raise ValueError(
                f"n_trials must be an integer from 1 to {MAX_TRIALS}, got n_trials={value!r}: values near epsilon/2.2 "
                "are most informative"
            )
        return int(value)

    def _rates(self, n_records, n_features):
        """(ε/m of a feature, 1 - q_hi and 2 q_hi - 1), each of shape (n_records, 1)."""
        rate = self._losses_of(n_records, n_features * self._n_trials())[:, None]
        return rate, np.exp(-np.logaddexp(0.0, rate)), np.tanh(0.5 * rate)

    # --- releases ----------------------------------------------------------------------------------------------------

    def _records(self, X):
        """Records on [0, 1]."""
        X = check_array(X, dtype=np.float64, input_name="X", estimator=type(self).__name__)
        lo, hi = self.bounds_for(X.shape[1]).T
        return (np.clip(X, lo, hi) - lo) / (hi - lo)

    def _simulate(self, rng, u):
        _, q, slope = self._rates(*u.shape)
        return rng.binomial(self._n_trials(), q + slope * u).astype(np.float64)

    def _secure(self, u):
        """Probabilities are multiples of 2^-60, no smaller than 1/(1 + e^rate) and no larger than its complement."""
        from secrets import randbelow

        rate, q, slope = self._rates(*u.shape)
        p, released = q + slope * u, np.zeros(u.shape)
        for i, j in np.ndindex(p.shape):
            least = int(2**60 / (1.0 + np.exp(rate[i, 0])) * (1.0 + 2.0**-50)) + 1
            level = min(max(int(p[i, j] * 2**60), least), 2**60 - least)
            released[i, j] = sum(randbelow(2**60) < level for _ in range(self._n_trials()))
        return released

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        m = self._n_trials()
        wrong = (Z != np.floor(Z)) | (Z < 0) | (Z > m)
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"Z must hold numbers of successes, integers from 0 to n_trials={m}, but row {i}, column {j} has "
                f"{Z[i, j]:g}: pass the release as it was published, and the n_trials that it was made with"
            )

    def _log_law(self, Z, u):
        self.check_release(Z)
        check_one_each(Z, u)
        _, q, slope = self._rates(*u.shape)
        log_p = Z * np.log(q + slope * u) + (self._n_trials() - Z) * np.log(q + slope * (1.0 - u))
        return (log_p + self._log_ways()[Z.astype(int)]).sum(axis=1)

    def _log_ways(self):
        """Log binomial coefficients C(m, 0), ..., C(m, m)."""
        m, s = self._n_trials(), np.arange(self._n_trials() + 1)
        return gammaln(m + 1) - gammaln(s + 1) - gammaln(m - s + 1)

    def node_spacing(self, sd: float) -> float:
        """Nothing: each number of successes is a node."""
        return 0.0

    def near(self, places: Floats, scales: Floats | None = None) -> Floats:
        lo, hi = self.bounds_for(len(places)).T
        return (lo + (hi - lo) * np.clip(self._estimates(places.T)[0], 0.0, 1.0)).T

    # --- where a chain starts ----------------------------------------------------------------------------------------

    def _estimates(self, Z):
        """Unbiased estimates of each record's u and, unless there is one trial, of u²."""
        m = self._n_trials()
        _, q, slope = self._rates(*Z.shape)
        slope = np.maximum(slope, 1e-100)  # whose square is not zero
        p, p_squared = Z / m, Z * (Z - 1.0) / (m * max(m - 1.0, 1.0))  # unbiased, both
        return (p - q) / slope, (p_squared - 2.0 * q * p + q * q) / slope**2 if m > 1 else None

    def _noise_error(self, mean, n):
        """Error of the mean of (x - p)(x' - p)/slope² over pairs of different trials x and x' of each record."""
        m = self._n_trials()
        if m == 1:
            return 0.0
        _, q, slope = self._rates(np.size(self.epsilon), len(mean))
        slope = np.maximum(slope, 1e-75)
        spread = (q + slope * mean) * (q + slope * (1.0 - mean)) / slope**2
        return np.sqrt(2.0 / (m * (m - 1.0)) * np.mean(spread**2, axis=0) / n)

    # --- compiled: P(z | k) = C(m, z) q_hi^m · weight ----------------------------------------------------------------

    def _lower(self, *, n_records, n_features, kernel=None, **context):
        m, (lo, hi) = self._n_trials(), self.bounds_for(n_features).T
        n, each = self._number_of_losses(n_records)
        rate, q, slope = (column[:, 0] for column in self._rates(n, n_features))
        fields = {"low": lo, "width": hi - lo, "q_lo": q, "slope": slope, "n_trials": float(m)}
        fields |= {"log_ways": self._log_ways(), "each": each}
        if kernel is not None and "binomial" not in kernel.tilts:
            return lower(BinomialLikelihood, fields)
        if n_features != 1:
            raise ValueError(
                f"BinomialMechanism has a closed form for one feature, but the records have {n_features}: a kernel of "
                'several must not have "binomial" among its tilts'
            )
        distinct, group = np.unique(rate, return_inverse=True)
        if distinct.size * (m + 1) ** 2 > MAX_NUMBERS:
            raise ValueError(
                f"epsilon has {distinct.size} distinct values, too many for tables with n_trials={m}: round them down "
                "to fewer, or use fewer trials"
            )
        table = coin_tables(np.exp(-distinct), m).ravel()
        fields |= {"last_cell": m, "table": table, "first_row": group * (m + 1.0)}
        return lower(type(self), fields | {"log_top": -m * np.log1p(np.exp(-rate))})

    @compiled
    def weight(self, Z, i, c):
        return self.table[(int(self.first_row[i * self.each]) + int(Z[i, 0])) * (self.last_cell + 1) + c]

    @compiled
    def log_scale(self, Z, i):
        return self.log_ways[int(Z[i, 0])] + self.log_top[i * self.each]

    @compiled
    def log_mass(self, kernel, theta, k, c):
        return self.log_ways[c] + kernel.log_binomial_mass(theta, k, 0, self.last_cell, c)

    @compiled
    def draw_within(self, rng, kernel, theta, k, c):
        return kernel.draw_binomial(rng, theta, k, 0, self.last_cell, c)


def coin_tables(r, m):
    """P(z | k)/(C(m, z) q_hi^m) for z, k = 0..m and each r = (1 - q_hi)/q_hi: shape (*r.shape, m + 1, m + 1).

    It is E r^(k + z - 2J), where J is the number of heads among z of m coins, k of which show heads.  All are in [r^m,
    1], and adding a coin takes only sums of positive terms: the last coin shows heads (k >= 1) and is one of the z with
    probability z/m.
    """
    r = np.asarray(r)[..., None]
    table = np.ones((*r.shape[:-1], 1, 1))
    for n in range(1, m + 1):
        share = np.arange(n + 1.0)[:, None] / n
        grown = np.zeros((*r.shape[:-1], n + 1, n + 1))
        grown[..., 1:, 1:] = share[1:] * table
        grown[..., :-1, 1:] += r[..., None] * (1.0 - share[:-1]) * table
        grown[..., 0] = r ** np.arange(n + 1.0)
        table = grown
    return table
