"""People who answer whatever the cards say: their share, together with the shares of the others' categories."""

from functools import cache
from itertools import product

import numpy as np
import pytest
from grid_oracle import noncompliance_posterior
from scipy.special import logsumexp
from scipy.stats import beta as beta_law
from statistical import Disagreement, assert_mean_close, assert_pmf_close, assert_ranks_uniform, effective_sample_size

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.kernels import CategoricalKernel
from sklearn_dpmix.mechanisms import FiniteChannelMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.models import BetaPrior
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _which_chart

WARNER = FiniteChannelMechanism.warner
ONE = DirichletProcess(concentration=1e-300)  # one cluster: π ~ Dirichlet
EIGHT = np.random.default_rng(8).dirichlet(np.full(5, 0.7), 8)
THREE = [[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.2, 0.1, 0.7]]


def fitted(mechanism, Z, mixing=ONE, alpha=1.0, sampler="auto", **parameters):
    parameters = {"n_draws": 4000, "random_state": 0} | parameters
    kernel = CategoricalKernel(alpha=alpha)
    return PrivateDPMixture(mechanism, kernel=kernel, mixing=mixing, sampler=sampler, **parameters).fit(Z)


# --- few records: who does not comply, and all partitions of the others ----------------------------------------------

A, B = 1.5, 2.5
CASES = {
    "one design": (FiniteChannelMechanism(THREE), [[0], [0], [2], [0]], 0.6, 1.0),
    "two designs": (FiniteChannelMechanism.split_sample([WARNER(0.8), WARNER(0.3)]), [[0], [2], [3], [1]], 0.7, 1.0),
    "many categories": (FiniteChannelMechanism(EIGHT), [[0], [4], [2], [0]], 0.6, 1.5),
    "two questions": (
        FiniteChannelMechanism([WARNER(0.8).matrix, WARNER(0.25).matrix]), [[0, 0], [0, 0], [1, 0]], 0.5, 2.0
    ),
    "answers by other laws": (
        FiniteChannelMechanism([WARNER(0.8).matrix, THREE[:2]], noncompliant_answer=[[0.5, 0.5], [0.2, 0.0, 0.8]]),
        [[0, 2], [1, 2], [1, 1]], 0.5, 1.0,
    ),
    "three questions": (
        FiniteChannelMechanism([WARNER(0.8).matrix, WARNER(0.25).matrix, WARNER(0.9).matrix]),
        [[0, 0, 0], [0, 0, 0], [1, 0, 1]], 0.5, 2.0,
    ),
}  # fmt: skip


@cache
def exact(name, a=A, b=B):
    mechanism, Z, alpha, concentration = CASES[name]
    Z, K = np.array(Z), mechanism.n_categories
    with np.errstate(divide="ignore"):
        log_q = np.log([[one[:, z] for one, z in zip(mechanism._matrices(), row, strict=True)] for row in Z])
    x = list(product(range(K), repeat=Z.shape[1]))
    return noncompliance_posterior(log_q, mechanism.log_noncompliant(Z), a, b, alpha, x, concentration)


def compare(name, expected, sampler="auto", **parameters):
    mechanism, Z, alpha, concentration = CASES[name]
    own = mechanism.get_params(deep=False) | {"noncompliance": BetaPrior(A, B)} | parameters
    mixing = DirichletProcess(concentration)
    model = fitted(FiniteChannelMechanism(**own), Z, mixing, alpha, sampler, n_draws=2000)
    share, (first, second, pmf, predictive) = model.noncompliance_draws_, expected
    assert_mean_close(np.stack([share, share**2], axis=-1), [first, second], what=f"{name}: share outside")
    assert_pmf_close(model.n_clusters_draws_, pmf, what=f"{name}: clusters")
    x = np.array(list(product(range(mechanism.n_categories), repeat=len(Z[0]))), dtype=float)
    assert_mean_close(model.density_draws(x), predictive, what=f"{name}: predictive")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_posterior_is_exact(name, monkeypatch):
    """Catches a wrong law of the share, and compliance that is no person's but an answer's (two questions)."""
    monkeypatch.setattr(_which_chart, "MANY", len(EIGHT))
    compare(name, exact(name))


@pytest.mark.nightly
@pytest.mark.slow
def test_another_prior_is_noticed():
    for name in ("one design", "two questions"):
        with pytest.raises(Disagreement):
            compare(name, exact(name, B, A))


class TradesForNothing(MixingMeasure):
    """A twin: what those outside add to the answers is taken off other categories than it should be."""

    def answers(self, values, Z, release):
        seen = super().answers(values, Z, release)
        return seen._replace(outside=seen.outside._replace(shares=seen.outside.shares[:, ::-1].copy()))


@pytest.mark.slow
def test_a_trade_of_other_categories_is_noticed():
    with pytest.raises(Disagreement):
        compare_shares("single", sampler=TradesForNothing(), n_draws=4000)  # they mix slowly


# --- answers that say nothing leave the prior ------------------------------------------------------------------------


class ForgetsTheVolume(_which_chart.CategoricalChart):
    """A twin: what masses and shares span is taken for what masses of categories do."""

    @compiled
    def log_volume(self, ratio):
        return 0.0


def compare_prior(n_questions, sampler="auto", **parameters):
    """Of the share, and of the joint share of two yes in the first questions or of one: means and squares."""
    alpha, concentration, even = 0.7, 1.5, np.full((2, 2), 0.5)
    mechanism = FiniteChannelMechanism(
        [even] * n_questions, noncompliance=BetaPrior(A, B), noncompliant_answer=[[0.5, 0.5]] * n_questions
    )
    Z = np.array(list(product(range(2), repeat=n_questions)) * 10)
    model = fitted(mechanism, Z, DirichletProcess(concentration), alpha, sampler, **parameters)
    share, joint = model.noncompliance_draws_, model.density_draws(np.ones((1, n_questions)))[..., 0]
    one, square = 0.5**n_questions, (0.25 + 0.25 / (2 * alpha + 1)) ** n_questions
    first, second = A / (A + B), A * (A + 1) / ((A + B) * (A + B + 1))
    expected = [first, second, one, (square + concentration * one**2) / (1 + concentration)]
    found = np.stack([share, share**2, joint, joint**2], axis=-1)
    assert_mean_close(found, np.array(expected), what=f"{n_questions} questions without information")


@pytest.mark.slow
@pytest.mark.parametrize("n_questions", [2, 3])
def test_answers_that_say_nothing_leave_the_prior(n_questions):
    """Catches a wrong law of what atoms trade, with those outside and among themselves."""
    compare_prior(n_questions)


@pytest.mark.slow
@pytest.mark.usefixtures("digested_once")
def test_a_forgotten_volume_is_noticed(monkeypatch):
    monkeypatch.setitem(_which_chart.CHARTS, "categorical", ForgetsTheVolume)
    with pytest.raises(Disagreement):
        compare_prior(2, n_draws=2500)


def of_two_questions():
    rng, matrices = np.random.default_rng(5), [WARNER(0.85).matrix, WARNER(0.2).matrix]
    mechanism = FiniteChannelMechanism(matrices, noncompliance=BetaPrior(A, B))
    Z = mechanism.privatize((rng.random((400, 2)) < [0.3, 0.6]).astype(int), random_state=rng)
    Z[rng.random(400) < 0.15] = 0.0
    return mechanism, Z


def weighted(alpha, mechanism, Z, n_draws=300_000):
    """Means of the share outside, of the joint shares and of their squares: draws from the prior, weighted."""
    rng, left, joint = np.random.default_rng(9), np.ones((n_draws, 1)), np.zeros((n_draws, 4))
    for _ in range(30):  # sticks of a process with concentration 1: half of what is left, on average
        stick, (first, second) = rng.random((n_draws, 1)), rng.beta(alpha, alpha, (2, n_draws, 1))
        joint += left * stick * np.hstack([1.0 - first, first])[:, [0, 0, 1, 1]] * np.hstack([1.0 - second, second] * 2)
        left *= 1.0 - stick
    share, law = rng.beta(A, B, (n_draws, 1)), np.kron(*mechanism.matrix)
    log_likelihood = np.log((1.0 - share) * (joint @ law) + share * [1.0, 0.0, 0.0, 0.0]) @ np.bincount(
        (2 * Z[:, 0] + Z[:, 1]).astype(int)
    )
    weight = np.exp(log_likelihood - logsumexp(log_likelihood))
    values = np.hstack([share, joint])
    values = np.hstack([values, values**2])
    mean = weight @ values
    return mean, np.sqrt(weight**2 @ (values - mean) ** 2)


@pytest.mark.slow
def test_shares_of_two_questions_by_weighted_draws():
    """Catches trades of several people at once that keep another law; those of other categories are noticed."""
    mechanism, Z = of_two_questions()
    expected, error = weighted(0.7, mechanism, Z)

    def distance(sampler):
        model = fitted(mechanism, Z, DirichletProcess(1.0), 0.7, sampler, n_draws=2000)
        places = list(product(range(2), repeat=2))
        found = np.concatenate([model.noncompliance_draws_[..., None], model.density_draws(places)], axis=-1)
        found = np.concatenate([found, found**2], axis=-1)
        ess = np.array([effective_sample_size(found[..., j], 200, "share") for j in range(len(expected))])
        return np.max(np.abs(found.mean((0, 1)) - expected) / np.hypot(found.std((0, 1)) / np.sqrt(ess), error))

    assert distance(MixingMeasure(100)) < 5.0
    assert distance(TradesForNothing(100)) > 5.0


# --- any number of them: quadrature over the two shares --------------------------------------------------------------


def by_quadrature(matrix, answer, counts, a, b):
    """Means of γ, γ², p and γp, of a yes or no with shares (1 - p, p) and both priors beta ones, p's uniform."""
    matrix, answer = np.asarray(matrix), np.asarray(answer)
    share, p = (np.arange(1200) + 0.5) / 1200, (np.arange(1000) + 0.5) / 1000
    sums, top = np.zeros(5), -np.inf
    for rows in np.array_split(share, 12):
        law = (1 - p)[:, None] * matrix[0] + p[:, None] * matrix[1]
        f = (1 - rows)[:, None, None] * law + rows[:, None, None] * answer
        log_w = np.log(f[..., counts > 0]) @ counts[counts > 0] + beta_law.logpdf(rows, a, b)[:, None]
        here = log_w.max()
        if here > top:
            sums, top = sums * np.exp(top - here), here
        w, g = np.exp(log_w - top), rows[:, None]
        sums += [w.sum(), (w * g).sum(), (w * g * g).sum(), (w * p).sum(), (w * g * p).sum()]
    return sums[1:] / sums[0]


SPLIT = FiniteChannelMechanism.split_sample([WARNER(0.8), FiniteChannelMechanism.forced_response(0.3, 0.1)])
COUNTS = {"split": (SPLIT, [1310, 690, 1250, 750]), "single": (WARNER(0.75), [2500, 1500])}


def compare_shares(name, sampler="auto", n_draws=2000, **parameters):
    mechanism, counts = COUNTS[name]
    own = mechanism.get_params(deep=False) | {"noncompliance": BetaPrior(1.0, 4.0)} | parameters
    Z = np.repeat(np.arange(len(counts)), counts)[:, None]
    model = fitted(FiniteChannelMechanism(**own), Z, sampler=sampler, n_draws=n_draws)
    share = getattr(model, "noncompliance_draws_", np.zeros((4, n_draws)))
    p = model.density_draws([[1]])[..., 0]
    answer = mechanism._noncompliant_rows()[0]
    expected = by_quadrature(mechanism.matrix, answer, np.array(counts), 1.0, 4.0)
    used = slice(0 if share.any() else 2, 4 if share.any() else 3)
    found = np.stack([share, share**2, p, share * p], axis=-1)
    assert_mean_close(found[..., used], expected[used], what=name)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_shares_by_quadrature(name):
    model = compare_shares(name)
    assert max(value for key, value in model.r_hat_.items() if key != "n_clusters") < 1.01


@pytest.mark.slow
@pytest.mark.parametrize("name", COUNTS)
def test_who_forgets_noncompliance_is_wrong(name):
    with pytest.raises(Disagreement):
        compare_shares(name, noncompliance=None)
    with pytest.raises(Disagreement):
        compare_shares(name, noncompliance=BetaPrior(4.0, 1.0))


@pytest.mark.slow
def test_what_is_not_identified_stays_wide():
    """From 10⁶ answers: two designs tell the share to a percent, one says what the prior and the bounds say."""
    rng = np.random.default_rng(0)
    spread = {}
    designs = {"one": WARNER(0.75), "two": FiniteChannelMechanism.split_sample([WARNER(0.8), WARNER(0.3)])}
    for name, mechanism in designs.items():
        mechanism = mechanism.set_params(noncompliance=BetaPrior(1, 4))
        Z = mechanism.privatize((rng.random((1_000_000, 1)) < 0.3).astype(int), random_state=rng)
        outside = rng.random(len(Z)) < 0.1
        Z[outside] = np.where(Z[outside] > 1.0, 2.0, 0.0)
        model = fitted(mechanism, Z, n_draws=1000)
        assert max(value for key, value in model.r_hat_.items() if key != "n_clusters") < 1.02
        share, p = model.noncompliance_draws_, model.density_draws([[1]])
        assert abs(share.mean() - 0.1) < 5 * share.std() and abs(p.mean() - 0.3) < 5 * p.std()
        spread[name] = share.std()
    assert spread["two"] < 0.003 and spread["one"] > 0.08


# --- calibration, and other parts ------------------------------------------------------------------------------------


def simulated(n_replicates, n, fits_with=None):
    """Ranks of the share and of the joint share of two yes, of two questions with a mixture of their own."""
    rng, mechanism = np.random.default_rng(3), FiniteChannelMechanism([WARNER(0.85).matrix, WARNER(0.2).matrix])
    truth, draws = [], []
    for _ in range(n_replicates):
        share, sticks = rng.beta(A, B), rng.beta(1.0, 1.0, 100)
        weights = sticks * np.cumprod(np.append(1.0, 1.0 - sticks[:-1]))
        yes = rng.beta(0.7, 0.7, (100, 2))
        cluster = rng.choice(100, n, p=weights / weights.sum())
        Z = mechanism.privatize((rng.random((n, 2)) < yes[cluster]).astype(int), random_state=rng)
        Z[rng.random(n) < share] = 0.0
        own = fits_with or FiniteChannelMechanism(mechanism.matrix, noncompliance=BetaPrior(A, B))
        few = {"n_chains": 1, "n_draws": 99, "n_warmup": 300, "thin": 30}
        model = fitted(own, Z, DirichletProcess(1.0), 0.7, MixingMeasure(60), **few)
        truth.append([share, weights @ yes.prod(axis=1) / weights.sum()])
        found = getattr(model, "noncompliance_draws_", np.zeros((1, 99)))[0], model.density_draws([[1, 1]])[0, :, 0]
        draws.append(found)
    return np.array(truth), np.array(draws), rng


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_ranks_of_the_truth_are_uniform():
    truth, draws, rng = simulated(400, 40)
    for j, what in enumerate(["share outside", "joint share"]):
        assert_ranks_uniform(truth[:, j], draws[:, j], rng, what=what)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_ranks_notice_forgotten_noncompliance():
    forgets = FiniteChannelMechanism([WARNER(0.85).matrix, WARNER(0.2).matrix])
    truth, draws, rng = simulated(400, 40, forgets)
    with pytest.raises(Disagreement):
        assert_ranks_uniform(truth[:, 1], draws[:, 1], rng, what="joint share")


def by_prior_draws(mechanism, counts, a, b, size=2_000_000):
    """Means of γ and p with errors, of one component or two with even weights' law, by draws of the prior."""
    rng = np.random.default_rng(4)
    w = np.where(rng.random(size) < 0.4, 1.0, rng.random(size))
    share, p = rng.beta(a, b, size), w * rng.random(size) + (1 - w) * rng.random(size)
    law = (1 - p)[:, None] * mechanism.matrix[0] + p[:, None] * mechanism.matrix[1]
    law = (1 - share)[:, None] * law + share[:, None] * mechanism._noncompliant_rows()[0]
    log_w = np.log(law) @ counts
    weight, values = np.exp(log_w - logsumexp(log_w)), np.stack([share, p], axis=1)
    found = weight @ values
    return found, np.sqrt(weight**2 @ (values - found) ** 2)


@pytest.mark.nightly
@pytest.mark.slow
def test_finite_mixtures_by_draws_of_the_prior():
    """Catches a trade or an exchange that forgets the masses' own law: components' masses are gamma variables."""
    own = SPLIT.get_params(deep=False) | {"noncompliance": BetaPrior(1.0, 4.0)}
    mechanism, counts = FiniteChannelMechanism(**own), np.array([13, 7, 12, 8])
    model = fitted(mechanism, np.repeat(np.arange(4), counts)[:, None], MixtureOfFiniteMixtures(1.0, [0.4, 0.6]))
    found = [model.noncompliance_draws_, model.density_draws([[1]])[..., 0]]
    for j, (value, error) in enumerate(zip(*by_prior_draws(mechanism, counts, 1.0, 4.0), strict=True)):
        spread = np.hypot(error, found[j].std() / np.sqrt(effective_sample_size(found[j], 1000, "share")))
        assert error < 0.01 * found[j].std() and abs(found[j].mean() - value) < 5 * spread


@pytest.mark.slow
def test_scores_of_releases_count_those_who_do_not_comply():
    """The predictive law of a release sums to one, and is the mean over draws of (1 - γ) f + γ s."""
    mechanism, counts = COUNTS["split"]
    mechanism = FiniteChannelMechanism(**mechanism.get_params(deep=False) | {"noncompliance": BetaPrior(1.0, 4.0)})
    model = fitted(mechanism, np.repeat(np.arange(4), np.array(counts) // 10)[:, None], n_draws=100)
    log_g = np.array([model.score_release([[z]]) for z in range(4)])
    assert logsumexp(log_g) == pytest.approx(0.0, abs=1e-9)
    share, p = model.noncompliance_draws_, model.density_draws([[0], [1]])
    law = (1 - share)[..., None] * (p @ mechanism.matrix) + share[..., None] * mechanism._noncompliant_rows()[0]
    np.testing.assert_allclose(np.exp(log_g), law.mean(axis=(0, 1)), rtol=1e-9)
    pytest.importorskip("arviz_base")
    one_by_one = model.to_datatree(log_likelihood=True)["log_likelihood"]["release"].to_numpy()
    np.testing.assert_allclose(np.exp(one_by_one[..., 0]), law[..., 0], rtol=1e-9)


def test_who_does_not_comply_is_in_no_cluster():
    """Similarities against sticks weighted by the likelihood; catches those of records that all follow the design."""
    rng, size, Z, row = np.random.default_rng(0), 20_000, np.array([0, 1, 1, 2]), [0.2, 0.3, 0.5]
    matrix = np.array([[0.6, 0.4, 0.0], [0.15, 0.85, 0.0]])
    v, share = rng.beta(1.0, 1.0, (size, 30)), rng.beta(2.0, 2.0, (size, 1, 1))
    w = v * np.cumprod(np.column_stack([np.ones(size), 1.0 - v[:, :-1]]), axis=1)
    p = rng.random((size, 1, 30))
    comply = (1.0 - share) * w[:, None] * (p * matrix[0, Z][:, None] + (1.0 - p) * matrix[1, Z][:, None])
    total = comply.sum(axis=2) + share[..., 0] * np.array(row)[Z]
    each, weight = comply / total[..., None], np.prod(total, axis=1) / np.sum(np.prod(total, axis=1))
    together = np.einsum("tik,tjk->tij", each, each)
    expected = np.einsum("t,tij->ij", weight, together)
    error = np.sqrt(np.einsum("t,tij->ij", weight**2, (together - expected) ** 2))
    mechanism = FiniteChannelMechanism(matrix, noncompliance=BetaPrior(2.0, 2.0), noncompliant_answer=[row])
    model = fitted(mechanism, Z[:, None], DirichletProcess(1.0), n_draws=2000)
    found, apart = model.similarity(n_partitions=8000, random_state=0), ~np.eye(4, dtype=bool)
    spread = np.hypot(error, np.sqrt(expected * (1.0 - expected) / min(model.ess_.values())))
    assert np.all(np.abs(found - expected)[apart] <= 5 * spread[apart])
    assert not found[3, :3].any() and np.all(found.diagonal() == 1.0)


def test_refusals():
    compliant = FiniteChannelMechanism(THREE)
    for wrong in (0.1, "beta", BetaPrior):
        with pytest.raises((ValueError, TypeError), match=r"noncompliance must be a BetaPrior|got noncompliance"):
            fitted(FiniteChannelMechanism(THREE, noncompliance=wrong), [[0]])
    with pytest.raises(ValueError, match="a of BetaPrior must be a positive"):
        fitted(FiniteChannelMechanism(THREE, noncompliance=BetaPrior(0.0, 1.0)), [[0]])
    for answer in (3, -1, [0.5, 0.5, 0.0], [[0.5, 0.6, 0.0]], [[0.5, 0.5]], "no"):
        with pytest.raises(ValueError, match="noncompliant_answer must be the number of an answer"):
            fitted(FiniteChannelMechanism(THREE, noncompliance=BetaPrior(), noncompliant_answer=answer), [[0]])
        with pytest.raises(ValueError, match="noncompliant_answer must be the number of an answer"):
            fitted(FiniteChannelMechanism(THREE, noncompliant_answer=answer), [[0]])
    mechanism = FiniteChannelMechanism(THREE, noncompliance=BetaPrior())
    for parts in ({"sampler": "neal8"}, {"sampler": "conditional"}, {"mixing": PitmanYor()}):
        with pytest.raises(ValueError, match=r"noncompliance=BetaPrior\(\) needs MixingMeasure"):
            fitted(mechanism, [[0]], **parts)
    for designs in ([WARNER(0.8)], WARNER(0.8), [WARNER(0.8), 0.3]):
        with pytest.raises(ValueError, match="designs must be a list of two or more"):
            FiniteChannelMechanism.split_sample(designs)
    with pytest.raises(ValueError, match="equally many categories"):
        FiniteChannelMechanism.split_sample([WARNER(0.8), compliant])
    for shares in ([0.5, 0.6], [1.0, 0.0], [1.0], "even"):
        with pytest.raises(ValueError, match="shares must be 2 positive numbers that sum to 1"):
            FiniteChannelMechanism.split_sample([WARNER(0.8), WARNER(0.3)], shares)


def test_an_answer_that_only_they_give_is_theirs():
    """Kept where the matrix alone would refuse it."""
    matrix = [[0.7, 0.3, 0.0], [0.3, 0.7, 0.0]]
    with pytest.raises(ValueError, match="nobody gives"):
        FiniteChannelMechanism(matrix).check_release(np.array([[2.0]]))
    silent = FiniteChannelMechanism(matrix, noncompliance=BetaPrior(), noncompliant_answer=2)
    silent.check_release(np.array([[2.0]]))


def test_the_loss_of_two_designs_is_the_larger_one():
    both = FiniteChannelMechanism.split_sample([WARNER(0.8), WARNER(0.3)], [0.9, 0.1])
    assert both.guarantee().epsilon == pytest.approx(WARNER(0.8).guarantee().epsilon)
    np.testing.assert_allclose(both.matrix.sum(axis=1), 1.0)
