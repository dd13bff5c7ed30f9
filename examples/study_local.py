"""Two samplers under Laplace noise, and an estimate that is not Bayesian.  The study of Beraha, Favaro & Rao, §4.1.

Records from an equal mixture of N(-5, 1), N(0, 1) and N(5, 1), truncated to [-10, 10], each with Laplace noise; normal
kernels with N(0, 10 σ²) IG(3, 3).  The paper's two samplers (``neal5``, one auxiliary, and ``slice``) and the default.
The channel clamps, which moves no record here but is what the bound exp(-ε) on acceptance needs under a normal kernel.
Prints a table: share of accepted records and the least probability met, effective draws of the number of clusters and
seconds, adjusted Rand index of the labels, the samplers' largest distance from the default's density (``apart``),
distance from the truth of the default's posterior mean and of the deconvolution estimate, and ``informativeness()``.
Leaves a picture in examples/output/study_local.png.  About a minute; ``--full`` is the paper's grid and chain length.

One data set, where the paper has medians of 50.  As in the paper:

- Acceptance falls with ε and stays far above exp(-ε): 0.12 and 0.36 at ε = 50, n = 200.  No single one is below it.
- The ESS of ``neal5`` falls with ε (543 to 94 at n = 50), that of ``slice`` rises (123 to 317), at n = 1000 hardly;
  at ε of 1 and 2 ``neal5`` has more.
- At ε of 1 and 2 the density is poor even from 1000 records (Hellinger distance 0.34 and more) and the Rand index 0; at
  ε = 50 fifty records are enough (0.16; 0.87).
- The deconvolution estimate is further from the truth at each n and ε; but at ε = 50, n = 1000 it is no longer poor.

Not as in the paper:

- ``slice`` is not ten times faster at n = 1000: it takes about twice the time of ``neal5``, whose sweep is O(n) here.
- At small ε the posterior mean is near the prior's density, not on it: the distance is least at ε = 2 (0.07 to 0.10),
  and larger at ε = 1 (0.15 from 200 or 1000 records).
- The samplers' densities agree for ε of 10 and 50 only (0.04), and are up to 0.18 apart at 1 and 2.  That is slow
  mixing: with chains ten times as long, 0.18 (n = 1000, ε = 2) becomes 0.05 and 0.08 (n = 200, ε = 1) becomes 0.02.
"""

import matplotlib.pyplot as plt
import numpy as np
from _study import fit, full_grid, save
from matplotlib.ticker import FixedLocator, NullLocator
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from sklearn_dpmix import DeconvolutionKDE
from sklearn_dpmix.datasets import make_three_normals, three_normals_density
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.metrics import hellinger_distance

KERNEL = NormalKernel(0.0, 0.1, 3.0, 3.0)
GRID = np.linspace(-20.0, 20.0, 801)
TRUTH = three_normals_density(GRID)
PRIOR = stats.t.pdf(GRID, 6, scale=np.sqrt(11.0))  # a record's mean density under the base measure: N(0, 11 σ²), σ² IG
SAMPLERS = ("neal5", "slice", "auto")
EPSILONS = (1.0, 2.0, 5.0, 10.0, 50.0)
BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe-Ito
STYLES = (("#009E73", ":", "o"), (BLUE, "-", "s"), ("#CC79A7", "--", "^"), ("#E69F00", "-.", "v"))


def release(n, epsilon):
    """Components of the records, the mechanism and its release."""
    X, components = make_three_normals(n, random_state=42)
    mechanism = LaplaceMechanism(epsilon, bounds=(-10, 10), clamp=True)
    return components, mechanism, mechanism.privatize(X, random_state=7)


def study(n, epsilon, n_sweeps):
    """One release and its fits: prints a line of the table, returns (densities by name, informativeness)."""
    components, mechanism, Z = release(n, epsilon)
    fits = {sampler: fit(mechanism, KERNEL, sampler, Z, n_sweeps) for sampler in SAMPLERS}
    densities = {sampler: np.exp(model.score_samples(GRID[:, None])) for sampler, (model, _) in fits.items()}
    apart = max(hellinger_distance(densities["auto"], densities[sampler], GRID) for sampler in SAMPLERS[:2])
    densities["deconvolution"] = DeconvolutionKDE(mechanism, bandwidth="bootstrap").fit(Z).density(GRID[:, None])
    row = f"{n:5d}{epsilon:5g}{np.exp(-epsilon):9.1e} |"
    for sampler, (model, seconds) in fits.items():
        if sampler != "auto":
            row += f"{model.acceptance_rate_:7.3f}{model.min_acceptance_:9.1e}"
        row += f"{model.ess_['n_clusters']:7.0f}{seconds:6.1f} |"
    auto, _ = fits["auto"]
    informativeness = auto.informativeness(random_state=0)
    row += f"{adjusted_rand_score(components, auto.labels_):6.2f}{apart:7.3f}"
    for name in ("auto", "deconvolution"):
        row += f"{hellinger_distance(densities[name], TRUTH, GRID):7.3f}"
    print(f"{row}{informativeness:8.3f}", flush=True)
    return densities, informativeness


def print_head():
    print(f"{'':19} |{'neal5':^29} |{'slice':^29} |{'auto':^13} |{'Hellinger distances':>27}")
    paper = f"{'accept':>7}{'least':>9}{'ESS':>7}{'s':>6} |"
    print(
        f"{'n':>5}{'ε':>5}{'exp(-ε)':>9} |{paper}{paper}{'ESS':>7}{'s':>6} |"
        f"{'ARI':>6}{'apart':>7}{'auto':>7}{'deconv':>7}{'inform':>8}"
    )


def draw_panel(axis, epsilon, densities):
    axis.fill_between(GRID, TRUTH, color="#CCCCCC", lw=0, label="true density")
    axis.plot(GRID, PRIOR, color="#555555", ls=":", lw=1.2, label="prior mean density")
    axis.plot(GRID, densities["auto"], color=BLUE, lw=1.8, label="posterior mean density")
    axis.plot(GRID, densities["deconvolution"], color=ORANGE, ls="--", lw=1.6, label="deconvolution estimate")
    axis.set(
        title=f"n = 200, ε = {epsilon:g}", xlim=(-14, 14), ylim=(0, 0.19), yticks=(0, 0.05, 0.1, 0.15), xlabel="record"
    )


def main():
    full = full_grid(__doc__, "half an hour or more")
    sizes = (50, 200, 500, 1000) if full else (50, 200, 1000)
    n_sweeps = 50_000 if full else 3000
    mechanism, Z = release(50, 5.0)[1:]
    for sampler in SAMPLERS:  # compiles, so that times below are of sampling
        fit(mechanism, KERNEL, sampler, Z, 10)
    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained")
    last = axes[1, 2]
    print_head()
    for n, (color, style, marker) in zip(sizes, STYLES, strict=False):
        informativeness = []
        for epsilon, axis in zip(EPSILONS, axes.flat, strict=False):
            densities, distance = study(n, epsilon, n_sweeps)
            informativeness.append(distance)
            if n == 200:
                draw_panel(axis, epsilon, densities)
        last.plot(EPSILONS, informativeness, color=color, ls=style, marker=marker, label=f"n = {n}")
    last.set(title="informativeness", xscale="log", ylim=(0, None), xlabel="ε")
    last.set_ylabel("Hellinger distance to the prior")
    last.xaxis.set_major_locator(FixedLocator(EPSILONS))
    last.xaxis.set_major_formatter("{x:g}")
    last.xaxis.set_minor_locator(NullLocator())
    last.legend(frameon=False)
    for axis in axes[:, 0]:
        axis.set_ylabel("density")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, "study_local.png")


if __name__ == "__main__":
    main()
