"""A billion privatised records: made and summarised in chunks on two worker processes, the posterior on top.

Each record is clamped to (0, 100) and released with Laplace noise at ε = 2: noise of scale 50 on a number from 0 to
100.  A worker makes a chunk, adds it to a summary and forgets it; summaries (a few hundred kilobytes) are merged as a
tree, and four chains run on what they say.  Prints seconds and a table, and leaves a picture in
examples/output/billion.png.

``python examples/billion.py [number of records]``; 10⁷ take seconds.
"""

import pathlib
import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from dask import delayed
from distributed import Client, LocalCluster
from scipy.stats import norm

from sklearn_dpmix import AutoDraws, PrivateDPMixture, ReleaseSummary
from sklearn_dpmix.mechanisms import LaplaceMechanism

MECHANISM = LaplaceMechanism(epsilon=2.0, bounds=(0, 100))
WEIGHTS, MEANS, SDS = np.array([0.5, 0.3, 0.2]), np.array([22.0, 45.0, 72.0]), np.array([6.0, 8.0, 5.0])
CHUNK = 2**21  # records made together: 16 MB
FAN_IN = 8
OUTPUT = pathlib.Path(__file__).parent / "output" / "billion.png"
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#888888"  # Okabe-Ito: told apart by every eye, and in grey


def make(n, seed):
    """n confidential records."""
    rng = np.random.default_rng([0, seed])
    counts = rng.multinomial(n, WEIGHTS)
    return np.concatenate([rng.normal(*law, count) for *law, count in zip(MEANS, SDS, counts, strict=True)])


def summarise(n, seed):
    """Make n records and their release, and keep the summary."""
    summary, done = ReleaseSummary(MECHANISM), 0
    while done < n:
        size, chunk = min(CHUNK, n - done), [seed, done // CHUNK]
        records = make(size, chunk)[:, None]
        release = MECHANISM.privatize(records, random_state=np.random.default_rng([1, *chunk]))
        summary.update(release)
        done += size
    return summary


def merge(summaries):
    whole = summaries[0]
    for other in summaries[1:]:
        whole = whole.merge(other)
    return whole


def summarised(n, n_tasks):
    """Summary of n records, made in so many tasks on the workers of the current client."""
    cuts = np.linspace(0, n, n_tasks + 1).astype(np.int64)
    parts = [delayed(summarise)(int(size), seed) for seed, size in enumerate(np.diff(cuts))]
    while len(parts) > 1:
        parts = [delayed(merge)(parts[first : first + FAN_IN]) for first in range(0, len(parts), FAN_IN)]
    return parts[0].compute()


def draw(model, summary):
    x = np.linspace(-5.0, 105.0, 221)
    figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
    places, weights = summary.nodes()
    inside = (places > 0) & (places < 100)  # releases beyond the bounds are in the summary as releases at the bounds
    counts, edges = np.histogram(places[inside], bins=np.linspace(0, 100, 51), weights=weights[inside])
    axis.stairs(counts / summary.n_records / np.diff(edges), edges, color=ORANGE, label="naive: the release")
    lower, upper = model.density_interval(x[:, None])
    axis.fill_between(x, lower, upper, color=BLUE, alpha=0.3, lw=0, label="posterior, 95 % band")
    axis.plot(x, np.exp(model.score_samples(x[:, None])), color=BLUE, lw=2, label="posterior mean density")
    axis.plot(x, norm.pdf(x[:, None], MEANS, SDS) @ WEIGHTS, color=GREY, lw=1.5, ls="--", label="population")
    axis.set(title=f"{summary.n_records:,} records, each released at ε = 2", xlabel="value", ylabel="density")
    axis.set(xlim=(x[0], x[-1]), ylim=(0, 0.045))
    axis.legend(frameon=False)
    OUTPUT.parent.mkdir(exist_ok=True)
    figure.savefig(OUTPUT, dpi=110)
    print(f"picture: {OUTPUT.relative_to(OUTPUT.parents[2])}")


def main():
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**9
    with Client(LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)):
        summarised(1000, 2)  # compiles
        started = time.perf_counter()
        summary = summarised(n, max(2, min(64, n // CHUNK)))
    print(f"{summary}")
    print(f"made and summarised on two workers: {time.perf_counter() - started:.1f} s")
    for draws in (1000, AutoDraws(max_seconds=120.0)):  # the first fit compiles
        model, started = PrivateDPMixture(MECHANISM, n_draws=draws, random_state=0), time.perf_counter()
        model.fit(summary)
        print(f"{model.weights_draws_.shape[1]} draws of each of four chains: {time.perf_counter() - started:.1f} s")
    print(model.summary())
    mean, variance = model.moment_draws()
    true_mean = WEIGHTS @ MEANS
    true_sd = np.sqrt(WEIGHTS @ (SDS**2 + MEANS**2) - true_mean**2)
    for name, draws, truth in (("mean", mean, true_mean), ("sd", np.sqrt(variance), true_sd)):
        low, high = np.quantile(draws, [0.025, 0.975])
        print(f"{name}: {draws.mean():.4f} [{low:.4f}, {high:.4f}], population {truth:.4f}")
    print(f"error of the log likelihood of {n:,} records by nodes: {model.compression_error_:.1g}")
    draw(model, summary)


if __name__ == "__main__":
    main()
