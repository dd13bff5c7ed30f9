"""Linear regression with normal predictors, as data augmentation sees it (Ju et al. 2022, §4.2).

A record is (x_1, ..., x_p, y) with x ~ N(m, C), y | x ~ N(α + xβ, σ²).  It contributes the products of its clamped and
scaled coordinates (``RegressionMoments``); the record itself is not clamped.  Parameters, flat:
(α, β_1..β_p, σ, m_1..m_p, L_11, L_21, L_22, ...) with C = LL'.
"""

from math import exp, inf, log

import numpy as np

from .._base.compiled import compiled, helper, lower
from .._base.linear import draw_inverse_wishart_factor, draw_normal, factor
from ._records import RecordModel


class ClampedRegression(RecordModel):
    """The regression's records, contributions, priors and moves.

    Parameters
    ----------
    bounds : ndarray of shape (p + 1, 2)
        Of the predictors, then of the response.
    prior : ScaledPrior
        In the units of the records, of which ``bounds`` are.
    x_model : GaussianPredictors
    """

    def __init__(self, bounds, prior, x_model):
        self.bounds = bounds
        self.prior = prior
        self.x_model = x_model

    def _lower(self, **context):
        lo, hi = self.bounds.T
        p, width = len(lo) - 1, (hi - lo)
        mean, covariance = self.x_model.check(p)
        prior = self.prior
        fields = {
            "p": p,
            "centre": 0.5 * (lo + hi),
            "rate": 2.0 / width,
            "coef_mean": prior.mean,
            "coef_precision": prior.precision,
            "coef_shift": prior.precision @ prior.mean,
            "knows_sigma": float(prior.sigma is not None),
            "sigma_shape": prior.shape,
            "sigma_scale": prior.scale,
            "knows_mean": float(mean is not None),
            "knows_covariance": float(covariance is not None),
            "mean_prior": 0.5 * (lo + hi)[:-1],
            "mean_precision": 4.0 / width[:-1] ** 2,
            "wishart_dof": float(p + 2),
            "wishart_scale": width[:-1] ** 2 / 16.0,
        }
        return lower(type(self), fields)

    @property
    def n_params(self):
        p = len(self.bounds) - 1
        return 2 * (p + 1) + p * (p + 1) // 2

    @property
    def block_sizes(self):
        """Numbers in each block of the non-centred moves."""
        p = len(self.bounds) - 1
        predictors = p * (self.x_model.mean is None) + p * (p + 1) // 2 * (self.x_model.covariance is None)
        return [p + 1 + (self.prior.sigma is None), *([predictors] if predictors else [])]

    @property
    def n_columns(self):
        return len(self.bounds)

    def first_steps(self):
        """Factors of the first non-centred proposals, (n_blocks, m, m): about a twentieth of each prior's width."""
        p, sizes = len(self.bounds) - 1, self.block_sizes
        quarter = np.diff(self.bounds).ravel()[:p] / 4.0
        steps = np.zeros((len(sizes), max(sizes), max(sizes)))
        np.fill_diagonal(steps[0], [*(0.05 * np.sqrt(np.diag(self.prior.covariance))), 0.1])
        if len(sizes) > 1:
            rows, columns = np.tril_indices(p)
            mean = [] if self.x_model.mean is not None else list(0.05 * quarter)
            entries = np.where(rows == columns, 0.1, 0.05 * quarter[rows])
            np.fill_diagonal(steps[1], [*mean, *(entries if self.x_model.covariance is None else [])])
        return steps

    def work_shape(self, n_statistics):
        """Of the scratch that a sweep needs."""
        q = len(self.bounds)
        return 4 * q + 8, max(self.n_params, n_statistics, q + 1)

    def start(self, moments, rng):
        """Parameters near the release's, for a chain to start from.

        Parameters
        ----------
        moments : ndarray of shape (p + 2, p + 2)
            Means of the products of (1, x, y), as far as the release tells.
        rng : numpy.random.Generator
        """
        p, width = len(self.bounds) - 1, np.diff(self.bounds).ravel()
        mean, covariance = self.x_model.check(p)
        theta = np.zeros(self.n_params)
        centre = np.clip(moments[0, 1:], *self.bounds.T)
        if mean is not None:
            centre[:p] = mean
        spread = _nearest_covariance(moments[1:, 1:] - np.outer(moments[0, 1:], moments[0, 1:]), width)
        if covariance is not None:
            spread[:p, :p] = covariance
        ridge = np.diag(0.01 * width[:p] ** 2 / 16.0)
        beta = np.linalg.solve(spread[:p, :p] + ridge, spread[:p, p])
        scale = np.sqrt(np.diag(self.prior.covariance))
        low, high = self.prior.mean - 3.0 * scale, self.prior.mean + 3.0 * scale
        theta[1 : p + 1] = np.clip(beta, low[1:], high[1:]) + 0.1 * scale[1:] * rng.standard_normal(p)
        theta[0] = np.clip(centre[p] - centre[:p] @ theta[1 : p + 1], low[0], high[0])
        sigma = width[p] / 8.0 * np.exp(0.5 * rng.standard_normal())
        theta[p + 1] = sigma if self.prior.sigma is None else self.prior.sigma
        theta[p + 2 : 2 * p + 2] = centre[:p]
        theta[2 * p + 2 :] = np.linalg.cholesky(spread[:p, :p])[np.tril_indices(p)]
        return theta

    # --- compiled: records -------------------------------------------------------------------------------------------

    @compiled
    def draw_record(self, rng, theta, records, i):
        p = self.p
        for j in range(p):
            records[i, j] = rng.standard_normal()
        y = theta[0] + theta[p + 1] * rng.standard_normal()
        for j in range(p - 1, -1, -1):  # from below: row j of L needs the normals before it
            x, at = theta[p + 2 + j], 2 * p + 2 + j * (j + 1) // 2
            for r in range(j + 1):
                x += theta[at + r] * records[i, r]
            records[i, j] = x
            y += theta[1 + j] * x
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
        for j in range(p):
            z, at = records[i, j] - theta[p + 2 + j], 2 * p + 2 + j * (j + 1) // 2
            for r in range(j):
                z -= theta[at + r] * records[row, r]
            records[row, j] = z / theta[at + j]

    @compiled
    def set_coefs(self, theta, coefs, predictors):
        """Rows of ``coefs``: the scaled coordinates (x_1, ..., x_p, y), not clamped, in terms of (1, z, e)."""
        p, at = self.p, 2 * self.p + 2
        if predictors:
            for j in range(p):
                coefs[j, 0] = (theta[p + 2 + j] - self.centre[j]) * self.rate[j]
                for r in range(p + 1):
                    coefs[j, 1 + r] = 0.0
                for r in range(j + 1):
                    coefs[j, 1 + r] = theta[at] * self.rate[j]
                    at += 1
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
        """(α, β), then σ², then m, then C, each given the rest: all conjugate."""
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
                matrix[a, b] = sums[a, b] * precision + self.coef_precision[a, b]
            vector[a] = sums[q, a] * precision + self.coef_shift[a]
        draw_normal(rng, matrix, vector, q)
        for a in range(q):
            theta[a] = vector[a]
        if self.knows_sigma == 0.0:
            squares = sums[q, q]
            for a in range(q):
                squares -= 2.0 * theta[a] * sums[q, a]
                for b in range(q):
                    squares += theta[a] * theta[b] * sums[max(a, b), min(a, b)]
            scale = self.sigma_scale + 0.5 * max(squares, 0.0)
            theta[p + 1] = (scale / rng.standard_gamma(self.sigma_shape + 0.5 * n)) ** 0.5
        if self.knows_mean == 0.0:
            update_mean(self, rng, theta, n, sums, matrix, vector, work[2 * q + 2 :])
        if self.knows_covariance == 0.0:
            update_covariance(self, rng, theta, n, sums, matrix, work[2 * q + 2 :])

    # --- compiled: non-centred moves; block 0 is (α, β, log σ), block 1 (m, L with the logs of its diagonal) ----------

    @compiled
    def n_blocks(self):
        return 1 if self.knows_mean > 0.0 and self.knows_covariance > 0.0 else 2

    @compiled
    def block_size(self, block):
        p = self.p
        if block == 0:
            return p + 1 if self.knows_sigma > 0.0 else p + 2
        return (0 if self.knows_mean > 0.0 else p) + (0 if self.knows_covariance > 0.0 else p * (p + 1) // 2)

    @compiled
    def get_block(self, theta, block, v):
        p, at = self.p, 0
        if block == 0:
            for j in range(p + 1):
                v[j] = theta[j]
            v[p + 1] = log(theta[p + 1])
            return
        if self.knows_mean == 0.0:
            for j in range(p):
                v[j] = theta[p + 2 + j]
            at = p
        if self.knows_covariance == 0.0:
            for t in range(p * (p + 1) // 2):
                v[at + t] = theta[2 * p + 2 + t]
            for j in range(p):
                diagonal = j * (j + 3) // 2
                v[at + diagonal] = log(v[at + diagonal])

    @compiled
    def set_block(self, theta, block, v):
        p, at = self.p, 0
        if block == 0:
            for j in range(p + 1):
                theta[j] = v[j]
            if self.knows_sigma == 0.0:
                theta[p + 1] = exp(v[p + 1])
            return
        if self.knows_mean == 0.0:
            for j in range(p):
                theta[p + 2 + j] = v[j]
            at = p
        if self.knows_covariance == 0.0:
            for t in range(p * (p + 1) // 2):
                theta[2 * p + 2 + t] = v[at + t]
            for j in range(p):
                diagonal = 2 * p + 2 + j * (j + 3) // 2
                theta[diagonal] = exp(theta[diagonal])

    @compiled
    def log_prior_block(self, theta, block):
        p, value = self.p, 0.0
        if block == 0:
            for j in range(p + 1):
                for r in range(p + 1):
                    gap = (theta[j] - self.coef_mean[j]) * (theta[r] - self.coef_mean[r])
                    value -= 0.5 * self.coef_precision[j, r] * gap
            if self.knows_sigma == 0.0:  # of log σ
                if not 1e-150 < theta[p + 1] < 1e150:
                    return -inf
                value -= 2.0 * self.sigma_shape * log(theta[p + 1]) + self.sigma_scale / theta[p + 1] ** 2
            return value
        if self.knows_mean == 0.0:
            for j in range(p):
                value -= 0.5 * self.mean_precision[j] * (theta[p + 2 + j] - self.mean_prior[j]) ** 2
        return value if self.knows_covariance > 0.0 else value + log_prior_factor(self, theta)

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
            for j in range(p):
                z, at = records[i, j] - theta[p + 2 + j], 2 * p + 2 + j * (j + 1) // 2
                for r in range(j):
                    z -= theta[at + r] * records[row, r]
                records[row, j] = z / theta[at + j]
            for j in range(p - 1, -1, -1):
                x, at = to[p + 2 + j], 2 * p + 2 + j * (j + 1) // 2
                for r in range(j + 1):
                    x += to[at + r] * records[row, r]
                records[row, j] = x
        for j in range(p):
            y += to[1 + j] * records[row, j]
        records[row, p] = y


@helper
def log_prior_factor(model, theta):
    """Log density of the factor L of C ~ InverseWishart(ν, Ψ), the diagonal in logs.

    That of C is |C|^-(ν+p+1)/2 exp(-tr(Ψ C⁻¹)/2); dC = 2^p Π L_ii^(p-i) dL with i from 0, and L_ii for the logs.
    """
    p, value, first = model.p, 0.0, 2 * model.p + 2
    column = np.empty(p)
    for i in range(p):
        diagonal = theta[first + i * (i + 3) // 2]
        if not 1e-150 < diagonal < 1e150:
            return -inf
        value += (p - i + 1.0 - (model.wishart_dof + p + 1.0)) * log(diagonal)
    for j in range(p):  # Ψ is diagonal: the trace is Σ_j Ψ_jj ‖L⁻¹ e_j‖²
        for i in range(j, p):
            entry = 1.0 if i == j else 0.0
            for r in range(j, i):
                entry -= theta[first + i * (i + 1) // 2 + r] * column[r]
            column[i] = entry / theta[first + i * (i + 3) // 2]
            value -= 0.5 * model.wishart_scale[j] * column[i] * column[i]
    return value


@helper
def update_mean(model, rng, theta, n, sums, matrix, vector, inverse):
    """The predictors' mean given their covariance: precision n C⁻¹ + diag(prior precision)."""
    p, first = model.p, 2 * model.p + 2
    for j in range(p):  # column j of L⁻¹
        for i in range(p):
            inverse[i, j] = 1.0 if i == j else 0.0
            for r in range(j, i):
                inverse[i, j] -= theta[first + i * (i + 1) // 2 + r] * inverse[r, j]
            inverse[i, j] /= theta[first + i * (i + 3) // 2]
    for a in range(p):
        vector[a] = model.mean_precision[a] * model.mean_prior[a]
        for b in range(p):
            entry = 0.0
            for r in range(max(a, b), p):
                entry += inverse[r, a] * inverse[r, b]
            matrix[a, b] = n * entry
            vector[a] += entry * sums[b + 1, 0]
        matrix[a, a] += model.mean_precision[a]
    draw_normal(rng, matrix, vector, p)
    for j in range(p):
        theta[p + 2 + j] = vector[j]


@helper
def update_covariance(model, rng, theta, n, sums, matrix, scratch):
    """The predictors' covariance given their mean: InverseWishart(ν + n, Ψ + Σ (x - m)(x - m)')."""
    p, at = model.p, 2 * model.p + 2
    for a in range(p):
        m_a = theta[p + 2 + a]
        for b in range(a + 1):
            m_b = theta[p + 2 + b]
            matrix[a, b] = sums[a + 1, b + 1] - m_a * sums[b + 1, 0] - m_b * sums[a + 1, 0] + n * m_a * m_b
        matrix[a, a] += model.wishart_scale[a]
    factor(matrix, p)
    draw_inverse_wishart_factor(rng, matrix, p, model.wishart_dof + n, scratch)
    for a in range(p):
        for b in range(a + 1):
            theta[at] = matrix[a, b]
            at += 1


def _nearest_covariance(matrix, width):
    """A positive definite matrix near a noisy covariance: eigenvalues between parts of the bounds' width."""
    unit = width / 4.0
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T) / np.outer(unit, unit))
    values = np.clip(values, 1e-2, 10.0)
    return (vectors * values) @ vectors.T * np.outer(unit, unit)
