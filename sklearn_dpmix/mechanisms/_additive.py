"""Noise added to bounded records or to a query's value: what all such mechanisms share."""

import numpy as np
from sklearn.utils import check_array

from .._compiled import compiled, entry, lower
from .._random import as_generator
from ._channel import RecordChannel


class AdditiveMechanism(RecordChannel):
    """Base class of mechanisms that add independent noise.

    A subclass stores its parameters, defines ``noise_scale`` (or has a parameter ``scale``), the compiled
    ``log_noise(self, e, scale)``, the log density of noise ``e``, and ``draw_noise(self, rng, scale, size)``.  That is
    enough for every sampler that needs no closed-form marginal::

        class CauchyMechanism(AdditiveMechanism):
            def __init__(self, scale=1.0):
                self.scale = scale

            @compiled
            def log_noise(self, e, scale):
                return -log(pi * scale * (1.0 + (e / scale) ** 2))

            def draw_noise(self, rng, scale, size):
                return scale * rng.standard_cauchy(size)

    Attributes ``bounds`` (with ``clamp``) and ``query`` are used where the subclass has them.
    """

    bounds = None
    clamp = True
    query = None

    @property
    def is_local(self):
        """Whether the mechanism is applied record by record (local privacy) and not to a query of all of them."""
        return self.query is None

    @property
    def noise_scale(self):
        """Scale of the noise; an array of shape (n_records,) where each record has its own."""
        return self.noise_scale_for(None)

    def noise_scale_for(self, n_features):
        """Scale of the noise on records of ``n_features`` (bounds given as one pair count once a feature)."""
        return positive_array("scale", self.scale)

    def noise_variance(self, n_features=None):
        """Mean variance of the noise on one feature, over records; None where it is unknown."""
        return None

    def tail_probability(self, distance, scale):
        """P(noise > distance); None where it is unknown."""
        return None

    def check(self, n_features=None):
        """Raise ValueError where a parameter is wrong; with ``n_features``, also where the bounds do not fit."""
        self.bounds_for(n_features)
        self.noise_scale_for(n_features)

    def bounds_for(self, n_features):
        """Return ``bounds`` as an array of shape (n_features, 2), or None."""
        return None if self.bounds is None else check_bounds(self.bounds, n_features)

    def privatize(self, X, *, random_state=None, secure=False):
        """Release records (or the query's value) with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Confidential records.
        random_state : int, Generator, RandomState or None
            For simulation.  A seed that made noise is a secret: who knows it can take the noise off.
        secure : bool, default=False
            Draw the noise with OpenDP (extra ``[secure]``), which resists floating-point attacks and takes no seed.  NumPy
            noise is for simulation.

        Returns
        -------
        Z : ndarray of shape (n_records, n_features), or of the query's shape

        Raises
        ------
        ValueError
            For records that are not finite, do not fit the bounds or the per-record parameters, or for a bad parameter.
        """
        X = check_array(X, dtype=np.float64, input_name="X", estimator=type(self).__name__)
        if secure and random_state is not None:
            raise ValueError("secure=True draws from the operating system and takes no random_state; pass random_state=None")
        value = self._value(X)
        scale = self._scales(len(value) if self.is_local else None, X.shape[1])
        scale = np.broadcast_to(scale.reshape(-1, *(1,) * (value.ndim - 1)), value.shape)
        if secure:
            return value + self._secure_noise(scale)
        return value + self.draw_noise(as_generator(random_state), scale, value.shape)

    def _value(self, X):
        if not self.is_local:
            return np.atleast_1d(np.asarray(self.query.value(X), dtype=np.float64))
        bounds = self.bounds_for(X.shape[1])
        return X if bounds is None or not self.clamp else np.clip(X, bounds[:, 0], bounds[:, 1])

    def _secure_noise(self, scale):
        raise ValueError(f"{type(self).__name__} has no secure=True: it draws with NumPy only")

    def _scales(self, n_records, n_features):
        """Noise scale as an array that fits ``n_records``."""
        scale = np.atleast_1d(self.noise_scale_for(n_features))
        if scale.shape not in ((1,), (n_records,)):
            raise ValueError(
                f"{type(self).__name__} has its own noise for each of {len(scale)} records (epsilon, rho or scale of shape "
                f"{scale.shape}), but there are {n_records} records: give one value, or one a record"
            )
        return scale

    def log_density(self, Z, X):
        """Log density of a release given the confidential records, summed over features.

        Parameters
        ----------
        Z, X : array-like of shape (n_records, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_records,)
        """
        Z = check_array(Z, dtype=np.float64, input_name="Z")
        X = check_array(X, dtype=np.float64, input_name="X")
        if Z.shape != X.shape:
            raise ValueError(f"Z and X must have the same shape, got {Z.shape} and {X.shape}")
        return _log_density(self._lower(n_records=len(Z), n_features=Z.shape[1]), Z, X)

    def _lower(self, *, n_records, n_features, **context):
        bounds = self.bounds_for(n_features)
        if bounds is None or not self.clamp:
            bounds = np.tile([-np.inf, np.inf], (n_features, 1))
        scale = np.broadcast_to(self._scales(n_records, n_features), (n_records,)).astype(np.float64)
        fields = {"noise": scale, "rate": 1.0 / scale, "low": bounds[:, 0].copy(), "high": bounds[:, 1].copy()}
        return lower(type(self), fields)

    @compiled
    def log_channel(self, Z, i, j, y):
        """log q(z_ij | y): the noise's log density at z - clamp(y)."""
        return self.log_noise(Z[i, j] - min(max(y, self.low[j]), self.high[j]), self.noise[i])

    @compiled
    def log_noise(self, e, scale):
        return 0.0


@entry
def _log_density(channel, Z, X):
    result = np.zeros(Z.shape[0])
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            result[i] += channel.log_channel(Z, i, j, X[i, j])
    return result


def check_bounds(bounds, n_features):
    """Return bounds as an array of shape (n_features, 2), or say what is wrong with them."""
    try:
        array = np.asarray(bounds, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"bounds must be a pair (lo, hi) or one pair a feature, got {bounds!r}") from None
    if array.shape == (2,):
        array = np.tile(array, (n_features or 1, 1))
    if array.ndim != 2 or array.shape[1] != 2 or array.shape[0] == 0:
        raise ValueError(f"bounds must be a pair (lo, hi) or one pair a feature (shape (n_features, 2)), got {bounds!r}")
    if n_features is not None and len(array) != n_features:
        raise ValueError(f"bounds has {len(array)} pair(s), but the records have {n_features} feature(s)")
    if not np.all(np.isfinite(array)) or not np.all(array[:, 0] < array[:, 1]):
        raise ValueError(f"bounds must be finite with lo < hi, got {bounds!r}: bounds=(lo, hi)")
    return array


def positive_array(name, value, advice=""):
    """Return a positive number, or one a record, as a float or an array of shape (n_records,)."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.asarray(np.nan)
    if isinstance(value, (bool, str)) or array.ndim > 1 or array.size == 0 or not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(f"{name} must be positive and finite, a number or an array of shape (n_records,), got {value!r}{advice}")
    return array if array.ndim else float(array)


def calibrate(mechanism, sensitivity, **rules):
    """Return the noise scale from the one of ``epsilon``, ``rho``, ``scale`` that is given.

    ``rules`` maps a parameter's name to a function of (its value, the sensitivity); ``scale`` is taken as it is.
    """
    given = [name for name in ("epsilon", "rho", "scale") if getattr(mechanism, name) is not None]
    if len(given) != 1:
        values = ", ".join(f"{name}={getattr(mechanism, name)!r}" for name in ("epsilon", "rho", "scale"))
        raise ValueError(f"{type(mechanism).__name__} takes exactly one of epsilon, rho and scale, got {values}")
    value = positive_array(given[0], getattr(mechanism, given[0]))
    if given[0] == "scale":
        return value
    if sensitivity is None:
        raise ValueError(
            f"{type(mechanism).__name__} with {given[0]}={value!r} needs bounds=(lo, hi) or query= to know how much noise that "
            "is; if you know the noise itself, pass scale="
        )
    return rules[given[0]](value, sensitivity)
