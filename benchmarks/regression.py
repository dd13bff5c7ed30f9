"""Linear regression from noisy moments (Ju et al., §4.2): against a hand-fused loop, and interweaving against none."""

import time
import warnings
from math import exp

import numpy as np
from numba import njit

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GaussianPredictors, RegressionPrior
from sklearn_dpmix.queries import RegressionMoments

BETA, MEAN = np.array([-1.79, -2.89, -0.66]), np.array([0.9001, -1.1733])


def release(n, epsilon):
    """(mechanism, release) in the paper's setting: x and y clamped to ±10, noise of scale 13/ε."""
    rng = np.random.default_rng(0)
    x = MEAN + rng.normal(size=(n, 2))
    y = BETA[0] + x @ BETA[1:] + np.sqrt(2.0) * rng.normal(size=n)
    mechanism = LaplaceMechanism(scale=13 / epsilon, query=RegressionMoments((-10, 10), (-10, 10), 2))
    return mechanism, mechanism.privatize(np.column_stack([x, y]), random_state=1)[None]


def model(mechanism, n, interweave, n_draws, thin=1):
    return PrivateLinearRegressionDA(
        mechanism,
        prior=RegressionPrior(2.0, sigma=2**0.5),
        x_model=GaussianPredictors(MEAN, np.eye(2)),
        n_records=n,
        interweave=interweave,
        n_chains=2,
        n_warmup=1000,
        n_draws=n_draws,
        thin=thin,
        n_jobs=1,
        random_state=0,
    )


def seconds_a_sweep(mechanism, S, n, interweave, n_sweeps, thin=1):
    """By a fit that goes on."""
    fitted = model(mechanism, n, interweave, 10, thin).fit(S).set_params(warm_start=True)
    started = time.thread_time()
    fitted.set_params(n_draws=10 + n_sweeps // thin).fit(S)
    return (time.thread_time() - started) / (2 * n_sweeps), fitted


def against_hand_fused(n=100, epsilon=10.0, n_sweeps=10_000):
    """(µs a sweep of the package without interweaving, of the hand-fused loop, ratio); the best of five each."""
    mechanism, S = release(n, epsilon)
    ours = theirs = np.inf
    rng = np.random.default_rng(0)
    fused(S[0], 13 / epsilon, n, 2, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(5):
            ours = min(ours, seconds_a_sweep(mechanism, S, n, False, n_sweeps, thin=100)[0])
            started = time.thread_time()
            fused(S[0], 13 / epsilon, n, n_sweeps, rng)
            theirs = min(theirs, (time.thread_time() - started) / n_sweeps)
    return ours * 1e6, theirs * 1e6, ours / theirs


def interweaving(n_sweeps=20_000):
    """Rows (n, ε, µs a sweep plain and interwoven, smallest ESS a second of a coefficient plain, interwoven, ratio)."""
    rows = []
    for n, epsilon in ((100, 10.0), (1000, 1.0)):
        mechanism, S = release(n, epsilon)
        rates, micros = [], []
        for interweave in (False, True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                seconds, fitted = seconds_a_sweep(mechanism, S, n, interweave, n_sweeps)
            fewest = min(ess for name, ess in fitted.ess_.items() if name.startswith(("coef", "intercept")))
            rates.append(fewest / (2 * n_sweeps * seconds))
            micros.append(seconds * 1e6)
        rows.append((n, epsilon, *micros, *rates, rates[1] / rates[0]))
    return rows


@njit(nogil=True, error_model="numpy")
def fused(s, b, n, n_sweeps, rng):
    """Ju et al.'s sampler for this model alone: two predictors, everything known but (α, β)."""
    x1, x2, y = np.empty(n), np.empty(n), np.empty(n)
    t, total, new = np.empty((n, 9)), np.zeros(9), np.empty(9)
    alpha, beta_1, beta_2 = -1.0, -1.0, -1.0
    gram, draws = np.empty((3, 3)), np.empty((n_sweeps, 3))
    for i in range(n):
        x1[i], x2[i] = 0.9001 + rng.standard_normal(), -1.1733 + rng.standard_normal()
        y[i] = alpha + beta_1 * x1[i] + beta_2 * x2[i] + 2**0.5 * rng.standard_normal()
        contribution(x1[i], x2[i], y[i], new)
        for j in range(9):
            t[i, j] = new[j]
    for sweep in range(n_sweeps):
        total[:] = 0.0
        for i in range(n):
            for j in range(9):
                total[j] += t[i, j]
        current = 0.0
        for j in range(9):
            current -= abs(s[j] - total[j]) / b
        for i in range(n):
            u1, u2 = 0.9001 + rng.standard_normal(), -1.1733 + rng.standard_normal()
            v = alpha + beta_1 * u1 + beta_2 * u2 + 2**0.5 * rng.standard_normal()
            contribution(u1, u2, v, new)
            proposed = 0.0
            for j in range(9):
                proposed -= abs(s[j] - (total[j] - t[i, j] + new[j])) / b
            gain = proposed - current
            if gain >= 0.0 or rng.random() < exp(gain):
                for j in range(9):
                    total[j] += new[j] - t[i, j]
                    t[i, j] = new[j]
                x1[i], x2[i], y[i], current = u1, u2, v, proposed
        gram[:] = 0.0
        r0 = r1 = r2 = 0.0
        for i in range(n):
            gram[1, 0] += x1[i]
            gram[2, 0] += x2[i]
            gram[1, 1] += x1[i] * x1[i]
            gram[2, 1] += x1[i] * x2[i]
            gram[2, 2] += x2[i] * x2[i]
            r0 += y[i]
            r1 += x1[i] * y[i]
            r2 += x2[i] * y[i]
        a00 = (0.5 * n + 0.25) ** 0.5
        a10, a20 = 0.5 * gram[1, 0] / a00, 0.5 * gram[2, 0] / a00
        a11 = (0.5 * gram[1, 1] + 0.25 - a10 * a10) ** 0.5
        a21 = (0.5 * gram[2, 1] - a20 * a10) / a11
        a22 = (0.5 * gram[2, 2] + 0.25 - a20 * a20 - a21 * a21) ** 0.5
        h0 = 0.5 * r0 / a00
        h1 = (0.5 * r1 - a10 * h0) / a11
        h2 = (0.5 * r2 - a20 * h0 - a21 * h1) / a22
        beta_2 = (h2 + rng.standard_normal()) / a22
        beta_1 = (h1 + rng.standard_normal() - a21 * beta_2) / a11
        alpha = (h0 + rng.standard_normal() - a10 * beta_1 - a20 * beta_2) / a00
        draws[sweep, 0], draws[sweep, 1], draws[sweep, 2] = alpha, beta_1, beta_2
    return draws


@njit(nogil=True, error_model="numpy")
def contribution(x1, x2, y, out):
    u1, u2 = min(max(0.1 * x1, -1.0), 1.0), min(max(0.1 * x2, -1.0), 1.0)
    v = min(max(0.1 * y, -1.0), 1.0)
    out[0], out[1], out[2], out[3] = v, u1 * v, u2 * v, v * v
    out[4], out[5], out[6], out[7], out[8] = u1, u2, u1 * u1, u1 * u2, u2 * u2
