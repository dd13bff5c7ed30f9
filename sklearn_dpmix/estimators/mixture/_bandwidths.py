"""Bandwidths of a deconvoluting kernel density estimate (Delaigle & Gijbels 2004).

Records are in units of the release's range.
"""

from math import exp, factorial, log, pi, sqrt

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp

from ._noise_inversion import KERNEL_VARIANCE, empirical_cf, kernel_cf, quadrature

PLACES, WEIGHTS = quadrature(240.0)  # for the noise terms, whatever the bandwidth


def log_noise_term(log_h, moment, log_gain, n):
    """Log of (1/πnh)∫_0^1 m(u)/φ_noise(u/h)² du; in logs, because 1/φ_noise² of Gaussian noise overflows."""
    return logsumexp(2.0 * log_gain(PLACES * exp(-log_h)), b=WEIGHTS * moment) - log_h - log(pi * n)


def balance(moment, coefficient, power, log_gain, n):
    """Solve (1/πnh)∫_0^1 m(u)/φ_noise(u/h)² du = coefficient·h^power, whose log ratio falls with h: one root."""
    return exp(
        brentq(lambda log_h: log_noise_term(log_h, moment, log_gain, n) - log(coefficient) - power * log_h, -40.0, 40.0)
    )


def roughness(r, h, y, log_gain):
    """Estimate of ∫f^(r)(x)²dx: (1/π)∫_0^{1/h} t^2r |φ_emp(t)|² φ_K(th)²/φ_noise(t)² dt."""
    u, weights = quadrature(1.0 / h)
    t = u / h
    amplitude = np.abs(t**r * empirical_cf(t, y) * kernel_cf(u)) * np.exp(log_gain(t))
    return float(weights @ amplitude**2) / (pi * h)


def plug_in(y, log_gain, variance):
    """Plug-in bandwidth, and the pilot with which ∫f''² was estimated (Delaigle & Gijbels 2004, §3).

    ∫f''''² is a normal's of the confidential records' ``variance``; then, for r = 3 and 2, θ_r = ∫f^(r)² is estimated
    with the bandwidth at which its two asymptotic biases, -h²μ₂θ_{r+1} and the noise's, cancel (Delaigle & Gijbels
    2002); last, the asymptotic MISE V(h) + h⁴μ₂²θ_2/4 is minimised: -hV'(h) = h⁴μ₂²θ_2.
    """
    n = len(y)
    theta = factorial(8) / (2.0**9 * factorial(4) * sqrt(pi) * variance**4.5)
    for r in (3, 2):
        moment = PLACES ** (2 * r) * kernel_cf(PLACES) ** 2
        pilot = balance(moment, KERNEL_VARIANCE * theta, 2 * r + 2, log_gain, n)
        theta = roughness(r, pilot, y, log_gain)
    # -u d/du φ_K(u)²: V is ∫φ_K(th)²/φ_noise(t)² dt/(πn), h is in φ_K only
    falls = 12.0 * PLACES**2 * (1.0 - PLACES**2) ** 5
    return balance(falls, KERNEL_VARIANCE**2 * theta, 4, log_gain, n), pilot


def bootstrap(y, log_gain, variance):
    """Minimiser of the bootstrap MISE (Delaigle & Gijbels 2004, §4), which has a closed form.

    Resampling from the estimate with pilot g, of characteristic function φ_g, and adding noise, the MISE is exactly
    V(h) + (1/π)∫_0^{1/g}|φ_g(t)|²((1 - 1/n)φ_K(th)² - 2φ_K(th) + 1) dt.  The pilot is the plug-in's, for ∫f''².
    """
    n = len(y)
    centre, pilot = plug_in(y, log_gain, variance)
    u, weights = quadrature(1.0 / pilot)
    t = u / pilot
    power = weights / (pi * pilot) * np.square(np.abs(empirical_cf(t, y) * kernel_cf(u)) * np.exp(log_gain(t)))

    def mise(log_h):
        kernel = kernel_cf(t * exp(log_h))
        with np.errstate(over="ignore"):
            noise = np.exp(log_noise_term(log_h, kernel_cf(PLACES) ** 2, log_gain, n))
        return noise + np.sum(power * ((1.0 - 1.0 / n) * kernel**2 - 2.0 * kernel))

    # It may have several minima: take the lowest point of a grid, then refine it.
    grid = log(centre) + np.linspace(-log(100.0), log(100.0), 201)
    best = int(np.argmin([mise(log_h) for log_h in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return exp(minimize_scalar(mise, bounds=around, method="bounded", options={"xatol": 1e-6}).x)


SELECTORS = {"plug-in": lambda *args: plug_in(*args)[0], "bootstrap": bootstrap}
