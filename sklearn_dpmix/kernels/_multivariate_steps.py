"""Steps of correlated normals, in μ, log L_ii and L_ij/L_ii, which do not depend on the units of features."""

from math import exp, inf, log, sqrt

from .._base.compiled import compiled
from .._base.numeric import HALF_LOG_2PI
from ._normal import NormalKernel


class MultivariateSteps(NormalKernel):
    """What samplers need from :class:`MultivariateNormalKernel` for steps of a cluster, with or without its records."""

    @compiled
    def prior_spread(self, j):
        """A typical distance between the means of two clusters."""
        return sqrt(self.prior_scale[j * (j + 3) // 2] / (self.precision * (self.dof - self.n_features + 1.0)))

    @compiled
    def complete(self, theta, k):
        """Fill in what follows from μ and L: J = L⁻¹, log det J, and each feature's standard deviation."""
        log_det = 0.0
        for i in range(self.n_features):
            row, variance = self.at_root + i * (i + 1) // 2, 0.0
            for j in range(i + 1):
                value = 1.0 if i == j else 0.0
                for r in range(j, i):
                    value -= theta[k, row + r] * theta[k, self.at_factor + r * (r + 1) // 2 + j]
                theta[k, self.at_factor + i * (i + 1) // 2 + j] = value / theta[k, row + i]
                variance += theta[k, row + j] ** 2
            log_det -= log(theta[k, row + i])
            self.put_params(theta, k, i, theta[k, 4 * i], sqrt(variance))
        theta[k, self.at_log_det] = log_det

    @compiled
    def perturb_cluster(self, rng, theta, k, to, mean_step, scale_step):
        for i in range(self.n_features):
            row = self.at_root + i * (i + 1) // 2
            theta[to, 4 * i] = theta[k, 4 * i] + mean_step * self.prior_spread(i) * rng.standard_normal()
            diagonal = theta[k, row + i] * exp(scale_step * rng.standard_normal())
            for j in range(i):
                ratio = theta[k, row + j] / theta[k, row + i] + scale_step * rng.standard_normal()
                theta[to, row + j] = diagonal * ratio
            theta[to, row + i] = diagonal
        self.complete(theta, to)

    @compiled
    def log_prior_cluster(self, theta, k):
        """Log density of G0: a constant - (ν + 1) log det L - tr(J Ψ J')/2 - λ e'e/2, J = L⁻¹ and e = J (μ - mean)."""
        value = self.log_constant + (self.dof + 1.0) * theta[k, self.at_log_det]
        for i in range(self.n_features):
            row, e, spread = self.at_factor + i * (i + 1) // 2, 0.0, 0.0
            for j in range(i + 1):
                e += theta[k, row + j] * (theta[k, 4 * j] - self.prior_mean[j])
                for m in range(j + 1):
                    twice = 1.0 if m == j else 2.0
                    spread += twice * theta[k, row + j] * theta[k, row + m] * self.prior_scale[j * (j + 1) // 2 + m]
            value -= 0.5 * (spread + self.precision * e * e)
        return value

    @compiled
    def log_prior_change(self, theta, k, to):
        change = self.log_prior_cluster(theta, to) - self.log_prior_cluster(theta, k)
        return change if change > -1e300 else -inf  # NaN if a step went beyond the range of numbers

    @compiled
    def log_near_ratio(self, theta, k, to, step):
        value, log_density = log(step) + HALF_LOG_2PI, 0.0
        for i in range(self.n_features):
            row, spread = self.at_root + i * (i + 1) // 2, step * self.prior_spread(i)
            u, v = (theta[to, 4 * i] - theta[k, 4 * i]) / spread, log(theta[to, row + i] / theta[k, row + i]) / step
            log_density -= 0.5 * (u * u + v * v) + log(spread) + HALF_LOG_2PI + value
            for j in range(i):
                u = (theta[to, row + j] / theta[to, row + i] - theta[k, row + j] / theta[k, row + i]) / step
                log_density -= 0.5 * u * u + value
        return self.log_prior_cluster(theta, to) - log_density

    @compiled
    def carried(self, theta, k, to, records, i, j):
        """Feature j of record i under parameters ``to``, with its residuals e = J (y - μ) kept."""
        value = theta[to, 4 * j]
        for r in range(j + 1):
            row, e = self.at_factor + r * (r + 1) // 2, 0.0
            for m in range(r + 1):
                e += theta[k, row + m] * (records[i, 0, m] - theta[k, 4 * m])
            value += theta[to, self.at_root + j * (j + 1) // 2 + r] * e
        return value

    @compiled
    def log_weight_change(self, channel, Z, i, theta, k, to, records):
        gain = 0.0
        for j in range(self.n_features):
            gain += channel.log_weight(self, Z, i, j, theta, to, self.carried(theta, k, to, records, i, j))
            gain -= channel.log_weight(self, Z, i, j, theta, k, records[i, 0, j])
        return gain

    @compiled
    def carry_record(self, theta, k, to, records, i):
        for j in range(self.n_features - 1, -1, -1):  # a feature needs the earlier ones as they were
            records[i, 0, j] = self.carried(theta, k, to, records, i, j)

    @compiled
    def rescale(self, theta, k, to, j, shift, log_spread):
        """Write cluster k with feature j shifted, and spread about the prior's centre, into ``theta[to]``."""
        spread, row = exp(log_spread), self.at_root + j * (j + 1) // 2
        for p in range(theta.shape[1]):
            theta[to, p] = theta[k, p]
        theta[to, 4 * j] = self.prior_mean[j] + shift + spread * (theta[k, 4 * j] - self.prior_mean[j])
        for m in range(j + 1):
            theta[to, row + m] *= spread
        self.complete(theta, to)
