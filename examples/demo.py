"""How long flights stay in the air, seen through the square wave mechanism at ε = 1.

Each of 327,346 flights releases its minutes in the air once, privatised at the source; the analyst sees those releases
only.  They look like one broad hump.  The population has peaks, which the posterior finds again.  Prints a table and
leaves a picture in examples/output/demo.png.  Run it with ``make demo``.
"""

import pathlib
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from arviz_stats.base import array_stats

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import load_air_time
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import SquareWaveMechanism
from sklearn_dpmix.mixings import DirichletProcess

MECHANISM = SquareWaveMechanism(epsilon=1.0, bounds=(0, 720))  # minutes: no flight of one country takes 12 hours
#: Flights of one route differ by some 10 to 25 minutes; routes are many, and as long as the bounds allow.  That much is
#: known of flights in general, but the numbers were chosen by someone who had seen these.  The default is wider and has
#: fewer peaks: nothing tells it that there are more than one.
KERNEL = NormalKernel(mean=360.0, mean_precision=0.006, shape=5.0, scale=1000.0)
MIXING = DirichletProcess(concentration=2.0)
LEVEL = 0.9
EDGES = np.arange(0.0, 721.0, 20.0)  # bins of 20 minutes
GRID = np.arange(0.0, 451.0, 2.0)
OUTPUT = pathlib.Path(__file__).parent / "output" / "demo.png"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#BBBBBB"  # Okabe-Ito: told apart by every eye, and in grey


def print_table(model, release, records):
    """What the posterior says, beside the release taken for records, and the records."""
    hour, far = model.cdf_draws([[60.5], [250.5]]).transpose(2, 0, 1)  # minutes are whole: 60 is what rounds to it
    mean, variance = (draws[..., 0] for draws in model.moment_draws())
    middle, ninth = model.quantile_draws([0.5, 0.9]).transpose(2, 0, 1)
    rows = {
        "mean, minutes": (mean, np.mean),
        "std. deviation, minutes": (np.sqrt(variance), np.std),
        "median, minutes": (middle, np.median),
        "9 of 10 are below, minutes": (ninth, lambda x: np.quantile(x, 0.9)),
        "at most 1 hour, %": (100.0 * hour, lambda x: 100.0 * np.mean(x <= 60.0)),
        "over 250 minutes, %": (100.0 - 100.0 * far, lambda x: 100.0 * np.mean(x > 250.0)),
    }
    heads = "estimate", f"{100 * LEVEL:.0f} % interval", "naive", "truth", "ESS", "R-hat"
    print(f"{'':<27}" + "{:>9}   {:<16}{:>7}{:>8}{:>7}{:>8}".format(*heads))
    for name, (draws, statistic) in rows.items():
        low, high = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
        ess, r_hat = (how(draws, chain_axis=0, draw_axis=1) for how in (array_stats.ess, array_stats.rhat))
        interval = f"{name:<27}{draws.mean():9.1f}   [{low:5.1f}, {high:5.1f}]  "
        print(f"{interval}{statistic(release):7.1f}{statistic(records):8.1f}{ess:7.0f}{r_hat:8.3f}")


def density_in_bins(model, records):
    """Of every bin (lower, upper, truth): the band and the records' own density."""
    width = np.diff(EDGES)
    draws = np.diff(model.cdf_draws(EDGES[:, None]).reshape(-1, len(EDGES)), axis=1) / width
    lower, upper = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    return lower, upper, np.histogram(records, EDGES)[0] / len(records) / width


def draw(model, release, band):
    """What was released, and what the posterior makes of it, each over what the analyst never saw."""
    figure, axes = plt.subplots(1, 2, figsize=(12, 4.6), sharey=True, layout="constrained")
    lower, upper, truth = band
    for axis in axes:
        axis.stairs(truth, EDGES, fill=True, color=GREY, label="records (never seen by the analyst)")
        axis.set(xlabel="minutes in the air", ylim=(0, 0.0075))
    wide = np.arange(-200.0, 921.0, 20.0)
    axes[0].stairs(np.histogram(release, wide, density=True)[0], wide, color=ORANGE, lw=1.8,
                   label="naive: the releases as if they were records")  # fmt: skip
    axes[1].stairs(truth, EDGES, color="black", lw=0.8)
    axes[1].stairs(upper, EDGES, baseline=lower, fill=True, color=BLUE, alpha=0.45, lw=0,
                   label=f"posterior, {100 * LEVEL:.0f} % band of the bins")  # fmt: skip
    axes[1].plot(GRID, np.exp(model.score_samples(GRID[:, None])), color=BLUE, lw=2, label="posterior mean density")
    axes[0].set(title=f"what was released: ε = {model.mechanism.epsilon:g} a flight", ylabel="density (per minute)")
    axes[1].set(title="what the releases say", xlim=(0, 450))
    for axis in axes:
        axis.legend(frameon=False, loc="upper right")
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=110)


def main():
    records = load_air_time().reshape(-1, 1)
    release = MECHANISM.privatize(records, random_state=0)  # a seed, because this is a simulation
    model = PrivateDPMixture(MECHANISM, kernel=KERNEL, mixing=MIXING, n_jobs=2, random_state=0)
    print(f"{len(records)} flights, each privatised on its own: {MECHANISM!r}", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # four draws are few, but they compile
        model.set_params(n_warmup=2, n_draws=4).fit(release[:1000])
    started = time.perf_counter()
    model.set_params(n_warmup=300, n_draws=700).fit(release)
    print(f"fit: {time.perf_counter() - started:.1f} s, after compiling\n")
    print_table(model, release, records)
    worst, fewest = max(model.r_hat_.values()), min(model.ess_.values())
    print(f"\nthe chains' own checks: R-hat at most {worst:.3f}, at least {fewest:.0f} effective draws")
    lower, upper, truth = band = density_in_bins(model, records)
    held = (lower <= truth) & (truth <= upper)
    print(f"the band holds {held[truth > 0].mean():.0%} of the bins of 20 minutes with records")
    draw(model, release, band)
    print(f"picture: {OUTPUT.relative_to(OUTPUT.parents[2])}")


if __name__ == "__main__":
    main()
