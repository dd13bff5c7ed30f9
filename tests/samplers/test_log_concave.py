"""Draws from one-dimensional log-concave laws, against exact tables and distribution functions, in extreme shapes.

One compiled loop draws from every law here: a law is a number (``kind``) and its parameters.
"""

from math import inf, log, log1p

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln
from statistical import ALPHA, Disagreement

from sklearn_dpmix._base.compiled import Component, compiled, entry, lower
from sklearn_dpmix.samplers.sums._log_concave import HIGH_DROP, draw_log_concave, draw_under_hat, find_hat, log_law
from sklearn_dpmix.samplers.sums._statistic import draw_log_beta, draw_log_gamma, log_gamma_ratio

LAPLACE, NORMAL, GAMMA, FLAT, COUNTS, LOGISTIC, CONVEX = map(float, range(7))
N_DRAWS = 40_000


class Law(Component):
    """f(x) by kind; ``evaluations`` in the context counts."""

    def __init__(self, kind, *p):
        self.kind = kind
        self.p = p

    def _lower(self, **context):
        return lower(Law, {"kind": self.kind, "p": np.array([*self.p, 0.0, 0.0, 0.0, 0.0], dtype=np.float64)})

    @compiled
    def log_law(self, context, x):
        context[0] += 1.0
        p = self.p
        if self.kind == LAPLACE:
            return -abs(x - p[0]) / p[1]
        if self.kind == NORMAL:
            return -0.5 * ((x - p[0]) / p[1]) ** 2
        if self.kind == GAMMA:
            return ((p[0] - 1.0) * log(x) if x > 0.0 else (-inf if p[0] > 1.0 else 0.0)) - p[1] * x
        if self.kind == COUNTS:  # a hidden count among p[0], prior exponents p[1] and p[2], Laplace noise
            value = log_gamma_ratio(x, p[1], 1.0) + log_gamma_ratio(p[0] - x, p[2], 1.0)
            return value - abs(x - p[3]) / p[4]
        if self.kind == LOGISTIC:
            u = (x - p[0]) / p[1]
            return -abs(u) - 2.0 * log1p(np.exp(-abs(u)))
        if self.kind == CONVEX:
            return 0.02 * (x - 20.0) ** 2
        return 0.0


@entry
def draws_of(model, rng, context, lo, hi, guess, width, is_integer, out):
    for i in range(out.size):
        out[i], width = draw_log_concave(rng, model, context, lo, hi, guess, width, is_integer)


@entry
def draws_of_broken(model, rng, context, lo, hi, guess, width, is_integer, slack, tilt, out):
    """A hat whose flat piece is moved down by ``slack``, and whose tails start ``tilt`` lower."""
    for i in range(out.size):
        m, f_m, left, f_left, right, f_right, excess = find_hat(model, context, lo, hi, guess, width, is_integer)
        out[i] = draw_under_hat(
            rng, model, context, lo, hi, m, f_m, left, f_left - tilt, right, f_right - tilt, excess - slack, is_integer
        )


@entry
def hat_of(model, context, lo, hi, guess, width, is_integer, x, out):
    """(m, f(m), l, f(l), r, f(r), excess), and f at each x."""
    hat = find_hat(model, context, lo, hi, guess, width, is_integer)
    for i in range(x.size):
        out[i] = log_law(model, context, x[i])
    return hat


def draw(law, lo, hi, *, guess=None, width=1.0, is_integer=False, n=N_DRAWS, seed=0):
    """(draws, evaluations a draw)."""
    if guess is None:
        guess = min(max(0.0, lo), hi)
    out, context, rng = np.empty(n), np.zeros(1), np.random.Generator(np.random.PCG64(seed))
    draws_of(law._lower(), rng, context, float(lo), float(hi), float(guess), float(width), is_integer, out)
    return out, context[0] / n


def check_cdf(draws, cdf):
    """Kolmogorov–Smirnov at level ALPHA."""
    if not stats.kstest(draws, cdf).pvalue > ALPHA:
        raise Disagreement(f"{stats.kstest(draws, cdf)}")


def check_pmf(draws, points, log_p, n_cells=60):
    """Chi-square at level ALPHA over cells of about the same probability; ``points`` has all but 1e-9 of the mass."""
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    assert np.all(draws == np.floor(draws))
    if np.any((draws < points[0]) | (draws > points[-1])):
        raise Disagreement("draws outside the support")
    cell = np.minimum((np.cumsum(p) - p) * n_cells, n_cells - 1).astype(int)
    cell = np.unique(cell, return_inverse=True)[1]
    expected = np.bincount(cell, p) * len(draws)
    found = np.bincount(cell[(draws - points[0]).astype(int)], minlength=len(expected))
    enough = expected > 5
    assert enough.sum() > 1, "one value has nearly all of the probability"
    pooled = np.append(expected[enough], expected[~enough].sum()), np.append(found[enough], found[~enough].sum())
    statistic = np.sum((pooled[1] - pooled[0])[pooled[0] > 0] ** 2 / pooled[0][pooled[0] > 0])
    if not stats.chi2.sf(statistic, enough.sum() - 1 + (pooled[0][-1] > 5)) > ALPHA:
        raise Disagreement(f"chi-square {statistic:.0f} over {enough.sum()} cells")


REALS = {
    "Laplace": (Law(LAPLACE, 3.3, 2.0), stats.laplace(3.3, 2.0), -inf, inf, {}),
    "Laplace, cut above the mode": (Law(LAPLACE, 3.3, 2.0), stats.laplace(3.3, 2.0), 4.0, inf, {"guess": 100.0}),
    "Laplace, cut far below": (Law(LAPLACE, 3.3, 2.0), stats.laplace(3.3, 2.0), -inf, -20.0, {"width": 1e3}),
    "narrow, far from the guess": (Law(LAPLACE, 1.0, 1e-9), stats.laplace(1.0, 1e-9), -inf, inf, {"guess": -1e6}),
    "wide, from a tiny width": (Law(NORMAL, 5.0, 1e8), stats.norm(5.0, 1e8), -inf, inf, {"width": 1e-9}),
    "normal between the tails": (Law(NORMAL, 5.0, 2.0), stats.norm(5.0, 2.0), -1.0, 3.0, {}),
    "normal, cut at 8 sd": (Law(NORMAL, 0.0, 1.0), stats.norm(), 8.0, inf, {}),
    "exponential": (Law(GAMMA, 1.0, 2.0), stats.gamma(1.0, scale=0.5), 0.0, inf, {"guess": 1e-3}),
    "gamma, mode next to the end": (Law(GAMMA, 1.0001, 1.0), stats.gamma(1.0001), 0.0, inf, {"guess": 1e-3}),
    "gamma": (Law(GAMMA, 3.0, 0.1), stats.gamma(3.0, scale=10.0), 0.0, inf, {"guess": 1e-3}),
    "gamma, nearly normal": (Law(GAMMA, 1e6, 2.0), stats.gamma(1e6, scale=0.5), 0.0, inf, {"guess": 1e-3}),
    "uniform": (Law(FLAT), stats.uniform(-2.0, 5.0), -2.0, 3.0, {"width": 0.01}),
    "logistic": (Law(LOGISTIC, -7.0, 0.3), stats.logistic(-7.0, 0.3), -inf, inf, {}),
}


@pytest.mark.parametrize("name", REALS)
def test_draws_on_the_line_have_the_law(name):
    """Catches a hat that is not one, a wrong mass of a piece, and what the guess could change."""
    law, exact, lo, hi, options = REALS[name]
    draws, _ = draw(law, lo, hi, **options)
    below, inside = exact.cdf(lo), exact.cdf(hi) - exact.cdf(lo)
    if exact.cdf(lo) > 0.9:
        check_cdf(draws, lambda x: 1.0 - exact.sf(x) / exact.sf(lo))
    else:
        check_cdf(draws, lambda x: (exact.cdf(x) - below) / inside)


INTEGERS = {  # n, exponents, y, noise scale
    "one record": (1, 1.0, 1.0, 0.3, 0.5),
    "two records, far release": (2, 1.5, 1.0, 9.0, 1.0),
    "ten": (10, 2.0, 3.0, 3.2, 1.0),
    "release below": (10, 1.0, 4.0, -30.0, 5.0),
    "release far below, little noise": (1000, 5.0, 1.0, -1e6, 30.0),
    "release above": (1000, 1.0, 1.0, 5e4, 200.0),
    "wide": (1000, 1.0, 1.0, 400.0, 1e6),
    "narrow": (1000, 30.0, 50.0, 421.5, 1.0),
    "strong prior": (10_000, 4000.0, 6000.0, 5000.0, 100.0),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("guess", ["low", "high"])
def test_draws_on_integers_have_the_law(name, guess):
    """Catches the same on integers, at both ends of the support, and the geometric tails."""
    n, a, b, y, scale = INTEGERS[name]
    s = np.arange(n + 1.0)
    log_p = gammaln(s + a) - gammaln(s + 1) + gammaln(n - s + b) - gammaln(n - s + 1) - np.abs(s - y) / scale
    law = Law(COUNTS, n, a, b, y, scale)
    draws, _ = draw(law, 0.0, n, guess=0.0 if guess == "low" else n, is_integer=True)
    check_pmf(draws, s, log_p)


def test_a_law_on_all_integers():
    """Catches ends at infinity: a discrete Laplace law."""
    e = np.arange(-300.0, 301.0)
    for width in (1.0, 3.7, 1e4):
        draws, _ = draw(Law(LAPLACE, 2.0, 7.0), -inf, inf, is_integer=True, width=width)
        check_pmf(draws, e, -np.abs(e - 2.0) / 7.0)


@pytest.mark.parametrize("is_integer", [False, True])
def test_a_law_that_is_nowhere_finite_ends(is_integer):
    """Catches a loop without end where arithmetic fails: NaN, which the caller can see."""
    assert np.all(np.isnan(draw(Law(NORMAL, np.nan, 1.0), -5.0, 5.0, is_integer=is_integer, n=2)[0]))


@pytest.mark.parametrize(("scale", "y"), [(30.0, 3e8), (1e5, 3e8), (1e12, 0.0), (1e3, -1e9)])
def test_a_billion_records_cost_no_more(scale, y):
    """Catches searches that grow with n from a good guess, and rounding of large gamma functions."""
    n = 10**9
    law = Law(COUNTS, n, 2.0, 3.0, y, scale)
    _, first = draw(law, 0.0, n, guess=n // 2, is_integer=True, n=1)
    assert first < 200
    centre = min(max(y, 0.0), n) if scale < n else n // 3
    width = min(scale, n / 4)
    draws, evaluations = draw(law, 0.0, n, guess=centre, width=width, is_integer=True)
    assert evaluations < 30
    low, high = max(centre - 60.0 * scale, 0.0), min(centre + 60.0 * scale, n)
    edges = np.linspace(low, high, 4001)  # the law is smooth on the scale of a cell, but for the kink, which is an edge
    edges = np.unique(np.append(edges, centre))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    half = 0.5 * np.diff(edges)[:, None]
    s = edges[:-1, None] + half * (1.0 + nodes)
    log_p = np.log1p(s) + np.log1p(n - s) + np.log(n - s + 2.0) - np.abs(s - y) / scale
    mass = (np.exp(log_p - log_p.max()) * half * weights).sum(axis=1)
    cumulative = np.append(0.0, np.cumsum(mass)) / mass.sum()
    check_cdf(draws + np.random.default_rng(0).random(len(draws)) - 0.5, lambda x: np.interp(x, edges, cumulative))


HATS = [
    *((law, lo, hi, {"width": 1.0, "is_integer": False, **options}) for law, _, lo, hi, options in REALS.values()),
    *((Law(COUNTS, *p), 0.0, p[0], {"guess": p[0] // 2, "width": 1.0, "is_integer": True}) for p in INTEGERS.values()),
]


@pytest.mark.parametrize("law, lo, hi, options", HATS)
def test_the_hat_is_above_the_law(law, lo, hi, options):
    """The proof in numbers, at 2000 points: catches a hat that chi-square would not see under."""
    guess = options.get("guess", min(max(0.0, lo), hi))
    width, is_integer = options["width"], options["is_integer"]
    hat_options = np.zeros(1), float(lo), float(hi), float(guess), width, is_integer
    hat = hat_of(law._lower(), *hat_options, np.zeros(0), np.zeros(0))
    m, f_m, left, f_left, right, f_right, excess = hat
    assert lo <= left <= m <= right <= hi
    reach = 30.0 * max(right - m, m - left, 1e-300)
    x = np.linspace(max(left - reach, lo), min(right + reach, hi), 2001)
    x = np.unique(np.round(x)) if is_integer else x[1:-1]
    f = np.empty(len(x))
    hat_of(law._lower(), *hat_options, x, f)
    log_hat = np.full(len(x), f_m + excess)
    if left > lo:
        low = x <= left
        log_hat[low] = f_left + (f_m - f_left) / (m - left) * (x[low] - left)
        assert f_m - f_left >= 0.7
    if right < hi:
        high = x >= right
        log_hat[high] = f_right - (f_m - f_right) / (right - m) * (x[high] - right)
        assert is_integer or f_m - f_right <= HIGH_DROP
    assert np.all(f <= log_hat + 1e-9 * (1.0 + np.abs(log_hat)))


@pytest.mark.parametrize(("slack", "tilt"), [(0.4, 0.0), (0.0, 0.4)])
@pytest.mark.parametrize("is_integer", [False, True])
def test_a_hat_that_is_not_one_is_found(slack, tilt, is_integer):
    """The broken twin: pieces that lie below the law somewhere."""
    out, context, rng = np.empty(N_DRAWS), np.zeros(1), np.random.Generator(np.random.PCG64(0))
    law = Law(LAPLACE, 0.3, 40.0)
    draws_of_broken(law._lower(), rng, context, -inf, inf, 0.0, 20.0, is_integer, slack, tilt, out)
    with pytest.raises(Disagreement):
        if is_integer:
            e = np.arange(-1500.0, 1501.0)
            check_pmf(out, e, -np.abs(e - 0.3) / 40.0)
        else:
            check_cdf(out, stats.laplace(0.3, 40.0).cdf)


def test_a_law_that_is_not_log_concave_is_found():
    """The broken twin: what concavity proves does not hold of a convex f, and the check sees it."""
    s = np.arange(41.0)
    draws, _ = draw(Law(CONVEX), 0.0, 40.0, guess=5.0, is_integer=True)
    with pytest.raises(Disagreement):
        check_pmf(draws, s, 0.02 * (s - 20.0) ** 2)


def test_the_checks_reject_a_wrong_scale():
    """The broken twin: draws whose noise is 15 % too wide."""
    draws, _ = draw(Law(LAPLACE, 0.0, 1.15), -inf, inf)
    with pytest.raises(Disagreement):
        check_cdf(draws, stats.laplace(0.0, 1.0).cdf)
    e = np.arange(-300.0, 301.0)
    draws, _ = draw(Law(LAPLACE, 0.0, 8.05), -inf, inf, is_integer=True)
    with pytest.raises(Disagreement):
        check_pmf(draws, e, -np.abs(e) / 7.0)


def test_one_point_is_drawn():
    assert np.all(draw(Law(FLAT), 3.0, 3.0, guess=3.0, is_integer=True, n=5)[0] == 3.0)


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(0.3, 1.0), (1.0, 1.0), (2.5, 1.0), (1e4, 1.0), (3.0, 0.0), (1e-3, 1.0)])
def test_log_gamma_ratio(a, b):
    """Against mpmath, relative to one, up to 1e15: catches the cancellation that two lgamma have."""
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for x in (0.5, 1.0, 15.0, 16.5, 100.0, 1e4, 1e9, 1e15):
            exact = mpmath.loggamma(mpmath.mpf(x) + a) - mpmath.loggamma(mpmath.mpf(x) + b)
            error = abs(log_gamma_ratio(x, a, b) - exact)
            assert error < 1e-12 * max(1.0, abs(exact)), (x, a, b, error)


@entry
def log_gammas(model, rng, a, b, out, pairs):
    model.log_law(np.zeros(1), 1.0)
    for i in range(out.size):
        out[i] = draw_log_gamma(rng, a)
        pairs[i] = draw_log_beta(rng, a, b)


@pytest.mark.parametrize(("a", "b"), [(1e-3, 0.999), (0.3, 0.7), (2.0, 0.5), (50.0, 3.0)])
def test_logarithms_of_gamma_and_beta_draws(a, b):
    """Catches underflow of small shapes: log v of a Beta(0.001, 0.999) is about -1000."""
    logs, pairs = np.empty(N_DRAWS), np.empty(N_DRAWS)
    log_gammas(Law(FLAT)._lower(), np.random.Generator(np.random.PCG64(1)), a, b, logs, pairs)
    assert np.all(np.isfinite(logs)) and np.all(np.isfinite(pairs)) and np.all(pairs <= 0)
    # below e^-30, G is u^(1/a) Γ(a+1)^(1/a), and so is a beta variate but for the constant
    small, log_c = -30.0, gammaln(a + b + 1.0) - gammaln(b) - gammaln(a + 1.0)

    def log_gamma_cdf(x):
        return np.where(x < small, np.exp(np.minimum(a * x - gammaln(a + 1.0), 0.0)), stats.gamma(a).cdf(np.exp(x)))

    def log_beta_cdf(x):
        head = np.exp(np.minimum(a * x + log_c - np.log(a + b), 0.0))
        return np.where(x < small, head, stats.beta(a, b).cdf(np.exp(np.maximum(x, small))))

    check_cdf(logs, log_gamma_cdf)
    check_cdf(pairs, log_beta_cdf)
