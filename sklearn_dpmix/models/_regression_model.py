"""Linear regression with clamped records, as data augmentation sees it (Ju et al. 2022, §4.2).

A record is (x_1, ..., x_p, y), where x has some distribution (``PredictorLaw``) and y | x ~ N(α + xβ, σ²).  It
contributes the products of its clamped and scaled coordinates (``RegressionMoments``); the record itself is not
clamped.  The flat parameters are (α, β_1..β_p, σ, those of the distribution of x).
"""

from math import exp, inf, log

import numpy as np

from .._base.compiled import compiled, lower
from ._normal_moments import RecordMoments
from ._regression_prior import draw_residual, draw_scores, log_coefs, log_residual, set_coefs


class ClampedRegression(RecordMoments):
    """The regression's records, contributions, priors and moves.

    Parameters
    ----------
    bounds : ndarray of shape (p + 1, 2)
        Bounds of the predictors, then of the response.
    prior : ScaledPrior
        In the units of the records, which are also those of ``bounds``.
    x_model : GaussianPredictors or HistogramPredictors
        In the same units.
    """

    def __init__(self, bounds, prior, x_model):
        self.bounds = bounds
        self.prior = prior
        self.x_model = x_model
        self.x = x_model._law(bounds)

    def _lower(self, **context):
        lo, hi = self.bounds.T
        p, width = len(lo) - 1, (hi - lo)
        prior = self.prior
        fields = {
            "p": p,
            "known": 1.0,
            "design": self.n_coordinates,
            "width": np.diag(self.first_metric()),
            "centre": 0.5 * (lo + hi),
            "rate": 2.0 / width,
            "coef_mean": prior.mean,
            "coef_unit": prior.unit,
            "coef_whiten": np.linalg.inv(prior.unit),
            "knows_sigma": float(prior.sigma is not None),
            "sigma_shape": prior.shape,
            "sigma_scale": prior.scale,
            "sigma_rate": prior.rate,
            "x": self.x._lower(),
        }
        return lower(type(self), fields)

    @property
    def n_params(self):
        return len(self.bounds) + 1 + self.x.n_params

    @property
    def block_sizes(self):
        """Numbers in each block of the non-centred moves."""
        return [len(self.bounds) + (self.prior.sigma is None), *([self.x.size] if self.x.size else [])]

    @property
    def n_columns(self):
        return len(self.bounds) + self.x.n_scratch

    def first_steps(self):
        """Factors of the first non-centred proposals, (n_blocks, m, m): about a twentieth of each prior's width."""
        sizes = self.block_sizes
        steps = np.zeros((len(sizes), max(sizes), max(sizes)))
        np.fill_diagonal(steps[0], [*(0.05 * np.sqrt(np.diag(self.prior.covariance))), 0.1])
        if len(sizes) > 1:
            np.fill_diagonal(steps[1], self.x.first_steps())
        return steps

    def first_metric(self):
        """Lower factor of a covariance of a point: of widths of its prior."""
        own = [20.0 * np.diag(factor)[:m] for factor, m in zip(self.first_steps(), self.block_sizes, strict=True)]
        width = np.ones(self.n_coordinates)
        width[: sum(self.block_sizes)] = np.concatenate(own)
        return np.diag(width)

    def work_shape(self, n_statistics):
        """Shape of the scratch that a sweep needs."""
        q = len(self.bounds)
        return 8 * q + 14, max(self.n_params + 1, n_statistics, q + 1)

    def start(self, moments, rng):
        """Parameters near those of the release, from which a chain starts.

        Parameters
        ----------
        moments : ndarray of shape (p + 2, p + 2)
            Means of the products of (1, x, y), as far as the release tells.
        rng : numpy.random.Generator
        """
        p, width = len(self.bounds) - 1, np.diff(self.bounds).ravel()
        theta = np.zeros(self.n_params)
        centre = np.clip(moments[0, 1:], *self.bounds.T)
        spread = _nearest_covariance(moments[1:, 1:] - np.outer(moments[0, 1:], moments[0, 1:]), width)
        self.x.known(centre, spread)
        ridge = np.diag(0.01 * width[:p] ** 2 / 16.0)
        beta = np.linalg.solve(spread[:p, :p] + ridge, spread[:p, p])
        scale = np.sqrt(np.diag(self.prior.covariance))
        low, high = self.prior.mean - 3.0 * scale, self.prior.mean + 3.0 * scale
        theta[1 : p + 1] = np.clip(beta, low[1:], high[1:]) + 0.1 * scale[1:] * rng.standard_normal(p)
        theta[0] = np.clip(centre[p] - centre[:p] @ theta[1 : p + 1], low[0], high[0])
        sigma = width[p] / 8.0 * np.exp(0.5 * rng.standard_normal())
        theta[p + 1] = sigma if self.prior.sigma is None else self.prior.sigma
        theta[p + 2 :] = self.x.start(centre[:p], spread[:p, :p], rng)
        return theta

    # --- compiled: records -------------------------------------------------------------------------------------------

    @compiled
    def draw_record(self, rng, theta, records, i):
        p = self.p
        self.x.draw(rng, theta, records, i)
        y = theta[0] + theta[p + 1] * rng.standard_normal()
        for j in range(p - 1, -1, -1):
            y += theta[1 + j] * records[i, j]
        records[i, p] = y

    @compiled
    def contribute(self, records, i, contributions, row):
        p = self.p
        y = min(max((records[i, p] - self.centre[p]) * self.rate[p], -1.0), 1.0)
        contributions[row, 0] = y
        contributions[row, p + 1] = y * y
        at = 2 * p + 2
        for j in range(p):
            contributions[row, p + 2 + j] = min(max((records[i, j] - self.centre[j]) * self.rate[j], -1.0), 1.0)
        for j in range(p):
            x = contributions[row, p + 2 + j]
            contributions[row, 1 + j] = x * y
            for r in range(j, p):
                contributions[row, at] = x * contributions[row, p + 2 + r]
                at += 1

    @compiled
    def standardise(self, theta, records, i, row):
        """(z, e) of record i into a row of ``records``."""
        p = self.p
        e = records[i, p] - theta[0]
        for j in range(p):
            e -= theta[1 + j] * records[i, j]
        records[row, p] = e / theta[p + 1]
        self.x.standardise(theta, records, i, row)

    @compiled
    def respond(self, theta, records, i):
        """Write y in place of record i's standardised residual."""
        p = self.p
        y = theta[0] + theta[p + 1] * records[i, p]
        for j in range(p):
            y += theta[1 + j] * records[i, j]
        records[i, p] = y

    @compiled
    def get_response(self, theta, kappa):
        """(α, β, σ) where the bounds of y are [-1, 1]."""
        p = self.p
        for r in range(p + 2):
            kappa[r] = theta[r] * self.rate[p]
        kappa[0] -= self.centre[p] * self.rate[p]

    @compiled
    def set_response(self, theta, kappa):
        p = self.p
        for r in range(p + 2):
            theta[r] = kappa[r] / self.rate[p]
        theta[0] += self.centre[p]

    @compiled
    def set_total(self, sums, response, total):
        """The query's value, from sums of products of (1, x), x within the bounds, and of (1, x, y) y, y scaled."""
        p, n = self.p, sums[0, 0]
        total[0], total[p + 1], at = response[0], response[p + 1], 2 * p + 2
        for j in range(p):
            c = self.centre[j]
            total[1 + j] = self.rate[j] * (response[1 + j] - c * response[0])
            total[p + 2 + j] = self.rate[j] * (sums[0, 1 + j] - n * c)
            for r in range(j, p):
                product = sums[1 + j, 1 + r] - c * sums[0, 1 + r] - self.centre[r] * (sums[0, 1 + j] - n * c)
                total[at] = self.rate[j] * self.rate[r] * product
                at += 1

    @compiled
    def set_coefs(self, theta, coefs, predictors):
        """Rows of ``coefs``: the scaled coordinates (x_1, ..., x_p, y), not clamped, in terms of (1, z, e)."""
        p = self.p
        if predictors:
            self.x.set_coefs(theta, coefs)
        coefs[p, 0] = theta[0] - self.centre[p]
        for r in range(1, p + 1):
            coefs[p, r] = 0.0
        coefs[p, p + 1] = theta[p + 1]
        for j in range(p):
            slope = theta[1 + j] / self.rate[j]
            for r in range(p + 1):
                coefs[p, r] += slope * coefs[j, r]
            coefs[p, 0] += theta[1 + j] * self.centre[j]
        for r in range(p + 2):
            coefs[p, r] *= self.rate[p]

    # --- compiled: parameters given the records ----------------------------------------------------------------------

    @compiled
    def update_theta(self, rng, theta, records, n, work):
        """(α, β), then σ², each given the rest, both conjugate; then the distribution of x."""
        p = self.p
        q = p + 1
        sums, matrix, vector = work[: q + 1], work[q + 1 : 2 * q + 1], work[2 * q + 1]
        for a in range(q + 1):  # lower triangle of the products of (1, x, y)
            for b in range(a + 1):
                sums[a, b] = 0.0
        sums[0, 0] = n
        for i in range(n):
            for a in range(1, q + 1):
                sums[a, 0] += records[i, a - 1]
                for b in range(1, a + 1):
                    sums[a, b] += records[i, a - 1] * records[i, b - 1]
        precision = theta[p + 1] ** -2
        for a in range(q):
            for b in range(a + 1):
                matrix[a, b] = sums[a, b] * precision
            vector[a] = sums[q, a] * precision
        draw_scores(rng, self.coef_unit, self.coef_mean, matrix, vector, q)
        set_coefs(self.coef_unit, self.coef_mean, vector, q)
        for a in range(q):
            theta[a] = vector[a]
        if self.knows_sigma == 0.0:
            squares = sums[q, q]
            for a in range(q):
                squares -= 2.0 * theta[a] * sums[q, a]
                for b in range(q):
                    squares += theta[a] * theta[b] * sums[max(a, b), min(a, b)]
            shape, scale, rate = self.sigma_shape, self.sigma_scale, self.sigma_rate
            theta[p + 1] = draw_residual(rng, shape, scale, rate, theta[p + 1], n, max(squares, 0.0))
        self.x.update(rng, theta, records, n, sums, matrix, vector, work[2 * q + 2 :])

    # --- compiled: non-centred moves; block 0 is (α, β, log σ), block 1 that of the distribution of x, if it has one --

    @compiled
    def n_blocks(self):
        return 1 + self.x.n_blocks()

    @compiled
    def block_size(self, block):
        p = self.p
        if block == 0:
            return p + 1 if self.knows_sigma > 0.0 else p + 2
        return self.x.block_size()

    @compiled
    def get_block(self, theta, block, v):
        if block > 0:
            self.x.get_block(theta, v)
            return
        p = self.p
        for j in range(p + 1):
            v[j] = theta[j]
        v[p + 1] = log(theta[p + 1])

    @compiled
    def set_block(self, theta, block, v):
        if block > 0:
            self.x.set_block(theta, v)
            return
        p = self.p
        for j in range(p + 1):
            theta[j] = v[j]
        if self.knows_sigma == 0.0:
            theta[p + 1] = exp(min(v[p + 1], 400.0))  # beyond, the prior is 0

    @compiled
    def log_prior_block(self, theta, block):
        if block > 0:
            return self.x.log_prior(theta)
        p = self.p
        value = log_coefs(self.coef_whiten, self.coef_mean, theta, p + 1)
        if self.knows_sigma == 0.0:  # of log σ
            if not 1e-150 < theta[p + 1] < 1e150:
                return -inf
            value += log_residual(self.sigma_shape, self.sigma_scale, self.sigma_rate, theta[p + 1])
        return value

    @compiled
    def map_theta(self, theta, image, to):
        """θ of the records after (1, x, y) has become ``image`` (1, x, y), a lower triangle, with (z, e) held."""
        p = self.p
        scale = image[p + 1, p + 1]
        to[p + 1] = scale * theta[p + 1]
        to[0] = image[p + 1, 0] + scale * theta[0]
        for j in range(p - 1, -1, -1):
            to[1 + j] = image[p + 1, 1 + j] + scale * theta[1 + j]
            for r in range(j + 1, p):
                to[1 + j] -= image[1 + r, 1 + j] * to[1 + r]
            to[1 + j] /= image[1 + j, 1 + j]
            to[0] -= to[1 + j] * image[1 + j, 0]
        if self.x.takes_any_map():
            self.x.map_theta(theta, image, to)

    @compiled
    def carry(self, theta, to, block, records, i, row):
        p = self.p
        residual = records[i, p] - theta[0]
        for j in range(p):
            residual -= theta[1 + j] * records[i, j]
        y = to[0] + residual * (to[p + 1] / theta[p + 1])
        if block == 0:
            for j in range(p):
                records[row, j] = records[i, j]
        else:
            self.x.carry(theta, to, records, i, row)
        for j in range(p):
            y += to[1 + j] * records[row, j]
        records[row, p] = y


def _nearest_covariance(matrix, width):
    """A positive definite matrix near a noisy covariance, with eigenvalues between fractions of the bounds' width."""
    unit = width / 4.0
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T) / np.outer(unit, unit))
    values = np.clip(values, 1e-2, 10.0)
    return (vectors * values) @ vectors.T * np.outer(unit, unit)
