"""Noise of other tools: what from_opendp reads of OpenDP's measurements, and what docs/interoperation.md says."""

import pathlib
import re
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponseMechanism,
    UnaryEncodingMechanism,
    from_opendp,
)
from sklearn_dpmix.queries import SufficientStatistics

dp = pytest.importorskip("opendp.prelude")
dp.enable_features("contrib", "honest-but-curious")
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "interoperation.md"
ALPHA = 1e-6


def floats(distance=None):
    return dp.atom_domain(T=float, nan=False), (distance or dp.absolute_distance)(T=float)


def float_vectors(distance):
    return dp.vector_domain(dp.atom_domain(T=float, nan=False)), distance(T=float)


def integers(kind="int"):
    return dp.atom_domain(T=kind), dp.absolute_distance(T=kind)


def long_integer_vectors(distance):
    return dp.vector_domain(dp.atom_domain(T=dp.i64)), distance(T=float)


def count():
    return dp.t.make_count(dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance())


def counts():
    domain = dp.vector_domain(dp.atom_domain(T=str))
    return dp.t.make_count_by_categories(domain, dp.symmetric_distance(), categories=["a", "b"], MO=dp.L1Distance[int])


def total():
    domain = dp.vector_domain(dp.atom_domain(bounds=(0.0, 10.0)), size=100)
    return dp.t.make_sum(domain, dp.symmetric_distance())


def of_context(loss):
    context = dp.Context.compositor(
        data=[1, 2, 3], privacy_unit=dp.unit_of(contributions=1), privacy_loss=loss, split_evenly_over=2
    )
    return context.query().count()


PLAIN = {
    "a float": (lambda: dp.m.make_laplace(*floats(), scale=2.5), LaplaceMechanism(scale=2.5)),
    "floats": (lambda: dp.m.make_laplace(*float_vectors(dp.l1_distance), scale=2.5), LaplaceMechanism(scale=2.5)),
    "little noise": (lambda: dp.m.make_laplace(*floats(), scale=1e-6), LaplaceMechanism(scale=1e-6)),
    "Gaussian": (lambda: dp.m.make_gaussian(*float_vectors(dp.l2_distance), scale=0.3), GaussianMechanism(scale=0.3)),
    "a fine grid": (lambda: dp.m.make_gaussian(*floats(), scale=2.0, k=-30), GaussianMechanism(scale=2.0)),
    "an integer": (lambda: dp.m.make_laplace(*integers(), scale=3.0), DiscreteLaplaceMechanism(scale=3.0)),
    "much noise": (lambda: dp.m.make_laplace(*integers(), scale=1e6), DiscreteLaplaceMechanism(scale=1e6)),
    "geometric": (lambda: dp.m.make_geometric(*integers(), scale=1.5), DiscreteLaplaceMechanism(scale=1.5)),
    "integers": (
        lambda: dp.m.make_gaussian(*long_integer_vectors(dp.l2_distance), scale=3.0),
        DiscreteGaussianMechanism(scale=3.0),
    ),
    "a count": (lambda: count() >> dp.m.then_laplace(scale=3.0), DiscreteLaplaceMechanism(scale=3.0)),
    "a histogram": (lambda: counts() >> dp.m.then_laplace(scale=4.0), DiscreteLaplaceMechanism(scale=4.0)),
    "a sum": (lambda: total() >> dp.m.then_laplace(scale=5.0), LaplaceMechanism(scale=5.0)),
    "another measure": (
        lambda: dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*floats(), scale=2.0)), 1e-6),
        GaussianMechanism(scale=2.0),
    ),
    "a search": (
        lambda: dp.binary_search_chain(lambda s: count() >> dp.m.then_laplace(scale=s), d_in=1, d_out=1.0),
        DiscreteLaplaceMechanism(scale=1.0),
    ),
    "a context": (
        lambda: of_context(dp.loss_of(rho=0.5)).gaussian().resolve(),
        DiscreteGaussianMechanism(scale=2.0**0.5),
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_noise_is_read(name):
    """Catches a variance for a standard deviation, one law for another, and chains whose noise is not found."""
    build, expected = PLAIN[name]
    found = from_opendp(build())
    assert type(found) is type(expected)
    assert found.noise_scale == pytest.approx(expected.noise_scale, rel=1e-9)


RESPONSES = {
    "a boolean": (
        lambda: dp.m.make_randomized_response_bool(prob=0.75),
        None,
        RandomizedResponseMechanism(np.log(3), 2),
    ),
    "a category": (
        lambda: dp.m.make_randomized_response(["a", "b", "c"], prob=0.75),
        3,
        RandomizedResponseMechanism(np.log(6), 3),
    ),
    "bits": (
        lambda: dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=1), dp.discrete_distance(), f=0.5),
        8,
        UnaryEncodingMechanism(2 * np.log(3), 8, "symmetric"),
    ),
}


@pytest.mark.parametrize("name", RESPONSES)
def test_randomised_response_is_read(name):
    build, n_categories, expected = RESPONSES[name]
    found = from_opendp(build(), n_categories=n_categories)
    assert type(found) is type(expected)
    assert found.epsilon == pytest.approx(expected.epsilon, rel=1e-9)
    assert found.n_categories == expected.n_categories
    assert found.get_params().get("kind") == expected.get_params().get("kind")
    with pytest.raises(ValueError, match="bounds and query are for additive noise"):
        from_opendp(build(), n_categories=n_categories, bounds=(0, 1))


def test_a_number_of_categories_is_not_for_noise():
    with pytest.raises(ValueError, match="n_categories=4 is for randomised response"):
        from_opendp(dp.m.make_laplace(*floats(), scale=2.0), n_categories=4)


def test_bits_of_other_lengths_are_refused():
    bits = lambda weight: dp.m.make_randomized_response_bitvec(  # noqa: E731
        dp.bitvector_domain(max_weight=weight), dp.discrete_distance(), f=0.5
    )
    with pytest.raises(ValueError, match="n_categories must say how many bits"):
        from_opendp(bits(1))
    with pytest.raises(ValueError, match=r"the privacy map gives 6\.59"):
        from_opendp(bits(3), n_categories=8)
    with pytest.raises(ValueError, match="n_categories=4, but the measurement has 2 categories"):
        from_opendp(dp.m.make_randomized_response_bool(prob=0.75), n_categories=4)


REFUSED = {
    "censored": (lambda: dp.m.make_geometric(*integers(), scale=1.5, bounds=(0, 9)), "make_geometric with bounds="),
    "without a sign": (lambda: dp.m.make_laplace(*integers("u32"), scale=3.0), "it releases 0, the lowest .* type u32"),
    "numbers without a sign": (
        lambda: dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="u64")), dp.l1_distance(T="u64"), scale=3.0),
        "it releases 0, the lowest .* type u64",
    ),
    "beyond its type": (lambda: dp.m.make_laplace(*integers(), scale=1e9), "it releases -2147483648, .* type i32"),
    "a coarse grid": (lambda: dp.m.make_gaussian(*floats(), scale=2.0, k=-3), "k=-3 releases multiples of 2"),
    "canonical": (
        lambda: dp.m.make_canonical_noise(*floats(), d_in=1.0, d_out=(1.0, 1e-6)),
        "make_canonical_noise is not noise",
    ),
    "a certain answer": (lambda: dp.m.make_randomized_response_bool(prob=1.0), "epsilon=inf reveals everything"),
    "no answer": (lambda: dp.m.make_randomized_response_bool(prob=0.5), "epsilon=0 reveals everything"),
    "post-processed": (lambda: (count() >> dp.m.then_laplace(scale=3.0)) >> abs, "make_chain_pm is not noise"),
    "several": (
        lambda: dp.c.make_basic_composition([count() >> dp.m.then_laplace(scale=3.0)] * 2),
        "make_(basic_)?composition is not noise",
    ),
    "a sample": (
        lambda: dp.c.make_population_amplification(total() >> dp.m.then_laplace(scale=5.0), 1000),
        "make_population_amplification is not noise",
    ),
    "a user's": (
        lambda: dp.m.make_user_measurement(*floats(), dp.max_divergence(), lambda x: x, lambda d: d / 2.0),
        "make_user_measurement is not noise",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_other_measurements_are_refused(name):
    """Catches a law that is taken for granted: censored noise has the privacy map of plain noise."""
    build, reason = REFUSED[name]
    with pytest.raises(ValueError, match=f"reads plain Laplace and Gaussian noise and .* only, .*{reason}"):
        from_opendp(build())


def test_the_privacy_map_must_agree():
    """Catches a constructor that was misread: the map knows the noise in force."""
    measurement = dp.m.make_laplace(*floats(), scale=2.0)
    assert from_opendp(measurement).noise_scale == 2.0
    measurement.__opendp_dict__["__kwargs__"]["scale"] = 3.0
    with pytest.raises(ValueError, match=r"the privacy map gives 0\.75 at distance 1\.5, noise of scale 3 0\.5"):
        from_opendp(measurement)


def test_queries_are_not_measurements():
    """Catches an AttributeError from inside, where the Context API needs one call more."""
    with pytest.raises(TypeError, match=r"must be an OpenDP Measurement, got Query: query\.resolve\(\)"):
        from_opendp(of_context(dp.loss_of(epsilon=1.0)).laplace())


def test_what_the_noise_went_on_is_passed_on():
    """Catches bounds or a query that got lost on the way to the mechanism."""
    query = SufficientStatistics("poisson", bounds=(0, 9))
    mechanism = from_opendp(count() >> dp.m.then_laplace(scale=3.0), query=query)
    assert mechanism.query is query and mechanism.guarantee().epsilon == 3.0
    local = from_opendp(dp.m.make_laplace(*floats(), scale=2.0), bounds=(0, 4), clamp=False)
    assert local.bounds == (0, 4) and local.clamp is False and local.guarantee(1).epsilon == 2.0


def test_the_extra_is_named(monkeypatch):
    """Catches an import error without the extra's name."""
    measurement = dp.m.make_laplace(*floats(), scale=2.0)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn-dpmix\[secure\]"'):
        from_opendp(measurement)


def probability(mechanism, draws):
    """p-value of the mean magnitude of the noise: normal, for thousands of draws."""
    if mechanism.is_discrete:
        e = np.arange(-1000.0, 1001.0)[:, None]
        weights = np.exp(mechanism.log_density(e, np.zeros_like(e)))
        mean, square = weights @ np.abs(e[:, 0]), weights @ e[:, 0] ** 2
    else:
        law = stats.laplace if isinstance(mechanism, LaplaceMechanism) else stats.norm
        square = law(scale=mechanism.noise_scale).var()
        mean = law(scale=mechanism.noise_scale).expect(np.abs)
    z = (np.mean(np.abs(draws)) - mean) / np.sqrt((square - mean**2) / len(draws))
    return 2.0 * stats.norm.sf(abs(z))


@pytest.mark.parametrize("name", ["floats", "Gaussian", "integers"])
def test_opendp_draws_from_that_law(name):
    """Catches a scale in another unit than OpenDP's: its draws reject noise that is a fifth larger."""
    measurement = PLAIN[name][0]()
    mechanism = from_opendp(measurement)
    zeros = np.zeros(3000, dtype=int if mechanism.is_discrete else float).tolist()
    draws = np.array(measurement(zeros), dtype=float)
    assert probability(mechanism, draws) > ALPHA
    assert probability(type(mechanism)(scale=1.2 * mechanism.noise_scale), draws) < ALPHA


def test_scales_of_diffprivlib():
    """Catches calibrations other than diffprivlib 0.6.6's, whose scales these numbers are, for sensitivity 2."""
    parts = {"delta": 1e-5, "bounds": (0, 2)}
    assert GaussianMechanism(2.0, **parts).noise_scale == pytest.approx(3.987624891286437, rel=1e-9)
    classical = GaussianMechanism(0.5, calibration="classical", **parts).noise_scale
    assert classical == pytest.approx(19.379221050421556, rel=1e-12)
    assert DiscreteGaussianMechanism(2.0, **parts).noise_scale == pytest.approx(3.9843387603759766, rel=1e-6)


def test_the_pages_channel_is_a_density():
    """Catches a normalising constant that is wrong: without it the mass is not 1."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    block = next(part for part in blocks if "class BoundedDomainLaplace" in part)
    names = {"__name__": "interoperation"}
    exec(compile(block, "interoperation.md", "exec"), names)
    mechanism = names["BoundedDomainLaplace"](0.2)
    for y in (-0.5, 0.1, 0.7, 1.0):
        kink = min(max(y, 0.0), 1.0)

        def density(z, y=y):
            return np.exp(mechanism.log_channel(np.array([[z]]), 0, 0, y))

        assert quad(density, 0.0, 1.0, points=[kink])[0] == pytest.approx(1.0, abs=1e-8)
        plain = stats.laplace(loc=kink, scale=0.2)
        assert plain.cdf(1.0) - plain.cdf(0.0) < 0.99
