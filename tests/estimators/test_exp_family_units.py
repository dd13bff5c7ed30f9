"""PrivateExpFamilyGibbs in the units of public bounds: scaled releases, default priors, moves between both."""

import warnings

import numpy as np
import pytest
from exp_family_case import MIXED
from scipy import stats
from scipy.special import logit
from sklearn.base import clone

from sklearn_dpmix import NaivePosterior, PrivateExpFamilyGibbs
from sklearn_dpmix.estimators.curator._exp_family_inputs import read_problem
from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import (
    Beta,
    Exponential,
    Gamma,
    GammaPrior,
    GammaProductPrior,
    LogLogisticPrior,
    Normal,
    NormalCauchyPrior,
    NormalInverseGammaPrior,
    Poisson,
)
from sklearn_dpmix.models._family_records import RECORD_MODELS
from sklearn_dpmix.models._scaling import scaling_of
from sklearn_dpmix.queries import SufficientStatistics

pytestmark = pytest.mark.filterwarnings(MIXED)

SCALED = [(Normal(), (20.0, 100.0)), (Exponential(), (2.0, 9.0)), (Gamma(2.5), (0.0, 7.0)), (Beta(), (0.05, 0.7))]


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("family, bounds", SCALED)
def test_imputed_records_add_what_the_query_says(family, bounds, outside, scaled):
    """A record in units adds, in compiled code, what the query releases of it; inside the bounds and outside."""
    query = SufficientStatistics(family, bounds, outside=outside, scaled=scaled)
    lo, hi = bounds
    x = np.array([lo - 0.4 * lo, lo, 0.7 * lo + 0.3 * hi, hi, min(hi + 0.1, 0.99 if hi < 1 else np.inf)])
    scaling = query._scaling(family)
    assert (scaling is None) is not scaled
    units, gains, inside = x, None, bounds
    if scaled:
        units, gains = (x - scaling.centre) / scaling.unit, (scaling.gain, scaling.offset)
        inside = scaling.bounds(*bounds)
    if isinstance(family, Beta):
        units = logit(units)
    model = RECORD_MODELS[family.names[0]](family, family.default_prior(bounds), inside, outside, gains, None, None)
    found = np.zeros((len(x), family.n_statistics))
    for i in range(len(x)):
        model._lower().contribute(units[:, None], i, found, i)
    np.testing.assert_allclose(found, query.contributions(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "family, prior, theta",
    [
        (Normal(), NormalInverseGammaPrior(30.0, 0.2, 3.0, 50.0), [[35.0, 20.0], [10.0, 4.0]]),
        (Exponential(), GammaPrior(2.0, 7.0), [[0.3], [2.0]]),
        (Gamma(2.5), GammaPrior(2.0, 7.0), [[0.3], [2.0]]),
        (Normal(), NormalCauchyPrior(30.0, 8.0, 5.0), [[35.0, 20.0], [10.0, 4.0]]),
        (Gamma(2.5), LogLogisticPrior(3.0), [[0.3], [2.0]]),
        (Beta(), GammaProductPrior(), [[0.3, 2.0]]),
    ],
)
def test_priors_and_parameters_in_units(family, prior, theta):
    """What a prior says of parameters in units, and what records in units are, by their densities."""
    theta, x = np.array(theta), np.array([0.2, 0.6])
    scaling = scaling_of(family, 0.1, 0.8)
    centre, unit = scaling.centre, scaling.unit
    back = family.theta_from_units(theta, centre, unit)
    inner = family.log_density((x - centre) / unit, theta) - np.log(unit)
    np.testing.assert_allclose(family.log_density(x, back), inner, rtol=1e-12)
    if not isinstance(family, Beta):  # dθ/dθ̃ is a power of the unit
        n_powers = {Normal: 3.0, Exponential: -1.0, Gamma: -1.0}[type(family)]
        inner = family.prior_in_units(prior, centre, unit).log_density(theta) - n_powers * np.log(unit)
        np.testing.assert_allclose(prior.log_density(back), inner, rtol=1e-12)


def test_default_priors_say_what_their_docstrings_say():
    """By prior predictive probabilities, for bounds in any unit."""
    for unit in (1e-6, 1.0, 1e6):
        rng = np.random.default_rng(0)
        lo, hi, size = 20.0 * unit, 100.0 * unit, 200_000
        h = 0.5 * (hi - lo)
        mean, variance = Normal().default_prior((lo, hi)).draw(rng, size, Normal()).T
        filled = np.sqrt(variance) / h
        rate = Exponential().default_prior((lo, hi)).draw(rng, size, Exponential())[:, 0]
        second = Gamma(2.5).default_prior((lo, hi)).draw(rng, size, Gamma(2.5))[:, 0]
        under_noise, wide = Normal().wide_prior((lo, hi)).draw(rng, size, Normal()).T
        width = np.sqrt(wide) / (hi - lo)
        of_hi = 2.5 / Gamma(2.5).wide_prior((lo, hi)).draw(rng, size, Gamma(2.5))[:, 0] / hi
        for found, expected in (
            ((mean > lo) & (mean < hi), 0.5),
            ((under_noise > lo) & (under_noise < hi), 0.5),
            ((width > 0.0059) & (width < 0.953), 0.9),
            ((of_hi > 0.15 / 19) & (of_hi < 0.15 * 19), 0.9),
            ((filled > 0.05) & (filled < 0.5), 0.7951),  # P(0.2 < |Z| < 2)
            ((1.0 / rate > hi / 20) & (1.0 / rate < hi), np.exp(-0.1) - np.exp(-2.0)),
            ((2.5 / second > hi / 20) & (2.5 / second < hi), np.exp(-0.1) - np.exp(-2.0)),
        ):
            assert abs(found.mean() - expected) < 5 * np.sqrt(0.25 / size)
    means = Poisson().default_prior((0, 40)).draw(np.random.default_rng(0), 200_000, Poisson())
    assert abs(np.mean(means < 40) + np.expm1(-2.0) * -1 - 2 * (1 - np.exp(-2.0))) < 0.006
    assert Poisson().default_prior(None).get_params() == GammaPrior().get_params()


UNITS = {"normal": [3.0, 0.25], "exponential": [0.2], "gamma": [0.8]}


@pytest.mark.parametrize("name", UNITS)
def test_nothing_that_says_the_unit_is_no_default(name):
    """Under noise without bounds a release would be taken for one of records near 1."""
    mechanism = LaplaceMechanism(scale=2.0)
    options = {"family": name, "n_records": 20, "random_state": 0}
    with pytest.raises(ValueError, match=r"prior=None .* unit .*scale=2.0.* has no bounds; give .* a prior in the"):
        PrivateExpFamilyGibbs(mechanism, **options).fit([30.0, 70.0][: len(UNITS[name])])


@pytest.mark.slow
@pytest.mark.parametrize("name", UNITS)
def test_a_statistic_without_noise_has_its_own_unit(name):
    """The same posterior in that unit; and near the records, where the class's own prior is far off for most units."""
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 0.5, 50) if name == "normal" else rng.exponential(5.0, 50)

    def draws(unit, **options):
        statistic = [np.sum(unit * x), np.sum(np.square(unit * x))][: len(UNITS[name])]
        model = PrivateExpFamilyGibbs(None, family=name, n_records=50, random_state=0, **options).fit(statistic)
        return model.theta_draws_ / ([unit, unit**2] if name == "normal" else 1.0 / unit)

    expected = draws(1.0)
    truth = [x.mean(), x.var()] if name == "normal" else [1.0 / x.mean()]
    np.testing.assert_allclose(expected.mean(axis=(0, 1)), truth, rtol=0.1)
    for unit in (2.0**-20, 2.0**20):
        np.testing.assert_allclose(draws(unit), expected, rtol=1e-9)
    fixed = NormalInverseGammaPrior() if name == "normal" else GammaPrior()
    with pytest.raises(AssertionError):  # the broken twin: numbers of no unit
        np.testing.assert_allclose(draws(2.0**-20, prior=fixed), expected, rtol=0.1)


@pytest.mark.parametrize(
    "x, expected", [([7.0] * 3, (0.0, 14.0)), ([0.0], (-1.0, 1.0)), ([1e6 - 3, 1e6 + 3], (1e6 - 6, 1e6 + 6))]
)
def test_bounds_of_a_statistic(x, expected):
    """The mean, give or take two standard deviations; records that are all one have their size for a unit."""
    bounds = Normal().bounds_of(Normal().statistics(np.array(x)).sum(axis=0), len(x))
    np.testing.assert_allclose(bounds, expected, rtol=1e-3)
    np.testing.assert_allclose(Exponential().bounds_of(np.array([30.0]), 3), (0.0, 100.0))


# --- releases of another scaling -------------------------------------------------------------------------------------


def records_of_a_normal():
    return np.random.default_rng(0).normal(40.0, 10.0, (5000, 1))


@pytest.mark.parametrize("cls", [LaplaceMechanism, GaussianMechanism])
@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"scale": 50.0}])
def test_a_release_of_the_other_scaling_is_refused(cls, budget):
    """Σx and Σx² in place of the scaled sums: impossible as those, ordinary as what they are."""
    scaled, unscaled = (SufficientStatistics("normal", (0, 100), scaled=one) for one in (True, False))
    S = cls(**budget, query=unscaled).privatize(records_of_a_normal(), random_state=1)
    model = PrivateExpFamilyGibbs(cls(**budget, query=scaled), family="normal", n_records=5000)
    with pytest.raises(ValueError, match=r"another scaling: .* and 5000 .*'sum\(x\^2\)'.* give scaled=False"):
        model.fit(S)
    S = cls(**budget, query=scaled).privatize(records_of_a_normal(), random_state=1)
    read_problem(model, S)


@pytest.mark.filterwarnings("error")
def test_the_other_way_round_only_names_tell():
    """Scaled sums, near 0, could be those of records near 0; as a table with names they are refused."""
    pd = pytest.importorskip("pandas")
    scaled, unscaled = (
        LaplaceMechanism(epsilon=1.0, query=SufficientStatistics("normal", (0, 100), scaled=one))
        for one in (True, False)
    )
    S = scaled.privatize(records_of_a_normal(), random_state=1)
    model = PrivateExpFamilyGibbs(unscaled, family="normal", n_records=5000)
    read_problem(model, S)
    with pytest.warns(UserWarning, match="outside the bounds from 0 to 100 .*, or give scaled=True to its query"):
        clone(model).set_params(random_state=0).fit(S)
    table = pd.DataFrame([S], columns=scaled.query.statistic_names())
    with pytest.raises(ValueError, match=r"numbers \['sum\(\(x-50\)/50\)', .* releases \['sum\(x\)', 'sum\(x\^2\)'\]"):
        read_problem(model, table)
    model.set_params(mechanism=scaled)
    read_problem(model, table)
    read_problem(model, table.set_axis(["first", "second"], axis=1))  # names of one's own
    read_problem(model, table.iloc[0])
    for other_order in (table.iloc[:, ::-1], table.iloc[0, ::-1]):
        with pytest.raises(ValueError, match="numbers in that order"):
            read_problem(model, other_order)


def rescaled_problem(family, bounds, unit, shift=0.0):
    """(mechanism, release) of 40 records in another unit."""
    theta = {"Normal": [60.0, 200.0], "Exponential": [0.2], "Gamma": [0.8]}[type(family).__name__]
    records = unit * family.draw(np.random.default_rng(0), np.tile(theta, (40, 1))) + shift
    other = tuple(unit * b + shift for b in bounds)
    mechanism = LaplaceMechanism(epsilon=2.0, query=SufficientStatistics(family, other))
    return mechanism, mechanism.privatize(np.clip(records, *other)[:, None], random_state=1)


@pytest.mark.parametrize("family, bounds", SCALED[:3])
def test_what_chains_see_has_no_unit(family, bounds):
    """Release, bounds and default prior in units, for any unit (and origin) of the records."""

    def seen(unit, shift):
        mechanism, S = rescaled_problem(family, bounds, unit, shift)
        problem = read_problem(PrivateExpFamilyGibbs(mechanism, family=family, n_records=40), S).in_units()
        return [*problem.S[0], *problem.bounds, *problem.prior.get_params().values()]

    expected = seen(1.0, 0.0)
    for unit in (1e-6, 0.37, 1e6):
        shift = -3.0 * unit if isinstance(family, Normal) else 0.0
        np.testing.assert_allclose(seen(unit, shift), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("approximation", ["normal", "exact"])
@pytest.mark.parametrize("family, bounds", SCALED[:3])
def test_the_posterior_is_rescaled_with_the_data(family, bounds, approximation):
    """Records, bounds and query in another unit: the same draws in that unit.

    By powers of 2, with which nothing is rounded: chains make something else of another last digit.
    """

    def fit(unit):
        mechanism, S = rescaled_problem(family, bounds, unit)
        model = PrivateExpFamilyGibbs(
            mechanism, family=family, n_records=40, approximation=approximation, n_draws=50, n_warmup=20, n_chains=2,
            random_state=0,
        )  # fmt: skip
        return model.fit(S).theta_draws_

    expected = fit(1.0)
    for unit in (2.0**-20, 2.0**20):
        rescaled = expected * [unit, unit**2] if isinstance(family, Normal) else expected / unit
        np.testing.assert_allclose(fit(unit), rescaled, rtol=1e-13)


# --- what else knows the scaling, and doubts -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_naive_posterior_takes_a_scaled_release():
    """With next to no noise it is the conjugate posterior of the records, in their own unit."""
    x = np.random.default_rng(0).normal(40.0, 3.0, 400)
    mechanism = LaplaceMechanism(scale=1e-9, query=SufficientStatistics("normal", (0, 100)))
    prior = NormalInverseGammaPrior(30.0, 2.0, 3.0, 50.0)
    options = {"family": "normal", "n_records": 400, "prior": prior, "random_state": 0}
    naive = NaivePosterior(mechanism, **options).fit(mechanism.query.value(x))
    exact = PrivateExpFamilyGibbs(None, **options).fit([x.sum(), np.sum(x * x)])
    np.testing.assert_allclose(naive.theta_draws_, exact.theta_draws_, rtol=1e-8)
    np.testing.assert_allclose(naive.statistic_draws_[0, 0], mechanism.query.value(x), rtol=1e-8)
    assert naive.prior_ is prior


@pytest.mark.slow
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_replicated_releases_are_scaled(outside):
    """Replicates are sums of what the query says a record adds, and the entries are called as in the query."""
    query = SufficientStatistics("normal", (0, 100), outside=outside)
    mechanism = LaplaceMechanism(epsilon=2.0, query=query)
    S = mechanism.privatize(np.random.default_rng(0).normal(60.0, 30.0, (50, 1)), random_state=1)
    model = PrivateExpFamilyGibbs(mechanism, family="normal", n_records=50, n_draws=300, n_chains=2, random_state=0)
    tree = model.fit(S).to_datatree(posterior_predictive=True, random_state=0)
    assert tree["observed_data"]["entry"].to_numpy().tolist() == query.statistic_names()
    rng = np.random.default_rng(1)
    theta = model.theta_draws_.reshape(-1, 2)
    expected = np.array([query.value(Normal().draw(rng, np.tile(row, (50, 1)))) for row in theta])
    expected += rng.laplace(0.0, mechanism.noise_scale, expected.shape)
    found = tree["posterior_predictive"]["release"].to_numpy().reshape(len(theta), 2)
    for j in range(2):  # given θ both are independent draws of one law
        difference = found[:, j] - expected[:, j]
        assert abs(difference.mean()) < 5 * difference.std() / np.sqrt(len(theta))
        assert stats.ks_2samp(found[:, j], expected[:, j]).pvalue > 1e-6


@pytest.mark.slow
def test_priors_and_bounds_that_do_not_go_together_are_doubted():
    """With numbers; and a default fit is not doubted."""
    query = SufficientStatistics("normal", (0, 100))
    mechanism = GaussianMechanism(rho=1.0, query=query)
    options = {"family": "normal", "n_records": 2000, "n_draws": 200, "n_warmup": 100, "random_state": 0}
    rng = np.random.default_rng(0)
    S = mechanism.privatize(rng.normal(40.0, 10.0, (2000, 1)), random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateExpFamilyGibbs(mechanism, **options).fit(S)
    with pytest.warns(UserWarning, match=r"between 9.. and .* from 0 to 100 with probability 0:.*prior=None is"):
        PrivateExpFamilyGibbs(mechanism, prior=NormalInverseGammaPrior(1000.0, 1.0, 3.0, 100.0), **options).fit(S)
    S = mechanism.privatize(rng.normal(130.0, 20.0, (2000, 1)), random_state=1)
    words = r"probability (0.99|1) more than half .* from 0 to 100 \([89].% on average\).*wider bounds"
    with pytest.warns(UserWarning, match=words):
        PrivateExpFamilyGibbs(mechanism, **options).fit(S)


@pytest.mark.filterwarnings("ignore:with probability")
@pytest.mark.parametrize(
    ("name", "bounds", "release", "prior", "named"),
    [
        ("normal", (0, 100), [1800.0, -2400.0], None, r"sum\(\(x-50\)/50\) = 1800"),  # Σ u² of 50, (Σ u)²/n of 1620
        ("beta", (0.01, 0.9), [1900.0, 1900.0], None, r"sum\(\(log\(.* = 1900"),
        ("poisson", (0, 10), [6000.0], GammaPrior(1000.0, 1e9), r"sum\(x\) = 6000"),  # a mean of 1e-6
    ],
)
def test_numbers_that_contradict_each_other_or_the_prior_are_doubted(name, bounds, release, prior, named):
    """Each possible by itself: only the posterior sees it."""
    mechanism = LaplaceMechanism(epsilon=1.0, query=SufficientStatistics(name, bounds))
    model = PrivateExpFamilyGibbs(
        mechanism, family=name, n_records=2000, prior=prior, n_chains=2, n_draws=100, random_state=0
    )
    with pytest.warns(UserWarning, match=rf"contradicts the model: {named}, where the posterior has .*probability"):
        model.fit(release)


GRID = {  # family, records, bounds
    "normal": ("normal", lambda rng, n: rng.normal(40, 10, n), (0, 100)),
    "exponential": ("exponential", lambda rng, n: rng.exponential(20, n), (0, 100)),
    "beta": ("beta", lambda rng, n: rng.beta(2, 5, n), (0.02, 0.98)),
    "narrow beta": ("beta", lambda rng, n: rng.beta(2000, 3000, n), (0.001, 0.999)),
    "poisson": ("poisson", lambda rng, n: rng.poisson(4, n), (0, 20)),
}


def default_fit(name, n, mechanism, S):
    """A default fit, which must not warn: effective draws, and rank-normalised split R-hat."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return PrivateExpFamilyGibbs(mechanism, family=name, n_records=n, random_state=0).fit(S)


def assert_mixed(name, n, epsilon, cls, **options):
    family, make, bounds = GRID[name]
    budget = {"epsilon": epsilon, "delta": 1e-6} if "Gaussian" in cls.__name__ else {"epsilon": epsilon}
    mechanism = cls(**budget, query=SufficientStatistics(family, bounds, **options))
    x = make(np.random.default_rng(n + int(10 * epsilon)), n).astype(float)
    model = default_fit(family, n, mechanism, mechanism.privatize(x[:, None], random_state=1))
    where = f"{name}, n = {n}, ε = {epsilon}, {mechanism!r}"
    assert max(model.r_hat_.values()) <= 1.01 and min(model.ess_.values()) >= 400, where


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_default_fits_of_a_normal_mix(epsilon):
    for n in (50, 5000, 1_000_000):
        assert_mixed("normal", n, epsilon, LaplaceMechanism)


@pytest.mark.slow
@pytest.mark.parametrize("n, epsilon", [(5000, 10.0), (100_000, 1.0)])
def test_default_fits_of_narrow_beta_records_mix(n, epsilon):
    """In (log a, log b) it is a ridge a thousand times as long as it is wide, on which chains stood still."""
    assert_mixed("narrow beta", n, epsilon, LaplaceMechanism)


@pytest.mark.nightly
@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("name", GRID)
def test_default_fits_mix(name, outside):
    kinds = [LaplaceMechanism, GaussianMechanism]
    for cls in kinds + ([DiscreteLaplaceMechanism, DiscreteGaussianMechanism] if name == "poisson" else []):
        for n in (50, 300, 1000, 10_000, 1_000_000):
            for epsilon in (0.1, 1.0, 10.0):
                assert_mixed(name, n, epsilon, cls, outside=outside)


@pytest.mark.nightly
def test_default_fits_of_unscaled_releases_mix():
    """Σx and Σx² with noise of one size: a curved ridge, on which chains used to stay where they were."""
    for cls in (LaplaceMechanism, GaussianMechanism):
        for n in (300, 5000):
            for epsilon in (1.0, 10.0):
                assert_mixed("normal", n, epsilon, cls, scaled=False)
