"""Mechanisms of the smooth sensitivity: the noise's law and density, guarantees, and what they refuse."""

import math
import pickle
import re

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from statistical import ALPHA

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import (
    LaplaceMechanism,
    SmoothCauchyMechanism,
    SmoothGaussianMechanism,
    SmoothLaplaceMechanism,
    SmoothStudentTMechanism,
)
from sklearn_dpmix.queries import BoundedRecords, SmoothMedian, SmoothQuery, SmoothTrimmedMean

MECHANISMS = {
    SmoothLaplaceMechanism(1.0, 1e-6, query=SmoothMedian((0, 1)), n_records=25): stats.laplace(),
    SmoothGaussianMechanism(0.5, 1e-5, query=SmoothTrimmedMean((0, 1), 0.2), n_records=25): stats.norm(),
    SmoothCauchyMechanism(1.0, query=SmoothMedian((0, 1)), n_records=25): stats.cauchy(),
    SmoothStudentTMechanism(1.0, query=SmoothMedian((0, 1)), df=4, n_records=25): stats.t(4),
}
every_mechanism = pytest.mark.parametrize("mechanism, law", MECHANISMS.items(), ids=lambda one: type(one).__name__)


@every_mechanism
def test_noise_has_its_law_at_the_scale_of_the_data(mechanism, law):
    """KS of many draws at m SS_ξ(x), which are what ``privatize`` adds; noise 5 % larger is rejected."""
    X = np.random.default_rng(5).random((25, 1))
    value, smooth = mechanism.query.value(X)[0], mechanism.query.smooth_sensitivity(X, mechanism.xi_)
    scale = mechanism.multiplier_ * smooth
    rng, draws = np.random.default_rng(6), []
    for _ in range(50):
        draws.append(mechanism._draw(rng, np.tile([value, smooth], (8000, 1)))[:, 0])
    draws = np.concatenate(draws) / scale
    assert stats.kstest(draws, law.cdf).pvalue > ALPHA
    assert stats.kstest(1.05 * draws, law.cdf).pvalue < ALPHA
    for seed in range(20):
        noise = mechanism._draw(np.random.default_rng(seed), np.array([[value, smooth]]))[0]
        np.testing.assert_array_equal(mechanism.privatize(X, random_state=seed), value + noise)


@every_mechanism
def test_log_densities_are_those_of_the_law(mechanism, law):
    """Of releases given records, and given simulated statistics; summed over releases, widened."""
    rng = np.random.default_rng(7)
    X, Z = rng.random((25, 1)), rng.standard_cauchy((6, 1))
    value, smooth = mechanism.query.value(X)[0], mechanism.query.smooth_sensitivity(X, mechanism.xi_)
    scale = mechanism.multiplier_ * smooth
    expected = law.logpdf((Z[:, 0] - value) / scale) - np.log(scale)
    np.testing.assert_allclose(mechanism.log_density(Z, X), expected, rtol=1e-12)
    simulated = mechanism.query.statistics(rng.random((300, 25)), mechanism.xi_)
    for widen in (1.0, 3.0):
        scale = widen * mechanism.multiplier_ * simulated[:, 1]
        expected = [np.sum(law.logpdf((Z[:, 0] - v) / h) - np.log(h)) for v, h in zip(simulated[:, 0], scale)]
        np.testing.assert_allclose(mechanism.release_density(Z, widen)(simulated), expected, rtol=1e-12)
    assert mechanism.n_columns(1) == 2


@every_mechanism
def test_mode_bounds_every_density_and_is_attained(mechanism, law):
    """By a data set in the middle that is released without error; without n_records nothing is known."""
    rng = np.random.default_rng(8)
    X = np.vstack([rng.random((500, 25)), np.full((1, 25), 0.5), 0.5 + 0.01 * rng.standard_normal((500, 25))])
    simulated = mechanism.query.statistics(X, mechanism.xi_)
    mode = mechanism.log_release_mode([[0.5]])
    best = np.array([mechanism.release_density([[row[0]]])(row[None])[0] for row in simulated])
    assert np.all(best <= mode + 1e-12) and best[500] == pytest.approx(mode, rel=1e-12) and best.min() < mode - 0.01
    assert mechanism.log_release_mode([[0.1], [0.2], [0.9]]) == pytest.approx(3 * mode)
    assert clone(mechanism).set_params(n_records=None).log_release_mode([[0.5]]) == math.inf


def test_no_data_set_is_released_without_noise():
    """ξ n so large that e^-ξn underflows: there is a floor, and it is the smallest too."""
    query = SmoothMedian((0, 1))
    X = np.full((1, 20_001), 0.5)
    assert query.statistics(X, 1.0)[0, 1] == query.smallest_smooth_sensitivity(20_001, 1.0) == 1e-100
    mechanism = SmoothCauchyMechanism(2.0, query=query, xi=1.0, n_records=20_001)
    assert np.isfinite(mechanism.release_density([[0.6]])(query.statistics(X, 1.0)))[0]
    assert np.isfinite(mechanism.log_release_mode([[0.5]]))


class Own(SmoothQuery):
    """A user's query that knows no smallest smooth sensitivity."""

    def value(self, X):
        return np.clip(X, 0, 1).mean(axis=0)

    def smooth_sensitivity(self, X, xi):
        return 1.0 / len(X)


def test_a_query_of_ones_own():
    """It needs two methods; without a bound there is no mode; missing methods are named, and so are its neighbours."""
    mechanism = SmoothLaplaceMechanism(1.0, 1e-6, query=Own(), n_records=4)
    Z = mechanism.privatize(np.zeros((4, 1)), random_state=0)
    assert Z.shape == (1,) and mechanism.log_release_mode([[0.5]]) == math.inf
    assert mechanism.guarantee().delta == 1e-6 and mechanism.guarantee().neighbours == "replace one record"
    mechanism.query.neighbours = "add_remove"
    assert mechanism.guarantee().neighbours == "add or remove one record"
    with pytest.raises(TypeError, match=r"SmoothQuery must define value\(self, X\)"):
        SmoothQuery().value([[0.0]])
    with pytest.raises(TypeError, match=r"SmoothQuery must define smooth_sensitivity\(self, X, xi\)"):
        SmoothQuery().smooth_sensitivity([[0.0]], 1.0)


@every_mechanism
def test_they_are_scikit_learn_objects(mechanism, law):
    """clone, get_params, pickle and repr; parameters are stored untouched, whatever was called."""
    before = pickle.dumps(vars(mechanism))
    for copy in (clone(mechanism), pickle.loads(pickle.dumps(mechanism)), eval(repr(mechanism))):
        assert repr(copy) == repr(mechanism) and copy.multiplier_ == mechanism.multiplier_
    mechanism.privatize(np.zeros((25, 1)), random_state=0)
    mechanism.guarantee()
    mechanism.check()
    assert pickle.dumps(vars(mechanism)) == before
    assert mechanism.get_params()["query__bounds"] == (0, 1)


def test_guarantees():
    """Pure ε, or (ε, δ) with no ρ; a calibration given by hand that does not hold is refused, and privatize warns."""
    query = SmoothMedian((0, 1))
    assert SmoothCauchyMechanism(2.0, query=query).guarantee().rho == 2.0
    assert SmoothLaplaceMechanism(2.0, 1e-6, query=query).guarantee().rho == math.inf
    printed = SmoothLaplaceMechanism(1.0, 1e-6, query=query, xi=0.016, multiplier=1.0)
    says = r"does not guarantee epsilon=1, delta=1e-06: what is verified is epsilon=1, delta=0\.00"
    with pytest.raises(ValueError, match=says):
        printed.guarantee()
    with pytest.warns(UserWarning, match=says):
        printed.privatize([[0.5]], random_state=0)
    doubled = clone(printed).set_params(multiplier=2.0)
    assert doubled.guarantee().epsilon == 1.0 and (doubled.xi_, doubled.multiplier_) == (0.016, 2.0)
    with pytest.raises(ValueError, match=r"what is verified is epsilon=1.* delta=0; leave multiplier out"):
        SmoothCauchyMechanism(1.0, query=query, xi=0.5, multiplier=0.5).guarantee()
    with pytest.raises(ValueError, match=r"guarantee\(\) needs query="):
        SmoothCauchyMechanism(1.0).guarantee()


def laplace(**changes):
    return SmoothLaplaceMechanism(**{"epsilon": 1.0, "delta": 1e-6, "query": SmoothMedian((0, 1)), **changes})


@pytest.mark.parametrize(
    "mechanism, error, says",
    [
        (laplace(epsilon=-1.0), ValueError, "epsilon must be positive and finite, got epsilon=-1.0"),
        (laplace(epsilon=[1.0, 2.0]), ValueError, "epsilon must be one number"),
        (laplace(delta=0), ValueError, "delta must be positive and finite"),
        (laplace(delta=1.0), ValueError, r"delta must be below 1, and at least 1e-15 .* got delta=1.0"),
        (laplace(delta=1e-16), ValueError, "delta must be below 1, and at least 1e-15 .* SmoothCauchyMechanism"),
        (laplace(xi=1.0), ValueError, "xi must be below epsilon=1.0, got xi=1.0"),
        (laplace(xi=0.5), ValueError, "with xi=0.5 the change in scale alone exceeds .*delta=1e-06, .* smaller xi"),
        (laplace(multiplier=2.0), ValueError, r"multiplier=2.0 determines the noise only together with xi="),
        (laplace(xi=0.01, multiplier=0.0), ValueError, "multiplier must be positive and finite"),
        (laplace(n_records=2.5), ValueError, "n_records must be an integer, 1 or more, got n_records=2.5"),
        (laplace(n_records=3), ValueError, "X has 2 records, but n_records=3: they must agree"),
        (laplace(query=None), ValueError, "SmoothLaplaceMechanism needs query= to take records"),
        (laplace(query=BoundedRecords((0, 1))), TypeError, r"needs a query with value\(X\) and smooth_sensitivity"),
        (laplace(query=SmoothMedian), TypeError, r"needs a query with value\(X\) and smooth_sensitivity"),
        (laplace(query=SmoothMedian((1, 0))), ValueError, r"bounds must be finite with lo < hi, got bounds=\(1, 0\)"),
        (laplace(query=SmoothTrimmedMean((0, 1), 0.5)), ValueError, r"trim must be .* in \[0, 0.5\), got trim=0.5"),
        (laplace(query=SmoothTrimmedMean((0, 1), "a")), ValueError, "trim must be .* got trim='a'"),
        (SmoothStudentTMechanism(1.0, query=SmoothMedian((0, 1)), df=0), ValueError, "df must be positive and finite"),
        (SmoothStudentTMechanism(1.0, query=SmoothMedian((0, 1)), xi=0.4), ValueError, "with xi=0.4 the change"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(mechanism, error, says):
    with pytest.raises(error, match=says):
        mechanism.privatize([[0.2], [0.7]], random_state=0)


def test_wrong_inputs_are_named():
    mechanism = laplace()
    with pytest.raises(ValueError, match="SmoothLaplaceMechanism has no secure=True: it draws with NumPy only"):
        mechanism.privatize([[0.5]], secure=True)
    with pytest.raises(ValueError, match="needs query= to take records, such as SmoothMedian"):
        laplace(query=None).log_density([[0.5]], [[0.5]])
    with pytest.raises(ValueError, match="X contains NaN"):
        mechanism.privatize([[np.nan]])
    with pytest.raises(ValueError, match=r"records must have shape \(n_records, 1\)"):
        mechanism.privatize([[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"Z must have the shape of a release of X, \(1, 1\), got \(1, 2\)"):
        mechanism.log_density([[0.5, 0.5]], [[0.5]])
    with pytest.raises(ValueError, match="releases one number, got a release of 2"):
        mechanism.n_columns(2)
    with pytest.raises(ValueError, match=r"statistics must have shape \(size, 2\) for a .* got .*\(3, 1\)"):
        mechanism.release_density([[0.5]])(np.ones((3, 1)))
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"last column of statistics must be the smooth .* positive"):
            mechanism.release_density([[0.5]])([[0.5, 0.1], [0.5, bad]])
    with pytest.raises(ValueError, match="widen must be positive and finite"):
        mechanism.release_density([[0.5]], widen=0.0)([[0.5, 0.1]])
    query = SmoothMedian((0, 1))
    for X in ([0.5, 0.5], [[np.nan]], [["a"]], np.zeros((2, 0)), np.zeros((1, 2, 1))):
        with pytest.raises(ValueError, match=r"X must be finite numbers of shape \(size, n_records\)"):
            query.statistics(X, 0.1)
    for xi in (0.0, -1.0, np.inf, "a"):
        with pytest.raises(ValueError, match="xi must be positive and finite"):
            query.statistics([[0.5]], xi)
    for call in (query.value, lambda X: query.smooth_sensitivity(X, 0.1)):
        with pytest.raises(ValueError, match="at least one record"):
            call([])


def test_elsewhere_they_are_refused_in_a_sentence():
    """A mixture has no sampler for them, and other mechanisms no noise for such a query."""
    for n_records in (None, 5):
        with pytest.raises(ValueError, match=r"(?s)PrivateDPMixture has no sampler for .* release records one by one"):
            PrivateDPMixture(laplace(), n_records=n_records).fit(np.zeros((5, 1)))
    with pytest.raises(TypeError, match=re.escape("SmoothMedian has a sensitivity that depends on the data")):
        LaplaceMechanism(epsilon=1.0, query=SmoothMedian((0, 1))).privatize([[0.5]])
