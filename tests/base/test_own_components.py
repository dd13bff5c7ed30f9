"""A user's own components work in fifteen lines.

Scripts are written to a temporary folder and run in processes of their own, as a user would run them.
"""

from math import erfc, exp, lgamma, log, pi, sqrt

import numpy as np
import oracle
import pytest
from scipy import stats
from scripts import COMPILES, edit, run, write
from statistical import Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import Component, lower
from sklearn_dpmix.kernels import Kernel
from sklearn_dpmix.mechanisms import compiled
from sklearn_dpmix.mixings import DirichletProcess

OWN_LAPLACE = """
    import json, sys
    import numpy as np
    from math import log
    from joblib import parallel_config
    from sklearn_dpmix import PrivateDPMixture
    from sklearn_dpmix.kernels import NormalKernel
    from sklearn_dpmix.mechanisms import AdditiveMechanism, compiled
    from sklearn_dpmix.samplers.mixture._run import run

    class OwnLaplace(AdditiveMechanism):
        def __init__(self, scale=1.0, *, bounds=None):
            self.scale = scale
            self.bounds = bounds

        @compiled
        def log_noise(self, e, scale):
            return -abs(e) / scale - log(2.0 * scale)

        def draw_noise(self, rng, scale, size):
            return rng.laplace(scale=scale, size=size)

    if __name__ == "__main__":
        n_draws, out, backends = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
        kernel, found = NormalKernel(mean=0.4, mean_precision=0.3, shape=2.5, scale=1.7), []
        for backend in backends:
            model = PrivateDPMixture(
                OwnLaplace(1.0, bounds=(-2, 3)), kernel=kernel, sampler="neal5", n_chains=2, n_warmup=20,
                n_draws=n_draws, thin=1 if n_draws < 1000 else 10, random_state=0, n_jobs=2,
            )
            with parallel_config(backend):
                model.fit([[-3.1], [-0.9], [0.2], [2.9]])
            found.append([model.n_clusters_draws_, model.density_draws([[-2.0], [0.0], [2.5]])])
        np.savez(out, **{name: np.array(part) for name, part in zip(("clusters", "density"), zip(*found))})
        stats = getattr(run, "stats", None)
        print(json.dumps({
            "hits": sum(stats.cache_hits.values()) if stats else 0,
            "misses": sum(stats.cache_misses.values()) if stats else 0,
        }))
"""


def agrees_with_oracle(draws, noise_scale):
    """Raise Disagreement unless the script's draws are of the exact posterior under Laplace noise."""
    exact = oracle.exact_posterior(
        [-3.1, -0.9, 0.2, 2.9], noise="laplace", noise_scale=noise_scale, bounds=(-2, 3),
        mean=0.4, mean_precision=0.3, shape=2.5, scale=1.7, x=[-2.0, 0.0, 2.5],
    )  # fmt: skip
    assert_pmf_close(draws["clusters"], exact.n_clusters_pmf)
    assert_mean_close(draws["density"], exact.predictive, what="predictive density")


@COMPILES
@pytest.mark.slow
def test_a_script_with_its_own_mechanism(tmp_path):
    """Its posterior is exact; rerun it hits the cache; loky and plain Python draw the same; edited, it draws anew."""
    script, out, cache = write(tmp_path, own_laplace=OWN_LAPLACE), tmp_path / "out.npz", tmp_path / "cache"

    def draws(n_draws, *backends, **environment):
        said = run(script, n_draws, out, "threading", *backends, cache=cache, **environment)
        with np.load(out) as saved:
            found = [dict(zip(saved, one)) for one in zip(*saved.values())]
        return said, *found

    said, first = draws(8_000)
    assert (said["hits"], said["misses"]) == (0, 1)
    agrees_with_oracle(first, 1.0)
    with pytest.raises(Disagreement):
        agrees_with_oracle(first, 1.5)

    said, few, of_loky = draws(40, "loky")
    assert (said["hits"], said["misses"]) == (1, 0)
    _, as_python = draws(40, NUMBA_DISABLE_JIT="1")
    for same in (of_loky, as_python):
        np.testing.assert_array_equal(same["clusters"], few["clusters"])
        np.testing.assert_allclose(same["density"], few["density"], rtol=1e-12)

    edit(script, "-abs(e) / scale - log(2.0 * scale)", "-abs(e) / (1.5 * scale) - log(3.0 * scale)")
    said, edited = draws(8_000)
    assert (said["hits"], said["misses"]) == (0, 1)
    agrees_with_oracle(edited, 1.5)


OWN_KERNEL = """
    import json, sys
    import numpy as np
    from math import erfc, exp, log, pi, sqrt
    from sklearn_dpmix import PrivateDPMixture
    from sklearn_dpmix.kernels import Kernel
    from sklearn_dpmix.mechanisms import RecordChannel, compiled

    class OneBit(RecordChannel):  # +1 or -1, with mean y·tanh(ε/2) for records in [-1, 1]
        def __init__(self, epsilon=1.0):
            self.epsilon = epsilon

        @compiled
        def log_channel(self, Z, i, j, y):
            tanh = 1.0 - 2.0 / (exp(self.epsilon) + 1.0)
            return log(0.5 + 0.5 * Z[i, j] * min(max(y, -1.0), 1.0) * tanh)

    class KnownVariance(Kernel):  # N(y | μ, sd²), μ ~ N(0, spread²)
        def __init__(self, sd=0.5, spread=2.0):
            self.sd = sd
            self.spread = spread

        def sizes(self, n_features):
            return n_features, n_features

        @compiled
        def draw_prior(self, rng, theta, k):
            for j in range(self.n_features):
                theta[k, j] = self.spread * rng.standard_normal()

        @compiled
        def add(self, stats, k, j, y, sign):
            stats[k, j] += sign * y

        @compiled
        def update_params(self, rng, theta, k, stats, n):
            precision = 1.0 / self.spread**2 + n / self.sd**2
            for j in range(self.n_features):
                theta[k, j] = stats[k, j] / self.sd**2 / precision + rng.standard_normal() / sqrt(precision)

        @compiled
        def log_likelihood(self, theta, k, j, y):
            return -0.5 * ((y - theta[k, j]) / self.sd) ** 2 - 0.5 * log(2.0 * pi * self.sd**2)

        @compiled
        def draw(self, rng, theta, k, j):
            return theta[k, j] + self.sd * rng.standard_normal()

        @compiled
        def cdf(self, theta, k, j, y):
            return 0.5 * erfc((theta[k, j] - y) / (self.sd * sqrt(2.0)))

        @compiled
        def mean(self, theta, k, j):
            return theta[k, j]

        @compiled
        def variance(self, theta, k, j):
            return self.sd**2

    if __name__ == "__main__":
        model = PrivateDPMixture(
            OneBit(4.0), kernel=KnownVariance(), sampler="neal5", n_chains=2, n_warmup=50, n_draws=20_000, thin=5,
            random_state=0,
        ).fit([[1.0], [-1.0], [1.0], [1.0]])
        np.savez(sys.argv[1], clusters=model.n_clusters_draws_, density=model.density_draws([[-1.0], [0.0], [1.0]]))
        print(json.dumps({"labels": model.labels_.tolist(), "score": model.score_release([[1.0], [-1.0]])}))
"""


def posterior_by_importance(z, epsilon, x, *, sd=0.5, spread=2.0, size=1_000_000, seed=0):
    """The same posterior by brute force: draw partition, means and records from the prior, weigh by the channel.

    Returns the probabilities of 0..n clusters and the predictive density at x, each with its standard error.
    """
    rng = np.random.default_rng(seed)
    n = len(z)
    alloc, n_clusters = np.zeros((size, n), np.int64), np.ones(size, np.int64)
    for i in range(1, n):  # the urn, concentration 1: an earlier record's cluster, or a new one
        who = rng.integers(0, i + 1, size)
        alloc[:, i] = np.where(who == i, n_clusters, alloc[np.arange(size), np.minimum(who, i - 1)])
        n_clusters += who == i
    theta = spread * rng.standard_normal((size, n))
    own = np.take_along_axis(theta, alloc, axis=1)
    y = np.clip(own + sd * rng.standard_normal((size, n)), -1, 1)
    weight = np.prod(0.5 + 0.5 * np.asarray(z) * y * np.tanh(0.5 * epsilon), axis=1)
    density = np.array([stats.norm.pdf(point, own, sd).sum(axis=1) for point in x]).T
    density = (density + stats.norm.pdf(x, 0, np.hypot(sd, spread))) / (n + 1)
    values = np.column_stack([n_clusters[:, None] == np.arange(n + 1), density])
    share = weight / weight.sum()
    mean = share @ values
    error = np.sqrt(share**2 @ (values - mean) ** 2)
    return mean[: n + 1], mean[n + 1 :], error[: n + 1], error[n + 1 :]


@COMPILES
@pytest.mark.slow
def test_a_script_with_its_own_channel_and_kernel(tmp_path):
    """A channel that is no noise and a kernel of one parameter: against importance sampling from the prior."""
    script = write(tmp_path, own_kernel=OWN_KERNEL)
    said = run(script, tmp_path / "out.npz", cache=tmp_path / "cache")
    assert len(said["labels"]) == 4 and np.log(0.1) < said["score"] < 0
    with np.load(tmp_path / "out.npz") as saved:
        draws = dict(saved)

    def check(epsilon):
        pmf, density, pmf_error, density_error = posterior_by_importance([1, -1, 1, 1], epsilon, [-1.0, 0.0, 1.0])
        assert max(*pmf_error, *density_error) < 2e-3
        # the expected value is itself a draw: judge the chains at the ends of its interval
        z = stats.norm.isf(1e-6)
        for k in range(1, 5):
            is_k = (draws["clusters"] == k).astype(float)
            nearest = np.clip(is_k.mean(), pmf[k] - z * pmf_error[k], pmf[k] + z * pmf_error[k])
            assert_mean_close(is_k, nearest, what=f"P({k} clusters)")
        found = draws["density"].mean(axis=(0, 1))
        assert_mean_close(draws["density"], np.clip(found, density - z * density_error, density + z * density_error))

    check(4.0)
    with pytest.raises(Disagreement):
        check(1.0)


class Unit(Kernel):
    """Normal records with sd 1, which is kept beside the mean: of a slot without it, densities are no numbers."""

    def sizes(self, n_features):
        return 2, 1

    @compiled
    def draw_prior(self, rng, theta, k):
        theta[k, 0], theta[k, 1] = 3.0 * rng.standard_normal(), 1.0

    @compiled
    def add(self, stats, k, j, y, sign):
        stats[k, 0] += sign * y

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        precision = n + 1.0 / 9.0
        theta[k, 0], theta[k, 1] = stats[k, 0] / precision + rng.standard_normal() / sqrt(precision), 1.0

    @compiled
    def log_likelihood(self, theta, k, j, y):
        return log(self.peak(theta, k, j)) + self.log_relative(theta, k, j, y)

    @compiled
    def peak(self, theta, k, j):
        return 1.0 / (theta[k, 1] * sqrt(2.0 * pi))

    @compiled
    def log_relative(self, theta, k, j, y):
        e = (y - theta[k, 0]) / theta[k, 1]
        return -0.5 * e * e

    @compiled
    def draw(self, rng, theta, k, j):
        return theta[k, 0] + theta[k, 1] * rng.standard_normal()

    @compiled
    def cdf(self, theta, k, j, y):
        return 0.5 * erfc((theta[k, 0] - y) / (sqrt(2.0) * theta[k, 1]))

    @compiled
    def mean(self, theta, k, j):
        return theta[k, 0]

    @compiled
    def variance(self, theta, k, j):
        return theta[k, 1] ** 2


@pytest.mark.slow
def test_passes_over_all_slots_take_no_number_of_an_empty_one():
    """Catches 0/0 in slots that no cluster ever had, for records that are exactly 0: their clusters then were chosen by
    the slots' order.  Against all partitions of eight records."""
    z = np.array([0.0] * 4 + [6.0, -6.0, 12.0, -12.0])
    pmf = np.zeros(len(z) + 1)
    for partition in oracle.set_partitions(len(z)):
        value = 0.0
        for block in partition:
            y = z[(block >> np.arange(len(z))) % 2 == 1]
            law = stats.multivariate_normal(np.zeros(len(y)), np.eye(len(y)) + 9.0)
            value += lgamma(len(y)) + law.logpdf(y)
        pmf[len(partition)] += exp(value)
    model = PrivateDPMixture(kernel=Unit(), sampler="reuse", n_warmup=300, n_draws=5000, random_state=1).fit(z[:, None])
    assert_pmf_close(model.n_clusters_draws_, pmf / pmf.sum(), what="clusters")


class OwnProcess(Component):
    """A Dirichlet process with concentration 1, of no more than what a mixing must have."""

    new_cluster_weight = DirichletProcess.new_cluster_weight
    propose_cluster = DirichletProcess.propose_cluster
    update_concentration = DirichletProcess.update_concentration

    def _lower(self, **context):
        return lower(type(self), {"start": 1.0, "prior_shape": 0.0, "prior_rate": 0.0, "discount": 0.0})


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_a_mixing_of_ones_own():
    """It makes the draws of the process that it is; nothing of it is random."""
    X = np.array([[-3.0], [-2.8], [0.1], [2.9]])
    found, expected = (
        PrivateDPMixture(None, mixing=mixing, sampler="neal2", n_chains=1, n_warmup=20, n_draws=200, random_state=0)
        .fit(X)
        .n_clusters_draws_
        for mixing in (OwnProcess(), DirichletProcess(1.0))
    )
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 1
