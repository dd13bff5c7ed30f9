"""PrivateMCEM against likelihoods that are sums: the paper's Example 4, binomial counts, normal sums."""

import re
import warnings

import numpy as np
import pytest
from curator_oracle import gaussian, laplace
from scipy import optimize, stats
from simulated_models import Plain, Z, judge
from sklearn.base import clone
from statistical import Disagreement

from sklearn_dpmix import PrivateMCEM
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import BinomialCount, GammaPrior, NormalMoments, PoissonCount, StochasticSIR
from sklearn_dpmix.samplers.simulation import _likelihood_ascent


def exact(log_pmf, log_noise, S, support, bounds):
    """(maximum, observed information) of log Σ_s p(s | θ) q(S | s), by a bounded search and central differences."""
    noise = log_noise(S - support)

    def loss(theta):
        return -np.logaddexp.reduce(log_pmf(support, theta) + noise)

    at = optimize.minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
    step = 1e-3 * at
    return at, (loss(at + step) - 2.0 * loss(at) + loss(at - step)) / step**2


COUNTS = {
    "example 4": (PoissonCount(), stats.poisson.logpmf, 37.4, 5.0, np.arange(400.0), (1.0, 200.0)),
    "binomial": (
        BinomialCount(30),
        lambda s, p: stats.binom.logpmf(s, 30, p),
        21.3,
        3.0,
        np.arange(31.0),
        (0.01, 0.99),
    ),
}


def check(name, **params):
    """The maximum within its Monte Carlo error; the information of ten runs within theirs."""
    model, log_pmf, S, scale, support, bounds = COUNTS[name]
    maximum, information = exact(log_pmf, laplace(scale), S, support, bounds)
    fits = [
        PrivateMCEM(LaplaceMechanism(scale=scale), model=model, random_state=seed, **params).fit([S])
        for seed in range(10)
    ]
    theta = np.array([fit.theta_[0] for fit in fits])
    judge(theta.mean(), maximum, np.mean([fit.monte_carlo_error_[0] for fit in fits]) / 10**0.5)
    # the Newton step leaves a bias of second order in tol
    assert theta.std(ddof=1) < 2.5 * np.mean([fit.monte_carlo_error_[0] for fit in fits])
    found = np.array([fit.information_[0, 0] for fit in fits])
    judge(found.mean(), information, found.std(ddof=1) / 10**0.5 * 1.5)
    return fits[0]


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    """Catches weights by another noise, an information without its third term, a maximum of another sum."""
    fit = check(name)
    assert fit.converged_ and np.allclose(fit.standard_error_, fit.information_[0, 0] ** -0.5)


def test_example_4_as_printed():
    fit = PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), tol=1e-3, random_state=0).fit([37.4])
    maximum, information = exact(stats.poisson.logpmf, laplace(5.0), 37.4, np.arange(400.0), (1.0, 200.0))
    assert (round(maximum, 3), float(f"{information:.3e}")) == (37.237, 1.582e-2)  # the paper's
    judge(fit.theta_[0], 37.237, fit.monte_carlo_error_[0] + 5e-4 / Z)
    assert abs(fit.information_[0, 0] / 1.582e-2 - 1.0) < 2e-3


@pytest.mark.parametrize("name", COUNTS)
def test_numeric_steps_are_the_closed_ones(name):
    model, _, S, scale, _, _ = COUNTS[name]
    mechanism, start = LaplaceMechanism(scale=scale), model.sample_prior(np.random.default_rng(0), 100).mean(axis=0)
    numeric = PrivateMCEM(mechanism, model=Plain(model, start), random_state=1).fit([S])
    closed = PrivateMCEM(mechanism, model=model, random_state=2).fit([S])
    error = np.hypot(numeric.monte_carlo_error_[0], closed.monte_carlo_error_[0])
    judge(numeric.theta_[0], closed.theta_[0], error)
    assert np.isclose(numeric.information_[0, 0], closed.information_[0, 0], rtol=0.03)


class Logistic:
    """A number from the logistic distribution around θ, of this scale, whose likelihood is not a parabola."""

    def __init__(self, origin, unit):
        self.unit, self.theta_init = unit, [origin + 3.0 * unit]

    def sample_statistic(self, rng, theta):
        return rng.logistic(theta, self.unit)

    def log_likelihood(self, statistics, theta):
        z = np.abs(statistics - theta)[:, 0] / self.unit
        return -z - 2.0 * np.log1p(np.exp(-z)) - np.log(self.unit)


@pytest.mark.parametrize("origin, unit", [(0.0, 1e-9), (0.0, 1e9), (1.7e9, 10.0), (-1e6, 1.0)])
def test_numeric_derivatives_have_no_unit_and_no_origin(origin, unit):
    """Steps that were a part of the parameter, or of 0.001, were far too long or too short."""
    fits = [
        PrivateMCEM(LaplaceMechanism(scale=2.0 * b), model=Logistic(a, b), random_state=0).fit([[a + b], [a + 2.7 * b]])
        for a, b in ((0.0, 1.0), (origin, unit))
    ]
    assert abs((fits[1].theta_[0] - origin) / unit - fits[0].theta_[0]) < 1e-3
    assert np.isclose(fits[1].standard_error_[0] / unit, fits[0].standard_error_[0], rtol=1e-3)
    assert fits[1].converged_


def test_normal_sums():
    """Two parameters: the score of the exact likelihood, by quadrature over both sums, is 0 at the estimate."""
    n, S, scale = 12, np.array([12.0, 60.0]), 2.0
    model = NormalMoments(n)
    fit = PrivateMCEM(GaussianMechanism(scale=scale), model=model, random_state=0).fit(S)
    noise, (nodes, weights) = gaussian(scale), np.polynomial.legendre.leggauss(150)

    def log_likelihood(theta):
        total, residual = 12.0 + 17.0 * nodes[:, None], 60.0 + 60.0 * nodes
        statistics = np.stack(np.broadcast_arrays(total, total**2 / n + residual), axis=-1).reshape(-1, 2)
        value = model.log_likelihood(statistics, np.tile(theta, (len(statistics), 1)))
        value += noise(S - statistics).sum(axis=1)
        return np.log(weights @ np.exp(value).reshape(len(nodes), -1) @ weights)

    steps = 1e-2 * np.eye(2)
    score = [(log_likelihood(fit.theta_ + h) - log_likelihood(fit.theta_ - h)) / 2e-2 for h in steps]
    moved = np.linalg.solve(fit.information_, score)  # how far the estimate is from the maximum
    assert np.all(np.abs(moved) < 5 * fit.monte_carlo_error_ + 1e-3 * fit.standard_error_)


@pytest.mark.parametrize("seed", [7, 8, 10])
def test_standard_errors_are_those_at_the_estimate(seed):
    """They were those at the start of the last step: of the variance of three records 1.75, 1.36, 1.36 here."""
    mean_nodes, chi2 = np.linspace(-7.0, 7.0, 281), stats.chi2.ppf((np.arange(2000) + 0.5) / 2000, 2)

    def log_likelihood(theta):
        total, residual = 3.0 * theta[0] + np.sqrt(3.0 * theta[1]) * mean_nodes[:, None], theta[1] * chi2
        of_sum, of_squares = (stats.norm.pdf(z, e) for z, e in ((2.5, total), (6.0, total**2 / 3.0 + residual)))
        return np.log(np.sum(stats.norm.pdf(mean_nodes) * (of_sum * of_squares).mean(axis=1)))

    fit = PrivateMCEM(GaussianMechanism(scale=1.0), model=NormalMoments(3), tol=0.1, random_state=seed).fit([2.5, 6.0])
    h = 0.01 * np.eye(2)
    information = [
        [sum(-a * b * log_likelihood(fit.theta_ + a * i + b * j) for a in (1, -1) for b in (1, -1)) / 4e-4 for j in h]
        for i in h
    ]
    expected = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(fit.standard_error_, expected, rtol=0.1)  # two of what is asked for


@pytest.mark.parametrize("seed", [60, 61, 62, 63])
def test_few_simulations_do_not_lose_the_maximum(seed):
    """Steps of nothing but Monte Carlo error led away from it, to where the information is not positive."""
    fit = PrivateMCEM(GaussianMechanism(scale=1.0), model=NormalMoments(3), max_simulations=300_000, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        fit.fit([2.5, 6.0])
    error = np.array([0.811, 1.804])  # by quadrature, as the maximum
    assert np.all(np.abs(fit.theta_ - [1.1245, 0.5832]) < 0.1 * error)
    assert np.all((0.5 * error < fit.standard_error_) & (fit.standard_error_ < 2.0 * error)) and fit.converged_


@pytest.mark.parametrize(
    ("most", "tol", "match"),
    [
        (3000, 1e-3, "more than tol=0.001 standard errors: increase"),
        (10_000, 0.2, "to [0-9]+% only"),
        (1_000_000, 0.2, ""),
    ],
)
def test_what_is_not_known_well_is_said(most, tol, match):
    """And nothing if the error is below the tolerance that was asked for; it was to be below a tenth of it."""
    model = PrivateMCEM(GaussianMechanism(scale=1.0), model=NormalMoments(3), tol=tol, max_simulations=most)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_params(random_state=7).fit([2.5, 6.0])
    assert bool(caught) == bool(match) and re.search(match, "".join(str(one.message) for one in caught))


class HalfInformed(_likelihood_ascent.Likelihood):
    """A score that is half as large: its products in Louis' formula count a quarter."""

    def score(self, statistics, theta):
        return 0.5 * super().score(statistics, theta)


class Flatter(_likelihood_ascent.Likelihood):
    """Second derivatives that are a fifth too small."""

    def hessian(self, statistics, theta):
        return 0.8 * super().hessian(statistics, theta)


@pytest.mark.filterwarnings("ignore:Monte Carlo EM ended")
@pytest.mark.parametrize("twin", [HalfInformed, Flatter])
def test_broken_twins_are_rejected(twin, monkeypatch):
    from sklearn_dpmix.estimators.simulation import _mcem as estimator

    monkeypatch.setattr(estimator, "Likelihood", twin)
    with pytest.raises(Disagreement):
        check("example 4", max_iter=30, max_simulations=300_000)


def test_another_noise_is_rejected():
    """The information says how wide the noise was taken to be."""
    fit = PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), random_state=0).fit([37.4])
    for scale, error in ((5.0, None), (6.0, Disagreement)):
        _, information = exact(stats.poisson.logpmf, laplace(scale), 37.4, np.arange(400.0), (1.0, 200.0))
        if error is None:
            judge(fit.information_[0, 0], information, 0.003 * information)
            continue
        with pytest.raises(error):
            judge(fit.information_[0, 0], information, 0.003 * information)


def test_attributes_and_interval():
    model = PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), random_state=0)
    fit = clone(model).fit([37.4])
    assert fit.trace_["theta"].shape == (fit.n_iter_, 1) and np.all(np.diff(fit.trace_["n_simulations"]) >= 0)
    low, high = fit.interval()
    assert np.isclose(high[0] - low[0], 2 * 1.959964 * fit.standard_error_[0])
    assert np.array_equal(fit.theta_, clone(model).fit([37.4]).theta_)
    with pytest.raises(ValueError, match=r"level must be a probability between 0 and 1, both excluded, got level=1"):
        fit.interval(1)


class Unlikely(PoissonCount):
    """Draws what it says to be impossible."""

    def __init__(self, **attributes):
        super().__init__(prior=GammaPrior(25.0, 1.0))
        vars(self).update(attributes)

    def log_likelihood(self, statistics, theta):
        return np.where(statistics[:, 0] > 5.0, -np.inf, 0.0)


WRONG = [
    ({"mechanism": None}, TypeError, "mechanism must be an object that adds noise"),
    ({"model": StochasticSIR()}, TypeError, r"the model needs log_likelihood\(statistics, theta\) -> \(size,\)"),
    ({"model": Plain(PoissonCount(), None)}, TypeError, "needs theta_init of shape .* or sample_prior"),
    ({"model": PoissonCount(prior=3)}, ValueError, "prior of PoissonCount must be a GammaPrior, got prior=3"),
    ({"model": PoissonCount(0)}, ValueError, "n_records of PoissonCount must be an integer, 1 or more, got n_rec.*=0"),
    ({"tol": 0.0}, ValueError, "tol"),
    ({"n_starts": 0}, ValueError, "n_starts"),
    (
        {"model": Plain(PoissonCount(), [3.0]), "n_starts": 2},
        TypeError,
        r"with n_starts=2: the model needs sample_prior\(rng, size\), which Plain does not have",
    ),
    ({"model": Plain(PoissonCount(), [np.nan])}, ValueError, r"Plain.theta_init must be 1 finite number.*got \[nan\]"),
    ({"model": Plain(PoissonCount(), "many")}, ValueError, "theta_init must be .* finite number.*got 'many'"),
    ({"model": Unlikely()}, ValueError, r"finite where sample_statistic draws, got -inf of \[\d+.0\] at theta="),
    ({"model": Unlikely(theta_init=[1.0, 2.0])}, ValueError, r"theta_init must be 1 finite number.*got \[1.0, 2.0\]"),
    ({"model": Unlikely(log_likelihood=lambda s, t: "a")}, ValueError, "must be numbers .*got something that is not"),
    ({"n_simulations": 1}, ValueError, "n_simulations"),
]


@pytest.mark.parametrize(("params", "error", "message"), WRONG, ids=range(len(WRONG)))
def test_wrong_input_is_named(params, error, message):
    model = PrivateMCEM(**{"mechanism": LaplaceMechanism(scale=5.0), "model": PoissonCount(), **params})
    with pytest.raises(error, match=message):
        model.fit([37.4])


def test_what_did_not_converge_is_said():
    few = {"max_iter": 2, "max_simulations": 20_000, "random_state": 0}
    model = PrivateMCEM(LaplaceMechanism(scale=5.0), model=Plain(PoissonCount(), [1.0]), **few)
    with pytest.warns(RuntimeWarning, match="did not converge within max_iter=2 steps"):
        model.fit([37.4])
    assert not model.converged_


@pytest.mark.parametrize("most", [1000, 1499])
def test_an_accepted_step_is_followed_by_more_where_no_further_simulations_fit(most):
    """Catches an ascent that ends with its first good step because a larger sample would be beyond the most."""
    model = PrivateMCEM(LaplaceMechanism(scale=5.0), model=Plain(PoissonCount(), [5.0]), tol=0.05, max_simulations=most)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # so few leave an error
        model.set_params(random_state=0).fit([37.4])
    trace = model.trace_
    assert np.all(trace["n_simulations"] <= most)
    is_rise = trace["gain"] >= stats.norm.isf(_likelihood_ascent.ALPHA) * trace["gain_error"]
    assert np.all(is_rise[:-1]) and (model.converged_ or not is_rise[-1])
    assert abs(model.theta_[0] - 37.237) < 2.0  # the first step ends at 17; one standard error is 8


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_where_the_noise_is_all_there_is(noise):
    """EM creeps by a share of the complete information: the end is where Newton's steps end, and not where EM slows."""
    mechanism, log_noise = {"gaussian": (GaussianMechanism, gaussian), "laplace": (LaplaceMechanism, laplace)}[noise]
    fit = PrivateMCEM(mechanism(scale=100.0), model=PoissonCount(), random_state=0, max_simulations=1e6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        fit.fit([700.0])
    maximum, information = exact(stats.poisson.logpmf, log_noise(100.0), 700.0, np.arange(3000.0), (300.0, 1200.0))
    assert abs(fit.theta_[0] - maximum) < 0.1 * information**-0.5
    assert noise == "laplace" or fit.converged_


def test_no_estimate_leaves_the_parameters():
    """Counts with a release below 0: the maximum is at 0, and there are no Newton steps beyond."""
    with pytest.warns(RuntimeWarning, match="Monte Carlo EM ended at theta="):
        fit = PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), max_simulations=1e6, random_state=0)
        fit.fit([-3.0])
    assert 0.0 <= fit.theta_[0] < 1.0 and not fit.converged_


class TwoHills:
    """s ~ N((θ², 0.3 θ), I): the sign of θ hangs on the second number."""

    theta_init = (-1.5,)

    def sample_prior(self, rng, size):
        return rng.normal(0.0, 2.0, (size, 1))

    def _mean(self, theta):
        return np.column_stack([theta[:, 0] ** 2, 0.3 * theta[:, 0]])

    def sample_statistic(self, rng, theta):
        return rng.normal(self._mean(theta))

    def log_likelihood(self, statistics, theta):
        return -0.5 * np.sum((statistics - self._mean(theta)) ** 2, axis=1)


def test_at_an_edge_there_is_no_standard_error():
    """The information of the simulations there says nothing: the likelihood has no maximum inside."""
    few = {"max_simulations": 1e6, "random_state": 1}  # that of 0 ends at 1 itself, where other words are said
    model = PrivateMCEM(LaplaceMechanism(scale=4.0), model=BinomialCount(10), **few)
    with pytest.warns(RuntimeWarning, match="towards the edge of the parameters: no standard error"):
        model.fit([[17.0], [13.0]])
    assert model.theta_ > 0.99 and np.isnan(model.standard_error_) and np.all(np.isnan(model.interval()))
    with pytest.warns(RuntimeWarning) as told:
        model.set_params(model=PoissonCount(), mechanism=LaplaceMechanism(scale=0.01)).fit([-50.0])
    assert [str(one.message).split(": ", 1)[1] for one in told] == [
        "the log likelihood has no derivatives there: no standard error"
    ]


def test_several_starts():
    """The likelihood, N(s_obs; (θ², 0.3 θ), 1.25 I), has a hill on either side of 0, and one of them is higher."""
    S, mechanism = np.array([4.0, 0.9]), GaussianMechanism(scale=0.5)

    def loss(theta):
        return 0.5 * ((S[0] - theta**2) ** 2 + (S[1] - 0.3 * theta) ** 2) / 1.25

    ends = [optimize.minimize_scalar(loss, bounds=b, method="bounded").x for b in ((-3.0, -1.0), (1.0, 3.0))]
    one = PrivateMCEM(mechanism, model=TwoHills(), random_state=0, tol=0.05).fit(S)
    judge(one.theta_[0], ends[0], one.monte_carlo_error_[0] + 0.05 * one.standard_error_[0] / Z)
    several = clone(one).set_params(n_starts=4)
    with pytest.warns(RuntimeWarning, match=r"\d of 4 starts ended elsewhere, at \[-1\.9.* \(log likelihood") as record:
        several.fit(S)
    judge(several.theta_[0], ends[1], several.monte_carlo_error_[0] + 0.05 * several.standard_error_[0] / Z)
    assert len(record) == 1 and several.converged_ and several.trace_["theta"].shape == (several.n_iter_, 1)
    assert several.starts_["theta"].shape == (4, 1) and several.starts_["theta_init"][0, 0] == -1.5
    assert several.log_likelihood_ == several.starts_["log_likelihood"].max() > several.starts_["log_likelihood"][0]
    judge(several.starts_["theta"][0, 0], ends[0], one.monte_carlo_error_[0] + 0.05 * one.standard_error_[0] / Z)


class Interrupts(PoissonCount):
    """Stops at the twenty-fifth step of all."""

    n_calls = 0

    def maximise(self, statistics, weights):
        Interrupts.n_calls += 1
        if Interrupts.n_calls == 25:
            raise KeyboardInterrupt
        return super().maximise(statistics, weights)


def test_an_interruption_ends_all_starts(monkeypatch):
    monkeypatch.setattr(Interrupts, "n_calls", 0)
    model = PrivateMCEM(LaplaceMechanism(scale=5.0), model=Interrupts(), n_starts=50, random_state=0)
    with pytest.warns(RuntimeWarning, match=r"it was interrupted after \d+ of n_starts=50 ascents$"):
        model.fit([37.4])
    n = len(model.starts_["theta"])
    assert 1 < n < 50 and model.starts_["theta_init"].shape == (n, 1) and model.converged_
    assert Interrupts.n_calls == 25


def test_an_interruption_is_not_called_a_limit(monkeypatch):
    """Catches Ctrl-C that is reported as max_iter reached."""
    monkeypatch.setattr(Interrupts, "n_calls", 22)
    model = PrivateMCEM(LaplaceMechanism(scale=5.0), model=Interrupts(), max_simulations=1e6, random_state=0)
    with pytest.warns(RuntimeWarning, match="it was interrupted after 2 steps") as caught:
        model.fit([37.4])
    assert not model.converged_ and not any("max_iter" in str(one.message) for one in caught)


def test_starts_that_agree_say_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), n_starts=3, random_state=0).fit([37.4])
    assert np.ptp(fit.starts_["theta"]) > 0.0 and fit.starts_["converged"].all()


def test_derivatives_of_the_wrong_shape_are_named():
    class Flat(PoissonCount):
        def score(self, statistics, theta):
            return super().score(statistics, theta)[:, 0]

    with pytest.raises(ValueError, match=r"Flat.score\(statistics, theta\) must have shape"):
        PrivateMCEM(LaplaceMechanism(scale=5.0), model=Flat(), random_state=0).fit([37.4])


class Successes:
    """Of twelve trials, as a user may write it: outside of [0, 1] nothing is likely."""

    theta_init = (0.5,)

    def sample_statistic(self, rng, theta):
        return rng.binomial(12, theta).astype(float)

    def log_likelihood(self, statistics, theta):
        with np.errstate(all="ignore"):
            found = stats.binom.logpmf(statistics[:, 0], 12, theta[:, 0])
        return np.where((theta[:, 0] < 0.0) | (theta[:, 0] > 1.0), -np.inf, found)


def test_a_maximum_at_the_edge_is_said_in_words():
    """Catches NumPy's warnings of the derivatives that do not exist there."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = PrivateMCEM(LaplaceMechanism(scale=1.0), model=Successes(), max_simulations=1e6, random_state=1)
        fitted.fit([[-1.0]])
    assert fitted.theta_[0] < 0.05
    assert not [w for w in caught if "encountered in" in str(w.message)]
