"""Do default fits mix?  ``python -m benchmarks.mixing`` writes docs/mixing.md, or the parts of it that are asked for.

Ordinary populations, bounds (0, 100), default kernel, bounds and schedule: of each fit the worst R-hat, the smallest
effective sample size (of 4000 draws) and the CPU seconds after compilation.
"""

import argparse
import pathlib
import time
import warnings
from functools import partial

import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    RandomizedResponseMechanism,
    UnaryEncodingMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "mixing.md"
R_HAT, ESS = 1.01, 400

POPULATIONS = {
    "two ages": lambda rng, n: np.where(rng.random(n) < 0.6, rng.normal(30, 6, n), rng.normal(62, 9, n)),
    "heavy tail (t₂)": lambda rng, n: 50 + 4 * rng.standard_t(2, n),
    "three normals": lambda rng, n: rng.choice([20.0, 50.0, 75.0], n) + rng.normal(0, 5, n),
    "uniform": lambda rng, n: rng.uniform(10, 90, n),
    "five values": lambda rng, n: rng.choice([10.0, 25.0, 50.0, 60.0, 90.0], n),
    "Beta(2, 8)": lambda rng, n: 100 * rng.beta(2, 8, n),
}
MEANS = np.array([[20.0, 30.0, 70.0], [60.0, 40.0, 20.0], [70.0, 80.0, 50.0]])
SDS = np.array([6.0, 9.0, 5.0])
EPSILONS = 1.0, 2.0, 4.0
PARTS = "correlated", "clamped", "not clamped", "categories", "mixings", "no noise", "thresholds"
MIXINGS = {
    "α from Gamma(2, 1)": DirichletProcess(None, (2.0, 1.0)),
    "α from Gamma(1, 1)": DirichletProcess(None, (1.0, 1.0)),
    "α from Gamma(1, 0.1)": DirichletProcess(None, (1.0, 0.1)),
    "Pitman–Yor, d = 0.1": PitmanYor(1.0, 0.1),
    "Pitman–Yor, d = 0.25": PitmanYor(1.0, 0.25),
    "finite mixtures": MixtureOfFiniteMixtures(),
}
CUTS = {
    "a tenth, ε = 2": (0.1, 2.0),
    "half, ε = 2": (0.5, 2.0),
    "a tenth, ε = 10": (0.1, 10.0),
    "half, ε = 10": (0.5, 10.0),
    "nine tenths, ε = 10": (0.9, 10.0),
}  # share of the releases that a threshold cuts off
QUESTIONS = (
    (1, 4, 5000),
    (1, 4, 1_000_000),
    (2, 3, 5000),
    (5, 2, 5000),
    (3, 4, 5000),
)  # how many, of how many answers, n

BITS = (4, 5000), (4, 1_000_000), (16, 5000), (64, 5000)  # categories, n

NOISE = {
    "Laplace, ε = 0.5": lambda bounds: LaplaceMechanism(epsilon=0.5, bounds=bounds),
    "Laplace, ε = 5": lambda bounds: LaplaceMechanism(epsilon=5.0, bounds=bounds),
    "Laplace, ε = 50": lambda bounds: LaplaceMechanism(epsilon=50.0, bounds=bounds),
    "Gaussian, ε = 5": lambda bounds: GaussianMechanism(epsilon=5.0, delta=1e-5, bounds=bounds),
}


def three_groups(rng, n, n_features):
    return (MEANS[rng.choice(3, n, p=[0.5, 0.3, 0.2])] + rng.standard_normal((n, 3)) * SDS)[:, :n_features]


def two_tilted_groups(rng, n):
    """Two normals whose features go together in one, and against each other in the other."""
    roots = np.array([[[6.0, 0.0], [5.0, 4.0]], [[5.0, 0.0], [-4.0, 5.0]]])
    group = rng.choice(2, n, p=[0.6, 0.4])
    means = np.array([[30.0, 35.0], [65.0, 60.0]])[group]
    return means + np.einsum("nij,nj->ni", roots[group], rng.standard_normal((n, 2)))


def two_classes(rng, n, n_questions, n_categories):
    """Answers of two latent classes."""
    shares = rng.dirichlet(np.ones(n_categories), size=(2, n_questions))
    group, u = rng.integers(0, 2, n), rng.random((n, n_questions, 1))
    return (u > np.cumsum(shares[group], axis=2)).sum(axis=2).astype(float)


def of_one_question(n, n_categories):
    rng = np.random.default_rng(7)
    return rng.choice(n_categories, n, p=rng.dirichlet(np.full(n_categories, 2.0)))[:, None].astype(float)


def bounded(draw, n, *args):
    return draw(np.random.default_rng(7), n, *args).clip(0, 100)


def above(records, share, epsilon):
    """Laplace noise, of which only releases above the threshold appear that cuts off this share."""
    of_all = LaplaceMechanism(epsilon=epsilon, bounds=(0, 100))
    threshold = float(np.quantile(of_all.privatize(records, random_state=1), share))
    return LaplaceMechanism(epsilon=epsilon, bounds=(0, 100), released_above=threshold)


def measured(mechanism, records, **parameters):
    """(Worst R-hat, smallest effective sample size, seconds) of a default fit."""
    Z = records if mechanism is None else mechanism.privatize(records, random_state=1)
    PrivateDPMixture(mechanism, n_draws=4, n_warmup=4, random_state=0, **parameters).fit(Z)  # compiles
    started = time.process_time()
    model = PrivateDPMixture(mechanism, random_state=0, **parameters).fit(Z)
    return max(model.r_hat_.values()), min(model.ess_.values()), time.process_time() - started


def cell(mechanism, records, **parameters):
    """(Text of a default fit, in italics if it has not mixed; whether it has)."""
    r_hat, ess, seconds = measured(mechanism, records, **parameters)
    has_mixed = r_hat < R_HAT + 0.0005 and ess >= ESS
    text = f"{r_hat:.3f}, {ess:.0f}, {seconds:.1f} s"
    return text if has_mixed else f"*{text}*", has_mixed


INTRODUCTION = """
`python -m benchmarks.mixing` writes this page: for each default fit of `PrivateDPMixture` (bounds (0, 100), four chains
of 1000 draws) it gives the worst R-hat, the smallest effective sample size, and the CPU seconds after compilation.
"""


class Page:
    """The page as far as it is; written after each row."""

    def __init__(self):
        self.parts, self.n_fits, self.n_good = [], 0, 0

    def cell(self, *args, **parameters):
        text, is_good = cell(*args, **parameters)
        self.n_fits, self.n_good = self.n_fits + 1, self.n_good + is_good
        return text

    def rows(self, title, rows, columns=tuple(NOISE)):
        header = [f"## {title}", "", "| population | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        self.parts += ["\n".join(header)]
        for name, cells in rows:
            print(name, *(cells := list(cells)), sep=" | ", flush=True)
            self.parts[-1] += f"\n| {name} | " + " | ".join(cells) + " |"
            self.write()

    def write(self):
        found = f"{self.n_good} of {self.n_fits} fits reach an R-hat of {R_HAT} and {ESS} effective draws throughout"
        head = f"# Do default fits mix?\n\n{' '.join(INTRODUCTION.split())}  **{found}**; the others are in italics.\n"
        PAGE.write_text("\n\n".join([head.strip(), *self.parts]) + "\n")


def tilted_rows(page, sizes, mechanisms):
    """Rows of fits to correlated features."""
    for n in sizes:
        records = bounded(two_tilted_groups, n)
        yield f"two tilted groups, n = {n:,}", [page.cell(m, records, kernel="multivariate_normal") for m in mechanisms]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=[100, 3000, 100_000])
    parser.add_argument("--features", type=int, nargs="*", default=[2, 3])
    parser.add_argument("--parts", nargs="*", default=[*PARTS])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    page = Page()
    for n in options.records:
        rows = (
            (name, (page.cell(make((0, 100)), bounded(draw, n)[:, None]) for make in NOISE.values()))
            for name, draw in POPULATIONS.items()
        )
        page.rows(f"One feature, n = {n:,}", rows)
    for d in options.features:
        rows = (
            (
                f"three groups, n = {n:,}",
                [page.cell(make([(0, 100)] * d), bounded(three_groups, n, d)) for make in NOISE.values()],
            )
            for n in (300, 1500, 5000)
        )
        page.rows(f"{d} features", rows)
    if "correlated" in options.parts:
        laplace = {name: make for name, make in NOISE.items() if name.startswith("Laplace")}
        rows = tilted_rows(page, (300, 1000, 3000, 5000), [make([(0, 100)] * 2) for make in laplace.values()])
        page.rows('Correlated features, `kernel="multivariate_normal"`', rows, list(laplace))
    for part in ("clamped", "not clamped"):
        if part in options.parts:
            make = partial(GaussianMechanism, delta=1e-5, bounds=[(0, 100)] * 2, clamp=part == "clamped")
            sizes = 300, 1000, 5000, 20_000, 100_000, 1_000_000
            rows = tilted_rows(page, sizes, [make(epsilon) for epsilon in (1.0, 5.0, 50.0)])
            page.rows(f"Correlated features, Gaussian noise, {part}", rows, ["ε = 1", "ε = 5", "ε = 50"])
    if "categories" in options.parts:
        rows = (
            (
                f"{d} question{'s' * (d > 1)} of {size} answers, n = {n:,}",
                [
                    page.cell(
                        RandomizedResponseMechanism(epsilon, size),
                        two_classes(np.random.default_rng(7), n, d, size),
                        kernel="categorical",
                    )
                    for epsilon in EPSILONS
                ],
            )
            for d, size, n in QUESTIONS
        )
        page.rows("Categories under randomised response", rows, [f"ε = {epsilon:g}" for epsilon in EPSILONS])
        rows = (
            (
                f"{size} categories, n = {n:,}",
                [
                    page.cell(UnaryEncodingMechanism(epsilon, size), of_one_question(n, size), kernel="categorical")
                    for epsilon in EPSILONS
                ],
            )
            for size, n in BITS
        )
        page.rows("Categories under unary encoding", rows, [f"ε = {epsilon:g}" for epsilon in EPSILONS])
    if "mixings" in options.parts:
        mechanism, draw = LaplaceMechanism(epsilon=5.0, bounds=(0, 100)), POPULATIONS["two ages"]
        rows = (
            (
                f"two ages, n = {n:,}",
                [page.cell(mechanism, bounded(draw, n)[:, None], mixing=mixing) for mixing in MIXINGS.values()],
            )
            for n in (100, 1000, 20_000)
        )
        page.rows("Other mixings, Laplace noise, ε = 5", rows, list(MIXINGS))
    if "no noise" in options.parts:
        sizes = 100, 1000, 10_000, 100_000
        rows = (
            (name, [page.cell(None, bounded(draw, n)[:, None]) for n in sizes]) for name, draw in POPULATIONS.items()
        )
        page.rows("No noise, one feature", rows, [f"n = {n:,}" for n in sizes])
    for n in (300, 5000) if "thresholds" in options.parts else ():
        rows = (
            (name, (page.cell(above(records, *cut), records) for cut in CUTS.values()))
            for name, records in ((name, bounded(draw, n)[:, None]) for name, draw in POPULATIONS.items())
        )
        page.rows(f"Only above a threshold, n = {n:,}", rows, list(CUTS))


if __name__ == "__main__":
    main()
