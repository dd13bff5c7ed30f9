"""What can be said about a population whose records were privatised one by one?  Writes examples/output/demo.png.

The records are chronic-disease indices of the RAND Health Insurance Experiment.  Each is released with Laplace noise
at epsilon = 2, 5 and 10; ``PrivateDPMixture`` sees the releases only.  Run it with ``make demo``.
"""

import time
import warnings
from pathlib import Path

import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import load_rand_hie
from sklearn_dpmix.mechanisms import LaplaceMechanism

EPSILONS = (2.0, 5.0, 10.0)
N_RECORDS = 5_000  # of 20,190, drawn at random: chains mix more slowly the more records there are
BOUNDS = (0, 100)  # the index is a percentage, so these hold for it without looking at the data
GRID = np.linspace(-20, 60, 401)
BINS = np.arange(-20, 60.1, 2.5)
OUTPUT = Path(__file__).parent / "output" / "demo.png"
QUANTITIES = ("mean", "median", "sd")


def analyse(mechanism, Z):
    """Fit the release; return the model and how long that took, in seconds."""
    model = PrivateDPMixture(mechanism, n_warmup=1000, n_draws=6000, n_jobs=2, random_state=0)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the table has R-hat and the effective sample size
        model.fit(Z)
    return model, time.perf_counter() - started


def describe(records):
    """Mean, median and sd of records."""
    return np.mean(records), np.median(records), np.std(records)


def posterior(model):
    """Draws of the population's mean, median and sd."""
    mean, variance = model.moment_draws()
    return mean.ravel(), model.quantile_draws(0.5).ravel(), np.sqrt(variance).ravel()


def print_header(population):
    print(
        f"{len(population):,} person-years of chronic-disease index, {N_RECORDS:,} of them released with Laplace noise.\n"
        "epsilon protects one person-year; who is in five of them is protected at five times epsilon.\n"
        "The first fit also compiles, once on this machine.\n\n"
        f"{'epsilon':>7} {'noise sd':>9}  {'quantity':<8} {'posterior mean (95 % interval)':>31} {'naive':>7} {'truth*':>7}"
        f" {'R-hat':>7} {'ESS':>6} {'seconds':>8}"
    )


def print_rows(epsilon, mechanism, model, naive, truth, seconds):
    for name, draws, noisy, true in zip(QUANTITIES, posterior(model), naive, truth, strict=True):
        low, high = np.quantile(draws, [0.025, 0.975])
        first = name == QUANTITIES[0]
        start = f"{epsilon:>7g} {np.sqrt(mechanism.noise_variance()):>9.1f}" if first else " " * 17
        interval = f"{draws.mean():.1f} ({low:.1f} to {high:.1f})"
        end = f" {max(model.r_hat_.values()):>7.3f} {min(model.ess_.values()):>6.0f} {seconds:>8.1f}" if first else ""
        print(f"{start}  {name:<8} {interval:>31} {noisy:>7.1f} {true:>7.1f}{end}", flush=True)


def draw_panel(axes, epsilon, model, Z, population):
    """The posterior over the histogram that the analyst never saw, and the release taken at face value."""
    lower, upper = model.density_interval(GRID[:, None])
    mean = np.exp(model.score_samples(GRID[:, None]))
    width = BINS[1] - BINS[0]
    hidden = np.histogram(population, BINS)[0] / (len(population) * width)
    naive = np.histogram(Z, BINS)[0] / (len(Z) * width)
    axes.fill_between(GRID, lower, upper, color="#56B4E9", alpha=0.5, linewidth=0, label="95 % interval, pointwise")
    axes.stairs(hidden, BINS, fill=True, color="#000000", alpha=0.22, label="confidential records, never seen")
    axes.stairs(naive, BINS, color="#D55E00", linewidth=1.8, linestyle="--", label="release, its noise ignored")
    axes.plot(GRID, mean, color="#0072B2", linewidth=2.2, label="posterior mean density")
    outside = np.mean((BINS[0] > Z) | (BINS[-1] < Z))
    axes.set_title(f"ε = {epsilon:g} per record\n({outside:.0%} of the release lies outside this window)", fontsize=10)
    axes.set_xlabel("chronic-disease index (% of a list of diseases)")
    axes.set_xlim(BINS[0], BINS[-1])


def main():
    import matplotlib.pyplot as plt

    population = load_rand_hie()
    records = np.random.default_rng(0).choice(population, (N_RECORDS, 1), replace=False)
    truth = describe(population)
    figure, panels = plt.subplots(1, len(EPSILONS), figsize=(12, 4.6), sharex=True, sharey=True, layout="constrained")
    print_header(population)
    for seed, (epsilon, axes) in enumerate(zip(EPSILONS, panels, strict=True)):
        # No record can lie outside the bounds, so there is nothing to clamp: see docs/mechanisms.md.
        mechanism = LaplaceMechanism(epsilon=epsilon, bounds=BOUNDS, clamp=False)
        Z = mechanism.privatize(records, random_state=seed)  # a seed, because this is a simulation
        model, seconds = analyse(mechanism, Z)
        print_rows(epsilon, mechanism, model, describe(Z), truth, seconds)
        draw_panel(axes, epsilon, model, Z, population)
    print("* of all person-years; never seen by the analyst, as are the records before noise.")
    panels[0].set_ylabel("density (per point of the index)")
    panels[0].set_ylim(0, None)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=110)
    print(f"Picture: {OUTPUT.relative_to(Path.cwd()) if OUTPUT.is_relative_to(Path.cwd()) else OUTPUT}")


if __name__ == "__main__":
    main()
