"""What a fitted DP-MCMC estimator holds and says: no record, no generator, and noise from the operating system."""

import pickle

import numpy as np
import pytest
from dp_mcmc_case import BARKER, EVERY, HAMILTONIAN, PENALTY, X
from held import leaks
from sklearn.base import clone

from sklearn_dpmix.estimators.private._noise_source import SecureNoise, SystemNoise
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.samplers import PrivateNewton

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


@EVERY
@pytest.mark.parametrize("bought", [{}, {"preconditioner": PrivateNewton(n_steps=1)}], ids=["plain", "start"])
def test_a_fitted_estimator_holds_no_record_and_no_generator(estimator, bought):
    """Every attribute, wherever it hides, and every byte of the pickle; two that leak are found out."""
    fitted = clone(estimator).set_params(**bought).fit(X)
    assert leaks(fitted, X) == []
    assert not hasattr(fitted, "clipped_fraction_")
    assert fitted.is_private_
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.theta_draws_, fitted.theta_draws_)
    fitted.hidden_ = {"a": [X[5:6].copy()]}
    assert len(leaks(fitted, X)) == 2
    fitted.hidden_ = (np.random.default_rng(0),)
    assert "Generator" in leaks(fitted, X)


@EVERY
def test_noise_comes_from_the_operating_system(estimator, monkeypatch):
    """Two fits differ, a seed is refused, NumPy's global state plays no part, and no source can be drawn twice."""
    assert all(type(source) is SystemNoise for source in estimator._sources(3))
    np.random.seed(0)  # noqa: NPY002
    roomy = clone(estimator).set_params(n_iter=100, mechanism=GaussianMechanism(epsilon=40.0, delta=1e-6))
    first = clone(roomy).fit(X).theta_draws_
    np.random.seed(0)  # noqa: NPY002
    assert not np.array_equal(first, clone(roomy).fit(X).theta_draws_)
    with pytest.raises(ValueError, match="random_state could remove it"):
        clone(estimator).set_params(random_state=0).fit(X)
    source = SystemNoise()
    source.random(3)
    again = pickle.loads(pickle.dumps(source))
    assert len(again._ahead) == 0


def test_system_noise_is_uniform_and_normal():
    """Its law, over blocks, by Kolmogorov–Smirnov at 1e-6."""
    from scipy import stats

    source = SystemNoise()
    u = np.concatenate([source.random(k) for k in [1, 7, 2000, 5000, 3] * 10])
    assert stats.kstest(u, "uniform").pvalue > 1e-6 and np.all((u > 0) & (u < 1))
    z = source.release(np.zeros(50_000), 2.0, 3.0)
    assert stats.kstest(z / 6.0, "norm").pvalue > 1e-6


def test_system_noise_has_the_tails_of_the_normal_law(monkeypatch):
    """From chosen bits: as far as 36 standard deviations, both ways, in steps that stay small on the scale of a tail.

    Catches one uniform of 52 bits inverted, which ends at 8.2 in steps of log 3 of the tail's probability: less than a
    ``delta`` of 1e-17 needs.
    """
    from scipy.special import log_ndtr

    from sklearn_dpmix.estimators.private import _noise_source

    def drawn(sign, *words):
        """The number that is made of a row of words, the first of the magnitude; the sign's word is its own."""
        rows = [np.array([words[0], sign], dtype=np.uint64), *(np.array([w], dtype=np.uint64) for w in words[1:])]
        monkeypatch.setattr(_noise_source, "AHEAD", 0)
        monkeypatch.setattr(_noise_source.os, "urandom", lambda size: rows.pop(0).tobytes())
        z = _noise_source.SystemNoise().standard_normal(1)[0]
        assert not rows
        return z

    few, many = 2**20, 2**63
    for depth in range(14):  # u = (0, ..., 0, word) in base 2^64
        for word in (2**12, 2**40, 3 * 2**61):  # the middle of the word's cell
            z = drawn(few, *[0] * depth, word)
            log_tail = np.log(word + 0.5) - 64.0 * (depth + 1.0) * np.log(2.0) - np.log(2.0)
            np.testing.assert_allclose(log_ndtr(z), log_tail, rtol=1e-12)
            assert drawn(many, *[0] * depth, word) == -z
    np.testing.assert_allclose(log_ndtr(drawn(few, 1, 2**63)), np.log(1.5 * 2.0**-65), rtol=1e-12)
    assert drawn(few, *[0] * 15) < -36.0  # and no further
    assert 0.0 <= drawn(many, 2**64 - 1) < 1e-15


@pytest.mark.parametrize("estimator", [PENALTY, BARKER, HAMILTONIAN], ids=lambda e: type(e).__name__)
def test_a_delta_below_what_noise_can_hold_is_refused(estimator):
    with pytest.raises(ValueError, match=r"delta of the mechanism of DP.* must be at least 1e-250, got delta=1e-300"):
        clone(estimator).set_params(mechanism=GaussianMechanism(epsilon=1.0, delta=1e-300)).fit(X)
    with pytest.raises(ValueError, match=r"budget of DP.*, epsilon=1e-200, delta=1e-200, does not allow even one"):
        clone(estimator).set_params(mechanism=GaussianMechanism(epsilon=1e-200, delta=1e-200)).fit(X)


@pytest.mark.parametrize("estimator", [PENALTY, HAMILTONIAN], ids=lambda e: type(e).__name__)
def test_opendp_noise(estimator, monkeypatch):
    """``secure=True`` sends each release through OpenDP, at the scale that was planned."""
    pytest.importorskip("opendp")
    source = clone(estimator).set_params(secure=True)._sources(1)[0]
    assert type(source) is SecureNoise
    z = source.release(np.full(4000, 10.0), 2.0, 3.0)
    assert abs(z.std() / 6.0 - 1.0) < 5.0 / np.sqrt(8000.0) and abs(z.mean() - 10.0) < 5.0 * 6.0 / np.sqrt(4000.0)
    from sklearn_dpmix.estimators.private import _noise_source

    asked, measurement = [], _noise_source.measurement
    monkeypatch.setattr(_noise_source, "measurement", lambda *a: asked.append(a) or measurement(*a))
    fitted = clone(estimator).set_params(secure=True).fit(X)
    assert {noise for noise, _ in asked} == {"gaussian"} and len(asked) >= 2 * fitted.n_iter_
    assert fitted.noise_multiplier_ in {multiplier for _, multiplier in asked}


@EVERY
def test_a_simulation_is_loud_and_marked(estimator):
    """It repeats itself, warns, and says that it is not private."""
    simulated = clone(estimator).set_params(simulate=True, random_state=3)
    with pytest.warns(UserWarning, match="NOT private"):
        first = clone(simulated).fit(X)
    with pytest.warns(UserWarning, match="NOT private"):
        second = clone(simulated).fit(X)
    np.testing.assert_array_equal(first.theta_draws_, second.theta_draws_)
    assert not first.is_private_


def test_the_clipped_fraction_is_shown_only_where_it_may_be():
    """Released with noise and paid for, or of data that are not confidential; otherwise absent."""
    clipping = clone(PENALTY).set_params(clip_bound=0.5, proposal_scale=0.05)
    assert not hasattr(clone(clipping).fit(X), "clipped_fraction_")
    public = clone(clipping).set_params(mechanism=None, n_iter=2000, random_state=0).fit(X)
    paid = clone(clipping).set_params(clipped_fraction_share=0.1, n_iter=2000).fit(X)
    assert 0.05 < public.clipped_fraction_ < 1.0
    assert abs(paid.clipped_fraction_ - public.clipped_fraction_) < 0.15
    assert not hasattr(clone(PENALTY).set_params(mechanism=None, n_iter=20).fit(X), "clipped_fraction_")


def test_progress_and_warnings_tell_of_released_numbers_only(capsys):
    """The bar counts iterations, and a warning about mixing names R-hat and ESS of the draws, and what would help."""
    with pytest.warns(RuntimeWarning, match="R-hat.* under a budget: a preconditioner, records"):
        clone(PENALTY).set_params(verbose=1).fit(X)
    bar = capsys.readouterr().err
    assert "iteration" in bar and "clip" not in bar
