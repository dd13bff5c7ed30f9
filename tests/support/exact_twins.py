"""Twins of samplers, kernels, mixings and channels that ``test_exact`` must reject: one plausible mistake each."""

from math import lgamma, log, pi, sqrt

from sklearn_dpmix._base.compiled import compiled, lower
from sklearn_dpmix.kernels import ConvolvedNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.mixings._urn import cluster_by_size
from sklearn_dpmix.samplers import (
    Conditional,
    Interweaved,
    JainNeal,
    Neal2,
    Neal3,
    Neal5,
    Neal8,
    ReUse,
    Slice,
)
from sklearn_dpmix.samplers.mixture._jain_neal import split_or_merge
from sklearn_dpmix.samplers.mixture._neal5 import urn_sweep
from sklearn_dpmix.samplers.mixture._neal8 import gibbs_sweep, impute_records
from sklearn_dpmix.samplers.mixture._places import CONCENTRATION, CURSOR, N_CLUSTERS, N_SLOTS
from sklearn_dpmix.samplers.mixture._reuse import POOL, reuse_pass
from sklearn_dpmix.samplers.mixture._state import compact, update_clusters
from sklearn_dpmix.samplers.mixture._sticks import allocate, draw_weights, extend_sticks
from sklearn_dpmix.samplers.mixture.moves._split_merge import sort_records, split_merge


class RatioUpsideDown(LaplaceMechanism):
    """Neal 5 with the acceptance ratio as the paper prints it after (7): it sees the channel through this alone."""

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        return abs(Z[i, j] - min(max(y, self.low[j]), self.high[j])) * self.rate[i * self.each]


class FirstAuxiliaryOnly(Neal5):
    """θ given the first of the m auxiliaries and not given all of them."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not urn_sweep(self.n_aux, channel, kernel, mixing, Z, state, rng):
            return False
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        return True


class CopiesOfNoiseFreeRecords(Neal5):
    """m auxiliaries also without noise, where they are m copies of the record (as the package once did)."""

    def resolve(self, mechanism, kernel, mixing=None):
        return self


class Urns(DirichletProcess):
    """The three below, compiled together."""

    rule = ""

    def _lower(self, **context):
        right = super()._lower(**context)
        of_rule = {"of_all": float(self.rule == "all"), "of_sizes": float(self.rule == "sizes")}
        return lower(type(self), {name: getattr(right, name) for name in right._fields} | of_rule)

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        u = rng.random() * (concentration + alloc.size - 1 + self.of_all) - concentration
        if u < 0.0:
            return -1
        if self.of_all == 1.0:
            other = min(int(u), alloc.size - 2)
            return alloc[other + 1] if other >= i else alloc[other]
        if self.of_sizes == 1.0:
            return cluster_by_size(u, counts, alloc.size - 1)
        k = 0
        while k < counts.size - 1 and u >= counts[k]:
            k += 1
        return -1 if counts[k] == 0.0 else k


class UrnOfAllRecords(Urns):
    """The urn's total is α + n where it should be α + n - 1: a new cluster is proposed too rarely."""

    rule = "all"


class UrnBySize(Urns):
    """No twin: right.  What urns do with more than a million records, here with a few."""

    rule = "sizes"


class UrnBySizeOfTheFirst(Urns):
    """Clusters laid end to end, but all begin at 0."""


class UrnWithoutDiscount(PitmanYor):
    """Old clusters by n_k and not by n_k - discount."""

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        if alloc.size == 1:
            return -1
        fresh = concentration + self.discount * n_clusters
        u = rng.random() * (fresh + alloc.size - 1 - self.discount * n_clusters)
        if u < fresh:
            return -1
        other = int(rng.random() * (alloc.size - 1))
        return alloc[other + 1] if other >= i else alloc[other]


class UrnOfComponents(MixtureOfFiniteMixtures):
    """Components are chosen by n_k without γ, as in a Dirichlet process."""

    @compiled
    def propose_cluster(self, rng, concentration, n_clusters, alloc, counts, i):
        n_others = alloc.size - 1
        u = rng.random() * (self.new_cluster_weight(concentration, n_clusters) + n_others)
        if u >= n_others:
            return -1
        other = min(int(u), n_others - 1)
        return alloc[other + 1] if other >= i else alloc[other]


class ComponentsWithoutTheirNumber(MixtureOfFiniteMixtures):
    """M given the clusters without M!/(M - t)!, the ways of naming them."""

    @compiled
    def update_concentration(self, rng, concentration, n_clusters, n_records):
        gamma = -self.discount
        a = rng.standard_gamma(gamma * concentration)
        log_z = self.log_fail + gamma * log(a / (a + rng.standard_gamma(float(n_records))))
        return n_clusters + float(int(log(1.0 - rng.random()) / log_z))  # geometric


class WithoutIndicator(Slice):
    """Clusters by the likelihood among all atoms: the indicator w_k > u_i is forgotten."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[CURSOR] == 0:
            compact(state)
            draw_weights(rng, mixing, state)
        if not extend_sticks(rng, channel, kernel, mixing, state):
            return False
        state.levels[:] = -1.0
        allocate(self, rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class SticksOfTheWholeUrn(Slice):
    """Sticks of the unseen part are Beta(1, α + K), as if it were the urn, and not Beta(1, α)."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[CURSOR] == 0:
            compact(state)
            draw_weights(rng, mixing, state)
        state.floats[CONCENTRATION] += state.ints[N_CLUSTERS]
        enough = extend_sticks(rng, channel, kernel, mixing, state)
        state.floats[CONCENTRATION] -= state.ints[N_CLUSTERS]
        if not enough:
            return False
        allocate(self, rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class RecordsFromTheKernel(Conditional):
    """Records drawn given the cluster but not given the release."""

    @compiled
    def update_record(self, rng, channel, kernel, Z, i, records, theta, k):
        for j in range(kernel.n_features):
            records[i, 0, j] = kernel.draw(rng, theta, k, j)
        return 0.0, kernel.n_features


class ForgetsSingletons(Neal8):
    """A record that is alone meets fresh candidates only: its parameters are redrawn from the base measure."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[CURSOR] == 0:
            for k in range(state.ints[N_SLOTS]):
                if state.counts[k] == 1.0:
                    kernel.draw_prior(rng, state.theta, k)
        if not gibbs_sweep(self.n_candidates, channel, kernel, mixing, Z, state, rng):
            return False
        impute_records(rng, channel, kernel, Z, state)
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        return True


class WholeMassEachCandidate(Neal8):
    """Each of the candidates has the whole mass α of a new cluster, and not its share."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        state.floats[CONCENTRATION] *= self.n_candidates
        enough = gibbs_sweep(self.n_candidates, channel, kernel, mixing, Z, state, rng)
        state.floats[CONCENTRATION] /= self.n_candidates
        if not enough:
            return False
        impute_records(rng, channel, kernel, Z, state)
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        return True


class WholeMassEachOfThePool(ReUse):
    """The same mistake with the kept pool."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        state.floats[CONCENTRATION] *= POOL
        enough = reuse_pass(self, rng, channel, kernel, mixing, Z, state)
        state.floats[CONCENTRATION] /= POOL
        if not enough:
            return False
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class SplitsTooOften(Interweaved):
    """A factor 2 lost in the ratio of a split: all else of a sweep is right."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not urn_sweep(1, channel, kernel, mixing, Z, state, rng):
            return False
        compact(state)
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        sort_records(state)
        state.floats[CONCENTRATION] *= 2.0
        split_merge(self, rng, 4, channel, kernel, mixing, Z, state)
        state.floats[CONCENTRATION] /= 2.0
        return True


class DoubledConcentration(JainNeal):
    """Splits and merges under twice the concentration of the rest of the sweep."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not self.other.sweep(channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        compact(state)
        state.floats[CONCENTRATION] *= 2.0
        for _ in range(4):
            split_or_merge(rng, 3, kernel, mixing, state)
        state.floats[CONCENTRATION] /= 2.0
        update_clusters(rng, 1, channel, kernel, state, False)
        return True


class ParametersOfTheOldClusters(JainNeal):
    """Records change clusters, and the clusters' parameters are not drawn anew."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not self.other.sweep(channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        compact(state)
        for _ in range(4):
            split_or_merge(rng, 3, kernel, mixing, state)
        return True


class RecordStillInItsCluster(Neal3):
    """The record is taken off its cluster's sums and not off its count."""

    @compiled
    def log_existing(self, kernel, i, state, k):
        return kernel.log_predictive_record(state.stats, k, state.counts[k] + 1.0, state.records, i)


class NewClustersFromThePrior(Neal2):
    """θ of a new cluster from the base measure, not given its record."""

    @compiled
    def start_cluster(self, rng, kernel, state, k):
        kernel.draw_prior(rng, state.theta, k)


class LaplaceWithoutFlatPieces(LaplaceMechanism):
    """A marginal that forgets what clamping does to records beyond the bounds."""

    @compiled
    def piece(self, Z, i, j, p):
        z, b, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        peak = min(max(z, lo), hi)
        if p == 1:
            return lo, peak, z, -log(2.0 * b), 1.0 / b, 0.0
        if p == 2:
            return peak, hi, z, -log(2.0 * b), -1.0 / b, 0.0
        return lo, lo, z, 0.0, 0.0, 0.0


class GaussianWithoutFlatPieces(GaussianMechanism):
    """The same mistake."""

    @compiled
    def piece(self, Z, i, j, p):
        z, sd, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        return lo, hi if p == 1 else lo, z, self.log_noise(0.0, sd), 0.0, 1.0 / (sd * sd)


class GaussianPieceOfWrongCurvature(GaussianMechanism):
    """Curvature 1/η in place of 1/η²."""

    @compiled
    def piece(self, Z, i, j, p):
        z, sd, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        if p == 0:
            return lo - 1e30, lo, lo, self.log_noise(z - lo, sd), 0.0, 0.0
        if p == 2:
            return hi, hi + 1e30, hi, self.log_noise(z - hi, sd), 0.0, 0.0
        return lo, hi, z, self.log_noise(0.0, sd), 0.0, 1.0 / sd


class ReverseProposalNotCorrected(LaplaceMechanism):
    """Records are proposed around the release as if that proposal were symmetric."""

    @compiled
    def log_reverse(self, Z, i, j, y):
        return 0.0


class MeanPrecisionForgotten(NormalKernel):
    """A cluster's mean given its records has variance σ² and not σ²/(λ + n)."""

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        for j in range(self.n_features):
            _, shift, shape, scale = self.posterior(stats, k, j, n)
            sd = sqrt(scale / rng.standard_gamma(shape))
            self.put_params(theta, k, j, self.prior_mean[j] + shift + sd * rng.standard_normal(), sd)


class ShapeGrowsByWholeRecords(NormalKernel):
    """Shape a + n in place of a + n/2."""

    @compiled
    def posterior(self, stats, k, j, n):
        precision = self.precision[j] + n
        shift = stats[k, 2 * j] / precision
        excess = stats[k, 2 * j + 1] - precision * shift * shift
        return precision, shift, self.prior_shape[j] + n, self.prior_scale[j] + 0.5 * max(excess, 0.0)


class JacobianForgotten(NormalKernel):
    """The base measure's density in σ² where the steps are in log σ: 2 log σ is missing."""

    @compiled
    def log_prior(self, theta, k, j):
        shape, scale, precision = self.prior_shape[j], self.prior_scale[j], self.precision[j]
        u = theta[k, 4 * j] - self.prior_mean[j]
        quadratic = (0.5 * precision * u * u + scale) * theta[k, 4 * j + 2] ** 2
        constant = 0.5 * log(precision / (2.0 * pi)) + shape * log(scale) - lgamma(shape)
        return constant - (2.0 * shape + 3.0) * theta[k, 4 * j + 3] - quadratic


class PredictiveOfAKnownMean(NormalKernel):
    """The Student t forgets that the cluster's mean is uncertain: b in place of b (λ_n + 1)/λ_n."""

    @compiled
    def log_predictive(self, stats, k, n, j, y):
        _, shift, shape, scale = self.posterior(stats, k, j, n)
        u = y - self.prior_mean[j] - shift
        constant = lgamma(shape + 0.5) - lgamma(shape) - 0.5 * log(2.0 * pi * scale)
        return constant - (shape + 0.5) * log(1.0 + 0.5 * u * u / scale)


class ConvolvedWithoutNormaliser(ConvolvedNormalKernel):
    """The Student t of NormalKernel, without the incomplete gamma functions of τ² >= η²."""

    @compiled
    def log_predictive(self, stats, k, n, j, y):
        precision, shift, shape, scale = self.posterior(stats, k, j, n)
        spread = scale * (precision + 1.0) / precision
        u = y - self.prior_mean[j] - shift
        constant = lgamma(shape + 0.5) - lgamma(shape) - 0.5 * log(2.0 * pi * spread)
        return constant - (shape + 0.5) * log(1.0 + 0.5 * u * u / spread)


class ConvolvedWithoutTruncation(ConvolvedNormalKernel):
    """τ² from the whole inverse gamma, below η² too (there moved to η²)."""

    @compiled
    def draw_sd(self, rng, shape, scale):
        return sqrt(max(scale / rng.standard_gamma(shape), self.noise_variance * 1.0001))


class EscobarWestUpsideDown(DirichletProcess):
    """The two gamma laws of the concentration's update have each other's probability."""

    @compiled
    def update_concentration(self, rng, concentration, n_clusters, n_records):
        if self.prior_shape == 0.0:
            return concentration
        a = rng.standard_gamma(concentration + 1.0)
        rate = self.prior_rate - log(a / (a + rng.standard_gamma(float(n_records))))
        shape = self.prior_shape + n_clusters
        if rng.random() * (shape - 1.0 + n_records * rate) < shape - 1.0:
            shape -= 1.0
        return rng.standard_gamma(shape) / rate
