"""Do intervals hold the truths that people meet?  ``python -m benchmarks.coverage [--releases 200] [--jobs 2] [parts]``

Ranks over truths drawn from the prior cannot see a default prior that is far from ordinary data.  Here the truth is
fixed and ordinary, many data sets are drawn from it and released, and the default fit's intervals are counted.

A row is one number (a coefficient, a mean, a quantile) under one estimator, population, number of records and ε: the
posterior mean's distance from the truth, averaged, in posterior standard deviations; how often equal-tailed 50 % and
90 % intervals hold the truth; and the median width of the 90 % ones, over that of the usual interval without noise.
"""

import argparse
import pathlib
import re
import warnings
from math import sqrt
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import stats

from sklearn_dpmix import (
    PrivateDPMixture,
    PrivateDPMixtureRegressor,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
)
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.queries import RegressionMoments, SufficientStatistics

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "coverage.md"
Z90 = stats.norm.ppf(0.95)


class Cell(NamedTuple):
    """One row's setting."""

    part: str
    population: str
    n: int
    epsilon: float
    noise: str
    knows: bool  # whether the model holds in this population


class Answer(NamedTuple):
    """Draws of a number, its truth, and the half-width of the usual 90 % interval without noise."""

    draws: np.ndarray
    truth: float
    usual: float


# --- populations ------------------------------------------------------------------------------------------------------

PREDICTORS = {
    "uniform": lambda rng, n: rng.random(n),
    "exponential": lambda rng, n: np.minimum(rng.exponential(0.2, n), 1.0),
    "binary": lambda rng, n: (rng.random(n) < 0.3).astype(float),
    "three values": lambda rng, n: rng.choice([0.1, 0.4, 0.9], n),
}
ERRORS = {"normal": lambda rng, n: rng.standard_normal(n), "t3": lambda rng, n: rng.standard_t(3, n) / sqrt(3.0)}

#: Laws of records within (0, 100).
RECORDS = {
    "normal": stats.norm(40.0, 10.0),
    "uniform": stats.uniform(20.0, 50.0),
    "exponential": stats.expon(scale=12.0),
    "heavy tail": stats.t(3, loc=50.0, scale=6.0),
    "skewed": stats.beta(2.0, 8.0, scale=100.0),
    "five values": stats.rv_discrete(values=([10, 20, 30, 60, 80], [0.3, 0.3, 0.2, 0.15, 0.05])),
}

#: Curves of y on x, within (0, 1).
CURVES = {
    "line": lambda x: 0.2 + 0.6 * x,
    "wave": lambda x: 0.5 + 0.25 * np.sin(2.0 * np.pi * x),
}

#: Predictors within (0, 1) that noise is added to.
NOISED = {
    "normal x": lambda rng, n: rng.normal(0.5, 0.15, n),
    "uniform x": lambda rng, n: rng.uniform(0.1, 0.9, n),
}


def mechanism_of(cell, query=None, bounds=None):
    if cell.noise == "Laplace":
        return LaplaceMechanism(cell.epsilon, query=query, bounds=bounds)
    return GaussianMechanism(cell.epsilon, 1e-6, query=query, bounds=bounds)


# --- estimators -------------------------------------------------------------------------------------------------------


def regression(cell, rng, seed):
    """y = 0.2 + 0.5 x + an error of standard deviation 0.05, bounds (0, 1)."""
    law, error = cell.population.split(", ")
    x = PREDICTORS[law](rng, cell.n)
    y = 0.2 + 0.5 * x + 0.05 * ERRORS[error.removesuffix(" errors")](rng, cell.n)
    mechanism = mechanism_of(cell, RegressionMoments((0, 1), (0, 1), n_features=1))
    S = mechanism.privatize(np.column_stack([x, y]), random_state=rng)
    model = PrivateLinearRegressionDA(mechanism, n_records=cell.n, random_state=seed).fit(S)
    spread = 0.05 / sqrt(cell.n)
    at_zero = sqrt(1.0 + x.mean() ** 2 / x.var())
    return {
        "slope": Answer(model.coef_draws_.ravel(), 0.5, Z90 * spread / x.std()),
        "intercept": Answer(model.intercept_draws_.ravel(), 0.2, Z90 * spread * at_zero),
        "sigma": Answer(model.sigma_draws_.ravel(), 0.05, Z90 * spread / sqrt(2.0)),
    }


def normal_family(cell, rng, seed):
    """Mean and standard deviation by ``family="normal"``, bounds (0, 100)."""
    law = RECORDS[cell.population]
    x = law.rvs(size=cell.n, random_state=rng)
    mechanism = mechanism_of(cell, SufficientStatistics("normal", bounds=(0, 100)))
    S = mechanism.privatize(x[:, None], random_state=rng)
    model = PrivateExpFamilyGibbs(mechanism, family="normal", n_records=cell.n, random_state=seed).fit(S)
    mean, variance = model.theta_draws_.reshape(-1, 2).T
    return {
        "mean": Answer(mean, law.mean(), Z90 * law.std() / sqrt(cell.n)),
        "sd": Answer(np.sqrt(variance), law.std(), Z90 * law.std() / sqrt(2.0 * cell.n)),
    }


def mixture(cell, rng, seed):
    """Mean (also of clamped records), median and 0.9 quantile by ``PrivateDPMixture``, bounds (0, 100)."""
    # 300 draws after 300 sweeps: intervals are the default's but for Monte Carlo error, and 200 releases take minutes
    law = RECORDS[cell.population]
    x = np.clip(law.rvs(size=(cell.n, 1), random_state=rng), 0.0, 100.0)
    mechanism = mechanism_of(cell, bounds=(0, 100))
    Z = mechanism.privatize(x, random_state=rng)
    model = PrivateDPMixture(mechanism, n_warmup=300, n_draws=300, random_state=seed).fit(Z)
    found = {
        name: Answer(model.moment_draws(clamped=clamped).mean.ravel(), law.mean(), Z90 * law.std() / sqrt(cell.n))
        for name, clamped in (("mean", False), ("mean, clamped", True))
    }
    if hasattr(law, "pdf"):
        quantiles = model.quantile_draws([0.5, 0.9]).reshape(-1, 2).T
        for name, draws, q in zip(("median", "0.9 quantile"), quantiles, (0.5, 0.9), strict=True):
            usual = Z90 * sqrt(q * (1 - q) / cell.n) / law.pdf(law.ppf(q))
            found[name] = Answer(draws, float(law.ppf(q)), usual)
    return found


def noised_records(cell, rng, seed):
    """A line with noised x, by ``PrivateDPMixtureRegressor(linear=True)``: y = 0.2 + 0.6 x + 0.05 e, bounds (0, 1)."""
    x = NOISED[cell.population](rng, cell.n)
    records = np.column_stack([x, 0.2 + 0.6 * x + 0.05 * rng.standard_normal(cell.n)]).clip(0.0, 1.0)
    mechanism = mechanism_of(cell, bounds=(0, 1))
    Z = mechanism.privatize(records, random_state=rng)
    model = PrivateDPMixtureRegressor(mechanism, linear=True, n_warmup=300, n_draws=500, random_state=seed)
    model.fit(Z[:, :1], Z[:, 1])
    usual = Z90 * 0.05 / sqrt(cell.n)
    at_zero = sqrt(1.0 + x.mean() ** 2 / x.var())
    return {
        "slope": Answer(model.coef_draws_.ravel(), 0.6, usual / x.std()),
        "intercept": Answer(model.intercept_draws_.ravel(), 0.2, usual * at_zero),
    }


def curves(cell, rng, seed):
    """A curve of y on noised x, by ``PrivateDPMixtureRegressor``, at three true x: errors of sd 0.05, bounds (0, 1)."""
    # The usual interval is that of least squares where the curve's shape is known, a + b f(x).
    shape, law = cell.population.split(", ")
    curve, x = CURVES[shape], NOISED[law](rng, cell.n)
    records = np.column_stack([x, curve(x) + 0.05 * rng.standard_normal(cell.n)]).clip(0.0, 1.0)
    mechanism = mechanism_of(cell, bounds=(0, 1))
    Z = mechanism.privatize(records, random_state=rng)
    model = PrivateDPMixtureRegressor(mechanism, n_warmup=300, n_draws=300, random_state=seed)
    places = np.array([0.3, 0.5, 0.7])
    draws = model.fit(Z[:, :1], Z[:, 1]).curve_draws(places[:, None]).reshape(-1, len(places))
    usual = Z90 * 0.05 * np.sqrt((1.0 + (curve(places) - curve(x).mean()) ** 2 / curve(x).var()) / cell.n)
    return {f"at {at:g}": Answer(draws[:, i], float(curve(at)), usual[i]) for i, at in enumerate(places)}


PARTS = {
    "regression": regression,
    "normal family": normal_family,
    "mixture": mixture,
    "noised records": noised_records,
    "curves": curves,
}

CELLS = [
    *(
        Cell("regression", f"{law}, {error} errors", n, epsilon, noise, error == "normal")
        for law in PREDICTORS
        for error in ERRORS
        for n, epsilon, noise in ((300, 1.0, "Laplace"), (3000, 5.0, "Laplace"), (100_000, 1.0, "Gaussian"))
        if error == "normal" or n == 3000
    ),
    *(
        Cell("normal family", law, n, epsilon, noise, law == "normal")
        for law in ("normal", "uniform", "exponential", "heavy tail")
        for n, epsilon, noise in ((500, 1.0, "Laplace"), (5000, 1.0, "Laplace"), (5000, 10.0, "Gaussian"))
        if law == "normal" or n == 5000
    ),
    *(
        Cell("mixture", law, n, epsilon, "Laplace", True)
        for n, epsilon, laws in (
            (500, 2.0, ("normal", "exponential")),
            (20_000, 2.0, ("normal", "exponential", "five values")),
            (500, 10.0, ("normal", "exponential", "heavy tail", "five values")),
        )
        for law in laws
    ),
    *(
        Cell("noised records", law, n, epsilon, noise, law == "normal x")
        for law in NOISED
        for n, epsilon, noise in ((500, 10.0, "Laplace"), (2000, 10.0, "Laplace"), (2000, 50.0, "Gaussian"))
        if law == "normal x" or noise == "Laplace"
    ),
    *(
        Cell("curves", population, n, epsilon, noise, True)
        for n, epsilon, noise in ((300, 50.0, "Laplace"), (1000, 20.0, "Laplace"), (1000, 50.0, "Gaussian"))
        for population in ("line, uniform x", "wave, uniform x")
    ),
]


# --- counting ---------------------------------------------------------------------------------------------------------


def one_release(cell, seed):
    """{name: (bias in posterior sds, in the 50 % interval, in the 90 % one, width over the usual)} of one data set."""
    rng = np.random.default_rng([seed, cell.n, int(1000 * cell.epsilon)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = PARTS[cell.part](cell, rng, seed)
    rows = {}
    for name, (draws, truth, usual) in answers.items():
        low, lower, upper, high = np.quantile(draws, [0.05, 0.25, 0.75, 0.95])
        bias = (draws.mean() - truth) / draws.std()
        rows[name] = bias, lower <= truth <= upper, low <= truth <= high, (high - low) / (2.0 * usual)
    return rows


def measure(cell, n_releases, n_jobs=1):
    """{name: array (n_releases, 4)}, as :func:`one_release` has them."""
    found = Parallel(n_jobs=n_jobs)(delayed(one_release)(cell, seed) for seed in range(n_releases))
    return {name: np.array([rows[name] for rows in found], dtype=float) for name in found[0]}


# --- the page ---------------------------------------------------------------------------------------------------------

HEADER = """# Coverage of ordinary truths

`python -m benchmarks.coverage` writes the first sections of this page.  The truth is fixed, data sets are drawn from it
and released, and each is fitted with the defaults.  The columns are:

- *bias*: the mean distance of the posterior mean from the truth, in posterior sds;
- *50 %* and *90 %*: how often equal-tailed intervals contain the truth;
- *width*: the median width of the 90 % interval, divided by that of the usual interval without noise.

Rows with the same n and ε share random numbers, so they go up and down together.  The classifier has
[its own page](logistic_coverage.md).

For populations in italics the model is known to be wrong; their rows show what that costs.  In the pictures hollow
marks are 50 % intervals and full marks are 90 % intervals.  Lines are 95 % intervals of what the counts allow, and
orange marks a model that is known to be wrong.
"""


def title(part):
    return f"## {part[0].upper() + part[1:]}"


def table(part, rows, n_releases):
    low, high = stats.binom.ppf([0.025, 0.975], n_releases, 0.9) / n_releases
    lines = [
        f"{title(part)}\n",
        f"{PARTS[part].__doc__}",
        f"**{n_releases} releases in each row**: a correct 90 % interval then shows {low:.2f} to {high:.2f} in "
        "nineteen cases out of twenty.\n",
        f"![Coverage]({picture(part).relative_to(PAGE.parent)})\n",
        "| population | n | ε | noise | of | bias | 50 % | 90 % | width |",
        "|" + 9 * "---|",
    ]
    for cell, found in rows:
        population = cell.population if cell.knows else f"*{cell.population}*"
        for name, values in found.items():
            bias, half, most = values[:, :3].mean(axis=0)
            width = np.median(values[:, 3])
            lines.append(
                f"| {population} | {cell.n} | {cell.epsilon:g} | {cell.noise} | {name} | {bias:+.2f} | {half:.2f} | "
                f"{most:.2f} | {width:.1f} |"
            )
    return "\n".join(lines) + "\n"


def picture(part):
    return PAGE.parent / "images" / f"coverage_{part.replace(' ', '_')}.png"


def draw(part, rows):
    """Save the part's picture: a column for each number, a line for each setting."""
    import matplotlib.pyplot as plt

    names = max((found for _, found in rows), key=len)
    figure, axes = plt.subplots(
        1, len(names), figsize=(3.0 + 2.6 * len(names), 1.2 + 0.28 * len(rows)), sharey=True, layout="constrained"
    )
    for ax, name in zip(np.atleast_1d(axes), names, strict=True):
        for i, (cell, found) in enumerate(rows):
            if name not in found:
                continue
            values, colour = found[name], "C0" if cell.knows else "C1"
            for column, fill in ((1, "none"), (2, colour)):
                held = stats.binomtest(int(values[:, column].sum()), len(values))
                ax.plot(held.proportion_ci(), (i, i), color=colour, lw=1)
                ax.plot(held.statistic, i, "o", ms=5, mec=colour, mfc=fill)
        for level in (0.5, 0.9):
            ax.axvline(level, color="0.6", lw=0.8, zorder=0)
        ax.set(title=name, xlim=(0, 1), xticks=(0, 0.5, 0.9))
    ax.set_yticks(range(len(rows)), [f"{c.population}, {c.n}, ε = {c.epsilon:g} {c.noise}" for c, _ in rows])
    ax.invert_yaxis()
    figure.savefig(picture(part), dpi=80)
    plt.close(figure)


def write(sections):
    """Put sections into the page, which keeps those that were not measured, and other people's at the end."""
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    kept = {piece.split("\n", 1)[0]: piece for piece in re.split(r"(?m)^(?=## )", old)[1:]}
    own = {title(part): sections.get(part, kept.get(title(part), "")) for part in PARTS}
    rest = [piece for name, piece in kept.items() if name not in own]
    pieces = [piece.strip("\n") for piece in [HEADER, *own.values(), *rest] if piece]
    PAGE.write_text("\n\n".join(pieces) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=list(PARTS), help="which estimators")
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    for part in options.parts:
        rows = []
        for cell in CELLS:
            if cell.part == part:
                rows.append((cell, measure(cell, options.releases, options.jobs)))
                print(*cell, {name: values.mean(axis=0).round(2).tolist() for name, values in rows[-1][1].items()})
                draw(part, rows)  # what is done is kept where a run is stopped
                write({part: table(part, rows, options.releases)})


if __name__ == "__main__":
    main()
