"""A mechanism with two neighbours that it should hide from each other, and what can be measured of it."""

from typing import NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone

from sklearn_dpmix.privacy import gaussian_delta

from . import measure

#: Draws of either side.
N_DRAWS = 250_000
#: Room where a figure is compared with what is stated: a quadrature over a kink has an error of up to 3e-7 of itself.
ROUNDING = 1.0 + 1e-6
#: The twins' noise, as a share of what is due.
TOO_SMALL = 0.9


class Finding(NamedTuple):
    """Stated (ε, δ); what the stated law gives for these neighbours; what draws show; the fit of draws to the law.

    ``law`` and ``draws`` are values of ε where δ is 0, and of δ where it is not.
    """

    name: str
    epsilon: float
    delta: float
    law: float
    draws: float
    fit: float
    n_draws: int

    @property
    def ratio(self):
        """Audited over stated."""
        return max(self.law, self.draws) / (self.delta or self.epsilon)

    @property
    def is_kept(self):
        """Whether nothing contradicts what is stated."""
        return self.ratio <= ROUNDING and self.fit >= measure.ALPHA


class Case:
    """Base class.  A subclass has ``sample``, ``log_law``, ``from_law``, ``fit`` and ``weaker``.

    Parameters
    ----------
    name : str
    mechanism : object
    first, second : ndarray
        Neighbours that are hard to hide from each other.
    covers : tuple of str
        Public names that it is an audit of, beside those of the mechanism and its query.
    """

    n_draws = N_DRAWS
    #: at which ε a mechanism is asked for its δ that states ρ
    asked = 1.0

    def __init__(self, name, mechanism, first, second, covers=()):
        self.name, self.mechanism = name, mechanism
        self.first, self.second = (np.atleast_2d(np.asarray(X, dtype=np.float64)) for X in (first, second))
        query = getattr(mechanism, "query", None)
        self.covers = {type(mechanism).__name__, *covers} | ({type(query).__name__} if query is not None else set())

    def stated(self):
        """(ε, δ) that the mechanism states."""
        guarantee = self.mechanism.guarantee(self.first.shape[1])
        if guarantee.epsilon is None:
            return self.asked, float(gaussian_delta(self.asked, guarantee.rho))
        return guarantee.epsilon, guarantee.delta

    def sample(self, mechanism, X, n, rng):
        """(n, k) releases of X."""
        raise NotImplementedError

    def log_law(self, Z, X):
        """(n,) log density of releases."""
        raise NotImplementedError

    def from_law(self, epsilon, delta):
        """What the law that is stated gives for these neighbours: the largest log ratio, or δ at ε."""
        raise NotImplementedError

    def fit(self, Z, X):
        """p-value of a test that releases of X have that law."""
        raise NotImplementedError

    def weaker(self):
        """The mechanism with noise that is 10 % too small."""
        raise NotImplementedError

    def statistics(self, Z):
        """Columns whose half-lines are the events: the log ratio of the stated law, and the releases themselves."""
        return np.column_stack([self.log_law(Z, self.first) - self.log_law(Z, self.second), Z])

    def audit(self, rng, mechanism=None, sample=None):
        """The finding; of releases by another mechanism, or made in another way, where one is given."""
        mechanism, sample = mechanism or self.mechanism, sample or self.sample
        epsilon, delta = self.stated()
        Z = [sample(mechanism, X, self.n_draws, rng) for X in (self.first, self.second)]
        shown = measure.audited(*(self.statistics(one) for one in Z), epsilon, delta)
        fit = min(self.fit(one, X) for one, X in zip(Z, (self.first, self.second), strict=True))
        return Finding(self.name, epsilon, delta, self.from_law(epsilon, delta), shown, 0.5 * fit, self.n_draws)


class Repeated:
    """A query whose value stands in n rows, so that one call of ``privatize`` makes n releases."""

    def __init__(self, query, n):
        self.query, self.n = query, n
        self.neighbours, self.n_statistics = query.neighbours, query.n_statistics

    def value(self, X):
        return np.tile(self.query.value(X), (self.n, 1))

    def sensitivity(self, norm):
        return self.query.sensitivity(norm)


class Additive(Case):
    """Noise on a record, or on a query's value, of which ``noise`` is "laplace" or "gaussian"."""

    def __init__(self, name, mechanism, first, second, covers=(), noise="laplace"):
        super().__init__(name, mechanism, first, second, covers)
        self.noise = noise

    def scale(self):
        return float(self.mechanism.noise_scale_for(self.first.shape[1]))

    def centre(self, X):
        """What noise goes on, by the audit's own account."""
        if self.mechanism.query is not None:
            return self.mechanism.query.value(X)
        bounds = self.mechanism.bounds_for(X.shape[1])
        return np.clip(X[0], bounds[:, 0], bounds[:, 1])

    def sample(self, mechanism, X, n, rng):
        if mechanism.query is None:
            return mechanism.privatize(np.tile(X, (n, 1)), random_state=rng)
        repeated = clone(mechanism)
        repeated.query = Repeated(mechanism.query, n)
        return repeated.privatize(X, random_state=rng)

    def log_law(self, Z, X):
        return self.mechanism.log_density(Z, X if self.mechanism.query is not None else np.tile(X, (len(Z), 1)))

    def loss(self, Z):
        return self.log_law(Z, self.first) - self.log_law(Z, self.second)

    def from_law(self, epsilon, delta):
        """ε: beyond both values in each coordinate.  δ: on the line through both, as the noise is isotropic."""
        centre, shift = self.centre(self.first), self.centre(self.first) - self.centre(self.second)
        if delta == 0.0:
            far = centre + np.rint(100.0 * self.scale() + np.abs(shift)) * np.sign(shift)
            return float(np.max(self.loss(np.array([far, far - shift, centre]))))
        t = np.linspace(-12.0, 12.0, 200_001)
        loss = self.loss(centre + self.scale() * t[:, None] * shift / np.linalg.norm(shift))
        return float(np.trapezoid(stats.norm.pdf(t) * np.maximum(-np.expm1(epsilon - loss), 0.0), t))

    def fit(self, Z, X):
        law = stats.laplace if self.noise == "laplace" else stats.norm
        return measure.fit_of_continuous((Z - self.centre(X)) / self.scale(), law.cdf)

    def weaker(self):
        return with_scale(self.mechanism, TOO_SMALL * self.scale())


class Integers(Additive):
    """The same with integer noise: sums over all outcomes of one number, or over a square of two."""

    def outcomes(self, reach=None):
        """Integer releases, (n, k), k at most 2."""
        reach = int(reach or np.ceil(40.0 * self.scale()))
        centre = self.centre(self.first)
        line = np.arange(-reach, reach + 1.0)
        if len(centre) == 1:
            return centre + line[:, None]
        return centre + np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)

    def from_law(self, epsilon, delta):
        if delta == 0.0:
            return super().from_law(epsilon, delta)
        Z = self.outcomes(reach=np.ceil(12.0 * self.scale()))
        return measure.hockey_stick(np.exp(self.log_law(Z, self.first)), np.exp(self.log_law(Z, self.second)), epsilon)

    def fit(self, Z, X):
        e, b = np.arange(-np.ceil(40 * self.scale()), np.ceil(40 * self.scale()) + 1.0), self.scale()
        weight = np.exp(-np.abs(e) / b if self.noise == "laplace" else -0.5 * (e / b) ** 2)
        noise = np.ravel(Z - self.centre(X))
        return measure.fit_of_counts(noise, e, weight / weight.sum())


def with_scale(mechanism, scale):
    """The mechanism with that noise and nothing else changed."""
    unset = {name: None for name in ("epsilon", "delta", "rho") if name in mechanism.get_params(deep=False)}
    return clone(mechanism).set_params(**unset, scale=scale)


def worst_records(query, grid, norm):
    """Two records of a grid that move a query's value furthest apart; None in place of one that is left out."""
    t = query.contributions(grid)
    if query.neighbours == "add_remove":
        return grid[np.argmax(np.linalg.norm(t, norm, axis=1))], None
    distance = np.linalg.norm(t[:, None] - t[None], norm, axis=2)
    i, j = np.unravel_index(np.argmax(distance), distance.shape)
    return grid[i], grid[j]


def neighbours(query, grid, norm, others=3):
    """Data sets that differ in those records; the others are the grid's first."""
    one, other = worst_records(query, grid, norm)
    rest = grid[:others]
    return np.vstack([one[None], rest]), rest if other is None else np.vstack([other[None], rest])
