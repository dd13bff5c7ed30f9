"""Normal predictors of a regression, x ~ N(m, C): what is known about them, and their part of data augmentation.

The flat parameters, after the p + 2 of the regression itself, are m_1..m_p, L_11, L_21, L_22, ... with C = LL'.
"""

from math import exp, inf, log

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._base.compiled import compiled, helper, lower
from .._base.linear import draw_inverse_wishart_factor, draw_normal, factor
from .._base.parameters import numbers
from .._base.restore import require
from .._base.typing import Floats
from ._predictor_law import PredictorLaw
from ._regression_prior import centre_and_half


class GaussianPredictors(BaseEstimator):
    """Model of a regression's predictors, x ~ N(mean, covariance), inferred from the release alone.

    Parameters
    ----------
    mean : array-like of shape (n_features,), optional
        None gives it the prior N(c, diag(w²/4)), where c has the centres and w the widths of ``x_bounds``.
    covariance : array-like of shape (n_features, n_features), optional
        None gives it the prior InverseWishart(p + 2, diag(w²/16)), whose mean is that matrix.

    Examples
    --------
    >>> from sklearn_dpmix.models import GaussianPredictors
    >>> GaussianPredictors(mean=[0.0, 1.0])
    GaussianPredictors(mean=[0.0, 1.0])
    """

    #: The draws of a fit that determine the distribution of new predictors.
    _draw_names = ("x_mean", "x_covariance")

    def __init__(self, mean: ArrayLike | None = None, covariance: ArrayLike | None = None) -> None:
        self.mean = mean
        self.covariance = covariance

    def check(self, n_features: int) -> tuple[Floats | None, Floats | None]:
        """Return (mean or None, covariance or None) as arrays; raise ValueError if one is wrong."""
        mean = None if self.mean is None else _array("mean", self.mean, (n_features,))
        covariance = None if self.covariance is None else _array("covariance", self.covariance, (n_features,) * 2)
        if covariance is not None:
            is_symmetric = np.allclose(covariance, covariance.T, rtol=1e-10, atol=0)
            if not is_symmetric or np.linalg.eigvalsh(covariance)[0] <= 0:
                raise ValueError(
                    "GaussianPredictors: covariance must be symmetric and positive definite, got "
                    f"covariance={self.covariance!r}"
                )
        return mean, covariance

    def scaled(self, bounds: Floats) -> "GaussianPredictors":
        """Return the model in coordinates in which ``bounds``, of shape (p + 1, 2), the response last, are [-1, 1]."""
        mean, covariance = self.check(len(bounds) - 1)
        centre, half = centre_and_half(bounds[:-1])
        mean = None if mean is None else (mean - centre) / half
        return GaussianPredictors(mean, None if covariance is None else covariance / np.outer(half, half))

    def _law(self, bounds: Floats) -> "NormalLaw":
        """Return the component of compiled code, for ``bounds`` of shape (p + 1, 2)."""
        return NormalLaw(bounds[:-1], *self.check(len(bounds) - 1))

    def _draw(self, rng: np.random.Generator, draw: dict[str, Floats], n: int, bounds: Floats) -> Floats:
        """Return the predictors of n new records under one posterior draw of the quantities in ``_draw_names``."""
        return rng.multivariate_normal(draw["x_mean"], draw["x_covariance"], size=n, method="cholesky")


class NormalLaw(PredictorLaw):
    """Normal predictors as data augmentation sees them.

    Parameters
    ----------
    bounds : ndarray of shape (p, 2)
    mean, covariance : ndarray, or None if it is not known
    """

    def __init__(self, bounds, mean, covariance):
        self.bounds = bounds
        self.mean = mean
        self.covariance = covariance

    def _lower(self, **context):
        lo, hi = self.bounds.T
        p, width = len(lo), hi - lo
        fields = {
            "p": p,
            "centre": 0.5 * (lo + hi),
            "rate": 2.0 / width,
            "knows_mean": float(self.mean is not None),
            "knows_covariance": float(self.covariance is not None),
            "mean_prior": 0.5 * (lo + hi),
            "mean_precision": 4.0 / width**2,
            "wishart_dof": float(p + 2),
            "wishart_scale": width**2 / 16.0,
        }
        return lower(type(self), fields)

    @property
    def n_params(self):
        p = len(self.bounds)
        return p + p * (p + 1) // 2

    @property
    def size(self):
        p = len(self.bounds)
        return p * (self.mean is None) + p * (p + 1) // 2 * (self.covariance is None)

    @property
    def monitored(self):
        return ("x_mean",) if self.mean is None else ()

    def first_steps(self):
        p, quarter = len(self.bounds), np.diff(self.bounds).ravel() / 4.0
        rows, columns = np.tril_indices(p)
        mean = [] if self.mean is not None else list(0.05 * quarter)
        entries = np.where(rows == columns, 0.1, 0.05 * quarter[rows])
        return [*mean, *(entries if self.covariance is None else [])]

    def known(self, centre, spread):
        p = len(self.bounds)
        if self.mean is not None:
            centre[:p] = self.mean
        if self.covariance is not None:
            spread[:p, :p] = self.covariance

    def start(self, centre, spread, rng):
        return np.concatenate([centre, np.linalg.cholesky(spread)[np.tril_indices(len(centre))]])

    def check(self, theta):
        p = len(self.bounds)
        i = np.arange(p)
        require(theta[:, p + i * (i + 3) // 2] > 0, "theta", "has standard deviations that are not positive")

    def draws(self, theta, bounds):
        p, (centre, half) = len(bounds), centre_and_half(bounds)
        root = np.zeros((*theta.shape[:-1], p, p))
        root[..., *np.tril_indices(p)] = theta[..., p:]
        root *= half[:, None]
        return {"x_mean": centre + half * theta[..., :p], "x_covariance": root @ np.swapaxes(root, -1, -2)}

    # --- compiled ----------------------------------------------------------------------------------------------------

    @compiled
    def draw(self, rng, theta, records, i):
        p = self.p
        for j in range(p):
            records[i, j] = rng.standard_normal()
        set_predictors(self, theta, records, i)

    @compiled
    def update(self, rng, theta, records, n, sums, matrix, vector, scratch):
        """m, then C, each given the rest: both conjugate."""
        if self.knows_mean == 0.0:
            update_mean(self, rng, theta, n, sums, matrix, vector, scratch)
        if self.knows_covariance == 0.0:
            update_covariance(self, rng, theta, n, sums, matrix, scratch)

    @compiled
    def standardise(self, theta, records, i, row):
        """z = L⁻¹(x - m)."""
        p = self.p
        for j in range(p):
            z, at = records[i, j] - theta[p + 2 + j], 2 * p + 2 + j * (j + 1) // 2
            for r in range(j):
                z -= theta[at + r] * records[row, r]
            records[row, j] = z / theta[at + j]

    @compiled
    def set_coefs(self, theta, coefs):
        p, at = self.p, 2 * self.p + 2
        for j in range(p):
            coefs[j, 0] = (theta[p + 2 + j] - self.centre[j]) * self.rate[j]
            for r in range(p + 1):
                coefs[j, 1 + r] = 0.0
            for r in range(j + 1):
                coefs[j, 1 + r] = theta[at] * self.rate[j]
                at += 1

    # --- compiled: the block is (m, L with the logs of its diagonal) -------------------------------------------------

    @compiled
    def n_blocks(self):
        return 0 if self.knows_mean > 0.0 and self.knows_covariance > 0.0 else 1

    @compiled
    def block_size(self):
        p = self.p
        return (0 if self.knows_mean > 0.0 else p) + (0 if self.knows_covariance > 0.0 else p * (p + 1) // 2)

    @compiled
    def get_block(self, theta, v):
        p, at = self.p, 0
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
    def set_block(self, theta, v):
        p, at = self.p, 0
        if self.knows_mean == 0.0:
            for j in range(p):
                theta[p + 2 + j] = v[j]
            at = p
        if self.knows_covariance == 0.0:
            for t in range(p * (p + 1) // 2):
                theta[2 * p + 2 + t] = v[at + t]
            for j in range(p):
                diagonal = 2 * p + 2 + j * (j + 3) // 2
                theta[diagonal] = exp(min(theta[diagonal], 400.0))  # beyond, the prior is 0

    @compiled
    def log_prior(self, theta):
        p, value = self.p, 0.0
        if self.knows_mean == 0.0:
            for j in range(p):
                value -= 0.5 * self.mean_precision[j] * (theta[p + 2 + j] - self.mean_prior[j]) ** 2
        return value if self.knows_covariance > 0.0 else value + log_prior_factor(self, theta)

    @compiled
    def set_force(self, theta, by, force):
        p, at = self.p, 0
        if self.knows_mean == 0.0:
            for j in range(p):
                gap = theta[p + 2 + j] - self.mean_prior[j]
                force[j] = self.rate[j] * by[j, 0] - self.mean_precision[j] * gap
            at = p
        if self.knows_covariance == 0.0:
            set_force_of_factor(self, theta, by, force[at:])

    @compiled
    def takes_any_map(self):
        return self.knows_mean == 0.0 and self.knows_covariance == 0.0

    @compiled
    def map_theta(self, theta, image, to):
        p, first = self.p, 2 * self.p + 2
        for j in range(p):
            to[p + 2 + j] = image[1 + j, 0]
            for r in range(j + 1):
                to[p + 2 + j] += image[1 + j, 1 + r] * theta[p + 2 + r]
                entry = 0.0
                for s in range(r, j + 1):
                    entry += image[1 + j, 1 + s] * theta[first + s * (s + 1) // 2 + r]
                to[first + j * (j + 1) // 2 + r] = entry

    @compiled
    def carry(self, theta, to, records, i, row):
        self.standardise(theta, records, i, row)
        set_predictors(self, to, records, row)


@helper
def set_predictors(law, theta, records, i):
    """Put x = m + Lz where row i has z."""
    p = law.p
    for j in range(p - 1, -1, -1):  # from below: row j of L needs the normals before it
        x, at = theta[p + 2 + j], 2 * p + 2 + j * (j + 1) // 2
        for r in range(j + 1):
            x += theta[at + r] * records[i, r]
        records[i, j] = x


@helper
def set_inverse_column(theta, first, p, j, column):
    """Column j of L⁻¹, from its diagonal on; L is packed by rows in θ, from place ``first`` on."""
    for i in range(j, p):
        entry = 1.0 if i == j else 0.0
        for r in range(j, i):
            entry -= theta[first + i * (i + 1) // 2 + r] * column[r]
        column[i] = entry / theta[first + i * (i + 3) // 2]


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
        set_inverse_column(theta, first, p, j, column)
        for i in range(j, p):
            value -= 0.5 * model.wishart_scale[j] * column[i] * column[i]
    return value


@helper
def set_force_of_factor(model, theta, by, force):
    """Gradient in the factor L of C, the diagonal in logs; ``by`` has that of the noise by the scaled x.

    With U = L⁻¹, that of -tr(Ψ C⁻¹)/2 is the lower triangle of U'(U Ψ U').
    """
    p, first = model.p, 2 * model.p + 2
    inverse, middle = np.zeros((p, p)), np.zeros((p, p))
    for j in range(p):
        set_inverse_column(theta, first, p, j, inverse[:, j])
    for i in range(p):
        for b in range(i + 1):
            for j in range(b + 1):
                middle[i, b] += inverse[i, j] * model.wishart_scale[j] * inverse[b, j]
            middle[b, i] = middle[i, b]
    for a in range(p):
        for b in range(a + 1):
            at = a * (a + 1) // 2 + b
            value = model.rate[a] * by[a, 1 + b]
            for i in range(a, p):
                value += inverse[i, a] * middle[i, b]
            force[at] = value
        force[at] = force[at] * theta[first + at] + p - a + 1.0 - (model.wishart_dof + p + 1.0)


@helper
def update_mean(model, rng, theta, n, sums, matrix, vector, inverse):
    """The predictors' mean given their covariance: precision n C⁻¹ + diag(prior precision)."""
    p, first = model.p, 2 * model.p + 2
    for j in range(p):
        set_inverse_column(theta, first, p, j, inverse[:, j])
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


def _array(name, value, shape):
    array = numbers(value)
    if array is not None and array.size == 1 and max(shape) == 1:  # a number is enough for one predictor
        array = array.reshape(shape)
    if array is None or array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"GaussianPredictors: {name} must be finite and of shape {shape}, got {name}={value!r}")
    return array
