"""The correction of Barker's test for Gaussian noise (Räisä 2021, section 3.2; Heikkilä et al. 2019).

Barker's test takes a step of log ratio λ if λ + L > 0, L ~ Logistic(0, 1): with probability σ(λ) = 1 / (1 + exp(-λ)).
Where only λ + N(0, C) is known, a correction V is added instead: N(0, C) + V should be logistic.

No V does that, for any C > 0.  Its characteristic function would be that of the logistic over that of the noise,
πt / sinh(πt) · exp(Ct² / 2), which grows without bound in t, while no characteristic function exceeds 1.  C < π²/3, the
variance of the logistic, is necessary and not sufficient.  So the package has distributions of V that are nearly right
and states their errors.

**What the error is.**  V is symmetric, so that the probability A(λ) of a step has A(λ) + A(-λ) = 1, and
A(λ) = σ(λ + d(λ)) with d(λ) = log(A(λ) / A(-λ)) - λ, an odd function: the chain is Barker's with λ + d(λ) for λ.
``error`` bounds |A - σ| for every λ; ``log_ratio_error`` bounds |d|, and ``temperature_error`` |d(λ) / λ|, for
|λ| ≤ ``log_ratio_range``.  Let π be the target and π̃ the stationary distribution, on finitely many states that Q
proposes steps between, back and forth: a step from a to b has exp(λ) = π(b) Q(b, a) / (π(a) Q(a, b)).

1.  *Detailed balance.*  The chain is reversible if and only if the d(λ) of its steps sum to 0 around every cycle
    (Kolmogorov's criterion: A(λ) / A(-λ) = exp(λ + d(λ)), and the rest cancels around a cycle).  Then the d(λ) of a
    step from x to y is g(y) - g(x), and π̃ ∝ π exp(g).  If Q is symmetric and proposes all steps, d must be additive,
    d(u + v) = d(u) + d(v), on the λ that occur: d = cλ is, and gives π̃ ∝ π^(1 + c).  The d of a fitted correction is
    not; where steps form cycles the chain has a stationary distribution, and is not reversible.
2.  *A bound without mixing times.*  log(π̃ / π) at x and at y differ by at most the largest sum of |d| over a path of
    steps from x to y that visits no state twice.  If no step has |λ| > ``log_ratio_range``, each adds at most
    ``log_ratio_error``, and at most |λ| times ``temperature_error``.  Proof: π̃(x) is proportional to the sum, over
    spanning trees that point to x, of the products of their transition probabilities (Markov chain tree theorem).  A
    tree that points to x becomes one that points to y, one to one, when its path from y to x is turned around.  Each
    step a → b of that path then changes the product by the factor Q(b, a) A(-λ) / (Q(a, b) A(λ)), which is
    π(a) / π(b) · exp(-d(λ)): together π(y) / π(x) · exp(-Σ d).  On a line, where steps go to neighbours, there is one
    path, and log(π̃ / π) is Σ d but for a constant: the bound is sharp.  If log(π̃ / π) varies by r, its total variation
    TV(π̃, π) is at most tanh(r / 4).
3.  *A bound with mixing times.*  TV(π̃, π) ≤ ``error`` · κ, κ the largest ½ Σ_z |Z(x, z) - Z(y, z)| over states x and y,
    Z = (I - P + 1π)⁻¹, P the exact chain.  κ ≤ Σ_k max_xy TV(P^k(x, ·), P^k(y, ·)): the time P takes to forget its
    start.  Proof: (π̃ - π)(I - P + 1π) = π̃(P̃ - P), a vector of sum 0 whose absolute values sum to at most 2 · ``error``.

**Measured.**  Largest TV(π̃, π), from the transition matrix, over four targets (normal, two modes, skew, rough) on 41
points whose log probabilities range over 5 to 10, for steps to any point and to a neighbour, where errors add up most
(figures are rounded up):

====  ==========  =======  ===============  ============  =============
C     components  error    log_ratio_error  TV, any step  TV, neighbour
====  ==========  =======  ===============  ============  =============
1.0   37          1.5e-7   1.4e-6           4.1e-8        2.9e-7
1.25  29          5.5e-6   5.5e-5           2.1e-6        2.9e-5
1.5   21          7.0e-5   6.4e-4           2.9e-5        2.5e-4
1.75  17          3.9e-4   3.5e-3           1.9e-4        1.3e-3
2.0   15          1.2e-3   1.3e-2           5.3e-4        5.3e-3
2.25  13          2.1e-3   3.5e-2           1.3e-3        1.2e-2
2.5   11          5.1e-3   7.3e-2           3.8e-3        2.1e-2
2.75  9           1.0e-2   1.3e-1           8.7e-3        3.1e-2
====  ==========  =======  ===============  ============  =============
"""

import json
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

FILE_NAME = "barker_correction.json"


class BarkerCorrection(NamedTuple):
    """Distribution of V, on finitely many points, for noise N(0, ``variance``); :func:`barker_correction` returns it.

    Attributes
    ----------
    variance : float
        Variance of the noise: the square of its standard deviation, in units of log ratio.
    weights : ndarray of shape (n_components,)
        Positive, with sum 1, and symmetric.
    means : ndarray of shape (n_components,)
        The points, in ascending order.
    error : float
        Largest error of the probability of a step, whatever its log ratio.
    log_ratio_error : float
        Largest error of log(A(λ) / A(-λ)) for |λ| ≤ ``log_ratio_range``.
    temperature_error : float
        Largest error of log(A(λ) / A(-λ)) / λ for 0 < |λ| ≤ ``log_ratio_range``.
    log_ratio_range : float
        Range in which these two hold.

    Examples
    --------
    >>> from sklearn_dpmix.samplers.private._barker_correction import barker_correction
    >>> correction = barker_correction(2.0)
    >>> len(correction.weights), correction.error
    (15, 0.00112)
    >>> correction.accept_probability([-1.0, 0.0, 1.0]).round(3)
    array([0.269, 0.5  , 0.731])
    """

    variance: float
    weights: np.ndarray
    means: np.ndarray
    error: float
    log_ratio_error: float
    temperature_error: float
    log_ratio_range: float

    def draw(self, rng, size=None):
        """Return V, or an array of ``size`` of them; each costs a uniform of ``rng``.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_dpmix.samplers.private._barker_correction import barker_correction
        >>> correction, rng = barker_correction(2.0), np.random.default_rng(0)
        >>> noisy_log_ratio = 0.3 + 2.0**0.5 * rng.standard_normal()
        >>> bool(noisy_log_ratio + correction.draw(rng) > 0)
        True
        """
        # Clipped: the sum of all weights may round to less than a uniform can be.
        index = self.weights.cumsum().searchsorted(rng.random(size), side="right")
        return self.means[np.minimum(index, len(self.means) - 1)]

    def accept_probability(self, lam):
        """Return A(λ), the probability that λ + N(0, ``variance``) + V > 0."""
        lam = np.asarray(lam, dtype=np.float64)
        return ndtr((lam[..., None] + self.means) / np.sqrt(self.variance)) @ self.weights


def barker_correction(variance):
    """Return the :class:`BarkerCorrection` for noise of this variance, if there is a fitted one.

    Noise of less variance is brought up to a fitted one by more noise: N(0, c) + N(0, C - c) is N(0, C).

    Parameters
    ----------
    variance : float
        One of those that ``tools/fit_barker_correction.py`` lists.

    Returns
    -------
    BarkerCorrection

    Examples
    --------
    >>> from sklearn_dpmix.samplers.private._barker_correction import barker_correction
    >>> for variance in (1.0, 1.5, 2.0, 2.5):
    ...     print(variance, barker_correction(variance).log_ratio_error)
    1.0 1.37e-06
    1.5 0.000631
    2.0 0.0128
    2.5 0.0725
    >>> barker_correction(3.2)
    Traceback (most recent call last):
        ...
    ValueError: no correction is fitted for variance 3.2: choose one of 1.0, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75
    """
    available = _corrections()
    if variance not in available:
        names = ", ".join(map(str, available))
        raise ValueError(f"no correction is fitted for variance {variance}: choose one of {names}")
    return available[variance]


@cache
def _corrections():
    """Return the file's corrections by their variance; arrays are read-only."""
    text = files(__package__).joinpath(FILE_NAME).read_text(encoding="ascii")
    return {entry["variance"]: _unfolded(**entry) for entry in json.loads(text)}


def _unfolded(points, weights, **figures):
    """Return the distribution from its half: points ≥ 0, each with the weight of ±point."""
    points, weights = np.array(points), np.array(weights)
    doubled = points > 0
    sides = np.where(doubled, weights / 2, weights)
    means = np.concatenate([-points[doubled][::-1], points])
    both = np.concatenate([sides[doubled][::-1], sides])
    means.flags.writeable = both.flags.writeable = False
    return BarkerCorrection(weights=both, means=means, **figures)
