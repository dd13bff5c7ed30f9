"""Do default fits mix on other problems?  ``python -m benchmarks.mixing_at_random [n_cells] [seed]`` prints them.

Cells drawn at random from other populations, mechanisms and sizes than those of ``benchmarks.mixing``, first of one
feature and then of two; nothing in the package was fitted to them.
"""

import sys
import warnings
from itertools import product

import numpy as np

from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, PiecewiseMechanism, SquareWaveMechanism

from .mixing import bounded, cell


def ring(rng, n):
    angle = rng.uniform(0, 2 * np.pi, n)
    return 50 + 30 * np.column_stack([np.cos(angle), np.sin(angle)]) + rng.normal(0, 3, (n, 2))


def line(rng, n):
    x = rng.normal(50, 15, n)
    return np.column_stack([x, 0.8 * x + 10 + rng.normal(0, 6, n)])


ONE = {
    "lognormal": lambda rng, n: rng.lognormal(3, 0.5, n),
    "one normal": lambda rng, n: rng.normal(50, 8, n),
    "narrow in wide": lambda rng, n: np.where(rng.random(n) < 0.3, rng.normal(40, 1, n), rng.normal(50, 20, n)),
    "many zeros": lambda rng, n: np.where(rng.random(n) < 0.4, 0.0, rng.gamma(2, 15, n)),
    "six peaks": lambda rng, n: rng.normal(0, 2, n) + rng.choice([8, 25, 40, 55, 72, 90], n),
    "two values": lambda rng, n: rng.choice([0.0, 100.0], n, p=[0.7, 0.3]),
    "one value": lambda rng, n: np.full(n, 37.0),
    "exponential": lambda rng, n: rng.exponential(10, n),
    "a tail that is cut off": lambda rng, n: 50 + 8 * rng.standard_t(2, n),
    "tens": lambda rng, n: np.round(rng.normal(45, 15, n), -1),
}
TWO = {
    "ring": ring,
    "skewed": lambda rng, n: np.column_stack([rng.gamma(2, 10, n), rng.exponential(15, n)]),
    "uniform": lambda rng, n: rng.uniform(0, 100, (n, 2)),
    "line": line,
    "three values": lambda rng, n: np.column_stack([rng.choice([0.0, 50, 100], n, p=[0.5, 0.3, 0.2]),
                                                    rng.normal(40, 10, n)]),
}  # fmt: skip
OF_ONE = {
    "Laplace, ε = 1": lambda bounds: LaplaceMechanism(1.0, bounds=bounds),
    "Laplace, ε = 10": lambda bounds: LaplaceMechanism(10.0, bounds=bounds),
    "Laplace, ε = 2, not clamped": lambda bounds: LaplaceMechanism(2.0, clamp=False, bounds=bounds),
    "Laplace, ε = 30": lambda bounds: LaplaceMechanism(30.0, bounds=bounds),
    "Gaussian, ε = 1": lambda bounds: GaussianMechanism(1.0, 1e-5, bounds=bounds),
    "Gaussian, ε = 20": lambda bounds: GaussianMechanism(20.0, 1e-6, bounds=bounds),
    "square wave, ε = 1": lambda bounds: SquareWaveMechanism(1.0, bounds=bounds),
    "square wave, ε = 4": lambda bounds: SquareWaveMechanism(4.0, bounds=bounds),
    "piecewise, ε = 2": lambda bounds: PiecewiseMechanism(2.0, bounds=bounds),
}
OF_TWO = {
    "Laplace, ε = 2": lambda bounds: LaplaceMechanism(2.0, bounds=bounds),
    "Laplace, ε = 20": lambda bounds: LaplaceMechanism(20.0, bounds=bounds),
    "Laplace, ε = 50, not clamped": lambda bounds: LaplaceMechanism(50.0, clamp=False, bounds=bounds),
    "Gaussian, ε = 2": lambda bounds: GaussianMechanism(2.0, 1e-5, bounds=bounds),
    "Gaussian, ε = 20": lambda bounds: GaussianMechanism(20.0, 1e-5, bounds=bounds),
}


def main(n_cells=40, seed=0):
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    for populations, mechanisms, sizes, bounds in (
        (ONE, OF_ONE, (500, 10_000, 200_000), (0, 100)),
        (TWO, OF_TWO, (300, 1500, 5000), [(0, 100)] * 2),
    ):
        cells = list(product(populations, mechanisms, sizes))
        for number in rng.permutation(len(cells))[:n_cells]:
            population, mechanism, n = cells[number]
            records = bounded(populations[population], n).reshape(n, -1)
            found, _ = cell(mechanisms[mechanism](bounds), records)
            print(f"| {population} | {mechanism} | {n:,} | {found} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
