"""Channels that are flat on equal bins of one bounded feature, such as Haar coefficients: exact draws by bins.

All that such a release says about a record is how likely the release is given each bin, so it is replaced by a table:
``Z[i, b]`` is q(z_i | bin b) over its largest value, whose logarithm is ``Z[i, n_bins]``.  The bins are the cells of a
:class:`CellChannel`, so that g(z | θ) = Σ_b q(z | b) ∫_b f(y | θ) dy costs ``n_bins`` products.
"""

from math import inf, log

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled, lower
from .._base.parameters import check_array, check_bounds
from .._base.typing import Array, Floats
from ._cells import MOST_LOSS, CellChannel
from ._noised_normal import fill_normal_bins
from ._own_draws import OwnDraws


class BinnedChannel(OwnDraws, CellChannel):
    """Base class of mechanisms whose release depends on the bin of one bounded feature only.

    A subclass has the attribute ``bounds`` and defines ``n_bins`` (a property) and ``log_bins(Z)``, the (n, n_bins) log
    density of each release given each bin.  Records outside the bounds are moved to the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import BinnedChannel, RandomizedResponseMechanism
    >>> class BinResponse(BinnedChannel):  # which quarter of the bounds, by randomised response: ε-DP
    ...     n_bins = 4
    ...
    ...     def __init__(self, epsilon, bounds=(0, 1)):
    ...         self.epsilon = epsilon
    ...         self.bounds = bounds
    ...
    ...     def privatize(self, X, *, random_state=None):
    ...         response = RandomizedResponseMechanism(self.epsilon, self.n_bins)
    ...         return response.privatize(self.bin_of(X), random_state=random_state)
    ...
    ...     def log_bins(self, Z):
    ...         odds = np.exp(self.epsilon)
    ...         return np.log(np.where(Z == np.arange(self.n_bins), odds, 1.0) / (odds + self.n_bins - 1))
    >>> mechanism = BinResponse(epsilon=3.0)
    >>> mechanism.privatize(np.array([[0.1], [0.6], [0.9]]), random_state=0).ravel()
    array([0., 2., 3.])
    >>> mechanism.log_bins(np.array([[2.0]])).round(2)
    array([[-3.14, -3.14, -0.14, -3.14]])
    """

    piece_shape = "flat"
    tables = "bins"

    def bounds_for(self, n_features: int | None) -> Floats:
        return check_bounds(self.bounds, 1)

    def n_features(self, n_released: int) -> int:
        return 1

    def bin_of(self, X: ArrayLike) -> Array:
        """Bin of each record: half-open, but the last has its upper end too; clamped records go to the end bins."""
        lo, hi = self.bounds_for(1)[0]
        width = (hi - lo) / self.n_bins
        return np.clip((np.clip(X, lo, hi) - lo) / width, 0, self.n_bins - 1).astype(int)

    def centres(self) -> Floats:
        """Centres of the bins."""
        lo, hi = self.bounds_for(1)[0]
        return lo + (hi - lo) * (np.arange(self.n_bins) + 0.5) / self.n_bins

    def encode(self, Z: Array) -> Array:
        """The table (n, n_bins + 1) that samplers see."""
        log_q = self.log_bins(Z)
        top = log_q.max(axis=1, keepdims=True)
        self.check_loss(float(np.max(top - log_q)))
        table = np.hstack([np.exp(log_q - top), top])
        table.flags.writeable = False
        return table

    def check_loss(self, loss: float) -> None:
        """Raise ValueError if releases tell bins apart more than the table can hold."""
        if loss > MOST_LOSS:
            raise ValueError(
                f"{self!r} makes one bin e^{loss:.0f} times as likely as another, beyond floating point (e^700): such "
                "noise hides nothing; use a smaller epsilon"
            )

    def bin_probabilities(self, Z: Array) -> Array:
        """Probabilities of the bins given the release and one record more, spread over all bins: 200 steps of EM.

        That record counts where noise hides almost all: the likelihood alone would be largest for one or two bins.
        """
        table = self.encode(Z)[:, :-1]
        p = np.full(self.n_bins, 1.0 / self.n_bins)
        for _ in range(200):
            p = p * (table / (table @ p)[:, None]).sum(axis=0) + 1.0 / self.n_bins
            p /= p.sum()
        return p

    def moments(self, Z: Array) -> tuple[Floats, Floats]:
        """Mean and variance of the confidential records, from :meth:`bin_probabilities`."""
        p, centres = self.bin_probabilities(Z), self.centres()
        mean = p @ centres
        within = (centres[1] - centres[0]) ** 2 / 12.0 if self.n_bins > 1 else 0.0
        return np.array([mean]), np.array([p @ (centres - mean) ** 2 + within])

    def guess(self, Z: Array) -> Floats | None:
        """(n, 1) records near which a chain may start: the most probable bin's centre."""
        best = np.argmax(self.encode(Z)[:, :-1] * self.bin_probabilities(Z), axis=1)
        return self.centres()[best][:, None]

    def _log_law(self, Z, X):
        if len(Z) != len(X):
            raise ValueError(f"Z has {len(Z)} releases, but X has {len(X)} records")
        return self.log_bins(Z)[np.arange(len(Z)), self.bin_of(X[:, 0])]

    def _records(self, X):
        X = check_array(X, dtype=np.float64, input_name="X", estimator=type(self).__name__)
        if X.shape[1] != 1:
            raise ValueError(f"{type(self).__name__} releases one feature, but X has {X.shape[1]}")
        return X

    def _lower(self, **context):
        lo, hi = self.bounds_for(1)[0]
        n_bins = int(self.n_bins)
        fields = {"last_cell": n_bins - 1, "low": lo, "width": (hi - lo) / n_bins}
        middles = (np.arange(n_bins) + 0.5) / n_bins  # on [0, 1]
        fields |= {"log_middle": np.log(middles), "log_rest": np.log1p(-middles)}
        return lower(type(self), fields | self._fields())

    def _fields(self):
        """Further fields that compiled methods need as ``self.<name>``."""
        return {}

    # --- compiled ----------------------------------------------------------------------------------------------------

    @compiled
    def row(self, i):
        """The table's row for record i."""
        return i

    @compiled
    def bin(self, y):
        return int(min(max((y - self.low) / self.width, 0.0), float(self.last_cell)))

    @compiled
    def centre(self, b):
        return self.low + (b + 0.5) * self.width

    @compiled
    def edges(self, b):
        """Ends of bin b; records beyond the bounds are in the first and the last bin."""
        lo = self.low + b * self.width if b > 0 else -inf
        return lo, self.low + (b + 1) * self.width if b < self.last_cell else inf

    @compiled
    def weight(self, Z, i, b):
        return Z[self.row(i), b]

    @compiled
    def log_scale(self, Z, i):
        return Z[self.row(i), self.last_cell + 1]

    @compiled
    def log_channel(self, Z, i, j, y):
        q = self.weight(Z, i, self.bin(y))
        return (log(q) if q > 0.0 else -inf) + self.log_scale(Z, i)

    @compiled
    def cache(self, kernel, theta, k):
        kernel.bin_masses(self, theta, k, self.first_mass(theta))

    @compiled
    def log_mass(self, kernel, theta, k, b):
        lo, hi = self.edges(b)
        return kernel.log_tilted_mass(theta, k, 0, lo, hi, 0.0, 0.0, 0.0)

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """g(z | μ, σ²) of a normal kernel at all releases, and its derivatives (``_noised_normal``)."""
        fill_normal_bins(nodes, n, self.low, self.width, self.last_cell, mean, log_variance, out, first, second)

    @compiled
    def draw_within(self, rng, kernel, theta, k, b):
        lo, hi = self.edges(b)
        return kernel.draw_tilted(rng, theta, k, 0, lo, hi, 0.0, 0.0, 0.0)
