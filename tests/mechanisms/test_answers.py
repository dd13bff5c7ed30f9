"""Finite channels and unary encoding: their laws, privacy by brute force, g by sums, designs of surveys, wrong input.

Their posteriors are in ``test_exact_channels.py``.  Compiled methods run here as the plain Python that they are.
"""

import itertools
import warnings

import numpy as np
import pytest
from scipy import stats

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix._releases.misfits import misfits
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import CategoricalKernel, NormalKernel
from sklearn_dpmix.mechanisms import FiniteChannelMechanism, RandomizedResponseMechanism, UnaryEncodingMechanism
from sklearn_dpmix.models import BetaPrior
from sklearn_dpmix.samplers import Auto, Conditional, JainNeal, MixingMeasure

ALPHA = 1e-6
FOUR = [[0.6, 0.3, 0.1, 0.0], [0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25]]
CLEAR = [[0.7, 0.2, 0.1, 0.0], [0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6]]
MIXED = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]

SPELLINGS = "optimised", "optimized"


def records(n_categories, d):
    return np.array(list(itertools.product(range(n_categories), repeat=d)), dtype=float)


def table(mechanism, releases, X):
    """Probability of each release (columns) given each record (rows)."""
    return np.exp([mechanism.log_density(releases, np.tile(x, (len(releases), 1))) for x in X])


def bit_law(epsilon, n_categories, kind, X):
    """The same of unary encoding of one category, from the definition."""
    e = np.exp(epsilon)
    p, q = (0.5, 1 / (e + 1)) if kind == "optimised" else (np.sqrt(e) / (np.sqrt(e) + 1), 1 / (np.sqrt(e) + 1))
    one = np.where(X == np.arange(n_categories), p, q)[:, None]
    return np.prod(np.where(records(2, n_categories) == 1, one, 1 - one), axis=2)


# --- law and guarantee ------------------------------------------------------------------------------------------------


CASES = {
    "a matrix": (FiniteChannelMechanism(MIXED), records(3, 1), records(3, 1), np.log(5.0)),
    "two questions": (
        FiniteChannelMechanism([MIXED, np.array(MIXED)[::-1, ::-1]]), records(3, 2), records(3, 2), np.log(25.0)
    ),
    "more answers": (
        FiniteChannelMechanism([[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]]), records(4, 1), records(2, 1), np.log(4.0)
    ),
    "an answer nobody gives": (
        FiniteChannelMechanism([[0.2, 0.8, 0.0], [0.4, 0.6, 0.0]]), records(2, 1), records(2, 1), np.log(2.0)
    ),
    "k-ary": (FiniteChannelMechanism.k_ary(1.3, 5), records(5, 1), records(5, 1), 1.3),
    "Hadamard": (FiniteChannelMechanism.hadamard_response(1.1, 5), records(8, 1), records(5, 1), 1.1),
    "local hashing": (
        FiniteChannelMechanism.local_hashing(1.2, [[0, 1, 2, 1], [2, 2, 0, 1]]), records(6, 1), records(4, 1), 1.2
    ),
    "optimised bits": (UnaryEncodingMechanism(1.7, 3), records(2, 3), records(3, 1), 1.7),
    "symmetric bits": (UnaryEncodingMechanism(1.7, 3, "symmetric"), records(2, 3), records(3, 1), 1.7),
    "bits of two features": (UnaryEncodingMechanism(1.7, 2), records(2, 4), records(2, 2), 1.7),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_privacy_loss_by_brute_force(name):
    """Catches laws that do not sum to one, and a loss over all neighbours and releases that is not what is stated."""
    mechanism, releases, X, epsilon = CASES[name]
    law = table(mechanism, releases, X)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, rtol=1e-12)
    loss = np.max(np.log(law.max(axis=0) / law.min(axis=0)))
    assert loss == pytest.approx(epsilon, rel=1e-9)
    assert loss <= mechanism.guarantee().epsilon + 1e-14 and mechanism.guarantee().epsilon == pytest.approx(loss, 1e-9)
    assert mechanism.guarantee(X.shape[1]) == mechanism.guarantee() and mechanism.guarantee().delta == 0.0


def test_an_answer_that_excludes_a_category_has_no_epsilon():
    """Catches an infinite loss that is left out, or that nothing is said of, and one that is said of a dead answer."""
    for matrix in (FOUR, [MIXED, FOUR], [[1.0, 0.0], [0.0, 1.0]]):
        with pytest.warns(UserWarning, match=r"answer \d to question \d is never given by category \d.*infinite"):
            guarantee = FiniteChannelMechanism(matrix).guarantee()
        assert guarantee.epsilon == np.inf and guarantee.rho == np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert FiniteChannelMechanism([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]).guarantee().epsilon == 0.0


def test_both_spellings_are_one_kind():
    one, other = (UnaryEncodingMechanism(1.7, 3, kind).privatize(records(2, 3), random_state=0) for kind in SPELLINGS)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", ["optimised", "symmetric"])
def test_bits_have_the_law_that_is_printed(kind):
    """Catches p for q, a split over features that is forgotten, and bits in another order."""
    X = records(3, 1)
    for epsilon in (0.2, 1.0, 6.0):
        found = table(UnaryEncodingMechanism(epsilon, 3, kind), records(2, 3), X)
        np.testing.assert_allclose(found, bit_law(epsilon, 3, kind, X), rtol=1e-12)
        pairs = table(UnaryEncodingMechanism(2 * epsilon, 2, kind), records(2, 4), records(2, 2))
        alone = bit_law(epsilon, 2, kind, records(2, 1))
        np.testing.assert_allclose(pairs, np.kron(alone, alone), rtol=1e-12)
    own = UnaryEncodingMechanism([0.2, 6.0], 3, kind).log_density([[1, 0, 1], [1, 0, 1]], [[2], [2]])
    expected = [bit_law(epsilon, 3, kind, np.array([[2.0]]))[0, 5] for epsilon in (0.2, 6.0)]
    np.testing.assert_allclose(own, np.log(expected), rtol=1e-12)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize(
    "mechanism",
    [FiniteChannelMechanism(FOUR), FiniteChannelMechanism([FOUR, np.roll(FOUR, 1, axis=0)]),
     UnaryEncodingMechanism(2.0, 3), UnaryEncodingMechanism(2.0, 3, "symmetric"), UnaryEncodingMechanism(3.0, 2)],
    ids=["answers", "two questions", "optimised", "symmetric", "other bits"],
)  # fmt: skip
def test_law_of_a_release(mechanism, secure):
    """Catches draws of another row, question or bit; the twin is the law of another record."""
    n = 3_000 if secure else 30_000
    is_bits = isinstance(mechanism, UnaryEncodingMechanism)
    K = mechanism.n_categories
    d = 1 if is_bits else len(mechanism._matrices())
    releases, X = records(2, K) if is_bits else records(4, d), records(K, d)
    law = table(mechanism, releases, X)
    base = (releases.max() + 1) ** np.arange(releases.shape[1])
    for x, expected in zip(X, law, strict=True):
        given = np.tile(x, (n, 1))
        Z = mechanism.privatize(given, secure=True) if secure else mechanism.privatize(given, random_state=3)
        mechanism.check_release(Z)
        seen = np.array([np.count_nonzero(Z @ base == code) for code in releases @ base])
        assert seen.sum() == n and np.all(seen[expected == 0.0] == 0)
        for other, is_right in ((expected, True), (law[(np.argmax(np.all(X == x, axis=1)) + 1) % len(X)], False)):
            likely = other > 0.0
            if is_right or not seen[~likely].any():
                p = stats.chisquare(seen[likely], n * other[likely] / other[likely].sum()).pvalue
                assert p > ALPHA if is_right else p < ALPHA


# --- designs ----------------------------------------------------------------------------------------------------------


def test_designs_are_those_of_the_papers():
    """Catches yes for no, by the estimate of the prevalence that each paper prints."""
    prevalence, yes = 0.3, 1
    for design, estimate in (
        (FiniteChannelMechanism.warner(0.7), lambda share: (share - 1 + 0.7) / (2 * 0.7 - 1)),
        (FiniteChannelMechanism.forced_response(0.2, 0.1), lambda share: (share - 0.2) / (1 - 0.2 - 0.1)),
        (FiniteChannelMechanism.unrelated_question(0.6, 0.25), lambda share: (share - 0.4 * 0.25) / 0.6),
        (FiniteChannelMechanism.kuk(0.8, 0.3), lambda share: (share - 0.3) / (0.8 - 0.3)),
    ):
        share = np.array([1 - prevalence, prevalence]) @ design.matrix
        assert share.sum() == pytest.approx(1.0) and estimate(share[yes]) == pytest.approx(prevalence)
    cards = FiniteChannelMechanism.kuk(0.8, 0.3, n_draws=5).matrix
    np.testing.assert_allclose(cards, stats.binom.pmf(np.arange(6), 5, [[0.3], [0.8]]), rtol=1e-12)


def test_local_hashing_is_randomised_response_to_a_hash():
    """Catches functions that are mixed up, another g, and functions that are not drawn evenly."""
    hashes, g = np.array([[0, 3, 1], [2, 2, 0]]), 5
    mechanism = FiniteChannelMechanism.local_hashing(0.7, hashes, n_values=g)
    response = RandomizedResponseMechanism(0.7, g)
    for c, (s, v) in itertools.product(range(3), itertools.product(range(2), range(g))):
        expected = 0.5 * np.exp(response.log_density([[v]], [[hashes[s, c]]])).item()
        assert np.exp(mechanism.log_density([[s * g + v]], [[c]])).item() == pytest.approx(expected, rel=1e-12)
    assert FiniteChannelMechanism.local_hashing(0.7, [[0, 0]]).guarantee().epsilon == 0.0


@pytest.mark.slow
def test_shares_of_many_people_by_local_hashing():
    """Catches a sampler that looks at each person where few different answers were given; the truth is within."""
    rng = np.random.default_rng(0)
    truth, hashes = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04]), rng.integers(0, 4, (32, 6))
    mechanism = FiniteChannelMechanism.local_hashing(1.2, hashes, 4)
    Z = mechanism.privatize(rng.choice(6, (200_000, 1), p=truth), random_state=1)
    model = PrivateDPMixture(mechanism, kernel="categorical", n_chains=2, n_draws=500, random_state=0).fit(Z)
    assert isinstance(model.sampler_, MixingMeasure)
    draws = model.density_draws(np.arange(6)[:, None]).reshape(-1, 6)
    assert np.all(np.abs(draws.mean(axis=0) - truth) < 5 * draws.std(axis=0)) and draws.std(axis=0).max() < 0.02


def test_k_ary_is_randomised_response():
    """Catches another probability of the truth."""
    X, Z = np.repeat([[0], [1], [3]], 4, axis=0), np.tile([[0], [1], [2], [3]], (3, 1))
    found = FiniteChannelMechanism.k_ary(1.3, 4).log_density(Z, X)
    np.testing.assert_allclose(found, RandomizedResponseMechanism(1.3, 4).log_density(Z, X), rtol=1e-12)


def test_records_beyond_the_categories_count_as_the_nearest():
    """Catches a channel that is no distribution there, as of normal records: then their likelihood is too small."""
    Z, y = np.arange(4.0)[:, None], (-7.0, -0.6, -0.4, 0.6, 3.3, 3.6, 40.0)
    value = RandomizedResponseMechanism(1.3, 4)._lower(n_records=4, n_features=1)
    found = np.array([[value.log_channel(Z, i, 0, one) for i in range(4)] for one in y])
    nearest = np.array([[0], [0], [0], [1], [3], [3], [3]])
    expected = [FiniteChannelMechanism.k_ary(1.3, 4).log_density(Z, np.tile(one, (4, 1))) for one in nearest]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    pieces = [[value.piece(Z, i, 0, p)[:4] for p in range(3)] for i in range(4)]
    of_pieces = [[next(log for lo, hi, _, log in own if lo < one <= hi) for own in pieces] for one in y]
    np.testing.assert_allclose(of_pieces, expected, rtol=1e-12)


# --- where a chain starts, and g --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [FiniteChannelMechanism(CLEAR), UnaryEncodingMechanism(3.0, 3)])
def test_moments_are_those_of_the_categories(mechanism):
    """Catches answers that are taken for categories, and a start from what the answer excludes."""
    X = np.random.default_rng(0).choice(3, 40_000, p=[0.6, 0.3, 0.1])[:, None]
    Z = mechanism.privatize(X, random_state=1)
    release = Release(Z, mechanism)
    mean, variance = release.moments()
    assert mean[0] == pytest.approx(X.mean(), abs=0.03)
    assert variance[0] == pytest.approx(X.var() + 1 / 12, rel=0.1)
    guess = release.guess()
    assert guess.shape == X.shape and set(np.unique(guess)) <= {0.0, 1.0, 2.0}
    assert np.all(np.isfinite(mechanism.log_density(Z, guess)))


class RowOfTheAnswer(FiniteChannelMechanism):
    """A twin: row and column are exchanged."""

    @compiled
    def log_category(self, Z, i, j, c):
        return self.table[int(self.first[j]) + int(Z[i, j]) * int(self.n_answers[j]) + c]


def log_g(mechanism, Z, d):
    """(found, by sums) of g of each release under three classes, feature by feature."""
    n, K = len(Z), mechanism.n_categories
    kernel, rng = CategoricalKernel(K)._lower(n_features=d), np.random.default_rng(2)
    theta = np.zeros((1, K * d))
    kernel.draw_prior(rng, theta, 0)
    channel, encoded = mechanism._lower(n_records=n, n_features=d), mechanism.encode(Z)
    found = [sum(channel.log_marginal(kernel, encoded, i, j, theta, 0) for j in range(d)) for i in range(n)]
    X = records(K, d)
    weight = [np.prod([theta[0, K * j + int(c)] for j, c in enumerate(x)]) for x in X]
    with np.errstate(divide="ignore"):
        expected = np.log(np.array(weight) @ table(mechanism, Z, X))
    y = np.array([channel.impute(rng, kernel, encoded, 1, d - 1, theta, 0) for _ in range(4_000)])
    seen = np.bincount(y.astype(int), minlength=K)
    given = [sum(w * np.exp(mechanism.log_density(Z[[1]], x[None]))[0] for w, x in zip(weight, X, strict=True)
                 if x[-1] == c) for c in range(K)]  # fmt: skip
    share = np.array(given) / sum(given)
    assert np.all(seen[share == 0.0] == 0)
    assert stats.chisquare(seen[share > 0], len(y) * share[share > 0]).pvalue > ALPHA
    return np.array(found), expected


@pytest.mark.parametrize(
    ("mechanism", "releases", "d"),
    [(FiniteChannelMechanism(FOUR), records(4, 1), 1),
     (FiniteChannelMechanism([MIXED, FOUR]), np.array(list(itertools.product(range(3), range(4))), float), 2),
     (UnaryEncodingMechanism(np.linspace(0.5, 4.0, 8), 3), records(2, 3), 1),
     (UnaryEncodingMechanism(3.0, 2, "symmetric"), records(2, 4), 2)],
    ids=["answers", "questions of other sizes", "own epsilon each", "bits of two features"],
)  # fmt: skip
def test_g_is_the_sum_over_categories(mechanism, releases, d):
    """Catches a piece of another category, question or record, in g and in draws of records."""
    if np.size(getattr(mechanism, "epsilon", 0.0)) > 1:
        channel = mechanism._lower(n_records=len(releases), n_features=1)
        encoded = mechanism.encode(releases)
        for i, epsilon in enumerate(mechanism.epsilon):
            alone = [UnaryEncodingMechanism(epsilon, 3).log_density(releases[[i]], [[c]]).item() for c in range(3)]
            np.testing.assert_allclose([channel.log_channel(encoded, i, 0, c) for c in range(3)], alone, rtol=1e-12)
        return
    np.testing.assert_allclose(*log_g(mechanism, releases, d), rtol=1e-12)


def test_an_exchange_of_row_and_column_is_found():
    """The twin of the test above."""
    right, wrong = (kind(MIXED)._lower(n_records=3, n_features=1) for kind in (FiniteChannelMechanism, RowOfTheAnswer))
    Z = records(3, 1)
    found = [
        [channel.log_channel(Z, i, 0, y) for i in range(3) for y in (-3.0, 0.9, 7.0)] for channel in (right, wrong)
    ]
    np.testing.assert_allclose(np.exp(found[0]), np.array(MIXED)[[0, 1, 2]].T.ravel(), rtol=1e-12)
    assert np.max(np.abs(np.subtract(*found))) > 0.1


def test_the_walk_is_for_few_answers():
    """Ten questions have a thousand different answers, of which each is a node."""
    chosen = Auto().resolve(FiniteChannelMechanism([MIXED] * 10), CategoricalKernel(3))
    assert isinstance(chosen.sized(20, 10), MixingMeasure)
    assert isinstance(chosen.sized(20_000, 10), Conditional)


def test_a_fit_counts_different_answers():
    """Catches a choice by how many answers are possible: people give few of the million here."""
    mechanism = UnaryEncodingMechanism(12.0, 10)
    Z = mechanism.privatize(np.tile([[0.0, 3.0], [9.0, 1.0]], (4000, 1)), random_state=0)
    release = Release(Z, mechanism)
    assert release.count_different() == len({tuple(row) for row in Z.tolist()}) < 1000
    chosen = Auto().resolve(mechanism, CategoricalKernel(10))
    assert isinstance(chosen.sized(8000, 2), Conditional)
    assert isinstance(chosen.sized(8000, 2, release.count_different), MixingMeasure)


def test_the_walk_is_for_answers_to_one_question_or_that_many_gave():
    design = FiniteChannelMechanism.local_hashing(1.0, np.eye(64, 20, dtype=int), 8)
    one = Auto().resolve(design, CategoricalKernel(20))
    assert isinstance(one.sized(1000, 1), MixingMeasure)
    two = Auto().resolve(RandomizedResponseMechanism(1.0, 30), CategoricalKernel(30))
    assert isinstance(two.sized(10_000, 2), MixingMeasure) and isinstance(two.sized(1000, 2), Conditional)
    assert isinstance(two.sized(1000, 2, lambda: 500), MixingMeasure)
    assert isinstance(two.sized(1000, 2, lambda: 501), Conditional)
    bits = Auto().resolve(UnaryEncodingMechanism(1.0, 400), CategoricalKernel(400))
    assert isinstance(bits.sized(10_000, 1), MixingMeasure) and isinstance(bits.sized(11_000, 1), Conditional)


@pytest.mark.slow
def test_more_answers_than_categories():
    """Catches a trial run that takes answers for categories."""
    design = FiniteChannelMechanism.kuk(0.8, 0.2, n_draws=3)
    Z = design.privatize(np.repeat([[0], [1]], 200, axis=0), random_state=0)
    assert isinstance(fit(design, Z).sampler_, MixingMeasure)


def test_splits_and_merges_of_categories_keep_records():
    """Catches a sampler to wrap that does not take categories, where the walk is what they get by default."""
    for mechanism in (RandomizedResponseMechanism(2.0, 3), FiniteChannelMechanism(FOUR)):
        assert isinstance(JainNeal().resolve(mechanism, CategoricalKernel(3)).sampler, Conditional)


# --- bad input --------------------------------------------------------------------------------------------------------


def fit(mechanism, Z, **params):
    return PrivateDPMixture(mechanism, kernel="categorical", n_chains=1, n_warmup=5, n_draws=5, **params).fit(Z)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (None, "matrix must hold a row for each true category.*got matrix=None"),
        ("text", "matrix must hold a row"),
        ([], "matrix must hold a row"),
        ([0.5, 0.5], "matrix of question 0 must be numbers in two or more rows"),
        ([[0.5, 0.5]], "two or more rows"),
        ([[0.5, 0.5], [0.5, "x"]], "matrix of question 0 must be numbers in two or more rows"),
        ([[0.5, 0.4], [0.5, 0.5]], r"rows that sum to 1.*row 0 sums to 0\.9.*pass its transpose"),
        ([[0.5, 0.2], [0.5, 0.8]], r"row 0 sums to 0\.7"),
        ([[1.5, -0.5], [0.5, 0.5]], r"must hold probabilities, but row 0, column 0 has 1\.5"),
        ([[0.5, 0.5], [np.nan, 0.5]], "row 1, column 0 has nan"),
        ([MIXED, [[1.0], [1.0]]], r"the same number of categories in each question, got \[2, 3\]"),
        ([MIXED, [[0.3, 0.3], [0.5, 0.5]]], "matrix of question 1 must have rows that sum to 1"),
    ],
)
def test_a_matrix_must_be_row_stochastic(matrix, message):
    """Catches a matrix that gets through, or an error that does not say what is wrong with it."""
    for ask in (lambda m: m.guarantee(), lambda m: m.privatize([[0]]), lambda m: fit(m, [[0]])):
        with pytest.raises(ValueError, match=message):
            ask(FiniteChannelMechanism(matrix))


@pytest.mark.parametrize(
    ("mechanism", "Z", "message"),
    [
        (FiniteChannelMechanism(MIXED), [[0], [3]], r"integers from 0 to 2.*row 1, column 0 has 3: number the answers"),
        (FiniteChannelMechanism(MIXED), [[0.5], [1]], r"row 0, column 0 has 0\.5"),
        (FiniteChannelMechanism(MIXED), [[-1], [1]], "row 0, column 0 has -1"),
        (FiniteChannelMechanism(MIXED), [[0, 1]], r"matrix has 1 question\(s\), but Z has 2 column\(s\)"),
        (FiniteChannelMechanism([[0.2, 0.8, 0.0], [0.4, 0.6, 0.0]]), [[1], [2]], "row 1, column 0 of Z has answer 2"),
        (UnaryEncodingMechanism(1.0, 3), [[0, 1, 0], [0, 2, 0]], "hold bits, 0 or 1.*row 1, column 1 has 2"),
        (UnaryEncodingMechanism(1.0, 3), [[0, 0.5, 0]], r"row 0, column 1 has 0\.5"),
        (UnaryEncodingMechanism(1.0, 3), [[0, 1, 0, 1]], "Z has 4 columns, but each category is released as n_cat"),
        (UnaryEncodingMechanism(1.0, 1), [[0]], "n_categories must be"),
        (UnaryEncodingMechanism(-1.0, 3), [[0, 1, 0]], "epsilon must be positive"),
        (UnaryEncodingMechanism([1.0, 2.0], 3), [[0, 1, 0]], "epsilon has shape .2,., but there are 1 records"),
        (UnaryEncodingMechanism(1.0, 3, "best"), [[0, 1, 0]], 'kind must be "optimised" or "symmetric", got kind='),
    ],
)
def test_wrong_releases_and_parameters(mechanism, Z, message):
    """Catches releases that no mechanism made, and parameters out of range."""
    with pytest.raises(ValueError, match=message):
        fit(mechanism, Z)


def test_wrong_records_and_designs():
    """Catches what is no category, a kernel of others, and probabilities that are none."""
    design = FiniteChannelMechanism
    for call, message in (
        (lambda: design(MIXED).privatize([[3]]), "n_categories - 1 = 2, but row 0, column 0 has 3"),
        (lambda: design(MIXED).privatize([[0, 1]]), r"matrix has 1 question\(s\), but X has 2"),
        (lambda: design(MIXED).guarantee(2), r"matrix has 1 question\(s\), but a record has 2"),
        (lambda: design(MIXED).privatize([[0]], secure=True, random_state=1), "takes no seed"),
        (lambda: design(MIXED).log_density([[0]], [[0], [1]]), "give one release per record"),
        (lambda: UnaryEncodingMechanism(1.0, 3).log_density([[0, 1, 0]], [[0], [1]]), "n_categories=3 bits"),
        (lambda: UnaryEncodingMechanism(1.0, 3).privatize([["bus"]]), "encode text"),
        (lambda: PrivateDPMixture(design(MIXED), kernel=CategoricalKernel(2)).fit([[0]]), "leave the kernel's out"),
        (lambda: design.warner(1.2), r"p must be a probability from 0 to 1, got p=1\.2"),
        (lambda: design.warner("0.5"), "p must be a probability"),
        (lambda: design.forced_response(0.6, 0.5), r"p_yes and p_no must sum to at most 1, got p_yes=0\.6"),
        (lambda: design.unrelated_question(0.5, -0.1), "prevalence must be a probability"),
        (lambda: design.kuk(0.5, np.nan), "p_no must be a probability"),
        (lambda: design.kuk(0.5, 0.2, 0), "n_draws must be an integer, 1 or more"),
        (lambda: design.k_ary(0.0, 3), "epsilon must be positive and finite, got epsilon=0"),
        (lambda: design.k_ary(800.0, 3), "epsilon must be at most 700"),
        (lambda: design([design.warner(0.7)]).guarantee(), "got a FiniteChannelMechanism: pass its matrix"),
        (lambda: design.local_hashing(1.0, [0, 1]), "hashes must hold a row for each hash function"),
        (lambda: design.local_hashing(1.0, [[0.5, 1]]), "integers from 0 to 9999, got hashes="),
        (lambda: design.local_hashing(1.0, [[0, np.inf]]), "integers from 0 to 9999, got hashes="),
        (lambda: design.local_hashing(1.0, np.zeros((0, 3))), "a row for each hash function"),
        (lambda: design.local_hashing(1.0, [[0, 1]], 10**9), "n_values must be at most 10000"),
        (
            lambda: design.split_sample([design(MIXED), design(MIXED, noncompliance=BetaPrior(1, 9))]),
            "designs must not have a noncompliance of their own",
        ),
        (lambda: design.local_hashing(1.0, [[0, 3]], 2), "n_values must be an integer, 4 or more"),
        (lambda: design.local_hashing(-1.0, [[0, 3]]), "epsilon must be positive"),
        (lambda: design.hadamard_response(1.0, 5000), "n_categories must be at most 4095"),
        (lambda: design.k_ary(1.0, 1), "n_categories must be an integer, 2 or more"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_categories_taken_for_numbers_are_doubted():
    """Catches silence where the default kernel is left in place for answers and bits."""
    for mechanism, Z in ((FiniteChannelMechanism(MIXED), records(3, 1)), (UnaryEncodingMechanism(1.0, 3), np.eye(3))):
        with pytest.warns(UserWarning, match="releases categories, and kernel NormalKernel"):
            for words in misfits(Release(Z, mechanism), NormalKernel()):
                warnings.warn(words, UserWarning, stacklevel=1)
