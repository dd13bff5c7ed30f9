"""Which mechanism should a collector choose?  The error of the posterior at equal ε, on equal data.

``python -m benchmarks.which_mechanism [n_releases [population]]`` adds releases to ``build/which_mechanism.jsonl``
until there are so many of each cell (the same run again goes on where it stopped), and writes the table of
``docs/which_mechanism.md`` and its picture of what is there.  Errors are those of the posterior mean of the
distribution function.
"""

import json
import pathlib
import sys
import time
import warnings

import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import (
    GaussianMechanism,
    HaarWaveletMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PiecewiseMechanism,
    RandomizedResponseMechanism,
    SquareWaveMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess

from .ldp import DECILES, EDGES, Beta, air_time, errors

ROOT = pathlib.Path(__file__).parents[1]
KEPT, PAGE = ROOT / "build" / "which_mechanism.jsonl", ROOT / "docs" / "which_mechanism.md"
PICTURE = ROOT / "docs" / "images" / "which_mechanism.png"
LOSSES, SIZES, SMALL = (0.5, 1.0, 2.0, 4.0), (10_000, 100_000), 10_000
DELTA, N_BINS, RESOLUTION, UNIT = 1e-6, 16, 3, (0, 1)
LENGTH = {"n_chains": 2, "n_warmup": 150, "n_draws": 250}
BEGIN, END = "<!-- table -->", "<!-- end of table -->"  # what is between them is this script's
PLACES = EDGES[::4]


POPULATIONS = {"Beta(5, 2)": Beta, "air time": air_time}
#: For each name how to make the mechanism of an ε, and the most records that it is run with
MECHANISMS = {
    "square wave": (lambda epsilon: SquareWaveMechanism(epsilon, bounds=UNIT), np.inf),
    "piecewise": (lambda epsilon: PiecewiseMechanism(epsilon, bounds=UNIT), np.inf),
    "hybrid": (lambda epsilon: HybridMechanism(epsilon, bounds=UNIT), np.inf),
    "16 bins": (lambda epsilon: RandomizedResponseMechanism(epsilon, n_categories=N_BINS), np.inf),
    "Laplace": (lambda epsilon: LaplaceMechanism(epsilon, bounds=UNIT, clamp=False), np.inf),
    "Gaussian": (lambda epsilon: GaussianMechanism(epsilon, DELTA, bounds=UNIT, clamp=False), np.inf),
    "Haar": (lambda epsilon: HaarWaveletMechanism(epsilon, RESOLUTION, bounds=UNIT), SMALL),
}


def posterior(name, epsilon, X, seed):
    """(Draws of the distribution function at ``EDGES``, model)."""
    mechanism = MECHANISMS[name][0](epsilon)
    parameters = dict(LENGTH, random_state=seed)
    if name == "16 bins":  # shares with a Dirichlet prior (one cluster, all but surely), even within a bin
        Z = mechanism.privatize(np.minimum(N_BINS * X, N_BINS - 1).astype(np.int64), random_state=1000 + seed)
        model = PrivateDPMixture(mechanism, kernel="categorical", mixing=DirichletProcess(0.01), **parameters).fit(Z)
        shares = model.density_draws(np.arange(N_BINS)[:, None]).reshape(-1, N_BINS)
        ends, draws = np.linspace(0.0, 1.0, N_BINS + 1), np.cumsum(shares, axis=1)
        draws = np.column_stack([np.zeros(len(draws)), draws / draws[:, -1:]])
    else:
        model = PrivateDPMixture(mechanism, **parameters).fit(mechanism.privatize(X, random_state=1000 + seed))
        ends, draws = PLACES, model.cdf_draws(PLACES[:, None])[:, ::2].reshape(-1, len(PLACES))
        draws[:, 0], draws[:, -1] = 0.0, 1.0  # no record is beyond the bounds
    return np.array([np.interp(EDGES, ends, one) for one in draws]), model


def one_release(where, epsilon, n, name, seed):
    """Figures of one release."""
    population = POPULATIONS[where]()
    X = population.draw(np.random.default_rng(seed), n)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of few effective draws: the fewest stand on the page
        draws, model = posterior(name, epsilon, X, seed)
    seconds, mean = time.process_time() - started, draws.mean(axis=0)
    wasserstein, kolmogorov = errors(mean, population)
    quantiles, truth = np.interp(DECILES, mean, EDGES), population.quantile(DECILES)
    at = np.searchsorted(EDGES, truth)
    low, high = np.quantile(draws[:, at], [0.05, 0.95], axis=0)
    held = np.mean((low <= population.cdf(EDGES[at])) & (population.cdf(EDGES[at]) <= high))
    figures = {"wasserstein": wasserstein, "kolmogorov": kolmogorov, "held": held, "seconds": seconds}
    figures |= {"quantiles": np.mean(np.abs(quantiles - truth)), "ess": np.nanmin(list(model.ess_.values()) + [1e9])}
    return {"cell": [where, epsilon, n, name, seed]} | {key: float(value) for key, value in figures.items()}


def all_cells(n_releases):
    """Population, ε, n, mechanism and seed; one release of every cell before the next."""
    return [
        (where, epsilon, n, name, seed)
        for seed in range(n_releases)
        for n in SIZES
        for where in POPULATIONS
        for epsilon in LOSSES
        for name, (_, most) in MECHANISMS.items()
        if n <= most
    ]


def kept():
    """Figures of the releases so far, by cell."""
    lines = KEPT.read_text().splitlines() if KEPT.exists() else []
    return {tuple(row["cell"]): row for row in map(json.loads, lines)}


def summary(rows):
    """For each (population, n, mechanism, ε) the mean of each figure, and the standard error of Wasserstein's."""
    groups = {}
    for (where, epsilon, n, name, _), row in rows.items():
        groups.setdefault((where, n, name, epsilon), []).append(row)
    found = {}
    for key, group in groups.items():
        figures = {what: np.mean([row[what] for row in group]) for what in group[0] if what != "cell"}
        distances = [row["wasserstein"] for row in group]
        found[key] = figures | {
            "se": np.std(distances, ddof=1) / np.sqrt(len(group)) if len(group) > 1 else np.nan,
            "releases": len(group),
            "fewest": min(row["ess"] for row in group),
        }
    return found


def table(found):
    """Markdown: a row for each population, n and mechanism, in each cell Wasserstein, Kolmogorov, quantiles, held."""
    lines = ["| population | n | mechanism | " + " | ".join(f"ε = {epsilon:g}" for epsilon in LOSSES) + " |"]
    lines += ["|---" * (3 + len(LOSSES)) + "|"]
    for where, n, name in [(where, n, name) for where in POPULATIONS for n in SIZES for name in MECHANISMS]:
        cells = [found.get((where, n, name, epsilon)) for epsilon in LOSSES]
        if any(cells):
            lines.append(f"| {where} | {n:,} | {name} | " + " | ".join(map(in_words, cells)) + " |")
    return "\n".join(lines) + "\n"


def in_words(cell):
    if cell is None:
        return "–"
    error = f"{1e3 * cell['wasserstein']:.1f}" + (f" ± {1e3 * cell['se']:.1f}" if cell["releases"] > 1 else "")
    return f"{error}; {1e3 * cell['kolmogorov']:.0f}; {1e3 * cell['quantiles']:.1f}; {100 * cell['held']:.0f} %"


def draw(found):
    """Wasserstein distance against ε, a panel for each population and n."""
    import matplotlib.pyplot as plt

    from sklearn_dpmix.plotting._style import MARKERS, style

    size = {"figsize": (10.5, 7.5), "sharex": True, "sharey": True, "layout": "constrained"}
    figure, axes = plt.subplots(len(SIZES), len(POPULATIONS), **size)
    for (where, n), axis in zip([(where, n) for n in SIZES for where in POPULATIONS], axes.ravel(), strict=True):
        for i, name in enumerate(MECHANISMS):
            known = [epsilon for epsilon in LOSSES if (where, n, name, epsilon) in found]
            cells = [found[where, n, name, epsilon] for epsilon in known]
            if known:
                errors_in_percent = [100 * cell["wasserstein"] for cell in cells]
                axis.errorbar(
                    known, errors_in_percent, yerr=[100 * np.nan_to_num(cell["se"]) for cell in cells],
                    **style(i), marker=MARKERS[i], ms=6, lw=1.8, capsize=3, label=name,
                )  # fmt: skip
        axis.set(xscale="log", yscale="log", title=f"{where}, {n:,} records")
        axis.set_xticks(LOSSES, [f"{epsilon:g}" for epsilon in LOSSES])
        axis.minorticks_off()
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_yticks([0.2, 0.5, 1, 2, 5, 10])
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("ε of a record")
    for axis in axes[:, 0]:
        axis.set_ylabel("Wasserstein distance (% of the range)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(MECHANISMS), frameon=False)
    figure.savefig(PICTURE, dpi=100)


def main():
    n_releases = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    KEPT.parent.mkdir(exist_ok=True)
    known = kept()
    for cell in all_cells(n_releases):
        if cell not in known and cell[0] in (sys.argv[2:] or POPULATIONS):
            with KEPT.open("a") as file:
                print(json.dumps(one_release(*cell)), file=file)
    found = summary(kept())
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + "\n\n" + table(found) + "\n" + END + rest.partition(END)[2])
    draw(found)


if __name__ == "__main__":
    main()
