"""The multivariate normal kernel without a chain: draws, densities, statistics, conditional laws, bad numbers.

Against scipy and the textbook; the twins of ``multivariate_twins.py`` show what the checks see.
"""

import numpy as np
import pytest
from multivariate_oracle import Prior
from multivariate_twins import (
    BartlettNotReversed,
    BartlettWithoutNormals,
    ConditionalOfMarginalVariance,
    ConditionalOfTheWrongSide,
    FactorByParts,
    MeanOfIndependentFeatures,
    MeanPrecisionForgotten,
    PredictiveOfAKnownMean,
    PredictiveOfOneMoreDegree,
    ProductsOfFeaturesForgotten,
    ProposalOfMarginals,
    UpdateForgetsTheMean,
)
from scipy import stats
from statistical import ALPHA, Disagreement, assert_mean_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import MultivariateNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism, NoNoise

UNIT = {
    1: Prior((0.3,), 0.7, 5.5, ((1.4,),)),
    2: Prior((0.4, -1.0), 0.8, 6.0, ((2.0, 0.9), (0.9, 0.8))),
    4: Prior(
        (0.4, -1.0, 0.2, 3.0),
        0.5,
        9.5,
        ((2.0, 0.9, -0.8, 0.3), (0.9, 0.8, -0.1, 0.0), (-0.8, -0.1, 1.5, 0.4), (0.3, 0.0, 0.4, 5.0)),
    ),
}
SLOT, OTHER, LAST = 1, 2, 3  # rows of theta and stats that the tests write to; the others must stay as they are


def kernel_value(prior, cls=MultivariateNormalKernel):
    return cls(**prior._asdict())._lower(n_features=len(prior.mean))


def empty(prior):
    """Parameters and statistics as a chain has them: theta's columns along memory."""
    n_params, n_stats = MultivariateNormalKernel().sizes(len(prior.mean))
    return np.zeros((n_params, 4)).T, np.zeros((4, n_stats))


def some_records(prior, n, seed=0):
    """Records (n, 1, d) around the prior's centre, correlated."""
    rng, d = np.random.default_rng(seed), len(prior.mean)
    mix = rng.standard_normal((d, d))
    return (np.array(prior.mean) + 0.5 + rng.standard_normal((n, d)) @ mix.T)[:, None, :]


def updated(prior, X):
    """(m_n, λ_n, ν_n, Ψ_n), record by record: another form than the package's sums."""
    mean, precision, dof, scale = (np.array(part, dtype=float) for part in prior)
    for y in X:
        scale = scale + precision / (precision + 1) * np.outer(y - mean, y - mean)
        mean, precision, dof = (precision * mean + y) / (precision + 1), precision + 1, dof + 1
    return mean, precision, dof, scale


def with_stats(value, prior, records):
    _, stats = empty(prior)
    for i in range(len(records)):
        value.add_record(stats, SLOT, records, i, 0, 1.0)
    return stats


def parts(rows, d):
    """(μ, Σ, Σ⁻¹) of rows of theta, after a look at what is kept twice: J = L⁻¹, the marginal laws, log det J."""
    triangle, lower = d * (d + 1) // 2, np.tril_indices(d)
    factor, root = np.zeros((2, *rows.shape[:-1], d, d))
    factor[..., lower[0], lower[1]] = rows[..., 4 * d : 4 * d + triangle]
    root[..., lower[0], lower[1]] = rows[..., 4 * d + triangle : 4 * d + 2 * triangle]
    transpose, diagonal = np.swapaxes(root, -1, -2), np.diagonal(factor, axis1=-2, axis2=-1)
    sigma, inverse = root @ transpose, np.swapaxes(factor, -1, -2) @ factor
    np.testing.assert_allclose(factor @ root, np.broadcast_to(np.eye(d), factor.shape), atol=1e-9)
    sd = np.sqrt(np.diagonal(sigma, axis1=-2, axis2=-1))
    marginals = rows[..., : 4 * d].reshape(*sd.shape, 4)
    np.testing.assert_allclose(marginals[..., 1:], np.stack([sd, 1 / sd, np.log(sd)], axis=-1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rows[..., 4 * d + 2 * triangle], np.log(diagonal).sum(axis=-1), rtol=1e-6, atol=1e-9)
    return marginals[..., 0], sigma, inverse


def drawn_cluster(value, prior):
    """Parameters with one cluster from the prior in row SLOT."""
    theta, _ = empty(prior)
    value.draw_prior(np.random.default_rng(2), theta, SLOT)
    return theta


def parameter_draws(prior, records, n_draws=6000, seed=1, cls=MultivariateNormalKernel):
    """Draws (n_draws, d), (n_draws, d, d), (n_draws, d, d) of μ, Σ, Σ⁻¹; records None: from the prior."""
    value, rng = kernel_value(prior, cls), np.random.default_rng(seed)
    theta, _ = empty(prior)
    stats = None if records is None else with_stats(value, prior, records)
    rows = np.empty((n_draws, theta.shape[1]))
    for t in range(n_draws):
        if records is None:
            value.draw_prior(rng, theta, SLOT)
        else:
            value.update_params(rng, theta, SLOT, stats, float(len(records)))
        rows[t] = theta[SLOT]
    assert not np.any(theta[[0, OTHER, LAST]])
    return parts(rows, len(prior.mean))


def check_parameter_draws(prior, records, **kwargs):
    """Draws of (μ, Σ) against the normal-inverse-Wishart law: four moments, and two marginal laws of Σ and Σ⁻¹."""
    mean, precision, dof, scale = updated(prior, [] if records is None else records[:, 0])
    d = len(mean)
    mu, sigma, inverse = parameter_draws(prior, records, **kwargs)
    root, moment = np.linalg.inv(scale), scale / (dof - d - 1)
    deviations = (mu - mean)[:, :, None] * (mu - mean)[:, None, :]
    for what, draws, expected in (
        ("E[Σ]", sigma, moment),
        ("E[Σ⁻¹]", inverse, dof * root),
        ("E[μ]", mu, mean),
        ("Cov[μ]", deviations, moment / precision),
        ("Cov[μ] given Σ", precision * np.einsum("nij,njk->nik", deviations, inverse), np.eye(d)),
    ):
        assert_mean_close(draws.reshape(4, -1, expected.size), expected.ravel(), what=what)
    for j in range(d):
        laws = {
            "Σ_jj": (sigma[:, j, j], stats.invgamma((dof - d + 1) / 2, scale=scale[j, j] / 2)),
            "P_jj": (inverse[:, j, j] / root[j, j], stats.chi2(dof)),
            "1/P_jj": (1 / inverse[:, j, j], stats.invgamma(dof / 2, scale=1 / (2 * root[j, j]))),
            "μ_j": (mu[:, j], stats.t(dof - d + 1, mean[j], np.sqrt(scale[j, j] / (precision * (dof - d + 1))))),
        }
        for what, (draws, law) in laws.items():
            p = stats.kstest(draws, law.cdf).pvalue
            if not p >= ALPHA:
                raise Disagreement(f"{what}, feature {j}: p = {p:.1e}")


@pytest.mark.parametrize("n", [None, 1, 7])
@pytest.mark.parametrize("d", UNIT)
def test_parameters_are_drawn_from_the_normal_inverse_wishart_law(d, n):
    """Catches wrong degrees of freedom, a transposed factor, a μ that ignores Σ, a centre or precision not updated."""
    check_parameter_draws(UNIT[d], None if n is None else some_records(UNIT[d], n))


@pytest.mark.slow
def test_a_copy_of_the_draw_passes_and_its_twins_do_not():
    """The check sees each mistake, in the prior's draw or the update's."""
    prior = UNIT[4]
    records = some_records(prior, 7)
    check_parameter_draws(prior, records, cls=FactorByParts)
    for cls in (
        BartlettNotReversed,
        BartlettWithoutNormals,
        MeanPrecisionForgotten,
        MeanOfIndependentFeatures,
        UpdateForgetsTheMean,
        ProductsOfFeaturesForgotten,
    ):
        with pytest.raises(Disagreement):
            check_parameter_draws(prior, records, cls=cls)


@pytest.mark.parametrize("d", UNIT)
def test_statistics_come_back(d):
    """Catches a record that is taken off otherwise than it was put on, and one put on the wrong cluster."""
    prior = UNIT[d]
    value, records = kernel_value(prior), some_records(prior, 5)
    stats = with_stats(value, prior, records[:3])
    before = stats.copy()
    for i in (3, 4):
        value.add_record(stats, SLOT, records, i, 0, 1.0)
    assert not np.allclose(stats, before)
    for i in (3, 4):
        value.add_record(stats, SLOT, records, i, 0, -1.0)
    np.testing.assert_allclose(stats, before, atol=1e-12)
    assert not np.any(stats[[0, OTHER, LAST]])


@pytest.mark.parametrize("d", UNIT)
def test_densities_of_records_are_scipys(d):
    """Catches a wrong constant, factor or centre in any of the densities; each is asked for in several ways."""
    prior = UNIT[d]
    value, records = kernel_value(prior), some_records(prior, 9)
    X = records[:, 0]
    theta = drawn_cluster(value, prior)
    mu, sigma, _ = parts(theta[SLOT], d)
    expected = stats.multivariate_normal(mu, sigma).logpdf(X)
    channel = NoNoise()._lower()
    np.testing.assert_allclose([value.log_record(theta, SLOT, records, i) for i in range(9)], expected, rtol=1e-9)
    np.testing.assert_allclose(
        [value.log_marginal_record(channel, X, i, theta, SLOT) for i in range(9)], expected, rtol=1e-9
    )
    values = np.full(9, 0.25)
    value.log_points(theta, SLOT, np.ascontiguousarray(X.T), 8, values)
    np.testing.assert_allclose(values, [*(expected[:8] + 0.25), 0.25], rtol=1e-9)
    relative = np.array([value.log_relative_record(theta, SLOT, records, i) for i in range(9)])
    assert np.all(relative <= 0)
    np.testing.assert_allclose(np.log(value.peak_record(theta, SLOT)) + relative, expected, rtol=1e-9)
    for j in range(d):  # marginal laws
        law = stats.norm(mu[j], np.sqrt(sigma[j, j]))
        assert value.log_likelihood(theta, SLOT, j, X[0, j]) == pytest.approx(law.logpdf(X[0, j]))
        assert value.cdf(theta, SLOT, j, X[0, j]) == pytest.approx(law.cdf(X[0, j]))
        assert value.mean(theta, SLOT, j) == pytest.approx(mu[j])
        assert value.variance(theta, SLOT, j) == pytest.approx(sigma[j, j])


@pytest.mark.parametrize("n", [0, 1, 6])
@pytest.mark.parametrize("d", UNIT)
def test_predictive_density_is_a_multivariate_t(d, n):
    """Catches degrees of freedom or a shape that is off, and a record that is counted in its own predictive."""
    prior = UNIT[d]
    value, records = kernel_value(prior), some_records(prior, 9)
    stats_ = with_stats(value, prior, records[:n])
    kept = stats_[:, : d + d * (d + 1) // 2].copy()
    mean, precision, dof, scale = updated(prior, records[:n, 0])
    df = dof - d + 1
    expected = stats.multivariate_t(mean, scale * (precision + 1) / (precision * df), df=df).logpdf(records[:, 0])
    found = [value.log_predictive_record(stats_, SLOT, float(n), records, i) for i in range(9)]
    np.testing.assert_allclose(found, np.atleast_1d(expected), rtol=1e-9)
    np.testing.assert_array_equal(stats_[:, : kept.shape[1]], kept)  # scratch is behind the statistics
    if n == 0:
        np.testing.assert_allclose([value.log_base_record(records[:, 0], i) for i in range(9)], expected, rtol=1e-9)


@pytest.mark.parametrize("cls", [PredictiveOfOneMoreDegree, PredictiveOfAKnownMean])
def test_predictive_twins_are_not_densities(cls):
    """The comparison with scipy sees both mistakes by far more than its tolerance."""
    prior = UNIT[2]
    records = some_records(prior, 3)
    right, wrong = (
        np.array(
            [value.log_predictive_record(with_stats(value, prior, records), SLOT, 3.0, records, i) for i in (0, 1)]
        )
        for value in (kernel_value(prior), kernel_value(prior, cls))
    )
    assert np.all(np.abs(wrong - right) > 1e-2)


def condition_error(cls, d):
    """Largest relative error of a feature's law given the others, by the textbook's Σ_12 Σ_22⁻¹."""
    prior = UNIT[d]
    value, records = kernel_value(prior, cls), some_records(prior, 2)
    theta = drawn_cluster(value, prior)
    mu, sigma, _ = parts(theta[SLOT], d)
    row, error = theta[SLOT].copy(), 0.0
    for j in range(d):
        others = np.delete(np.arange(d), j)
        weights = np.linalg.solve(sigma[np.ix_(others, others)], sigma[others, j])
        mean = mu[j] + weights @ (records[1, 0, others] - mu[others])
        sd = np.sqrt(sigma[j, j] - weights @ sigma[others, j])
        value.condition(theta, SLOT, records, 1, j, LAST)
        expected = np.array([mean, sd, 1 / sd, np.log(sd)])
        error = max(error, np.max(np.abs(theta[LAST, 4 * j : 4 * j + 4] - expected) / (1e-6 + np.abs(expected))))
    np.testing.assert_array_equal(theta[SLOT], row)
    return error


@pytest.mark.parametrize("d", UNIT)
def test_a_feature_given_the_others_is_the_conditional_normal(d):
    """Catches a wrong sign, variance or index in P_jj and P e, and a cluster whose own parameters are overwritten."""
    assert condition_error(MultivariateNormalKernel, d) < 1e-9
    if d > 1:
        assert condition_error(ConditionalOfMarginalVariance, d) > 1e-2
        assert condition_error(ConditionalOfTheWrongSide, d) > 1e-2


def check_drawn_records(cls, d, draw, n=8000):
    prior = UNIT[d]
    value, records = kernel_value(prior, cls), np.zeros((2, 2, d))
    theta = drawn_cluster(value, prior)
    mu, sigma, inverse = parts(theta[SLOT], d)
    rng, X = np.random.default_rng(3), np.empty((n, d))
    for i in range(n):
        draw(value, rng, theta, records)
        X[i] = records[1, 1]
    assert not np.any(records[0]) and not np.any(records[1, 0])
    assert_mean_close(X.reshape(4, -1, d), mu, what="mean")
    products = ((X - mu)[:, :, None] * (X - mu)[:, None, :]).reshape(4, -1, d * d)
    assert_mean_close(products, sigma.ravel(), what="covariance")
    distance = np.einsum("ni,ij,nj->n", X - mu, inverse, X - mu)
    assert stats.kstest(distance, stats.chi2(d).cdf).pvalue > ALPHA


def draw_record(value, rng, theta, records):
    value.draw_record(rng, theta, SLOT, records, 1, 1)


def propose_record(value, rng, theta, records):
    value.propose_record(rng, LaplaceMechanism(scale=1.0)._lower(n_records=1, n_features=records.shape[2]),
                         np.zeros((1, records.shape[2])), 0, theta, SLOT, records, 1, 1)  # fmt: skip


@pytest.mark.parametrize("d", UNIT)
def test_drawn_records_have_the_clusters_covariance(d):
    """Catches a triangular factor applied on the wrong side or over itself, and a wrong row of the records."""
    check_drawn_records(MultivariateNormalKernel, d, draw_record)


def test_proposed_records_have_the_clusters_covariance():
    """The same of the urn's proposal; its twin, which proposes each feature alone, is rejected."""
    check_drawn_records(MultivariateNormalKernel, 2, propose_record, n=4000)
    with pytest.raises(Disagreement):
        check_drawn_records(ProposalOfMarginals, 2, propose_record, n=4000)


def test_one_feature_is_the_normal_kernel():
    """With d = 1 inverse Wishart(ν, Ψ) is inverse gamma(ν/2, Ψ/2): all densities and tilts are NormalKernel's."""
    prior = UNIT[1]
    value, records = kernel_value(prior), some_records(prior, 6)
    normal = NormalKernel(mean=0.3, mean_precision=0.7, shape=2.75, scale=0.7)._lower(n_features=1)
    theta, stats_ = drawn_cluster(value, prior), empty(prior)[1]
    other, other_stats = np.zeros((4, 4)).T, np.zeros((4, 2))
    normal.put_params(other, SLOT, 0, theta[SLOT, 0], theta[SLOT, 1])
    for i in range(3):
        value.add_record(stats_, SLOT, records, i, 0, 1.0)
        normal.add_record(other_stats, SLOT, records, i, 0, 1.0)
    for i in range(6):
        pairs = [
            (kernel.log_record(row, SLOT, records, i), kernel.log_predictive_record(sums_, SLOT, 3.0, records, i),
             kernel.log_base_record(records[:, 0], i), kernel.log_relative_record(row, SLOT, records, i),
             kernel.peak_record(row, SLOT), kernel.cdf(row, SLOT, 0, records[i, 0, 0]))
            for kernel, row, sums_ in ((value, theta, stats_), (normal, other, other_stats))
        ]  # fmt: skip
        np.testing.assert_allclose(*pairs, rtol=1e-10)
    value.condition(theta, SLOT, records, 0, 0, LAST)  # given no other feature
    tilt = (-0.5, 2.0, 0.3, 1.2, 0.4)
    assert value.log_tilted_mass(theta, LAST, 0, *tilt) == pytest.approx(normal.log_tilted_mass(other, SLOT, 0, *tilt))
    with_same_seed = [
        kernel.draw_tilted(np.random.default_rng(5), row, k, 0, *tilt)
        for kernel, row, k in ((value, theta, LAST), (normal, other, SLOT))
    ]
    assert with_same_seed[0] == pytest.approx(with_same_seed[1])


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_far_from_the_prior_nothing_cancels(offset):
    """Catches Σuu' - ss'/(λ + n) where it loses its digits: ten thousand records beside a wide prior."""
    prior = Prior((offset, -offset), 1e-3, 6.0, ((1.0, 0.3), (0.3, 0.5)))
    value, rng = kernel_value(prior), np.random.default_rng(0)
    X = np.array(prior.mean) + 100.0 + rng.standard_normal((10_000, 2)) @ np.array([[1.0, 0.7], [0.0, 0.2]])
    mean, precision, dof, scale = updated(prior, X)
    stats_ = with_stats(value, prior, X[:, None])
    shape = scale * (precision + 1) / (precision * (dof - 1))
    expected = stats.multivariate_t(mean, shape, df=dof - 1).logpdf(X[:5])
    found = [value.log_predictive_record(stats_, SLOT, 10_000.0, X[:, None], i) for i in range(5)]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


# --- bad numbers ---

NUMBERS = {"mean": 0.0, "dof": 6.0, "scale": 2.0}


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"dof": 1.0}, "dof must be a finite number greater than 1"),
        ({"dof": np.nan}, "dof must be a finite number"),
        ({"dof": "five"}, "dof must be a finite number"),
        ({"dof": True}, "dof must be a finite number"),
        ({"dof": 3.0, "scale": None}, r"dof must be greater than n_features \+ 1 = 3 when scale is None"),
        ({"scale": [[1.0, 2.0], [2.0, 1.0]]}, "scale must be a symmetric positive definite matrix"),
        ({"scale": [[1.0, 1.0], [1.0, 1.0]]}, "scale must be a symmetric positive definite matrix"),
        ({"scale": [[1.0, 0.5], [0.4, 1.0]]}, "scale must be a symmetric positive definite matrix"),
        ({"scale": [[1e-9, 5e-10], [0.0, 1e-9]]}, "scale must be a symmetric positive definite matrix"),
        ({"scale": [[1.0, np.nan], [np.nan, 1.0]]}, "scale must be a symmetric positive definite matrix"),
        ({"scale": [1.0, 2.0]}, r"scale must be a number or of shape \(2, 2\) for 2 features"),
        ({"scale": np.eye(3)}, r"scale must be a number or of shape \(2, 2\) for 2 features"),
        ({"scale": 0.0}, "scale must be"),
        ({"scale": "wide"}, "scale must be"),
        ({"scale": True}, "scale must be"),
        ({"mean_precision": 0}, "mean_precision must be a finite number greater than 0"),
        ({"mean_precision": [0.1, 0.1]}, "mean_precision must be a finite number greater than 0"),
        ({"mean": [0.0, 0.0, 0.0]}, r"mean has shape \(3,\), but the records have 2 feature"),
        ({"mean": np.inf}, "mean must be finite"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(params, words):
    """Catches a parameter that goes into the sampler unchecked; the message says which and what it may be."""
    with pytest.raises(ValueError, match=words):
        PrivateDPMixture(kernel=MultivariateNormalKernel(**NUMBERS | params)).fit([[0.0, 0.0], [1.0, 0.5]])
