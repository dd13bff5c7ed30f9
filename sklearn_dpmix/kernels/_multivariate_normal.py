"""Multivariate normal kernel with a normal-inverse-Wishart base measure: features correlated within a cluster."""

from math import exp, lgamma, log, pi, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import multigammaln

from .._base.compiled import compiled, lower
from .._base.numeric import HALF_LOG_2PI, draw_gamma
from .._base.parameters import is_real
from .._base.restore import require
from .._base.typing import Array
from ._kernel import per_feature
from ._multivariate_steps import MultivariateSteps
from ._normal import NormalKernel


class MultivariateNormalKernel(MultivariateSteps):
    r"""Normal records with a full covariance, N(y | μ, Σ), and N(μ | mean, Σ/mean_precision) · IW(Σ | dof, scale).

    Under Gaussian noise of one scale, records are integrated out (``MixingMeasure``, for any number of records): of two
    or three features without clamping, where a release is normal given its cluster, and of two features that are
    clamped, if the noise is not much narrower than the bounds.  Otherwise g(z | μ, Σ) needs orthant integrals.  Under
    Laplace and Gaussian noise ``"auto"`` then imputes the records and integrates allocations out (``MixingMeasure``
    again, up to 10,000 records of two features and 5000 of three); beyond that each feature is drawn exactly given the
    others (``sampler="imputed"``); ``"neal5"`` works too.

    Parameters
    ----------
    mean : float or array of shape (n_features,), optional
        Centre of the cluster means.  None: m, the mean of the release; if the mechanism has bounds, the mean of N(m,
        s²) truncated to the bounds, with s the standard error of m.  If noise hides m, this is near the centre of the
        bounds.
    mean_precision : float, default=0.1
        λ: a cluster mean has prior covariance Σ/λ.  Positive.
    dof : float, optional
        Degrees of freedom ν > n_features - 1 of the inverse Wishart on Σ.  None: n_features + 5, so that each variance
        has an inverse gamma distribution of shape 3, as with ``NormalKernel``.  ``MixingMeasure`` needs at least
        n_features - 1/2; for fewer, ``"auto"`` imputes the records.
    scale : float or array of shape (n_features, n_features), optional
        Ψ, positive definite, in squared units of the records; the mean of Σ is Ψ/(ν - n_features - 1).  A number s is
        s·I.  None: diagonal, such that a record drawn from the prior has the variances of the release minus those of
        the noise (see ``NormalKernel``, also for what that does to a small sample); this needs ν > n_features + 1.

    References
    ----------
    Gelman et al., "Bayesian Data Analysis", 3rd ed., §3.6; Odell & Feiveson (1966) for the inverse-Wishart draw.

    Examples
    --------
    >>> from sklearn_dpmix.kernels import MultivariateNormalKernel
    >>> MultivariateNormalKernel(mean=0.0, dof=5.0, scale=[[2.0, 0.5], [0.5, 1.0]])
    MultivariateNormalKernel(dof=5.0, mean=0.0, scale=[[2.0, 0.5], [0.5, 1.0]])
    """

    is_product = False
    noised_as = "correlated_normal"
    tilts = frozenset()
    conditional_tilts = NormalKernel.tilts
    _CAN = frozenset({"relative", "predictive", "conditional", "rescaling"})

    def __init__(
        self,
        mean: ArrayLike | None = None,
        mean_precision: ArrayLike = 0.1,
        dof: float | None = None,
        scale: ArrayLike | None = None,
    ) -> None:
        self.mean = mean  # type: ignore[assignment, method-assign]
        self.mean_precision = mean_precision
        self.dof = dof
        self.scale = scale

    def can(self, capability: str) -> bool:
        return capability in self._CAN

    def sizes(self, n_features: int) -> tuple[int, int]:
        # theta: μ, sd, 1/sd, log sd of each feature alone; J = L⁻¹ row by row, Σ = L L'; L; log det J.
        # stats: Σu, Σuu' (lower triangle), u = y - mean; then scratch for a Cholesky factor and a solve
        triangle = n_features * (n_features + 1) // 2
        return 4 * n_features + 2 * triangle + 1, 2 * (n_features + triangle)

    def check_state(self, theta: Array, records: Array) -> None:
        super().check_state(theta, records)
        d = records.shape[2]
        inverse, root = _factors(theta, d)
        diagonal = np.diagonal(inverse, axis1=1, axis2=2)
        require(diagonal > 0, "theta", "has factors that are not positive")
        sd, log_det = theta[:, 1 : 4 * d : 4], theta[:, 4 * d + d * (d + 1)]
        is_same = np.abs(inverse @ root - np.eye(d)).max(axis=(1, 2)) < 1e-6
        is_same &= np.all(np.abs(np.sqrt((root**2).sum(axis=2)) / sd - 1.0) < 1e-6, axis=1)
        is_same &= np.abs(np.log(diagonal).sum(axis=1) - log_det) < 1e-6
        require(is_same, "theta", "has inconsistent columns")

    def noised(self, theta: Array, n_features: int, variance: float) -> Array:
        """θ of records plus normal noise of this variance in each feature: N(μ, Σ + η²I)."""
        d, lower = n_features, np.tril_indices(n_features)
        _, root = _factors(theta, d)
        root = np.linalg.cholesky(root @ root.transpose(0, 2, 1) + variance * np.eye(d))
        sd, log_det = np.sqrt((root**2).sum(axis=2)), -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        alone = np.stack([theta[:, : 4 * d : 4], sd, 1.0 / sd, np.log(sd)], axis=2).reshape(len(theta), -1)
        return np.column_stack([alone, np.linalg.inv(root)[:, *lower], root[:, *lower], log_det])

    def resolve(self, release: Any) -> Self:
        if self.mean is not None and self.scale is not None and self.dof is not None:
            return self
        centre, variance = release.typical_moments()
        d = len(centre)
        dof = d + 5.0 if self.dof is None else _number("dof", self.dof, d - 1.0)
        precision = _number("mean_precision", self.mean_precision, 0.0)
        if self.scale is None and dof <= d + 1:
            raise ValueError(f"dof must be greater than n_features + 1 = {d + 1} when scale is None, got {self.dof!r}")
        spread = self._default_scale(variance, 0.5 * (dof - d + 1.0), precision, release)  # of IG(Σ_jj | ., Ψ_jj / 2)
        return type(self)(
            mean=centre if self.mean is None else self.mean,  # type: ignore[arg-type]
            mean_precision=self.mean_precision,
            dof=dof,
            scale=2.0 * np.diag(spread) if self.scale is None else self.scale,
        )

    def margin(self, j: int, n_features: int) -> tuple[NormalKernel, slice]:
        """Σ_jj is IG((dof - n_features + 1)/2, Ψ_jj/2): feature j alone has the base measure of ``NormalKernel``."""
        alone = NormalKernel(
            mean=per_feature("mean", self.mean, n_features)[j].item(),
            mean_precision=self.mean_precision,
            shape=0.5 * (_number("dof", self.dof, n_features - 1.0) - n_features + 1.0),
            scale=0.5 * _matrix(self.scale, n_features)[j, j].item(),
        )
        return alone, slice(4 * j, 4 * (j + 1))

    def _lower(self, *, n_features, **context):
        d = n_features
        scale = _matrix(self.scale, d)
        root = np.linalg.cholesky(scale)
        fields = {
            "n_features": d,
            "prior_mean": per_feature("mean", self.mean, d),
            "precision": _number("mean_precision", self.mean_precision, 0.0),
            "dof": _number("dof", self.dof, d - 1.0),
            "prior_scale": scale[np.tril_indices(d)],
            "prior_root": np.linalg.inv(root)[np.tril_indices(d)],
            "at_factor": 4 * d,
            "at_root": 4 * d + d * (d + 1) // 2,
            "at_log_det": 4 * d + d * (d + 1),
            "at_scratch": d + d * (d + 1) // 2,
        }
        dof, precision = fields["dof"], fields["precision"]
        constant = dof * np.log(np.diag(root)).sum() - 0.5 * dof * d * log(2.0) - multigammaln(0.5 * dof, d)
        fields["log_constant"] = float(constant + d * log(2.0) + 0.5 * d * log(precision / (2.0 * pi)))
        return lower(type(self), fields)

    # --- base measure and conjugate update ---------------------------------------------------------------------------

    @compiled
    def add_record(self, stats, k, records, i, a, sign):
        at = self.n_features
        for j in range(self.n_features):
            u = records[i, a, j] - self.prior_mean[j]
            stats[k, j] += sign * u
            for m in range(j + 1):
                stats[k, at] += sign * u * (records[i, a, m] - self.prior_mean[m])
                at += 1

    @compiled
    def posterior_root(self, stats, k, n):
        """Cholesky factor C of Ψ_n = Ψ + Σuu' - s s'/(λ + n), s = Σu, into the scratch columns of ``stats[k]``."""
        d, at, first = self.n_features, self.at_scratch, self.at_scratch
        for j in range(d):
            row = at
            other = first
            for m in range(j + 1):
                value = self.prior_scale[at - first] + stats[k, d + at - first]
                value -= stats[k, j] * stats[k, m] / (self.precision + n)
                for r in range(m):
                    value -= stats[k, row + r] * stats[k, other + r]
                if m < j:
                    stats[k, at] = value / stats[k, other + m]
                else:  # Ψ_n is at least Ψ: anything below a part of that is rounding
                    stats[k, at] = sqrt(max(value, 1e-12 * self.prior_scale[at - first]))
                at += 1
                other += m + 1

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        """Σ⁻¹ = J'J, J = B C⁻¹, with B of the reversed Bartlett decomposition; μ given Σ."""
        self.posterior_root(stats, k, n)
        d, first = self.n_features, self.at_scratch
        for j in range(d):  # C⁻¹, column by column, into the place of J
            for i in range(j, d):
                value = 1.0 if i == j else 0.0
                for r in range(j, i):
                    value -= stats[k, first + i * (i + 1) // 2 + r] * theta[k, self.at_factor + r * (r + 1) // 2 + j]
                value /= stats[k, first + i * (i + 1) // 2 + i]
                theta[k, self.at_factor + i * (i + 1) // 2 + j] = value
        precision = self.precision + n
        for j in range(d):
            theta[k, 4 * j] = self.prior_mean[j] + stats[k, j] / precision
        self.draw_factor(rng, theta, k, self.dof + n, precision)

    @compiled
    def draw_prior(self, rng, theta, k):
        for t in range(self.at_scratch - self.n_features):
            theta[k, self.at_factor + t] = self.prior_root[t]
        for j in range(self.n_features):
            theta[k, 4 * j] = self.prior_mean[j]
        self.draw_factor(rng, theta, k, self.dof, self.precision)

    @compiled
    def draw_factor(self, rng, theta, k, dof, precision):
        """Σ and μ, from C⁻¹ in place of J and the centre in place of μ.

        B is lower triangular with B_ii² ~ χ²(ν - d + 1 + i), i from 0, and standard normals below: B'B is Wishart.
        """
        d, at, log_det = self.n_features, self.at_factor, 0.0
        for i in range(d - 1, -1, -1):  # from below: row i of J needs the rows of C⁻¹ above it
            row = at + i * (i + 1) // 2
            b = sqrt(2.0 * draw_gamma(rng, 0.5 * (dof - d + 1.0 + i)))
            for m in range(i + 1):
                theta[k, row + m] *= b
            for r in range(i):
                b = rng.standard_normal()
                for m in range(r + 1):
                    theta[k, row + m] += b * theta[k, at + r * (r + 1) // 2 + m]
            log_det += log(theta[k, row + i])
        theta[k, self.at_log_det] = log_det
        for j in range(d):  # L = J⁻¹
            for i in range(j, d):
                value = 1.0 if i == j else 0.0
                for r in range(j, i):
                    value -= theta[k, at + i * (i + 1) // 2 + r] * theta[k, self.at_root + r * (r + 1) // 2 + j]
                theta[k, self.at_root + i * (i + 1) // 2 + j] = value / theta[k, at + i * (i + 1) // 2 + i]
        for j in range(d):  # e_j for now, in place of 1/sd
            theta[k, 4 * j + 2] = rng.standard_normal()
        for j in range(d - 1, -1, -1):
            shift, variance = 0.0, 0.0
            for m in range(j + 1):
                root = theta[k, self.at_root + j * (j + 1) // 2 + m]
                shift += root * theta[k, 4 * m + 2]
                variance += root * root
            self.put_params(theta, k, j, theta[k, 4 * j] + shift / sqrt(precision), sqrt(variance))

    @compiled
    def log_predictive_record(self, stats, k, n, records, i):
        """log p(y_i | the n records in ``stats[k]``): a multivariate Student t with ν_n - d + 1 degrees of freedom."""
        self.posterior_root(stats, k, n)
        d, at = self.n_features, self.at_scratch
        solved = at + d * (d + 1) // 2
        precision, dof, log_det, distance = self.precision + n, self.dof + n, 0.0, 0.0
        for j in range(d):
            value = records[i, 0, j] - self.prior_mean[j] - stats[k, j] / precision
            for r in range(j):
                value -= stats[k, at] * stats[k, solved + r]
                at += 1
            log_det += log(stats[k, at])
            stats[k, solved + j] = value / stats[k, at]
            distance += stats[k, solved + j] ** 2
            at += 1
        return self.log_student(distance, log_det, precision, dof)

    @compiled
    def log_student(self, distance, log_det, precision, dof):
        """Log density of y given λ_n, ν_n, log det C and the squared length of C⁻¹(y - centre), CC' = Ψ_n."""
        d, inflation = self.n_features, (precision + 1.0) / precision
        return (
            lgamma(0.5 * (dof + 1.0))
            - lgamma(0.5 * (dof + 1.0 - d))
            - 0.5 * d * log(pi * inflation)
            - log_det
            - 0.5 * (dof + 1.0) * log(1.0 + distance / inflation)
        )

    @compiled
    def log_base_record(self, X, i):
        distance, log_det, at = 0.0, 0.0, 0
        for j in range(self.n_features):
            e = 0.0
            for m in range(j + 1):
                e += self.prior_root[at] * (X[i, m] - self.prior_mean[m])
                at += 1
            distance += e * e
            log_det -= log(self.prior_root[at - 1])
        return self.log_student(distance, log_det, self.precision, self.dof)

    # --- the record given θ; what NormalKernel says about a feature holds for its marginal distribution here ----------

    @compiled
    def log_relative_record(self, theta, k, records, i):
        total, at = 0.0, self.at_factor
        for j in range(self.n_features):
            e = 0.0
            for m in range(j + 1):
                e += theta[k, at] * (records[i, 0, m] - theta[k, 4 * m])
                at += 1
            total -= 0.5 * e * e
        return total

    @compiled
    def peak_record(self, theta, k):
        return exp(theta[k, self.at_log_det] - self.n_features * HALF_LOG_2PI)

    @compiled
    def log_record(self, theta, k, records, i):
        constant = theta[k, self.at_log_det] - self.n_features * HALF_LOG_2PI
        return constant + self.log_relative_record(theta, k, records, i)

    @compiled
    def log_marginal_record(self, channel, Z, i, theta, k):
        """Only without noise, where a release is its record."""
        total, at = theta[k, self.at_log_det] - self.n_features * HALF_LOG_2PI, self.at_factor
        for j in range(self.n_features):
            e = 0.0
            for m in range(j + 1):
                e += theta[k, at] * (Z[i, m] - theta[k, 4 * m])
                at += 1
            total -= 0.5 * e * e
        return total

    @compiled
    def log_points(self, theta, k, x, size, values):
        for p in range(size):
            values[p] += theta[k, self.at_log_det] - self.n_features * HALF_LOG_2PI
        for j in range(self.n_features):
            at = self.at_factor + j * (j + 1) // 2
            for p in range(size):
                e = 0.0
                for m in range(j + 1):
                    e += theta[k, at + m] * (x[m, p] - theta[k, 4 * m])
                values[p] -= 0.5 * e * e

    @compiled
    def draw_record(self, rng, theta, k, records, i, a):
        for j in range(self.n_features):
            records[i, a, j] = rng.standard_normal()
        for j in range(self.n_features - 1, -1, -1):  # from below: row j of L needs the residuals before it
            value, at = theta[k, 4 * j], self.at_root + j * (j + 1) // 2
            for m in range(j + 1):
                value += theta[k, at + m] * records[i, a, m]
            records[i, a, j] = value

    @compiled
    def propose_record(self, rng, channel, Z, i, theta, k, records, row, a):
        self.draw_record(rng, theta, k, records, row, a)

    @compiled
    def condition(self, theta, k, records, i, j, to):
        """Write the normal distribution of feature j given the others of record i into its place in ``theta[to]``.

        With P = Σ⁻¹ = J'J it has variance 1/P_jj and mean y_j - (P (y - μ))_j / P_jj.
        """
        precision, slope = 0.0, 0.0
        for r in range(j, self.n_features):
            at, e = self.at_factor + r * (r + 1) // 2, 0.0
            for m in range(r + 1):
                e += theta[k, at + m] * (records[i, 0, m] - theta[k, 4 * m])
            slope += theta[k, at + j] * e
            precision += theta[k, at + j] ** 2
        self.put_params(theta, to, j, records[i, 0, j] - slope / precision, 1.0 / sqrt(precision))


def _factors(theta, d):
    """J and L of each row of θ, (2, rows, d, d)."""
    found = np.zeros((2, len(theta), d, d))
    found[..., *np.tril_indices(d)] = np.stack(np.split(theta[:, 4 * d : 4 * d + d * (d + 1)], 2, axis=1))
    return found


def _number(name, value, low):
    """Return a parameter as a float greater than ``low``, or raise ValueError."""
    if not is_real(value) or not low < value < np.inf:
        raise ValueError(f"{name} must be a finite number greater than {low:g}, got {value!r}")
    return float(value)


def _matrix(value, d):
    """Return the scale as a positive definite (d, d) array, or raise ValueError."""
    try:
        matrix = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        matrix = np.array(np.nan)
    if matrix.ndim == 0:
        matrix = float(matrix) * np.eye(d)
    if matrix.shape != (d, d):
        raise ValueError(f"scale must be a number or of shape ({d}, {d}) for {d} features, got shape {matrix.shape}")
    rounding = 1e-12 * np.abs(matrix).max(initial=0.0)
    is_symmetric = np.all(np.isfinite(matrix)) and np.all(np.abs(matrix - matrix.T) <= rounding)
    if not is_symmetric or isinstance(value, bool) or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(f"scale must be a symmetric positive definite matrix or a positive number, got {value!r}")
    return matrix
