"""Unary encoding: a bit for each category, each flipped at random (Erlingsson et al. 2014; Wang et al. 2017)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from .._base.compiled import compiled, lower
from .._base.typing import Array, Floats
from ._categories import IndirectChannel
from ._channel import Share
from ._losses import RecordLosses
from ._own_draws import OwnDraws
from ._randomized_response import CELLS, integer_odds


class UnaryEncodingMechanism(OwnDraws, RecordLosses, IndirectChannel):
    r"""Release K bits for a category 0..K-1: its own bit is 1 with probability p, the others with probability q.

    "optimised" has p = 1/2 and q = 1/(e^ε + 1); "symmetric" has p = 1 - q = e^(ε/2)/(e^(ε/2) + 1), as the permanent
    bits of RAPPOR.  Two categories differ in two bits, so the ratio of a release's probabilities is at most p (1 -
    q)/(q (1 - p)) = e^ε, which is attained if one of these bits is 1 and the other 0.  A record of d categories spends
    ε/d on each, and has d K bits.

    With ``kernel="categorical"`` the posterior is exact.  The cost of sampling is proportional to K and to
    the number of different releases.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,)
        Privacy loss of a record; an array gives every record its own.
    n_categories : int
        K, from 2 to 10,000.
    kind : {"optimised", "symmetric"}, default="optimised"
        "optimized" is the first of them, too.

    Raises
    ------
    ValueError
        On use, for a parameter out of range; for records that are not categories, and releases that are not bits.

    References
    ----------
    Wang, Blocki, Li, Jha (2017), Locally differentially private protocols for frequency estimation; Erlingsson, Pihur,
    Korolova (2014), RAPPOR.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import UnaryEncodingMechanism
    >>> mechanism = UnaryEncodingMechanism(epsilon=4.0, n_categories=3)
    >>> mechanism.privatize(np.array([[0], [2]]), random_state=0)
    array([[0., 0., 0.],
           [1., 0., 0.]])
    >>> mechanism.guarantee().epsilon
    4.0
    """

    noised_kernels = frozenset({"categorical"})
    most_categories = 10_000  # bits per record

    @property
    def n_answers(self) -> int | None:  # type: ignore[override]
        """2 to the power K; for K > 60, 2⁶⁰."""
        return None if self.n_categories is None else 2 ** min(self._n_categories(), 60)

    def __init__(
        self, epsilon: ArrayLike | None = None, n_categories: int | None = None, kind: str = "optimised"
    ) -> None:
        self.epsilon = epsilon
        self.n_categories = n_categories
        self.kind = kind

    def check(self, n_features: int | None = None) -> None:
        self._losses()
        self._n_categories()
        self._is_symmetric()

    def _is_symmetric(self):
        if not isinstance(self.kind, str) or self.kind not in ("optimised", "optimized", "symmetric"):
            raise ValueError(f'kind must be "optimised" or "symmetric", got kind={self.kind!r}')
        return self.kind == "symmetric"

    def n_features(self, n_released: int) -> int:
        size = self._n_categories()
        if n_released == 0 or n_released % size:
            raise ValueError(
                f"Z has {n_released} columns, but each category is released as n_categories={size} bits: pass them "
                "all, those of one feature after those of another"
            )
        return n_released // size

    def _log_odds(self, n_records, n_features):
        """Log odds of a 1 for the true category and for another, each of shape (n_records, 1)."""
        epsilon = self._losses_of(n_records, n_features)[:, None]
        return (0.5 * epsilon, -0.5 * epsilon) if self._is_symmetric() else (np.zeros_like(epsilon), -epsilon)

    # --- releases ----------------------------------------------------------------------------------------------------

    def _is_own(self, X):
        """Whether a bit belongs to the record's category, (n_records, n_features K)."""
        return (X[..., None] == np.arange(self._n_categories())).reshape(len(X), -1)

    def _simulate(self, rng, X):
        own = self._is_own(X)
        return (rng.random(own.shape) < expit(np.where(own, *self._log_odds(*X.shape)))).astype(np.float64)

    def _secure(self, X):
        log_own, log_other = self._log_odds(*X.shape)
        return _securely(self._is_own(X), log_own[:, 0], log_other[:, 0])

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        self.n_features(Z.shape[1])
        wrong = np.asarray((Z != 0.0) & (Z != 1.0))
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"Z must hold bits, 0 or 1: {self._n_categories()} for each feature, but row {i}, column {j} has "
                f"{Z[i, j]:g}"
            )

    def _log_law(self, Z, X):
        self.check_release(Z)
        if Z.shape != (len(X), X.shape[1] * self._n_categories()):
            raise ValueError(
                f"Z has shape {Z.shape}, but X {X.shape}: give n_categories={self._n_categories()} bits for each "
                "category of a record"
            )
        log_odds = np.where(self._is_own(X), *self._log_odds(*X.shape))
        return (Z * log_odds - np.logaddexp(0.0, log_odds)).sum(axis=1)

    def encode(self, Z: Array) -> Array:
        """The bits, and for each feature their log probability if none of them belonged to the true category."""
        n_features = self.n_features(Z.shape[1])
        _, log_odds = self._log_odds(len(Z), n_features)
        ones = Z.reshape(len(Z), n_features, -1).sum(axis=2)
        encoded = np.hstack([Z, ones * log_odds - self._n_categories() * np.logaddexp(0.0, log_odds)])
        encoded.flags.writeable = False
        return encoded

    def _bits(self, encoded):
        """The bits alone."""
        return encoded[:, : -(encoded.shape[1] // (self._n_categories() + 1))]

    def shares(self, Z: Array) -> list[Share]:
        """Of ones."""
        if not self.has_one_law:
            return []
        p, q = (float(expit(one[0, 0])) for one in self._log_odds(1, self.n_features(Z.shape[1])))
        return [Share(f"a one in column {j}", share, min(q, p), max(q, p)) for j, share in enumerate(Z.mean(axis=0))]

    def chances(self, Z: Array) -> Floats:
        """Up to the probability of the bits if none belonged to the true category."""
        bits = self._bits(Z)
        return np.array([self._likelihoods(bits, j).T for j in range(self.n_features(bits.shape[1]))])

    def guess_encoded(self, Z: Array) -> Any:
        return self.guess(self._bits(Z))

    # --- where a chain starts ----------------------------------------------------------------------------------------

    def _shares(self, Z):
        """Shares from frequencies of ones, each of which is q + (p - q) times a share."""
        n_features = self.n_features(Z.shape[1])
        p, q = (expit(one).mean() for one in self._log_odds(len(Z), n_features))
        shares = (Z.mean(axis=0).reshape(n_features, -1) - q) / max(p - q, 1e-100)
        shares = np.clip(shares, 1e-3, 1.0)
        return shares / shares.sum(axis=1, keepdims=True)

    def _likelihoods(self, Z, j):
        n_features, size = self.n_features(Z.shape[1]), self._n_categories()
        log_own, log_other = self._log_odds(len(Z), n_features)
        return np.exp((log_own - log_other) * (Z[:, size * j : size * (j + 1)] - 1.0))

    # --- compiled ----------------------------------------------------------------------------------------------------

    def _lower(self, *, n_records, n_features, **context):
        n, each = self._number_of_losses(n_records)
        own, other = (one[:, 0] for one in self._log_odds(n, n_features))
        flat = np.logaddexp(0.0, other) - np.logaddexp(0.0, own)
        fields = {"size": self._n_categories(), "n_bits": n_features * self._n_categories(), "each": each}
        return lower(type(self), fields | {"log_one": flat + own - other, "log_zero": flat})

    @compiled
    def log_category(self, Z, i, j, c):
        at = i * self.each
        log_own = self.log_one[at] if Z[i, self.size * j + c] > 0.5 else self.log_zero[at]
        return Z[i, self.n_bits + j] + log_own


def _securely(own, log_own, log_other):
    """Odds are rounded towards even odds, in favour of privacy; even odds are exact."""
    from secrets import randbelow

    released = np.zeros(own.shape)
    for i, k in np.ndindex(own.shape):
        log_odds = log_own[i] if own[i, k] else log_other[i]
        likelier = randbelow(2 * CELLS) < (integer_odds(abs(log_odds), 2) if log_odds else CELLS)
        released[i, k] = likelier if log_odds >= 0.0 else not likelier
    return released
