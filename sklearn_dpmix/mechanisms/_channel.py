"""The channel of one record: what a sampler needs from a local mechanism (Beraha et al., eq. 4).

``Z[i]`` is the release of record ``i`` and ``y`` the confidential value of its feature ``j``.  Features are released
independently given the record, so every method is about one feature.
"""

from math import exp, inf, log
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import Component, compiled, lower
from .._base.numeric import log_sum_in
from .._base.typing import Array, Floats
from ._noised_normal import fill_normal_gaussian


class Share(NamedTuple):
    """How often something was released, and its smallest and largest probability, over all records there may be."""

    what: str
    share: float
    low: float
    high: float
    n_alike: int = 1  # as many others are like this one


class RecordChannel(Component):
    """Base class of local mechanisms as samplers see them.

    A subclass defines the compiled ``log_channel(self, Z, i, j, y)``, the log density (or mass) of feature ``j`` of
    release ``i`` given the confidential value ``y``; that is all ``"neal5"`` and ``"slice"`` need.  If the channel is
    piecewise log-quadratic as a function of ``y``, the subclass also sets :attr:`piece_shape` and defines
    ``n_pieces(self)`` and ``piece(self, Z, i, j, p)`` -> ``(lo, hi, anchor, value, slope, curvature)``, meaning that on
    ``lo <= y <= hi``

        log q(z | y) = value + slope (y - anchor) - curvature (y - anchor)² / 2.

    Pieces cover the line and may be empty.  With a kernel that can integrate such a tilt, the marginal
    density g(z | θ) then has a closed form, and y | z, θ is drawn exactly.

    Examples
    --------
    >>> from math import exp, log
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import RecordChannel, compiled
    >>> class OneBitMechanism(RecordChannel):  # of records in [-1, 1], +1 or -1 with mean y·tanh(ε/2): ε-DP
    ...     def __init__(self, epsilon):
    ...         self.epsilon = epsilon
    ...
    ...     def privatize(self, X, *, random_state=None):
    ...         mean = np.clip(X, -1, 1) * np.tanh(0.5 * self.epsilon)
    ...         return np.where(np.random.default_rng(random_state).random(X.shape) < 0.5 * (1 + mean), 1.0, -1.0)
    ...
    ...     @compiled
    ...     def log_channel(self, Z, i, j, y):
    ...         tanh = 1.0 - 2.0 / (exp(self.epsilon) + 1.0)
    ...         return log(0.5 + 0.5 * Z[i, j] * min(max(y, -1.0), 1.0) * tanh)
    >>> OneBitMechanism(1.0).privatize(np.zeros((2, 1)), random_state=0)
    array([[-1.],
           [ 1.]])
    """

    #: ``None`` (no pieces), ``"flat"``, ``"linear"`` or ``"quadratic"``: the hardest tilt among the pieces; or
    #: ``"binomial"``, of ``BinomialMechanism``, which needs the kernel's ``log_binomial_mass`` and ``draw_binomial``,
    #: or ``"mean"``, of ``HybridMechanism``, which needs its ``clamped_mean``.
    piece_shape: str | None = None
    #: whether a kernel's masses of the pieces are kept with its parameters, so that ``log_marginal`` is cheap
    keeps_masses = False

    #: what compiled code calls where a class has it, and so must be ``@compiled``
    called_compiled = frozenset(("log_channel", "log_noise", "log_noise_slope"))
    #: whether records are released one by one (local privacy), and not one statistic of all records
    is_local = True
    #: whether that statistic is a histogram (``HistogramMechanism``)
    is_histogram = False
    #: whether draws from that histogram are released, each from a record or from none (``draw_n_sources``)
    has_sources = False
    #: whether releases are the records themselves, without noise
    releases_records = False
    #: the ``noised_as`` of kernels whose densities under the noise are offered, by ``fill_normal(...)`` (with
    #: ``kinks``, ``node_spacing`` and ``lookup``) or by ``chances(Z)``, the probabilities of answers given each
    #: category; only the class that sets it offers them, not classes that derive from it
    noised_kernels: frozenset[str] = frozenset()
    #: the class whose compiled form has these densities if records have their own noise scales; None: there is none
    _of_scales: type | None = None
    #: "bins": each release is a table of how likely it is given each of some bins; "polynomial": its probability is a
    #: polynomial of the record, of degree ``degree``, between the bounds; "noise": a number with noise of any kind,
    #: whose density is all that is known; None: a number with noise, or an answer
    tables: str | None = None
    #: the ``noised_as`` of kernels whose densities under the noise are had by a table of the noise's density
    tabulated_kernels: frozenset[str] = frozenset()
    #: how many answers there are to a question; None if numbers are released
    n_answers: int | None = None
    #: how many true categories there are; None if records are numbers
    n_categories: int | None = None
    #: scale of additive noise, an array if each record has its own; None if noise is not of one kind and a scale
    noise_scale: float | Floats | None = None
    #: whether records beyond bounds are moved to them
    clamp: bool = True
    #: public threshold above which releases appear; None: all appear
    released_above: float | None = None
    #: prior on the share of people who do not follow the design; None: all follow it
    noncompliance: Any = None
    #: whether the density of a release is smooth in its scale (:meth:`scales`), so that nodes stand for some of these
    is_smooth_in_scale = False
    #: whether releases are integers
    is_discrete = False
    #: whether records must be integers: a real record is released as the nearest integer would be, with halves rounded
    #: up
    of_integers = False
    #: kurtosis of additive noise, if it is known
    kurtosis: float | None = None

    def check(self, n_features: int | None = None) -> None:
        """Raise ValueError if a parameter is wrong."""

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""

    def n_features(self, n_released: int) -> int:
        """Number of confidential features behind ``n_released`` columns of a release."""
        return n_released

    def shares(self, Z: Array) -> list[Share]:
        """Shares of what may be released, and between which probabilities they can be; of nothing by default."""
        return []

    def check_reach(self, places: Floats, scales: Floats | None = None) -> None:
        """Raise ValueError if no record makes a release likely enough for floating point."""

    def encode(self, Z: Array) -> Array:
        """The release as samplers see it: a read-only array."""
        return Z

    def bounds_for(self, n_features: int | None) -> Floats | None:
        """Bounds of the confidential records, (n_features, 2), or None."""
        return None

    def noise_variance(self, n_features: int | None = None) -> float | Floats | None:
        """Variance of additive noise on one feature, averaged over records; None if it is unknown."""
        return None

    def simulated_noise(self, n_records: int, n_features: int) -> Floats | None:
        """Noise on records like these, if it is additive and its variance is unknown: (n, n_features), or None."""
        return None

    def moments(self, Z: Array) -> tuple[Floats, Floats] | None:
        """Mean and variance of the confidential records by feature; None: the release's minus the noise's."""
        return None

    def guess(self, Z: Array) -> Floats | None:
        """(n, n_features) records near which a chain may start; None: the release, shrunk to its moments."""
        return None

    def moments_of(self, n: int, mean: Floats, variance: Floats) -> tuple[Floats, Floats] | None:
        """As :meth:`moments`, from the number, mean and variance of releases; None if these do not determine them."""
        return None

    @property
    def has_one_law(self) -> bool:
        """Whether each record goes through the same channel."""
        return False

    @property
    def is_absorbable(self) -> bool:
        """Whether a normal kernel can absorb the noise: the release of a normal record is normal, with one law."""
        return False

    @property
    def is_grained(self) -> bool:
        """Whether densities of releases are available only at values that can be released, not between them."""
        return self.is_discrete

    @property
    def least_density(self) -> float:
        """Density of a release below which it is not right, or not told from 0, where many are computed at once."""
        return 1e-280

    def scales(self, n_records: int, n_features: int) -> Floats:
        """The numbers by which the laws of records differ, such as noise scales: (n_records,), or (1,) for one law."""
        raise NotImplementedError

    def of_scales(self, scales: ArrayLike, n_features: int) -> Self:
        """This channel for releases with these ``scales``."""
        raise NotImplementedError

    def law(self) -> Any:
        """A key that is equal for two mechanisms whose releases of one feature have the same distribution, or None."""
        return None

    def log_gain(self, t: ArrayLike, scale: float) -> Floats | None:
        """Minus the logarithm of the noise's characteristic function at frequency t; None if it is unknown."""
        return None

    # --- releases as a line, for channels with noised densities of normal kernels ------------------------------------

    def kinks(self, n_features: int) -> Floats:
        """Releases at which the density is not smooth, whatever the population: (n_features, n_kinks), in order.

        Beyond the first and the last, all releases have the same likelihood up to a factor, or there are none."""
        return np.empty((n_features, 0))

    def on_line(self, z: Floats) -> Floats:
        """Releases as places on a line, on which near ones are nearly as likely; z of shape (n,) or (n, n_features)."""
        return z

    def folded(self, z: Floats) -> Floats:
        """Releases with the same likelihood as these, up to a factor; z of shape (n,) or (n, n_features)."""
        kinks = self.kinks(1 if z.ndim == 1 else z.shape[1])
        return np.clip(self.on_line(z), kinks[:, 0], kinks[:, -1]) if kinks.size else z

    def near(self, places: Floats, scales: Floats | None = None) -> Floats:
        """Records near releases, (n_features, n) both, of these ``scales`` where they differ."""
        return places

    def reach(self, low: float, high: float) -> tuple[float, float]:
        """Releases between which the log densities of records from ``low`` to ``high`` are not simple functions."""
        return low, high

    @compiled
    def propose(self, rng, kernel, Z, i, j, theta, k):
        """Draw y from the kernel: the proposal of Beraha et al., Algorithm 1 line 10."""
        return kernel.draw(rng, theta, k, j)

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        """Log importance weight of a proposed y, up to a constant: the channel's density (Beraha et al., eq. 8)."""
        return self.log_channel(Z, i, j, y)

    @compiled
    def cache(self, kernel, theta, k):
        """Write what ``log_marginal`` and ``impute`` need from θ_k into its spare columns; called after θ_k changed."""

    @compiled
    def take_off(self, Z, records, i):
        """Called before record i is moved, if the channel of a record depends on the others."""

    @compiled
    def put_on(self, Z, records, i):
        """Called after record i was moved."""

    @compiled
    def can_reverse(self):
        """Whether ``draw_reverse`` proposes records near the release: a cheap move if the noise is small."""
        return False

    @compiled
    def draw_reverse(self, rng, Z, i, j):
        """Draw y from a density r(y | z) that is close to q(z | y) as a function of y."""
        return Z[i, j]

    @compiled
    def log_reverse(self, Z, i, j, y):
        """log r(y | z), up to a constant."""
        return 0.0

    @compiled
    def log_reverse_total(self, i):
        """That constant, log ∫ exp(log_reverse) dy."""
        return 0.0

    @compiled
    def log_piece_mass(self, kernel, Z, i, j, theta, k, p):
        """log ∫ q(z | y) f(y | θ) dy over piece p."""
        lo, hi, anchor, value, slope, curvature = self.piece(Z, i, j, p)
        return value + kernel.log_tilted_mass(theta, k, j, lo, hi, anchor, slope, curvature) if lo < hi else -inf

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        """log g(z | θ) = log ∫ q(z | y) f(y | θ) dy (Beraha et al., eq. 5), in closed form piece by piece."""
        top, total = -inf, 0.0
        for p in range(self.n_pieces()):
            top, total = log_sum_in(top, total, self.log_piece_mass(kernel, Z, i, j, theta, k, p))
        return top + log(total) if total > 0.0 else -inf

    @compiled
    def impute(self, rng, kernel, Z, i, j, theta, k):
        """Draw y from its exact conditional, proportional to q(z | y) f(y | θ)."""
        return self.impute_by_pieces(rng, kernel, Z, i, j, theta, k)

    @compiled
    def impute_by_pieces(self, rng, kernel, Z, i, j, theta, k):
        """As :meth:`impute`: first a piece by its mass, then y within it."""
        top, total, chosen = -inf, 0.0, 0
        for p in range(self.n_pieces()):
            mass = self.log_piece_mass(kernel, Z, i, j, theta, k, p)
            if mass > -inf:
                if mass > top:
                    total *= exp(top - mass)
                    top = mass
                share = exp(mass - top)
                total += share
                if rng.random() * total < share:
                    chosen = p
        lo, hi, anchor, _, slope, curvature = self.piece(Z, i, j, chosen)
        return kernel.draw_tilted(rng, theta, k, j, lo, hi, anchor, slope, curvature)


class NoNoise(RecordChannel):
    """The channel of ``mechanism=None``: z is y.

    Its "marginal" is the kernel itself, so samplers become the ordinary ones.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import NoNoise
    >>> Z = np.array([[1.5]])
    >>> NoNoise().log_channel(Z, 0, 0, 1.5), NoNoise().log_channel(Z, 0, 0, 2.0)
    (0.0, -inf)
    """

    piece_shape = "flat"
    releases_records = True
    noised_kernels = frozenset({"normal"})
    has_one_law = True

    def noise_variance(self, n_features: int | None = None) -> float:
        return 0.0

    def node_spacing(self, sd: float) -> float:
        """Width of cells in which nodes stand for records of normal components with this standard deviation."""
        return 4.0 * sd

    def lookup(self, places: Floats) -> Floats:
        """Zeros: densities that additive noise has at bounds, two for each feature."""
        return np.zeros((2 * len(places), places.shape[1]))

    def _lower(self, **context):
        return lower(type(self), {})

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """The density of feature j of a normal kernel at all nodes, and its derivatives (``_noised_normal``)."""
        fill_normal_gaussian(nodes, 3 * j * n, n, -inf, inf, 0.0, mean, log_variance, out, first, second)

    @compiled
    def propose(self, rng, kernel, Z, i, j, theta, k):
        return Z[i, j]

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        return kernel.log_likelihood(theta, k, j, y)

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        return kernel.log_likelihood(theta, k, j, Z[i, j])

    @compiled
    def impute(self, rng, kernel, Z, i, j, theta, k):
        return Z[i, j]

    @compiled
    def log_channel(self, Z, i, j, y):
        return 0.0 if y == Z[i, j] else -inf
