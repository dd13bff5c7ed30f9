"""The default DPLogisticRegressionMCMC: do 90 % intervals cover the truth, and how do other methods compare?

``python -m benchmarks.logistic [--releases 200] [--against]`` puts one row per cell into docs/logistic_coverage.md,
keeps the rows of other cells there, and plots them; a release takes about half a second.  ``--against`` compares with
output perturbation, and with diffprivlib's classifier if a version is installed that works with this scikit-learn
(0.6.6 works with 1.6 but not with 1.9).  ``python -m benchmarks`` has a few of these cells.
"""

import argparse
import itertools
import pathlib
import re
import time
import warnings
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from sklearn_dpmix import DPLogisticRegressionMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism

DELTA, LEVEL = 1e-6, 0.9
N_TEST = 50
NUMBERS, FEATURES, EPSILONS = (400, 5000, 100_000), (2, 5, 10), (0.5, 1.0, 4.0)
WEIGHTS = (0.001, 0.01, 0.1)  # λ of output perturbation
HEAD = ("n", "features", "ε", "population", "coefficients", "worst", "probabilities", "width", "width of p", "power")
PAGE = pathlib.Path(__file__).parents[1] / "docs" / "logistic_coverage.md"
PICTURE = PAGE.parent / "images" / "coverage_classifier.png"
PAGE_HEAD = (*HEAD[:4], "releases", *HEAD[4:])
AGAINST_HEAD = ("n", "features", "ε", "method", "agreement", "error", "width", "holds")


class Rows(NamedTuple):
    """Rows of length at most ``data_norm``, labels, and coefficients with the intercept last."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    truth: np.ndarray
    data_norm: float


def balanced(rng, size, d):
    """Uniform features, coefficients from 1.2 to -1.2."""
    return rng.uniform(-1.0, 1.0, (size, d)), np.linspace(1.2, -1.2, d), 0.0


def unbalanced(rng, size, d):
    """The same with one in ten positive."""
    return *balanced(rng, size, d)[:2], -2.5


def correlated(rng, size, d):
    """Correlation 0.7 before every other feature is cut to -1 or 1 and the rest squeezed."""
    g = sqrt(0.7) * rng.standard_normal((size, 1)) + sqrt(0.3) * rng.standard_normal((size, d))
    return np.where(np.arange(d) % 2 == 0, np.sign(g), np.tanh(g)), np.linspace(1.2, -1.2, d), 0.0


def strong(rng, size, d):
    """Three large coefficients, or two."""
    return rng.uniform(-1.0, 1.0, (size, d)), np.array([4.0, -3.0, 2.0, *np.zeros(d)])[:d], 0.0


POPULATIONS = {function.__name__: function for function in (balanced, unbalanced, correlated, strong)}


def draw(rng, population, n, d):
    """Rows are moved into the public length before they have labels: the model is right."""
    X, coef, intercept = POPULATIONS[population](rng, n + N_TEST, d)
    norm = sqrt((0.75 if population == "correlated" else 0.5) * d)
    X = X * np.minimum(1.0, norm / np.linalg.norm(X, axis=1))[:, None]
    y = (rng.random(n) < expit(X[:n] @ coef + intercept)).astype(int)
    return Rows(X[:n], y, X[n:], np.append(coef, intercept), norm)


def probabilities(rows):
    """The true ones of the test rows."""
    return expit(rows.X_test @ rows.truth[:-1] + rows.truth[-1])


def ours(rows, epsilon, seed):
    """(ends of coefficients' intervals, ends of probabilities', probabilities, power of the correction)."""
    model = DPLogisticRegressionMCMC(
        GaussianMechanism(epsilon=epsilon, delta=DELTA), data_norm=rows.data_norm, simulate=True, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a simulation
        model.fit(rows.X, rows.y)
    draws = np.column_stack([model.coef_draws_[0], model.intercept_draws_[0]])
    ends = np.quantile(draws, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)
    chances = model.predict_interval(rows.X_test, LEVEL)
    return ends, chances, model.predict_proba(rows.X_test)[:, 1], model.sampler_.correction_power_


def coverage(population, n, d, epsilon, n_releases, seed=0):
    """Shares of 90 % intervals that cover the truth (coefficients, their worst, probabilities) and median widths."""
    rng = np.random.default_rng([seed, n, d, int(10 * epsilon), list(POPULATIONS).index(population)])
    found = []
    for _ in range(n_releases):
        rows = draw(rng, population, n, d)
        ends, chances, _, power = ours(rows, epsilon, int(rng.integers(2**31)))
        held = (ends[0] <= rows.truth) & (rows.truth <= ends[1])
        p = probabilities(rows)
        of_chances = np.mean((chances[0] <= p) & (p <= chances[1]))
        found.append((held, of_chances, ends[1] - ends[0], chances[1] - chances[0], power))
    held, of_chances, widths, chance_widths, powers = map(np.array, zip(*found, strict=True))
    return (
        held.mean(),
        held.mean(axis=0).min(),
        of_chances.mean(),
        np.median(widths),
        np.median(chance_widths),
        powers.mean(),
    )


def output_perturbation(rows, epsilon, weight, rng):
    """Probabilities and ends of their intervals (draws of the noise), pure ε-DP (Chaudhuri et al. 2011)."""
    design = np.column_stack([rows.X, np.ones(len(rows.X))])
    test = np.column_stack([rows.X_test, np.ones(N_TEST)])
    fit = LogisticRegression(C=1.0 / (weight * len(design)), fit_intercept=False, tol=1e-6, max_iter=1000)
    fitted = fit.fit(design, rows.y).coef_[0]
    scale = 2.0 * sqrt(rows.data_norm**2 + 1.0) / (len(design) * weight * epsilon)

    def noise(size):
        direction = rng.standard_normal((size, len(fitted)))
        return direction / np.linalg.norm(direction, axis=1)[:, None] * rng.gamma(len(fitted), scale, (size, 1))

    released = fitted + noise(1)[0]
    draws = expit((released + noise(400)) @ test.T)
    return expit(test @ released), np.quantile(draws, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)


def diffprivlib_probabilities(rows, epsilon, seed):
    """Those of its classifier (a perturbed objective, pure ε-DP), which has no intervals; None if no version works."""
    try:
        from diffprivlib.models import LogisticRegression as Private

        fit = Private(epsilon=epsilon, data_norm=rows.data_norm, random_state=seed)
    except (ImportError, TypeError):  # 0.6.6 uses what scikit-learn 1.9 no longer has but 1.6 has
        return None
    return fit.fit(rows.X, rows.y).predict_proba(rows.X_test)[:, 1]


def against(population, n, d, epsilon, n_releases, seed=0):
    """{method: (agreement with the best classifier, mean error of probabilities, width, share that holds)}."""
    rng = np.random.default_rng([seed, n, d, int(10 * epsilon)])
    found = {}

    def note(name, p, truth, ends=None):
        right, error = np.mean((p > 0.5) == (truth > 0.5)), np.abs(p - truth).mean()
        width = np.nan if ends is None else np.mean(ends[1] - ends[0])
        held = np.nan if ends is None else np.mean((ends[0] <= truth) & (truth <= ends[1]))
        found.setdefault(name, []).append((right, error, width, held))

    for _ in range(n_releases):
        rows, one = draw(rng, population, n, d), int(rng.integers(2**31))
        truth = probabilities(rows)
        _, ends, p, _ = ours(rows, epsilon, one)
        note("default", p, truth, ends)
        for weight in WEIGHTS:
            note(f"output perturbation, λ = {weight:g}", *_swap(output_perturbation(rows, epsilon, weight, rng), truth))
        p = diffprivlib_probabilities(rows, epsilon, one)
        if p is not None:
            note("diffprivlib", p, truth)
    return {name: np.mean(values, axis=0) for name, values in found.items()}


def _swap(answer, truth):
    return answer[0], truth, answer[1]


def some_cells(n_releases=20):
    """Rows of ``HEAD`` for ``python -m benchmarks``."""
    cells = itertools.product((5000,), (2, 10), (1.0,), ("balanced", "strong"))
    return [(n, d, epsilon, name, *coverage(name, n, d, epsilon, n_releases)) for n, d, epsilon, name in cells]


def some_against(n_releases=20):
    """Rows of ``AGAINST_HEAD``."""
    n, d, epsilon = 5000, 2, 1.0
    return [(n, d, epsilon, name, *row) for name, row in against("balanced", n, d, epsilon, n_releases).items()]


def seconds_of_a_fit(n=5000, d=10, n_fits=5):
    """Processor time, after a first fit that compiles."""
    rows = draw(np.random.default_rng(0), "balanced", n, d)
    ours(rows, 1.0, 0)
    start = time.process_time()
    for seed in range(n_fits):
        ours(rows, 1.0, seed)
    return (time.process_time() - start) / n_fits


# --- the page ---------------------------------------------------------------------------------------------------------


def rows_of(head, page):
    """{the first four cells: cells} of the page's table with that head, numbers as text."""
    table = re.search(re.escape(line(head)) + r"\n\|[-|]+\n((?:\|.*\n)*)", page)
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table[1].splitlines()]
    return {tuple(row[:4]): row for row in rows}


def line(cells):
    return "| " + " | ".join(cells) + " |"


def place(row):
    """Where a row belongs: features, n, ε, and the population or method, in the order of this file."""
    n, d, epsilon, name = row
    return int(d), int(n), float(epsilon), list(POPULATIONS).index(name) if name in POPULATIONS else name


def put(head, row):
    """The page with a row in the table of that head, in place of an older one."""
    page = PAGE.read_text(encoding="utf-8")
    rows = rows_of(head, page)
    rows[tuple(row[:4])] = row
    old = re.search(re.escape(line(head)) + r"\n(?:\|.*\n)*", page)[0]
    new = [line(head), "|" + "---|" * len(head), *(line(rows[key]) for key in sorted(rows, key=place))]
    PAGE.write_text(page.replace(old, "\n".join(new) + "\n"), encoding="utf-8")
    print(line(row), flush=True)
    return rows


def picture(rows):
    """A line for each setting, a mark for each population."""
    import matplotlib.pyplot as plt

    settings = list(dict.fromkeys(key[:3] for key in sorted(rows, key=place)))
    figure, axes = plt.subplots(1, 3, figsize=(9.5, 1.3 + 0.24 * len(settings)), sharey=True, layout="constrained")
    for ax, column, what in zip(axes, (5, 7, 6), ("coefficients", "probabilities", "worst coefficient"), strict=True):
        for k, (name, colour, mark) in enumerate(zip(POPULATIONS, ("C0", "C1", "C2", "C3"), "osD^", strict=True)):
            at = [i + 0.16 * (k - 1.5) for i, one in enumerate(settings) if (*one, name) in rows]
            share = [float(rows[(*one, name)][column]) for one in settings if (*one, name) in rows]
            ax.plot(share, at, mark, color=colour, ms=4, label=name)
        ax.axvline(LEVEL, color="0.6", lw=0.8, zorder=0)
        ax.set(title=what, xlim=(0.3, 1.02), xticks=(0.4, 0.6, 0.8, 0.9, 1.0))
        ax.grid(axis="y", lw=0.3)
    axes[0].set_yticks(range(len(settings)), [f"{d} features, n = {n}, ε = {epsilon}" for n, d, epsilon in settings])
    axes[0].invert_yaxis()
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(PICTURE, dpi=80)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--against", action="store_true")
    parser.add_argument("--records", type=int, nargs="*", default=NUMBERS)
    parser.add_argument("--features", type=int, nargs="*", default=FEATURES)
    parser.add_argument("--epsilons", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--populations", nargs="*", default=list(POPULATIONS), choices=list(POPULATIONS))
    options = parser.parse_args()
    grid = itertools.product(options.records, options.features, options.epsilons)
    if options.against:
        if diffprivlib_probabilities(draw(np.random.default_rng(0), "balanced", 100, 2), 1.0, 0) is None:
            print("no diffprivlib that works with this scikit-learn: left out")
        for n, d, epsilon in grid:
            for name, values in against("balanced", n, d, epsilon, options.releases).items():
                cells = [f"{v:.3f}" if v == v else "–" for v in values]  # "–": no intervals
                put(AGAINST_HEAD, [str(n), str(d), f"{epsilon:g}", name, *cells])
        return
    for (n, d, epsilon), population in itertools.product(grid, options.populations):
        values = coverage(population, n, d, epsilon, options.releases)
        cells = [str(n), str(d), f"{epsilon:g}", population, str(options.releases)]
        picture(put(PAGE_HEAD, [*cells, *(f"{value:.3f}" for value in values[:-1]), f"{values[-1]:.2f}"]))


if __name__ == "__main__":
    main()
