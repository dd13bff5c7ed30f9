"""What draws alone show: lower bounds of ε and δ with a confidence, and whether draws have the law that is stated."""

import numpy as np
from scipy import stats

#: Probability with which one of the checks below is wrong about a mechanism that is right.
ALPHA = 1e-6
#: Thresholds that are tried on the first part of the draws.
N_EVENTS = 200


def at_least(successes, n, alpha):
    """Clopper and Pearson's lower bound of a probability."""
    return stats.beta.ppf(alpha, successes, n - successes + 1) if successes > 0 else 0.0


def at_most(successes, n, alpha):
    """Their upper bound."""
    return stats.beta.isf(alpha, successes + 1, n - successes) if successes < n else 1.0


def shown_epsilon(event_first, event_second, delta=0.0, alpha=ALPHA):
    """The ε that an event shows, from whether it happened in each draw of either side: log((P - δ)/Q), 0 if nothing."""
    p = at_least(np.count_nonzero(event_first), len(event_first), 0.5 * alpha)
    q = at_most(np.count_nonzero(event_second), len(event_second), 0.5 * alpha)
    return float(np.log((p - delta) / q)) if p - delta > q else 0.0


def shown_delta(event_first, event_second, epsilon, alpha=ALPHA):
    """The δ that an event shows at ε: P - e^ε Q, 0 if nothing."""
    p = at_least(np.count_nonzero(event_first), len(event_first), 0.5 * alpha)
    q = at_most(np.count_nonzero(event_second), len(event_second), 0.5 * alpha)
    return float(max(p - np.exp(epsilon) * q, 0.0))


def best_event(first, second, gain):
    """(column, threshold, sign) of the event ``sign * statistic >= threshold`` with the largest ``gain(p, q)``.

    Parameters
    ----------
    first, second : ndarray of shape (n, n_columns)
        Statistics of releases of either side.
    gain : callable
        Of the two frequencies.
    """
    n, best = len(first), (-np.inf, 0, 0.0, 1.0)
    for column in range(first.shape[1]):
        for sign in (1.0, -1.0):
            a, b = np.sort(sign * first[:, column]), np.sort(sign * second[:, column])
            levels = np.unique(np.quantile(a, np.linspace(0.0, 0.999, N_EVENTS)))
            levels = levels - 1e-9 * np.maximum(1.0, np.abs(levels))  # atoms are computed with rounding
            p = (n - np.searchsorted(a, levels)) / n
            q = (n - np.searchsorted(b, levels)) / n
            found = gain(p, q)
            k = int(np.argmax(found))
            if found[k] > best[0]:
                best = (found[k], column, levels[k], sign)
    return best[1:]


def audited(first, second, epsilon, delta):
    """What the draws of two neighbours' releases show: ε where δ = 0 is stated, else δ at the ε that is.

    The event is found on the first fifth of the draws and tested on the rest; both directions, at half the level each.

    Parameters
    ----------
    first, second : ndarray of shape (n, n_columns)
        Statistics of the releases; the events are their half-lines.
    """
    n, cut = len(first), len(first) // 5
    shown = 0.0
    for a, b in ((first, second), (second, first)):
        if delta == 0.0:

            def gain(p, q):  # the bound itself, roughly
                error = 5.0 * (np.sqrt((1.0 - p) / (p * (n - cut))) + np.sqrt((1.0 - q) / (q + 1.0 / n) / (n - cut)))
                return np.log(p / (q + 1.0 / cut)) - error
        else:

            def gain(p, q):
                return p - np.exp(epsilon) * q

        column, level, sign = best_event(a[:cut], b[:cut], gain)
        events = (sign * a[cut:, column] >= level, sign * b[cut:, column] >= level)
        if delta == 0.0:
            shown = max(shown, shown_epsilon(*events, alpha=0.5 * ALPHA))
        else:
            shown = max(shown, shown_delta(*events, epsilon, alpha=0.5 * ALPHA))
    return shown


def fit_of_continuous(values, cdf):
    """p-value of Kolmogorov and Smirnov's test."""
    return float(stats.kstest(np.ravel(values), cdf).pvalue)


def fit_of_counts(values, outcomes, probability):
    """p-value of a chi-square test of the frequencies of outcomes, rare ones taken together."""
    values = np.ravel(values)
    expected = np.asarray(probability) * len(values)
    counts = np.array([np.count_nonzero(values == one) for one in outcomes], dtype=np.float64)
    common = expected >= 20.0
    counts = np.append(counts[common], len(values) - counts[common].sum())
    expected = np.append(expected[common], len(values) - expected[common].sum())
    if expected[-1] < 20.0:
        if counts[-1] > 200.0:
            return 0.0
        counts, expected = counts[:-1], expected[:-1] * counts[:-1].sum() / expected[:-1].sum()
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


def table_cdf(points, log_density):
    """A distribution function from log densities on a fine grid (trapezoids)."""
    weight = np.exp(log_density - np.max(log_density))
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (weight[1:] + weight[:-1]) * np.diff(points))])
    return lambda x: np.interp(x, points, mass / mass[-1])


def hockey_stick(p, q, epsilon):
    """Σ max(p - e^ε q, 0) of two laws on the same points, the larger of both directions."""
    return float(max(np.sum(np.maximum(a - np.exp(epsilon) * b, 0.0)) for a, b in ((p, q), (q, p))))
