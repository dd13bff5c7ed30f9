"""The cases whose releases are not a value plus independent noise of one scale."""

from itertools import product

import numpy as np
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_dpmix.queries import private_bounds, private_quantile

from . import measure
from .cases import TOO_SMALL, Additive, Case


class Finite(Case):
    """Randomised response, answers and binomial counts: each of few outcomes, all of them looked at."""

    def __init__(self, name, mechanism, first, second, n_values):
        super().__init__(name, mechanism, first, second)
        self.outcomes = np.array(list(product(range(n_values), repeat=self.first.shape[1])), dtype=np.float64)

    def sample(self, mechanism, X, n, rng):
        return mechanism.privatize(np.tile(X, (n, 1)), random_state=rng)

    def log_law(self, Z, X):
        return self.mechanism.log_density(Z, np.tile(X, (len(Z), 1)))

    def from_law(self, epsilon, delta):
        return float(np.max(np.abs(self.log_law(self.outcomes, self.first) - self.log_law(self.outcomes, self.second))))

    def fit(self, Z, X):
        codes = (self.outcomes.max() + 1.0) ** np.arange(Z.shape[1])
        return measure.fit_of_counts(Z @ codes, self.outcomes @ codes, np.exp(self.log_law(self.outcomes, X)))

    def weaker(self):
        return clone(self.mechanism).set_params(epsilon=self.mechanism.epsilon / TOO_SMALL)


class Answers(Finite):
    """Any matrix of probabilities."""

    def weaker(self):
        matrix = np.asarray(self.mechanism.matrix) ** (1.0 / TOO_SMALL)
        return clone(self.mechanism).set_params(matrix=matrix / matrix.sum(axis=-1, keepdims=True))


class Bits(Finite):
    """One category in several bits."""

    def __init__(self, name, mechanism, first, second):
        super().__init__(name, mechanism, first, second, 2)
        self.outcomes = np.array(list(product(range(2), repeat=mechanism.n_categories)), dtype=np.float64)


class Windows(Case):
    """A number near the record, or else anywhere: one or two of them, features being independent."""

    def sample(self, mechanism, X, n, rng):
        return mechanism.privatize(np.tile(X, (n, 1)), random_state=rng)

    def log_law(self, Z, X):
        return self.mechanism.log_density(Z, np.tile(X, (len(Z), 1)))

    def _line(self, j, n):
        """Releases of a feature, up to the ends of what there can be, and a mechanism of that feature alone."""
        d, (lo, hi) = self.first.shape[1], self.mechanism.bounds_for(self.first.shape[1])[j]
        alone = clone(self.mechanism).set_params(epsilon=self.mechanism.epsilon / d, bounds=(lo, hi))
        _, a, h = alone._windows(1, 1)
        reach = 0.5 * (hi - lo) * float((a + h).item())
        return 0.5 * (lo + hi) + reach * np.linspace(-1.0, 1.0, n), alone

    def from_law(self, epsilon, delta):
        lines = [self._line(j, 401)[0] for j in range(self.first.shape[1])]
        Z = np.array(list(product(*lines)))
        return float(np.max(np.abs(self.log_law(Z, self.first) - self.log_law(Z, self.second))))

    def fit(self, Z, X):
        found = []
        for j in range(X.shape[1]):
            line, alone = self._line(j, 200_001)
            log_density = alone.log_density(line[:, None], np.full((len(line), 1), X[0, j]))
            found.append(measure.fit_of_continuous(Z[:, j], measure.table_cdf(line, log_density)))
        return min(1.0, len(found) * min(found))

    def weaker(self):
        return clone(self.mechanism).set_params(epsilon=self.mechanism.epsilon / TOO_SMALL)


class Coins(Windows):
    """Windows, or one of two numbers by a coin."""

    def _sides(self, j):
        alone = self._line(j, 3)[1]
        (lo, hi), epsilon = alone.bounds, alone.epsilon
        return 0.5 * (lo + hi) + 0.5 * (hi - lo) / np.tanh(0.5 * epsilon) * np.array([-1.0, 1.0]), alone

    def from_law(self, epsilon, delta):
        lines = [np.append(self._line(j, 401)[0], self._sides(j)[0]) for j in range(self.first.shape[1])]
        Z = np.array(list(product(*lines)))
        return float(np.max(np.abs(self.log_law(Z, self.first) - self.log_law(Z, self.second))))

    def fit(self, Z, X):
        found = []
        for j in range(X.shape[1]):
            sides, alone = self._sides(j)
            law = np.exp(alone.log_density(sides[:, None], np.full((2, 1), X[0, j])))
            is_side = np.isclose(Z[:, j, None], sides, rtol=1e-9, atol=0.0)
            which = is_side @ np.array([1, 2])
            found.append(measure.fit_of_counts(which, np.arange(3), np.array([1.0 - law.sum(), *law])))
            line, _ = self._line(j, 200_001)
            log_density = alone.log_density(line[:, None], np.full((len(line), 1), X[0, j]))
            found.append(measure.fit_of_continuous(Z[which == 0, j], measure.table_cdf(line, log_density)))
        return min(1.0, len(found) * min(found))


class Wavelets(Finite):
    """Haar coefficients: Laplace noise on what a record's bin is turned into."""

    def __init__(self, name, mechanism, first, second):
        super().__init__(name, mechanism, first, second, 2)

    def _centre(self, X):
        return self.mechanism.coefficients()[self.mechanism.bin_of(X[:, 0])]

    def from_law(self, epsilon, delta):
        centre, shift = self._centre(self.first), self._centre(self.first) - self._centre(self.second)
        far = centre + 100.0 * self.mechanism.noise_scale * np.sign(shift)
        return float(np.max(self.log_law(far, self.first) - self.log_law(far, self.second)))

    def fit(self, Z, X):
        return measure.fit_of_continuous((Z - self._centre(X)) / self.mechanism.noise_scale, stats.laplace.cdf)


class DrawnFromHistogram(Case):
    """A draw from the smoothed histogram; several of one data set are independent, so that one call makes them."""

    def sample(self, mechanism, X, n, rng):
        several = clone(mechanism).set_params(epsilon=None, smoothing=mechanism.smoothing_, n_released=n)
        return several.privatize(X, random_state=rng)[:, None]

    def log_law(self, Z, X):
        several = clone(self.mechanism).set_params(epsilon=None, smoothing=self.mechanism.smoothing_, n_released=len(Z))
        return several.log_density(Z, X)

    def from_law(self, epsilon, delta):
        Z = self.mechanism.centres()[:, None]
        return float(np.max(np.abs(self.log_law(Z, self.first) - self.log_law(Z, self.second))))

    def fit(self, Z, X):
        points = np.linspace(*self.mechanism.bounds_for(1)[0], 100_001)
        return measure.fit_of_continuous(Z, measure.table_cdf(points, self.log_law(points[:, None], X)))

    def weaker(self):
        return clone(self.mechanism).set_params(epsilon=self.mechanism.epsilon / TOO_SMALL)


class NoisyHistogram(Additive):
    """Counts with noise, one call a release."""

    n_draws = 12_000

    def scale(self):
        return float(self.mechanism.noise_scale)

    def centre(self, X):
        return self.mechanism.counts(X)

    def sample(self, mechanism, X, n, rng):
        return np.array([mechanism.privatize(X, random_state=rng) for _ in range(n)])

    def log_law(self, Z, X):  # constants cancel in ratios, which are all that is asked for
        return -np.abs(Z - self.centre(X)).sum(axis=1) / self.scale()

    def fit(self, Z, X):
        if self.mechanism.noise == "laplace":
            return super().fit(Z, X)
        r = np.exp(-1.0 / self.scale())
        e = np.arange(-60.0, 61.0)
        return measure.fit_of_counts(Z - self.centre(X), e, (1.0 - r) / (1.0 + r) * r ** np.abs(e))

    def weaker(self):
        return clone(self.mechanism).set_params(epsilon=self.mechanism.epsilon / TOO_SMALL)


class Smooth(Case):
    """Noise in proportion to a smooth sensitivity; of one record, the neighbours that are hardest to hide."""

    def __init__(self, name, mechanism, standard, covers=()):
        super().__init__(name, mechanism, [[0.0]], [[0.0]], covers)
        self.standard = standard  # cdf of the noise at scale 1
        lo, hi = mechanism.query.bounds
        grid, stated = lo + (hi - lo) * np.linspace(0.0, 1.0, 11), self.stated()
        self._pair(grid, stated)

    def _pair(self, grid, stated):
        best = -1.0
        for one, other in product(grid, grid):
            first, second = np.array([[one]]), np.array([[other]])
            if one != other and (found := self._between(first, second, *stated, 2001)) > best:
                best, self.first, self.second = found, first, second

    def _scale(self, mechanism, X):
        return mechanism.multiplier_ * mechanism.query.smooth_sensitivity(X, mechanism.xi_)

    def sample(self, mechanism, X, n, rng):
        if rng is None:  # as users call it
            return np.array([mechanism.privatize(X) for _ in range(n)])
        statistics = np.repeat(mechanism._statistics(X), n, axis=0)
        k = 1 if mechanism.n_hidden else 2
        return statistics[:, :k] + mechanism._draw(rng, statistics)

    def log_law(self, Z, X):
        return self.mechanism.log_density(Z, X)

    def _between(self, first, second, epsilon, delta, n):
        """The largest log ratio or δ, on points that are denser near the values, and reach far for heavy tails."""
        u = np.sinh(np.linspace(-12.0, 12.0, n))
        Z = (self.mechanism.query.value(first)[0] + self._scale(self.mechanism, first) * u)[:, None]
        log_p, log_q = self.log_law(Z, first), self.log_law(Z, second)
        if delta == 0.0:
            return float(np.max(np.abs(log_p - log_q)))
        excess = np.exp(log_p) * np.maximum(-np.expm1(np.minimum(epsilon - log_p + log_q, 700.0)), 0.0)
        return float(np.trapezoid(excess, Z[:, 0]))

    def from_law(self, epsilon, delta):
        return self._between(self.first, self.second, epsilon, delta, 400_001)

    def fit(self, Z, X):
        noise = (Z[:, 0] - self.mechanism.query.value(X)[0]) / self._scale(self.mechanism, X)
        return measure.fit_of_continuous(noise, self.standard)

    def weaker(self):
        return clone(self.mechanism).set_params(
            xi=self.mechanism.xi_, multiplier=TOO_SMALL * self.mechanism.multiplier_
        )


class PublishedScale(Smooth):
    """Value and scale are both released."""

    def _between(self, first, second, epsilon, delta, n):
        m, n = self.mechanism, min(int(n**0.5) * 2, 1600)
        v = np.linspace(-25.0, 25.0, 2 * n + 1) * m._spread()
        u = np.sinh(np.linspace(-4.0, 4.0, 2 * n + 1))
        h = (self._scale(m, first) * np.exp(v))[:, None] + 0.0 * u
        z = m.query.value(first)[0] + h * u
        Z = np.column_stack([z.ravel(), h.ravel()])
        log_p, log_q = self.log_law(Z, first), self.log_law(Z, second)
        excess = np.exp(log_p) * np.maximum(-np.expm1(np.minimum(epsilon - log_p + log_q, 700.0)), 0.0)
        inner = np.trapezoid(excess.reshape(h.shape) * h * h, u, axis=1)  # dz dh = h du · h dv
        return float(np.trapezoid(inner, v))

    def fit(self, Z, X):
        m = self.mechanism
        value = (Z[:, 0] - m.query.value(X)[0]) / Z[:, 1]
        scale = np.log(Z[:, 1] / self._scale(m, X)) / m._spread()
        return 0.5 * min(measure.fit_of_continuous(part, stats.laplace.cdf) for part in (value, scale))


class Elliptical(Case):
    """Noise of one density in u'C⁻¹u; ``radius`` is the cdf of its root."""

    def __init__(self, name, mechanism, first, second, radius):
        super().__init__(name, mechanism, first, second)
        self.radius = radius

    def sample(self, mechanism, X, n, rng):
        value = mechanism.query.value(X)
        alone = clone(mechanism).set_params(query=None)
        return alone.privatize(np.tile(value, (n, 1)), random_state=rng)

    def log_law(self, Z, X):
        return self.mechanism.log_density(Z, X)

    def from_law(self, epsilon, delta):
        """On the line through both values: what lies across it brings log ratios nearer to 0."""
        centre = self.mechanism.query.value(self.first)
        shift = centre - self.mechanism.query.value(self.second)
        root = np.linalg.cholesky(np.asarray(self.mechanism.covariance, dtype=np.float64))
        t = np.linspace(-50.0, 50.0, 400_001) if delta == 0.0 else np.linspace(-12.0, 12.0, 400_001)
        Z = centre + t[:, None] * shift / np.linalg.norm(np.linalg.solve(root, shift))
        loss = self.log_law(Z, self.first) - self.log_law(Z, self.second)
        if delta == 0.0:
            return float(np.max(np.abs(loss)))
        return float(np.trapezoid(stats.norm.pdf(t) * np.maximum(-np.expm1(epsilon - loss), 0.0), t))

    def fit(self, Z, X):
        root = np.linalg.cholesky(np.asarray(self.mechanism.covariance, dtype=np.float64))
        white = np.linalg.solve(root, (Z - self.mechanism.query.value(X)).T)
        return measure.fit_of_continuous(np.linalg.norm(white, axis=0), self.radius)

    def weaker(self):
        return clone(self.mechanism).set_params(covariance=TOO_SMALL**2 * np.asarray(self.mechanism.covariance))


class FromOpenDP(Additive):
    """A measurement of OpenDP's, released by itself and described by ``from_opendp``."""

    n_draws = 60_000

    def __init__(self, name, make, mechanism, first, second):
        super().__init__(name, mechanism, first, second, covers=("from_opendp",))
        self.make = make

    def sample(self, mechanism, X, n, rng):
        return np.array(self.make(mechanism.scale)(np.full(n, self.centre(X)[0]).tolist()))[:, None]


class Secure(Additive):
    """``secure=True``: a mechanism's noise by OpenDP."""

    n_draws = 60_000

    def sample(self, mechanism, X, n, rng):
        return mechanism.privatize(np.tile(X, (n, 1)), secure=True)


class OnePosterior(Case):
    """A draw from the flattened posterior; at n times the ε, n of them have the law of one."""

    n_draws = 60_000

    def __init__(self, name, estimator, n_zeros, n_ones):
        records = np.concatenate([np.zeros(n_zeros), np.ones(n_ones)])[:, None]
        super().__init__(name, estimator, records, np.vstack([records[1:], [[1.0]]]))
        self.points = np.linspace(estimator.low, 1.0 - estimator.low, 200_001)

    def stated(self):
        return self.mechanism.epsilon, 0.0

    def sample(self, mechanism, X, n, rng):
        several = clone(mechanism).set_params(n_draws=n, epsilon=n * mechanism.epsilon)
        return several.set_params(random_state=rng).fit(X).theta_draws_.reshape(-1, 1)

    def _log_weight(self, theta, X):
        m = self.mechanism
        power = min(1.0, 0.5 * m.epsilon / np.log((1.0 - m.low) / m.low))
        ones = power * X.sum()
        return ones * np.log(theta) + (power * len(X) - ones) * np.log1p(-theta)

    def log_law(self, Z, X):
        total = logsumexp(self._log_weight(self.points, X)) + np.log(self.points[1] - self.points[0])
        return self._log_weight(Z[:, 0], X) - total

    def from_law(self, epsilon, delta):
        ends = self.points[[0, -1], None]
        return float(np.max(np.abs(self.log_law(ends, self.first) - self.log_law(ends, self.second))))

    def fit(self, Z, X):
        return measure.fit_of_continuous(Z, measure.table_cdf(self.points, self._log_weight(self.points, X)))

    def weaker(self):
        return clone(self.mechanism).set_params(epsilon=self.mechanism.epsilon / TOO_SMALL)


class Quantile(Case):
    """``private_quantile``: the mechanism is a dict of its arguments."""

    n_draws = 12_000

    def __init__(self, name, arguments, first, second):
        super().__init__(name, arguments, first, second)
        self.covers = {"private_quantile"}
        self.points = np.linspace(*arguments["bounds"], 200_001)

    def stated(self):
        return self.mechanism["epsilon"], 0.0

    def sample(self, mechanism, X, n, rng):
        return np.array([[private_quantile(X[0], random_state=rng, **mechanism)[0]] for _ in range(n)])

    def _log_weight(self, t, X, q, epsilon):
        below = np.searchsorted(np.sort(np.clip(X[0], *self.mechanism["bounds"])), t)
        return -0.5 * epsilon * np.abs(below - q * X.size)

    def _log_density(self, t, X, q, epsilon):
        lo, hi = self.mechanism["bounds"]
        edges = np.concatenate([[lo], np.sort(np.clip(X[0], lo, hi)), [hi]])
        inside = -0.5 * epsilon * np.abs(np.arange(X.size + 1) - q * X.size)
        total = logsumexp(inside[np.diff(edges) > 0] + np.log(np.diff(edges)[np.diff(edges) > 0]))
        return self._log_weight(t, X, q, epsilon) - total

    def log_law(self, Z, X):
        return self._log_density(Z[:, 0], X, self.mechanism["q"], self.mechanism["epsilon"])

    def from_law(self, epsilon, delta):
        return float(np.max(np.abs(np.subtract(*(self.log_law(self.points[:, None], X) for X in self._pair())))))

    def _pair(self):
        return self.first, self.second

    def fit(self, Z, X):
        return measure.fit_of_continuous(Z, measure.table_cdf(self.points, self.log_law(self.points[:, None], X)))

    def weaker(self):
        return self.mechanism | {"epsilon": self.mechanism["epsilon"] / TOO_SMALL}


class Bounds(Quantile):
    """``private_bounds``: two quantiles, put in order."""

    def __init__(self, name, arguments, first, second):
        super().__init__(name, arguments, first, second)
        self.covers = {"private_bounds"}
        self.points = self.points[::400]

    def sample(self, mechanism, X, n, rng):
        return np.array([private_bounds(X[0], random_state=rng, **mechanism)[0] for _ in range(n)])

    def _ends(self, t, X):
        """Log densities of the lower and of the upper quantile at t."""
        share, half = self.mechanism["coverage"], 0.5 * self.mechanism["epsilon"]
        return [self._log_density(t, X, q, half) for q in (0.5 - 0.5 * share, 0.5 + 0.5 * share)]

    def log_law(self, Z, X):
        (a_low, a_high), (b_low, b_high) = self._ends(Z[:, 0], X), self._ends(Z[:, 1], X)
        return np.logaddexp(a_low + b_high, b_low + a_high)

    def from_law(self, epsilon, delta):
        a, b = np.meshgrid(self.points, self.points)
        Z = np.column_stack([np.minimum(a, b).ravel(), np.maximum(a, b).ravel()])
        return float(np.max(np.abs(self.log_law(Z, self.first) - self.log_law(Z, self.second))))

    def fit(self, Z, X):
        fine = np.linspace(self.points[0], self.points[-1], 200_001)
        low, high = (measure.table_cdf(fine, log_density) for log_density in self._ends(fine, X))
        smaller = measure.fit_of_continuous(Z[:, 0], lambda t: 1.0 - (1.0 - low(t)) * (1.0 - high(t)))
        return 0.5 * min(smaller, measure.fit_of_continuous(Z[:, 1], lambda t: low(t) * high(t)))
