"""A release of all records at once: draws from a smoothed histogram.  The study of Beraha, Favaro & Rao, App. C.

250 records from an equal mixture of Beta(5, 50), Beta(50, 50) and Beta(50, 5).  Released are k = ⌊n^(3/5) + 1⌋ = 28
draws from their histogram of m = L ⌊n^(1/5) + 1⌋ bins, mixed with a share δ of the uniform law that makes it ε-private
(the paper's condition has a sign slip: see the mechanism).  Beta kernels with Gamma(2, 2) priors, their second number
read as a scale, and once more as a rate.  The marginal (``neal5``) and the conditional (``slice``) algorithm of §5.1,
and exact bin-wise Gibbs updates (``conditional``).  Prints a table: δ, share of accepted records and the least
probability met, effective draws of the number of clusters and the same a second; Hellinger distances of the posterior
means from the truth, and the samplers' largest from one another (``apart``).  Leaves a picture in
examples/output/study_global.png.  About a minute; ``--full`` is the paper's grid and chain length.

One data set.  As in the paper:

- Acceptance is far above exp(-ε), as is the least one met: 0.93 to 0.97 for both, a little lower for larger ε.
- The densities of the algorithms agree: at most 0.04 apart, 0.01 with chains five times as long (two settings tried).
- For L = 2 and L = 6 the estimate is poor, with mass pushed to the borders.

Not as in the paper:

- L = 4 is no better than L = 6: the distance is 0.44 to 0.48 throughout, and at ε = 250, where δ is below 0.001, hardly
  less than at ε = 10.  The 28 draws show three modes to the eye, but are too few to outweigh this prior.
- The prior with its 2 a rate has mass at the borders for each L and ε, and no trace of the mode in the middle.
- No fall of the ESS of ``neal5`` with ε is seen beyond the noise, and its ESS is above that of ``slice`` throughout.
  ``conditional`` has more effective draws than ``slice`` in most settings, but a second of ``neal5`` gives the most:
  nearly all proposals are accepted here, so that exact updates gain nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
from _study import fit, full_grid, save
from scipy import stats

from sklearn_dpmix.kernels import BetaKernel
from sklearn_dpmix.mechanisms import SmoothedHistogramMechanism
from sklearn_dpmix.metrics import hellinger_distance

SHAPES = ((5, 50), (50, 50), (50, 5))
GRID = np.linspace(0.001, 0.999, 400)
TRUTH = np.mean([stats.beta.pdf(GRID, a, b) for a, b in SHAPES], axis=0)
N_RECORDS = 250
SCALE, RATE = BetaKernel(shape=2.0, rate=0.5), BetaKernel(shape=2.0, rate=2.0)  # Gamma(2, 2): its 2 a scale, or a rate
SAMPLERS = ("neal5", "slice", "conditional")
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"  # Okabe-Ito


def release(epsilon, L):
    """The mechanism and its release of the paper's 250 records."""
    rng = np.random.default_rng(42)
    a, b = np.array(SHAPES)[rng.integers(3, size=N_RECORDS)].T
    n_bins, n_released = L * int(N_RECORDS**0.2 + 1), int(N_RECORDS**0.6 + 1)
    mechanism = SmoothedHistogramMechanism(epsilon, n_bins, n_released, n_records=N_RECORDS)
    return mechanism, mechanism.privatize(rng.beta(a, b)[:, None], random_state=7)


def density(model):
    return np.exp(model.score_samples(GRID[:, None]))


def study(axis, epsilon, L, n_sweeps):
    """One release and its fits: a line of the table and a panel."""
    mechanism, Z = release(epsilon, L)
    fits = {sampler: fit(mechanism, SCALE, sampler, Z, n_sweeps) for sampler in SAMPLERS}
    densities = {sampler: density(model) for sampler, (model, _) in fits.items()}
    by_rate = density(fit(mechanism, RATE, "conditional", Z, n_sweeps)[0])
    row = f"{L:3d}{mechanism.n_bins:4d}{epsilon:5g}{mechanism.smoothing_:9.1e}{np.exp(-epsilon):9.1e} |"
    for sampler, (model, seconds) in fits.items():
        if sampler != "conditional":
            row += f"{model.acceptance_rate_:7.3f}{model.min_acceptance_:9.1e}"
        ess = model.ess_["n_clusters"]
        row += f"{ess:7.0f}{ess / seconds:7.0f} |"
    row += "".join(f"{hellinger_distance(d, TRUTH, GRID):7.3f}" for d in (densities["conditional"], by_rate))
    apart = max(hellinger_distance(densities["conditional"], densities[sampler], GRID) for sampler in SAMPLERS[:2])
    print(f"{row}{apart:7.3f}", flush=True)

    counts = np.bincount(mechanism.bin_of(Z), minlength=mechanism.n_bins)
    edges = np.linspace(0.0, 1.0, mechanism.n_bins + 1)
    axis.fill_between(GRID, TRUTH, color="#CCCCCC", lw=0, label="true density")
    axis.stairs(counts * mechanism.n_bins / len(Z), edges, color="#666666", lw=0.8, label="the draws, by bin")
    axis.plot(GRID, densities["conditional"], color=BLUE, lw=1.8, label="posterior mean, bin-wise Gibbs")
    axis.plot(GRID, densities["neal5"], color=ORANGE, ls="--", lw=1.6, label="posterior mean, neal5")
    axis.plot(GRID, by_rate, color=GREEN, ls=":", lw=1.8, label="bin-wise Gibbs, prior's 2 a rate")
    axis.set(title=f"L = {L} (m = {mechanism.n_bins}), ε = {epsilon:g}", xlim=(0, 1), ylim=(0, 5))


def print_head():
    print(f"{'':30} |{'neal5':^30} |{'slice':^30} |{'conditional':^14} |{'Hellinger distances':^21}")
    group = f"{'ESS':>7}{'ESS/s':>7} |"
    paper = f"{'accept':>7}{'least':>9}{group}"
    print(f"{'L':>3}{'m':>4}{'ε':>5}{'δ':>9}{'exp(-ε)':>9} |{paper}{paper}{group}{'scale':>7}{'rate':>7}{'apart':>7}")


def main():
    full = full_grid(__doc__, "an hour or so")
    epsilons = (2.0, 10.0, 50.0, 100.0, 250.0) if full else (10.0, 50.0, 250.0)
    n_sweeps = 50_000 if full else 2000
    mechanism, Z = release(10.0, 2)
    for sampler in SAMPLERS:  # compiles, so that times below are of sampling
        fit(mechanism, SCALE, sampler, Z, 10)
    figure, axes = plt.subplots(3, len(epsilons), figsize=(3.4 * len(epsilons), 8.4), sharex=True, layout="constrained")
    print_head()
    for row, L in zip(axes, (2, 4, 6), strict=True):
        for axis, epsilon in zip(row, epsilons, strict=True):
            study(axis, epsilon, L, n_sweeps)
        row[0].set_ylabel("density")
    for axis in axes[-1]:
        axis.set_xlabel("record (share of the bounds)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    save(figure, "study_global.png")


if __name__ == "__main__":
    main()
