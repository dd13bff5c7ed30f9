"""Chronic disease in the RAND Health Insurance Experiment, seen through Laplace noise of three strengths.

Each of 20,190 person-years releases its chronic-disease index, a share in percent, with ε-differential privacy of its
own (a person who is in five of them is protected at 5 ε); the analyst sees the releases only.  Prints a table and
leaves a picture in examples/output/demo.png.  Run it with ``make demo``.
"""

import pathlib
import time

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import load_rand_hie
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism

EPSILONS = (2.0, 5.0, 10.0)
BOUNDS = (0.0, 100.0)  # the index is a percentage: public, whatever the data
#: Prior, stated before any data: clusters about 5 points wide, their centres within some 25 points of 25.
KERNEL = NormalKernel(mean=25.0, mean_precision=0.04, shape=20.0, scale=500.0)
GRID = np.linspace(-10.0, 70.0, 161)
OUTPUT = pathlib.Path(__file__).parent / "output" / "demo.png"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#BBBBBB"  # Okabe-Ito: told apart by every eye, and in grey


def fit(epsilon, records):
    """Privatise and fit; return (model, release, seconds)."""
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=BOUNDS, clamp=False)  # no record can lie outside the bounds
    release = mechanism.privatize(records, random_state=int(epsilon))  # a seed, because this is a simulation
    model = PrivateDPMixture(mechanism, kernel=KERNEL, n_jobs=2, random_state=0)
    started = time.perf_counter()
    model.fit(release)
    return model, release, time.perf_counter() - started


def print_row(name, draws, truth, naive, model, monitor, seconds):
    """One line of the table."""
    low, high = np.quantile(draws, [0.025, 0.975])
    ess, r_hat = model.ess_[monitor], model.r_hat_[monitor]
    estimate = f"{name:<20}{draws.mean():9.2f}   [{low:6.2f}, {high:6.2f}]"
    print(f"{estimate}{naive:9.2f}{truth:9.2f}{ess:8.0f}{r_hat:8.2f}{seconds:9.1f}", flush=True)


def draw_panel(axis, epsilon, model, release, records):
    """Posterior density with its band, over what the analyst never saw, and the naive histogram of the release."""
    bins = np.arange(-10.0, 71.0, 2.0)
    axis.hist(records[:, 0], bins=bins, density=True, color=GREY, label="records (never seen by the analyst)")
    counts, _ = np.histogram(release[:, 0], bins=bins)
    axis.stairs(counts / len(release) / 2.0, bins, color=ORANGE, lw=1.6, label="naive: histogram of the release")
    points = GRID[:, None]
    lower, upper = model.density_interval(points)
    axis.fill_between(GRID, lower, upper, color=BLUE, alpha=0.3, lw=0, label="posterior, 95 % band")
    axis.plot(GRID, np.exp(model.score_samples(points)), color=BLUE, lw=2, ls="--", label="posterior mean density")
    axis.set(title=f"ε = {epsilon:g} (noise scale {model.mechanism.noise_scale:g})", ylim=(0, 0.16), xlim=(-10, 70))
    axis.set_xlabel("chronic-disease index (percent)")


def main():
    records = load_rand_hie().reshape(-1, 1)
    print(f"{len(records)} person-years, each privatised on its own; bounds {BOUNDS} percent; the first fit compiles")
    heads = ("naive", "truth", "ESS", "R-hat", "seconds")
    print(f"{'':<20}{'estimate':>9}   {'95 % interval':<16}" + "{:>9}{:>9}{:>8}{:>8}{:>9}".format(*heads))
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.2), sharey=True, layout="constrained")
    for epsilon, axis in zip(EPSILONS, axes, strict=True):
        model, release, seconds = fit(epsilon, records)
        mean, variance = model.moment_draws()
        print_row(f"ε = {epsilon:<4g} mean", mean, records.mean(), release.mean(), model, "mean", seconds)
        sd = np.sqrt(variance)
        print_row(f"ε = {epsilon:<4g} std. dev.", sd, records.std(), release.std(), model, "log_variance", seconds)
        draw_panel(axis, epsilon, model, release, records)
    axes[0].set_ylabel("density (per percent)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=110)
    print(f"picture: {OUTPUT.relative_to(OUTPUT.parents[2])}")


if __name__ == "__main__":
    main()
