"""Wavelet coefficients or Laplace noise on the record?  The study of Beraha, Favaro & Rao, §4.2, and its calibration.

250 records from an equal mixture of Beta(5, 50), Beta(50, 50) and Beta(50, 5); Beta kernels with Gamma(2, 2) priors,
the second number read as a scale: read as a rate, the prior all but forbids a shape of 50, and even the posterior from
the records themselves misses the three modes (Hellinger distance 0.37 here, against 0.15).  Each record is released as
noisy Haar coefficients up to level J, with the exact calibration and with that of Butucea et al. (2020) which the paper
uses, or with Laplace noise.  Prints a table (Hellinger distance of the posterior mean density from the truth, effective
draws of the number of clusters a second by the exact sampler and by the paper's) and leaves a picture in
examples/output/study_wavelets.png.  Under a minute; ``--full`` is the paper's grid and chain length.
"""

import matplotlib.pyplot as plt
import numpy as np
from _study import fit, full_grid, save
from scipy import stats

from sklearn_dpmix.kernels import BetaKernel
from sklearn_dpmix.mechanisms import HaarWaveletMechanism, LaplaceMechanism
from sklearn_dpmix.metrics import hellinger_distance

SHAPES = ((5, 50), (50, 50), (50, 5))
GRID = np.linspace(0.001, 0.999, 400)
TRUTH = np.mean([stats.beta.pdf(GRID, a, b) for a, b in SHAPES], axis=0)
STYLES = {2: ("#0072B2", ":"), 4: ("#D55E00", "-"), 6: ("#009E73", "--")}  # Okabe-Ito


def records():
    """250 records of the paper's mixture."""
    rng = np.random.default_rng(42)
    a, b = np.array(SHAPES)[rng.integers(3, size=250)].T
    return rng.beta(a, b)[:, None]


def study(mechanism, X, sampler, n_sweeps):
    """Posterior by one sampler: (model, effective draws of the number of clusters a second)."""
    Z = mechanism.privatize(X, random_state=7)
    model, seconds = fit(mechanism, BetaKernel(shape=2.0, rate=0.5), sampler, Z, n_sweeps)
    return model, model.ess_["n_clusters"] / seconds


def show(axis, name, mechanism, X, n_sweeps, color, style, label):
    """One mechanism: a line of the table and a line of the panel."""
    exact, exact_speed = study(mechanism, X, "auto", n_sweeps)
    paper, paper_speed = study(mechanism, X, "neal5", n_sweeps)
    density = np.exp(exact.score_samples(GRID[:, None]))
    distance = hellinger_distance(density, TRUTH, GRID)
    row = f"{name:<28}{distance:10.3f}{paper.acceptance_rate_:12.3f}{exact_speed:12.1f}{paper_speed:12.1f}"
    print(row, flush=True)
    axis.plot(GRID, density, color=color, ls=style, lw=1.8, label=label)


def main():
    full = full_grid(__doc__, "an hour or more")
    epsilons = (2.0, 10.0, 50.0, 100.0, 250.0) if full else (10.0, 50.0, 250.0)
    n_sweeps = 50_000 if full else 1000
    X = records()
    study(HaarWaveletMechanism(10.0, 2), X, "auto", 10)  # compiles, so that times below are of sampling
    for mechanism in (HaarWaveletMechanism(10.0, 2), LaplaceMechanism(10.0, bounds=(0, 1))):
        study(mechanism, X, "neal5", 10)
    print(f"{'':<28}{'Hellinger':>10}{'acceptance':>12}{'ESS/s auto':>12}{'ESS/s neal5':>12}")
    figure, axes = plt.subplots(3, len(epsilons), figsize=(3.4 * len(epsilons), 8), sharex=True, layout="constrained")
    for column, epsilon in enumerate(epsilons):
        for row, calibration in enumerate(("exact", "butucea")):
            axis = axes[row, column]
            for J, (color, style) in STYLES.items():
                mechanism = HaarWaveletMechanism(epsilon, J, calibration=calibration)
                name = f"ε = {epsilon:g}, {calibration}, J = {J}"
                show(axis, name, mechanism, X, n_sweeps, color, style, f"J = {J}")
            axis.set_title(f"Haar, {calibration} noise, ε = {epsilon:g}")
        mechanism = LaplaceMechanism(epsilon, bounds=(0, 1))
        show(axes[2, column], f"ε = {epsilon:g}, Laplace", mechanism, X, n_sweeps, "#CC79A7", "-", "posterior mean")
        axes[2, column].set_title(f"Laplace on the record, ε = {epsilon:g}")
        axes[2, column].set_xlabel("record (share of the bounds)")
    for axis in axes.flat:
        axis.fill_between(GRID, TRUTH, color="#CCCCCC", lw=0, label="true density")
        axis.set(ylim=(0, 6), xlim=(0, 1))
    for axis in axes[:, 0]:
        axis.set_ylabel("density")
        axis.legend(frameon=False, fontsize=8)
    save(figure, "study_wavelets.png")


if __name__ == "__main__":
    main()
