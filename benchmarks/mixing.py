"""Do default fits mix?  ``python -m benchmarks.mixing [--records 100 3000] [--features 2]`` writes docs/mixing.md.

Ordinary populations, bounds (0, 100), default kernel, bounds and schedule: of each fit the worst R-hat, the smallest
effective sample size (of 4000 draws) and the processor's seconds once compiled.
"""

import argparse
import pathlib
import time
import warnings

import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism

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

NOISE = {
    "Laplace, ε = 0.5": lambda bounds: LaplaceMechanism(epsilon=0.5, bounds=bounds),
    "Laplace, ε = 5": lambda bounds: LaplaceMechanism(epsilon=5.0, bounds=bounds),
    "Laplace, ε = 50": lambda bounds: LaplaceMechanism(epsilon=50.0, bounds=bounds),
    "Gaussian, ε = 5": lambda bounds: GaussianMechanism(epsilon=5.0, delta=1e-5, bounds=bounds),
}


def three_groups(rng, n, n_features):
    return (MEANS[rng.choice(3, n, p=[0.5, 0.3, 0.2])] + rng.standard_normal((n, 3)) * SDS)[:, :n_features]


def measured(mechanism, records):
    """(Worst R-hat, smallest effective sample size, seconds) of a default fit."""
    Z = mechanism.privatize(records.clip(0, 100), random_state=1)
    PrivateDPMixture(mechanism, n_draws=4, n_warmup=4, random_state=0).fit(Z)  # compiles
    started = time.process_time()
    model = PrivateDPMixture(mechanism, random_state=0).fit(Z)
    return max(model.r_hat_.values()), min(model.ess_.values()), time.process_time() - started


INTRODUCTION = """
`python -m benchmarks.mixing` writes this page: for each default fit of `PrivateDPMixture` (bounds (0, 100), four chains
of 1000 draws) the worst R-hat, the smallest effective sample size, and the processor's seconds once compiled.
"""


class Page:
    """The page as far as it is; written after each row."""

    def __init__(self):
        self.parts, self.n_fits, self.n_good = [], 0, 0

    def cell(self, mechanism, records):
        r_hat, ess, seconds = measured(mechanism, records)
        is_good = r_hat < R_HAT + 0.0005 and ess >= ESS
        self.n_fits, self.n_good = self.n_fits + 1, self.n_good + is_good
        text = f"{r_hat:.3f}, {ess:.0f}, {seconds:.1f} s"
        return text if is_good else f"*{text}*"

    def rows(self, title, rows):
        header = [f"## {title}", "", "| population | " + " | ".join(NOISE) + " |", "|---" * (len(NOISE) + 1) + "|"]
        self.parts += ["\n".join(header)]
        for name, cells in rows:
            print(name, *(cells := list(cells)), sep=" | ", flush=True)
            self.parts[-1] += f"\n| {name} | " + " | ".join(cells) + " |"
            self.write()

    def write(self):
        found = f"{self.n_good} of {self.n_fits} fits reach an R-hat of {R_HAT} and {ESS} effective draws in everything"
        head = f"# Do default fits mix?\n\n{' '.join(INTRODUCTION.split())}  **{found}**; the others are in italics.\n"
        PAGE.write_text("\n\n".join([head.strip(), *self.parts]) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="*", default=[100, 3000, 100_000])
    parser.add_argument("--features", type=int, nargs="*", default=[2, 3])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    page = Page()
    for n in options.records:
        rows = (
            (name, (page.cell(make((0, 100)), draw(np.random.default_rng(7), n)[:, None]) for make in NOISE.values()))
            for name, draw in POPULATIONS.items()
        )
        page.rows(f"One feature, n = {n:,}", rows)
    for n_features in options.features:
        rows = (
            (
                f"three groups, n = {n:,}",
                (
                    page.cell(make([(0, 100)] * n_features), three_groups(np.random.default_rng(7), n, n_features))
                    for make in NOISE.values()
                ),
            )
            for n in (300, 1500, 5000)
        )
        page.rows(f"{n_features} features", rows)


if __name__ == "__main__":
    main()
