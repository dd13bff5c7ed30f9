"""Fit the corrections of Barker's test: ``python -m tools.fit_barker_correction`` writes their file.

:mod:`sklearn_dpmix.samplers.private._barker_correction` says what they are for and what their errors mean.  Write A(λ)
for the probability that λ + N(0, C) + V > 0, σ for the logistic function, and d(λ) = log(A(λ) / A(-λ)) - λ.

What is minimised.  The largest |d(λ)| / min(1, |λ| / 2) over 0 < λ ≤ ``LOG_RATIO_RANGE``; call it δ.  It bounds d for
long steps, and for short steps it bounds d / λ, which is what their errors add up to: a chain of short steps whose
d(λ) is cλ has the law π^(1 + c) in the place of π.  The error |A - σ| of the acceptance is then at most δ / 4.
To minimise that error itself would bring it to 0.4 (C = 1.5) to 0.7 (C = 2.75) of what it is here, but with |d| up to 5
and more where σ(λ) is smaller than the error: unlikely steps would be taken too often, or never, by any factor.

Why V is discrete.  A is linear in the law of V, so that the best law is a linear programme over measures, which has a
solution on as many points as constraints are tight.  N(0, C) is all the smoothing there is.

How.  A linear programme for the weights on a grid of points; neighbours in its solution are one point of the optimum
between them, so that they are merged and the grid is refined around what is left, until the points stand alone.
"""

import json
import math
from pathlib import Path

import numpy as np
from scipy.optimize import linprog
from scipy.special import expit, ndtr

from sklearn_dpmix.samplers.private import _barker_correction

#: Noise of less variance can be topped up to 1; below it the programme is too close to degenerate to gain much.
VARIANCES = (1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75)
#: A step of λ = -20 is taken with a probability of 2e-9; what lies beyond adds no more than that to an error.
LOG_RATIO_RANGE = 20.0
#: Points of V go on past the last λ, to hold up the tail of A there.
LAST_POINT = LOG_RATIO_RANGE + 4.0
FIRST_SPACING = 0.2
N_REFINEMENTS = 5
#: The programme's λ, dense where d turns; the errors in the file are on CHECKED, which is finer.
FITTED = np.concatenate([np.arange(1, 300) * 0.02, np.arange(120, int(20 * LOG_RATIO_RANGE) + 1) * 0.05])
CHECKED = np.arange(1, 1000 * int(LOG_RATIO_RANGE) + 1) / 1000
#: Below it the programme's own tolerances decide, not the objective.
SMALLEST_EXPECTED = 1e-8


def rejection(variance, points, lam):
    """Return A(-λ), a row for each λ and a column for each point, if V is ±point with probability 1/2 each.

    >>> rejection(1.0, np.array([0.0, 30.0]), np.array([0.0, 1.0])).round(3)
    array([[0.5  , 0.5  ],
           [0.159, 0.5  ]])
    """
    sd = math.sqrt(variance)
    return (ndtr((points - lam[:, None]) / sd) + ndtr((-points - lam[:, None]) / sd)) / 2


def solve(variance, points, expected):
    """Return weights of the points (≥ 0, of sum 1), and their δ, which is about ``expected``.

    |d| ≤ δ min(1, λ / 2) is σ(-λ - δ..) ≤ A(-λ) ≤ σ(-λ + δ..), linear in the weights; its dependence on δ is that of
    the secant at ``expected``.  The unknowns are exp(point) times the weights: a tail falls as exp(-λ).

    >>> weights, error = solve(2.0, np.arange(0.0, 24.0, 0.2), 0.01)
    >>> bool(weights.min() >= 0), round(float(weights.sum()), 6), round(float(error), 3)
    (True, 1.0, 0.013)
    """
    scale = np.exp(-points)
    target, width = expit(-FITTED), expected * np.minimum(1.0, FITTED / 2)
    above = (expit(width - FITTED) - target) / expected
    below = (target - expit(-width - FITTED)) / expected
    columns = rejection(variance, points, FITTED) * scale
    ones = np.ones((len(FITTED), 1))
    found = linprog(
        np.r_[np.zeros(len(points)), 1.0],
        A_ub=np.block([[columns / above[:, None], -ones], [-columns / below[:, None], -ones]]),
        b_ub=np.r_[target / above, -target / below],
        A_eq=np.r_[scale, 0.0][None],
        b_eq=[1.0],
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:
        raise RuntimeError(f"linear programme at variance {variance}: {found.message}")
    return found.x[:-1] * scale, found.x[-1]


def merged(points, weights, reach):
    """Return one point for each run of points that are in use and within ``reach`` of the next: their mean.

    >>> merged(np.array([0.0, 0.2, 0.4, 2.0, 2.2]), np.array([0.5, 0.0, 0.0, 0.125, 0.375]), 0.3)
    array([0.  , 2.15])
    """
    used = weights * np.exp(points) > 1e-10
    points, weights = points[used], weights[used]
    runs = np.split(np.arange(len(points)), np.flatnonzero(np.diff(points) > reach) + 1)
    return np.array([np.average(points[run], weights=weights[run]) for run in runs])


def fit(variance):
    """Return points ≥ 0 and the weight of ±point of each: the correction for N(0, variance).

    >>> points, weights = fit(2.5)
    >>> len(points), points[:4].round(1).tolist(), weights[:3].round(3).tolist()
    (6, [0.0, 3.9, 8.2, 12.4], [0.953, 0.046, 0.001])
    """
    spacing, points, expected = FIRST_SPACING, np.arange(0.0, LAST_POINT, FIRST_SPACING), 0.01
    for _ in range(1 + N_REFINEMENTS):
        weights, found = solve(variance, points, expected)
        expected = max(found, SMALLEST_EXPECTED)
        centres = merged(points, weights, 2.01 * spacing)
        spacing /= 2
        points = np.unique(np.abs(centres[:, None] + [-spacing, 0.0, spacing]).round(9))
    points = np.where(centres <= 2 * spacing, 0.0, centres).round(6)
    weights, _ = solve(variance, points, expected)
    return points[weights > 0], weights[weights > 0] / weights.sum()


def rounded_up(value):
    """Return the next number of three digits.

    >>> rounded_up(0.012345)
    0.0124
    """
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / unit) * unit:.3g}")


def errors(variance, points, weights):
    """Return the largest |A - σ| anywhere, and the largest |d| and |d / λ| on |λ| ≤ ``LOG_RATIO_RANGE``.

    A and σ both rise: beyond the range they differ by no more than the larger of their values at its end.

    >>> [float(f"{error:.2g}") for error in errors(1.0, np.array([0.0]), np.array([1.0]))]  # no correction at all
    [0.12, 180.0, 9.2]
    """
    rejected = rejection(variance, points, CHECKED) @ weights
    exact = expit(-CHECKED)
    log_ratio = np.abs(np.log(rejected) - np.log1p(-rejected) + CHECKED)
    acceptance = max(np.abs(rejected - exact).max(), rejected[-1], exact[-1])
    return acceptance, log_ratio.max(), (log_ratio / CHECKED).max()


def main():
    """Write the package's ``barker_correction.json``."""
    corrections = []
    for variance in VARIANCES:
        points, weights = fit(variance)
        names = ("error", "log_ratio_error", "temperature_error")
        figures = dict(zip(names, map(rounded_up, errors(variance, points, weights))))
        print(variance, 2 * len(points) - (0.0 in points), figures)
        law = {"points": points.tolist(), "weights": weights.tolist()}
        corrections.append({"variance": variance, "log_ratio_range": LOG_RATIO_RANGE, **figures, **law})
    file = Path(_barker_correction.__file__).with_name(_barker_correction.FILE_NAME)
    file.write_text(json.dumps(corrections, indent=1) + "\n")


if __name__ == "__main__":
    main()
