"""Multivariate normal kernels with one plausible mistake each, which the checks must reject."""

from math import inf, log, sqrt

from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.kernels import MultivariateNormalKernel


class ConditionalOfMarginalVariance(MultivariateNormalKernel):
    """A feature given the others has its marginal variance Σ_jj in place of 1/P_jj."""

    right = MultivariateNormalKernel.condition

    @compiled
    def condition(self, theta, k, records, i, j, to):
        self.right(theta, k, records, i, j, to)
        self.put_params(theta, to, j, theta[to, 4 * j], theta[k, 4 * j + 1])


class ConditionalOfTheWrongSide(MultivariateNormalKernel):
    """The mean of a feature given the others moves against their deviations: + (P e)_j / P_jj."""

    right = MultivariateNormalKernel.condition

    @compiled
    def condition(self, theta, k, records, i, j, to):
        self.right(theta, k, records, i, j, to)
        self.put_params(theta, to, j, 2.0 * theta[k, 4 * j] - theta[to, 4 * j], theta[to, 4 * j + 1])


class FactorByParts(MultivariateNormalKernel):
    """Not broken: the draw of (μ, Σ) written once more, with Σ⁻¹ = J'J and μ = centre + L e/√λ, for two twins below."""

    @compiled
    def degrees(self, dof, i):
        return dof - self.n_features + 1.0 + i

    @compiled
    def below(self, rng):
        return rng.standard_normal()

    @compiled
    def draw_factor(self, rng, theta, k, dof, precision):
        d, at, root, log_det = self.n_features, self.at_factor, self.at_root, 0.0
        for i in range(d - 1, -1, -1):
            row = at + i * (i + 1) // 2
            b = sqrt(2.0 * rng.standard_gamma(0.5 * self.degrees(dof, i)))
            for m in range(i + 1):
                theta[k, row + m] *= b
            for r in range(i):
                b = self.below(rng)
                for m in range(r + 1):
                    theta[k, row + m] += b * theta[k, at + r * (r + 1) // 2 + m]
            log_det += log(theta[k, row + i])
        theta[k, self.at_log_det] = log_det
        for i in range(d):
            for j in range(i + 1):
                value = 1.0 if i == j else 0.0
                for r in range(j, i):
                    value -= theta[k, at + i * (i + 1) // 2 + r] * theta[k, root + r * (r + 1) // 2 + j]
                theta[k, root + i * (i + 1) // 2 + j] = value / theta[k, at + i * (i + 1) // 2 + i]
        for j in range(d):
            theta[k, 4 * j + 2] = rng.standard_normal()
        for j in range(d - 1, -1, -1):
            shift, variance = 0.0, 0.0
            for m in range(j + 1):
                shift += theta[k, root + j * (j + 1) // 2 + m] * theta[k, 4 * m + 2]
                variance += theta[k, root + j * (j + 1) // 2 + m] ** 2
            self.put_params(theta, k, j, theta[k, 4 * j] + shift / sqrt(precision), sqrt(variance))


class BartlettNotReversed(FactorByParts):
    """χ² of ν - i degrees of freedom in row i, as if B B' were the Wishart matrix."""

    @compiled
    def degrees(self, dof, i):
        return dof - i


class BartlettWithoutNormals(FactorByParts):
    """The factor's entries below the diagonal are forgotten."""

    @compiled
    def below(self, rng):
        return 0.0 * rng.standard_normal()


class MeanPrecisionForgotten(MultivariateNormalKernel):
    """A cluster's mean has covariance Σ and not Σ/(λ + n)."""

    right = MultivariateNormalKernel.draw_factor

    @compiled
    def draw_factor(self, rng, theta, k, dof, precision):
        self.right(rng, theta, k, dof, 1.0)


class MeanOfIndependentFeatures(MultivariateNormalKernel):
    """A cluster's mean has Σ's variances and no correlation."""

    right = MultivariateNormalKernel.draw_factor

    @compiled
    def draw_factor(self, rng, theta, k, dof, precision):
        self.right(rng, theta, k, dof, inf)  # leaves the centre in the place of μ
        for j in range(self.n_features):
            sd = theta[k, 4 * j + 1]
            self.put_params(theta, k, j, theta[k, 4 * j] + sd * rng.standard_normal() / sqrt(precision), sd)


class UpdateForgetsTheMean(MultivariateNormalKernel):
    """Ψ_n = Ψ + Σuu', without s s'/(λ + n)."""

    right = MultivariateNormalKernel.posterior_root

    @compiled
    def posterior_root(self, stats, k, n):
        self.right(stats, k, inf)


class ProductsOfFeaturesForgotten(MultivariateNormalKernel):
    """A record's Σuu' gets its squares and no products of two features."""

    @compiled
    def add_record(self, stats, k, records, i, a, sign):
        for j in range(self.n_features):
            u = records[i, a, j] - self.prior_mean[j]
            stats[k, j] += sign * u
            stats[k, self.n_features + j * (j + 3) // 2] += sign * u * u


class ProposalOfMarginals(MultivariateNormalKernel):
    """Private Neal 5 proposes the features from their marginal laws."""

    @compiled
    def propose_record(self, rng, channel, Z, i, theta, k, records, row, a):
        for j in range(self.n_features):
            records[row, a, j] = theta[k, 4 * j] + theta[k, 4 * j + 1] * rng.standard_normal()


class PredictiveOfOneMoreDegree(MultivariateNormalKernel):
    """The Student t with ν_n + 1 in place of ν_n."""

    right = MultivariateNormalKernel.log_student

    @compiled
    def log_student(self, distance, log_det, precision, dof):
        return self.right(distance, log_det, precision, dof + 1.0)


class PredictiveOfAKnownMean(MultivariateNormalKernel):
    """The Student t forgets that the cluster's mean is uncertain: no (λ_n + 1)/λ_n."""

    right = MultivariateNormalKernel.log_student

    @compiled
    def log_student(self, distance, log_det, precision, dof):
        return self.right(distance, log_det, 1e300, dof)  # (λ + 1)/λ = 1
