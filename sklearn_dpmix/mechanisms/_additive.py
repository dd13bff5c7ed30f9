"""Noise added to bounded records or to a query's value: the base class of such mechanisms."""

from math import hypot
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled, lower
from .._base.generators import as_generator
from .._base.parameters import check_array, check_bounds, check_query, is_real, noise_parameter, refuse_seed
from .._base.typing import Array, Floats, Seed
from ..privacy._guarantee import rounded_up
from ._channel import RecordChannel
from ._losses import of_a_part
from ._secure import secure_release
from ._statistic_releases import StatisticReleases, least_records, log_densities, neighbours_of

LEAST_LOG_DENSITY = -650.0  # of a release, where densities are added up: 1e-300 is -691
#: what says how releases follow from noise, and where they are alike
OF_RELEASES = "log_channel", "kinks", "on_line", "folded", "near", "reach", "node_spacing"
LEAST_SIMULATED, MOST_SIMULATED = 20_000, 200_000  # records, to see how noise of unknown variance is spread


class AdditiveMechanism(StatisticReleases, RecordChannel):
    """Base class of mechanisms that add independent noise.

    A subclass stores its parameters, has a parameter ``scale`` (or defines :meth:`noise_scale_for`), the compiled
    ``log_noise(self, e, scale)``, the log density of noise ``e``, and ``draw_noise(self, rng, scale, size)``.  This is
    enough for every sampler that needs no closed-form marginal, and, for one feature of records that are moved to
    ``bounds`` before noise of one scale and bounded density, for :class:`~sklearn_dpmix.samplers.MixingMeasure`.
    Attributes ``bounds`` (with ``clamp``) and ``query`` are used if the subclass has them.

    Examples
    --------
    >>> from math import log, pi
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import AdditiveMechanism, compiled
    >>> class CauchyMechanism(AdditiveMechanism):
    ...     def __init__(self, scale=1.0, *, bounds=None):
    ...         self.scale = scale
    ...         self.bounds = bounds
    ...
    ...     @compiled
    ...     def log_noise(self, e, scale):
    ...         return -log(pi * scale * (1.0 + (e / scale) ** 2))
    ...
    ...     def draw_noise(self, rng, scale, size):
    ...         return scale * rng.standard_cauchy(size)
    >>> mechanism = CauchyMechanism(scale=0.5, bounds=(0, 1))
    >>> Z = mechanism.privatize(np.full((3, 1), 0.5), random_state=0)
    >>> mechanism.log_density(np.ones((1, 1)), np.ones((1, 1))).round(4)
    array([-0.4516])
    """

    bounds: ArrayLike | None = None
    query: Any = None
    #: 1 or 2: the norm of the sensitivity that calibrates the noise; None if the class gives no guarantee
    norm: int | None = None
    #: whether the noise's log density is concave
    is_log_concave: bool = False
    #: whether the noise is normal, or normal on the integers
    is_gaussian = False
    is_smooth_in_scale = True
    #: "laplace" or "gaussian": the noise that ``secure=True`` asks OpenDP for; None if OpenDP has no such noise
    secure_noise: str | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        is_plain = all(getattr(cls, name) is getattr(AdditiveMechanism, name) for name in OF_RELEASES)
        cls.tables = "noise" if is_plain and not cls.noised_kernels else None

    @property
    def is_clamped(self) -> bool:
        """Whether records are moved to bounds."""
        return self.bounds is not None and bool(self.clamp)

    @property
    def has_one_law(self) -> bool:
        """Whether all records have one noise scale."""
        return np.size(self.noise_scale) == 1

    @property
    def tabulated_kernels(self) -> frozenset[str]:  # type: ignore[override]
        """Kernels whose marginal densities g(z | θ) can be computed numerically, from ``log_noise`` alone.

        For one feature, if the class overrides nothing else; for normal kernels, only if records are clamped.
        """
        has_table = self.tables == "noise" and self.is_local and self.has_one_law
        if not has_table or self.is_discrete or self.released_above is not None:
            return frozenset()
        return frozenset({"beta", "normal", "truncated_normal"} if self.is_clamped else {"beta", "truncated_normal"})

    @property
    def is_local(self) -> bool:  # type: ignore[override]
        """Whether the mechanism is applied record by record (local privacy) and not to a query of all records."""
        return self.query is None

    @property
    def noise_scale(self) -> float | Floats:  # type: ignore[override]
        """Scale of the noise; an array of shape (n_records,) if each record has its own.

        One pair of bounds counts for one feature; with several features, use ``noise_scale_for(n_features)``.
        """
        return self.noise_scale_for(None)

    def noise_scale_for(self, n_features: int | None) -> float | Floats:
        """Scale of the noise on records of ``n_features`` (bounds given as one pair count once per feature)."""
        return noise_parameter("scale", self.scale)

    def tail_probability(self, distance: ArrayLike, scale: ArrayLike) -> Floats | None:
        """P(noise > distance), distance at least 0; None if it is unknown."""
        return None

    def check(self, n_features: int | None = None) -> None:
        """Raise ValueError if a parameter is wrong; with ``n_features``, also if the bounds do not fit."""
        self.bounds_for(n_features)
        self.noise_scale_for(n_features)
        self._check_threshold(n_features)

    def _check_threshold(self, n_features):
        t, who = self.released_above, type(self).__name__
        if t is None:
            return
        if not (is_real(t) and np.isfinite(t)):
            raise ValueError(f"released_above must be a finite number, got {t!r}")
        if self.query is not None:
            raise ValueError(f"released_above={t!r} is for records, not for a query's value: leave query out")
        if n_features not in (None, 1):
            raise ValueError(f"{who} with released_above={t!r} takes one feature, got {n_features}")

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        if self.released_above is not None:
            self._check_threshold(np.shape(Z)[1])
            z = np.asarray(Z)[:, 0]
            below = np.flatnonzero(z <= self.released_above)
            if len(below):
                raise ValueError(
                    f"Z must hold releases above released_above={self.released_above!r}, but {len(below)} of "
                    f"{len(z)} are not, the first in row {below[0]} ({z[below[0]]:.6g}): give the threshold that was "
                    "used"
                )

    def bounds_for(self, n_features: int | None) -> Floats | None:
        """Return ``bounds`` as an array of shape (n_features, 2), or None."""
        if not isinstance(self.clamp, (bool, np.bool_)):
            raise ValueError(f"clamp must be True or False, got {self.clamp!r}")
        if self.query is not None:
            check_query(self.query, type(self).__name__, "value", "sensitivity")
        if self.bounds is None:
            return None
        if self.query is not None:
            raise ValueError(
                f"{type(self).__name__} takes bounds= (records are released) or query= (a statistic of them is), not "
                f"both: got bounds={self.bounds!r} and query={self.query!r}; a query has bounds of its own"
            )
        return check_bounds(self.bounds, n_features)

    def sensitivity(self, n_features: int | None = None) -> float | None:
        """Return how far replacing one record can change what is released; None if nothing bounds it.

        It is in the norm that the mechanism needs: records inside bounds differ by at most Σ(hi - lo) in L1 and √Σ(hi -
        lo)² in L2, which opposite corners attain.  One pair of bounds counts once per feature, by default for one
        feature.
        """
        bounds = self.bounds_for(n_features)
        if self.query is not None:
            return float(self.query.sensitivity(self.norm))
        if bounds is None:
            return None
        widths = bounds[:, 1] - bounds[:, 0]
        return float(np.sum(widths)) if self.norm == 1 else hypot(*widths)  # squares of small widths underflow

    def _loss(self, n_features):
        """Sensitivity in units of the noise scale, for the least protected record."""
        self._check_threshold(n_features)
        sensitivity = self.sensitivity(n_features)
        if sensitivity is None:
            raise ValueError(
                f"{type(self).__name__}.guarantee() needs bounds=(lo, hi) or query=: scale={self.scale!r} alone says "
                "how large the noise is, not what it was added to"
            )
        if n_features is None and np.ndim(self.bounds) == 1 and getattr(self, "scale", None) is not None:
            lo, hi = np.asarray(self.bounds).tolist()
            raise ValueError(
                f"{type(self).__name__}.guarantee() needs n_features: with scale={self.scale!r} a record loses more "
                f"privacy the more features it has, and bounds={self.bounds!r} may stand for any number of them; "
                f"call guarantee(n_features=1) if there is one, or give one pair per feature, bounds=[({lo!r}, "
                f"{hi!r})]"
            )
        return rounded_up(sensitivity / float(np.min(self.noise_scale_for(n_features)))) if sensitivity else 0.0

    def _neighbours(self):
        if not self.is_local:
            return neighbours_of(self.query)
        return "replace one record" + ("" if self.clamp else ", for records inside bounds")

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        """Release records (or the query's value) with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Confidential records.
        random_state : int, Generator, RandomState or None
            For simulation.  A seed that made noise is a secret: whoever knows it can remove the noise.
        secure : bool, default=False
            Let OpenDP (extra ``[secure]``) add the noise, which resists floating-point attacks and takes no seed; about
            50 µs per number.  It hides neither how long the draw took nor rounding inside a query.  NumPy noise is for
            simulation.

        Returns
        -------
        Z : ndarray of shape (n_records, n_features), or of the query's shape
            With ``released_above``, only the records whose release is above it, in their order.

        Raises
        ------
        ValueError
            For records that are not finite, do not fit the bounds or the per-record parameters, or for a bad parameter.
        ImportError
            For ``secure=True`` without OpenDP.
        """
        options = {"dtype": np.float64, "order": "C", "estimator": type(self).__name__}
        X = check_array(X, **options, input_name="X", ensure_min_samples=least_records(self.query))
        refuse_seed(secure, random_state)
        self._check_threshold(X.shape[1])
        if secure and self.secure_noise is None:
            raise ValueError(f"{type(self).__name__} has no secure=True: it draws with NumPy only")
        value = self._value(X)
        scale = self.scales(len(value), X.shape[1])
        scale = np.broadcast_to(scale.reshape(-1, *(1,) * (value.ndim - 1)), value.shape)
        if secure:
            Z = secure_release(self.secure_noise, value, scale)
        else:
            Z = value + self.draw_noise(as_generator(random_state), scale, value.shape)
        return Z if self.released_above is None else Z[Z[:, 0] > self.released_above]

    def _value(self, X):
        """What is released, before noise."""
        bounds = self.bounds_for(X.shape[1])
        if not self.is_local:
            return np.atleast_1d(np.asarray(self.query.value(X), dtype=np.float64))
        return np.clip(X, bounds[:, 0], bounds[:, 1]) if self.is_clamped else X

    def scales(self, n_records: int, n_features: int) -> Floats:
        """Noise scales, of shape (1,) or (n_records,)."""
        scale = np.atleast_1d(self.noise_scale_for(n_features))
        if scale.shape == (1,) or (self.is_local and scale.shape == (n_records,)):
            return scale
        name = next((one for one in ("epsilon", "rho", "scale") if getattr(self, one, None) is not None), "noise scale")
        there = f"there are {n_records} records: give one number, or one per record{of_a_part(len(scale), n_records)}"
        if name == "scale" and len(scale) == n_features > 1:
            there += "; where columns have noise of their own scales, divide each of Z, and its bounds, by its scale, "
            there += "and give scale=1"
        raise ValueError(
            f"{name} of {type(self).__name__} has {len(scale)} values, but "
            f"{there if self.is_local else 'a query makes one release: give one number'}"
        )

    def of_scales(self, scales: ArrayLike, n_features: int) -> Self:
        above = {} if self.released_above is None else {"released_above": self.released_above}
        return type(self)(scale=scales, bounds=self.bounds, clamp=self.clamp, **above)  # type: ignore[call-arg]

    def simulated_noise(self, n_records: int, n_features: int) -> Floats | None:
        if self.noise_variance(n_features) is not None or self.released_above is not None:
            return None
        scale = self.scales(n_records, n_features)[:: -(-n_records // MOST_SIMULATED)]
        size = max(len(scale), LEAST_SIMULATED)
        return self.draw_noise(np.random.default_rng(0), np.resize(scale, size)[:, None], (size, n_features))

    def log_density(self, Z: ArrayLike, X: ArrayLike) -> Floats:
        """Log density of a release given the confidential records, summed over features.

        Parameters
        ----------
        Z : array-like of shape (n_records, n_features)
            Released records; under a query, releases of shape (n_releases, n_statistics) of the same records.
        X : array-like of shape (n_records, n_features)
            Confidential records.

        Returns
        -------
        log_density : ndarray of shape (n_records,), one for each row of ``Z``

        Examples
        --------
        >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
        >>> LaplaceMechanism(scale=1.0).log_density([[1.5]], [[1.0]]).round(4)
        array([-1.1931])
        """
        Z = check_array(Z, dtype=np.float64, order="C", input_name="Z", estimator=type(self).__name__)
        X = check_array(X, dtype=np.float64, order="C", input_name="X", estimator=type(self).__name__)
        value = self._value(X)
        if not self.is_local:
            value = np.tile(value, (len(Z), 1))
        if Z.shape != value.shape:
            raise ValueError(f"Z must have the shape of a release of X, {value.shape}, got {Z.shape}")
        return log_densities(self._lower(n_records=len(Z), n_features=Z.shape[1]), Z, value)

    def law(self) -> tuple[Any, ...]:
        """A key that is equal for two mechanisms whose releases of one feature have the same distribution."""
        bounds = self.bounds_for(1)
        bounds = None if bounds is None else (*bounds[0].tolist(), bool(self.clamp))
        others: tuple[Any, ...] = ()
        if self.tables == "noise":  # which may have parameters of its own
            seen = self._lower(n_records=np.size(self.noise_scale), n_features=1)
            others = tuple((name, *np.ravel(getattr(seen, name)).tolist()) for name in seen._fields)
        return type(self), tuple(np.ravel(self.noise_scale).tolist()), bounds, self.released_above, others

    def node_spacing(self, sd: float) -> float:
        """Cell width at which the nodes are accurate for releases of normal components with this standard deviation."""
        return 4.0 * sd

    def check_reach(self, places: Floats, scales: Floats | None = None) -> None:
        """Raise ValueError if a release is so far beyond the bounds that its density leaves floating point.

        Then it is nearly the same 0 whatever the records are, and the release would seem to say nothing.
        """
        bounds = self.bounds_for(len(places))
        if bounds is None or not self.clamp or self.tables is not None:  # a density of one's own takes single numbers
            return
        beyond = np.maximum(np.maximum(bounds[:, :1] - places, places - bounds[:, 1:]), 0.0)
        if scales is None:
            log_most = self.log_noise(beyond, self.noise_scale_for(len(places))).sum(axis=0)
        else:
            log_most = (self.log_noise(beyond / scales, 1.0) - np.log(scales)).sum(axis=0)
        worst = int(np.argmin(log_most))
        if log_most[worst] < LEAST_LOG_DENSITY:
            j = int(np.argmax(beyond[:, worst]))
            raise ValueError(
                f"the release has {places[j, worst]:.6g} in feature {j}, which {self!r} cannot have made: whatever the "
                f"record was, its density is below e^{LEAST_LOG_DENSITY:g}. Was the release made with other bounds or "
                "another epsilon? Leave such releases out if they are errors"
            )

    def lookup(self, places: Floats, scales: Floats | None = None) -> Floats:
        """What ``fill_normal`` looks up for each release in a list: densities given a record at either bound.

        Parameters
        ----------
        places : ndarray of shape (n_features, n)
        scales : ndarray of shape (n,), optional
            Noise scale of each release, if they differ.

        Returns
        -------
        found : ndarray of shape (2 n_features, n), or with ``scales`` (3 n_features, n)
            For each feature two densities, 0 without bounds; and the scale, if it was given.
        """
        (n_features, n), bounds = places.shape, self.bounds_for(len(places))
        ends = np.zeros((n_features, 2, n))
        if bounds is not None and self.clamp:
            apart = places[:, None] - bounds[:, :, None]
            if scales is None:
                ends[:] = np.exp(self.log_noise(apart, self.noise_scale_for(n_features)))
            else:
                ends[:] = np.exp(self.log_noise(apart / scales, 1.0)) / scales
        if scales is not None:
            ends = np.concatenate([ends, np.broadcast_to(scales, (n_features, 1, n))], axis=1)
        return ends.reshape(-1, n)

    def _lower(self, *, n_records, n_features, **context):
        if not hasattr(self, "log_noise"):
            raise TypeError(
                f"{type(self).__name__} must define the compiled method log_noise(self, e, scale), the log density of "
                "the noise: def log_noise under the decorator @compiled"
            )
        return lower(type(self), self._fields(n_records, n_features))

    def _fields(self, n_records, n_features):
        """Bounds, scales and their reciprocals; that of record i is entry ``i * each``, of one for all or of n."""
        bounds = self.bounds_for(n_features)
        if not self.is_clamped:
            bounds = np.tile([-np.inf, np.inf], (n_features, 1))
        scale = np.array(self.scales(n_records, n_features), dtype=np.float64)
        fields = {"noise": scale, "rate": 1.0 / scale, "low": bounds[:, 0].copy(), "high": bounds[:, 1].copy()}
        self._check_threshold(n_features)
        threshold = -np.inf if self.released_above is None else float(self.released_above)
        return fields | {"each": np.int64(len(scale) > 1), "threshold": threshold}

    @compiled
    def noise_at(self, nodes, m, n):
        """Scale of the noise at node m of n."""
        return nodes[3 * n + m] if self.each else self.noise[0]

    @compiled
    def fill_unseen(self, nodes, start, n, mean, log_variance, out, first, second):
        """``fill_normal`` at nodes from ``start`` on, for records whose releases appeared, or whose did not."""
        for m in range(start, n):
            noise = self.noise_at(nodes, m, n)
            self.fill_released(nodes[m], noise, mean, log_variance, out, first + m, second + m, second + n + m)

    @compiled
    def log_channel(self, Z, i, j, y):
        """log q(z_ij | y): the noise's log density at z - clamp(y)."""
        return self.log_noise(Z[i, j] - min(max(y, self.low[j]), self.high[j]), self.noise[i * self.each])

    @compiled
    def log_release(self, S, r, j, value):
        """Log density of entry j of release r of a query whose value is ``value``, up to a constant."""
        return self.log_noise(S[r, j] - value, self.noise[r * self.each])
