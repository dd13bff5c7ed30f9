"""Samplers of allocations where a density is 0 or no float, and where records are given: still exact, or refused."""

from types import SimpleNamespace

import numpy as np
import oracle
import pytest
from scipy.special import gammaln
from statistical import assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import CategoricalKernel, NormalKernel
from sklearn_dpmix.mechanisms import NoNoise
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import Interweaved, JainNeal, Neal5
from sklearn_dpmix.samplers.mixture._neal5 import log_estimate


@pytest.mark.slow
def test_densities_beyond_floating_point_lose_no_cluster():
    """Catches products of densities of many features that overflow: then the last slot was taken, whichever it was.

    The prior allows one population only, so that clusters are those of the urn."""
    X = 1e-6 * np.random.default_rng(0).standard_normal((5, 75))
    kernel = NormalKernel(mean=0.0, mean_precision=1e6, shape=1e6, scale=1e-6)
    model = PrivateDPMixture(kernel=kernel, sampler="reuse", n_warmup=100, n_draws=1500, random_state=3).fit(X)
    assert_pmf_close(model.n_clusters_draws_, np.array([0.0, 24.0, 50.0, 35.0, 10.0, 1.0]) / 120.0, what="clusters")


@pytest.mark.slow
def test_a_cluster_that_cannot_hold_a_record_stops_no_other():
    """Catches NaN where the first cluster has likelihood 0: all partitions of six answers, whose shares underflow."""
    x, alpha, concentration = np.array([0, 0, 0, 1, 1, 2]), 1e-3, 0.5
    pmf = np.zeros(len(x) + 1)
    for partition in oracle.set_partitions(len(x)):
        value = len(partition) * np.log(concentration)
        for block in partition:
            counts = np.bincount(x[(block >> np.arange(len(x))) % 2 == 1], minlength=3)
            value += gammaln(counts.sum()) + np.sum(gammaln(counts + alpha) - gammaln(alpha))
            value += gammaln(3 * alpha) - gammaln(counts.sum() + 3 * alpha)
        pmf[len(partition)] += np.exp(value)
    kernel, mixing = CategoricalKernel(n_categories=3, alpha=alpha), DirichletProcess(concentration)
    for sampler in ("neal2", "neal8"):
        model = PrivateDPMixture(kernel=kernel, mixing=mixing, sampler=sampler, n_draws=1000, random_state=1)
        assert_pmf_close(model.fit(x[:, None]).n_clusters_draws_, pmf / pmf.sum(), min_ess=500, what=sampler)


def test_auxiliaries_that_cannot_have_led_to_the_release_stop_no_other():
    """Catches NaN of two that cannot, under a channel of one's own with bounded noise."""
    weights = [-np.inf, -np.inf, -1.0, -2.0]
    channel = SimpleNamespace(log_weight=lambda kernel, Z, i, j, theta, k, y: weights[int(y)])
    records = np.arange(4.0).reshape(1, 4, 1)
    found = log_estimate(4, channel, SimpleNamespace(n_features=1), None, 0, None, 0, records, 0)
    assert found == pytest.approx(np.logaddexp(-1.0, -2.0))


@pytest.mark.parametrize("sampler", [Interweaved(), JainNeal(Interweaved())], ids=str)
@pytest.mark.parametrize("mechanism", [None, NoNoise()], ids=str)
def test_records_that_are_given_are_not_moved(sampler, mechanism):
    """Catches moves of imputed records where these are the release: clusters were too few."""
    with pytest.raises(ValueError, match="imputes confidential records and moves them, but without noise"):
        PrivateDPMixture(mechanism, sampler=sampler).fit([[0.0], [1.0]])


def test_no_noise_by_its_name_is_no_noise():
    """Catches copies of a record that each count, and correlated records drawn in place of those given."""
    Z = np.array([[-1.5, 0.3], [0.2, 1.0], [1.7, -0.4]])
    assert PrivateDPMixture(NoNoise(), sampler=Neal5(3), n_draws=5, n_warmup=5).fit(Z).sampler_.n_auxiliary == 1
    with pytest.raises(ValueError, match=r"cannot use MultivariateNormalKernel, .*without a mechanism"):
        PrivateDPMixture(NoNoise(), kernel="multivariate_normal", sampler="neal5").fit(Z)
