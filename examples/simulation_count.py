"""Example 4 of Gong (2019): a noisy count, its posterior by exact ABC, and the one that ignores the noise."""

import matplotlib.pyplot as plt
import numpy as np
from _study import save
from scipy import stats

from sklearn_dpmix import PrivateABC, PrivateMCEM
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GammaPrior, PoissonCount

S_OBS, SCALE, SHAPE, RATE = 37.4, 5.0, 25.0, 1.0


def exact_density(theta):
    """The posterior density, by a sum over the count before noise."""
    s = np.arange(400)
    weight = stats.nbinom.pmf(s, SHAPE, RATE / (RATE + 1.0)) * np.exp(-np.abs(S_OBS - s) / SCALE)
    return stats.gamma.pdf(theta[:, None], SHAPE + s, scale=1.0 / (RATE + 1.0)) @ (weight / weight.sum())


def main():
    mechanism, model = LaplaceMechanism(scale=SCALE), PoissonCount(prior=GammaPrior(SHAPE, RATE))
    posterior = PrivateABC(mechanism, model=model, n_draws=1_000_000, n_jobs=-1, random_state=0).fit([S_OBS])
    draws = posterior.theta_draws_[:, 0]
    likelihood = PrivateMCEM(mechanism, model=model, tol=1e-3, random_state=0).fit([S_OBS])
    print(f"posterior mean {draws.mean():.3f} (exact 28.576), sd {draws.std():.3f} (exact 4.734)")
    print(f"of {posterior.n_simulations_} simulations {posterior.acceptance_rate_:.4f} were kept")
    print(
        f"maximum likelihood {likelihood.theta_[0]:.3f} ± {likelihood.monte_carlo_error_[0]:.3f} (paper 37.237), "
        f"information {likelihood.information_[0, 0]:.3e} (paper 1.582e-02)"
    )
    theta = np.linspace(5, 60, 500)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.hist(draws, bins=150, density=True, color="#c6dbef", label="draws of PrivateABC")
    axes.plot(theta, exact_density(theta), color="black", label="exact posterior")
    naive = stats.gamma.pdf(theta, SHAPE + S_OBS, scale=1.0 / (RATE + 1.0))
    axes.plot(theta, naive, color="#d95f02", linestyle="--", label="release taken for the count")
    axes.plot(theta, stats.gamma.pdf(theta, SHAPE, scale=1.0 / RATE), color="#1b9e77", linestyle=":", label="prior")
    axes.set(xlabel="θ, mean of the count", ylabel="density", xlim=(5, 60))
    axes.legend(frameon=False)
    save(figure, "simulation_count.png")


if __name__ == "__main__":
    main()
