"""A stochastic epidemic from noisy weekly counts: no likelihood, exact posterior; and what ignoring the noise does.

New infections of each week of an epidemic among a thousand people are released with Laplace noise, ε = 0.1.  Two
methods of PrivateABC, sequential and by chains, find the transmission and the recovery rate.  A particle filter
(Gordon, Salmond & Smith 1993), written here and sharing no code with them, estimates the likelihood on a grid: a check
of both.  About a minute.
"""

import matplotlib.pyplot as plt
import numpy as np
from _study import full_grid, save

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import StochasticSIR
from sklearn_dpmix.samplers import MarkovABC

TRUTH = np.array([0.6, 0.25])  # transmission and recovery, a day
EPSILON = 0.1
MECHANISM = LaplaceMechanism(scale=2.0 / EPSILON)  # replacing an infected person changes two weeks by 1 each
MODEL = StochasticSIR(n_people=1000, n_infected=5, n_weeks=8)
NAIVE_SCALE = 1.0  # persons, for a release that is taken for the counts


def release():
    """(counts, what the curator released of them)."""
    counts = MODEL.sample_statistic(np.random.default_rng(5), TRUTH[None])
    return counts[0], MECHANISM.privatize(counts, random_state=1)[0]


def posteriors(released, n_draws):
    """By sequential importance sampling, and by pseudo-marginal chains."""
    common = {"model": MODEL, "n_draws": n_draws, "random_state": 0}
    sequential = PrivateABC(MECHANISM, method="smc", **common).fit(released)
    chains = PrivateABC(MECHANISM, method=MarkovABC(n_replicates=20), n_warmup=500, n_jobs=-1, **common).fit(released)
    return {"smc": sequential, "mcmc": chains}


def grid(n, transmission, recovery):
    """(n², 2) pairs of rates between those."""
    axes = np.linspace(*transmission, n), np.linspace(*recovery, n)
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)


def filtered(theta, released, scale, n_particles, rng):
    """(len(theta),) posterior weights: a particle filter's likelihood under Laplace noise, times the prior."""
    log_likelihood, size = np.zeros(len(theta)), (len(theta), n_particles)
    infected = np.full(size, MODEL.n_infected)
    susceptible = MODEL.n_people - infected
    for seen in released:
        before = susceptible
        for _ in range(7):
            new = rng.binomial(susceptible, 1.0 - np.exp(-theta[:, :1] * infected / MODEL.n_people))
            infected = infected + new - rng.binomial(infected, 1.0 - np.exp(-theta[:, 1:]))
            susceptible = susceptible - new
        log_weight = -np.abs(seen - (before - susceptible)) / scale
        top = log_weight.max(axis=1, keepdims=True)
        ends = np.cumsum(np.exp(log_weight - top), axis=1)
        log_likelihood += top[:, 0] + np.log(ends[:, -1])
        at = (np.arange(n_particles) + rng.random((len(theta), 1))) / n_particles * ends[:, -1:]
        chosen = np.array([np.searchsorted(*row) for row in zip(ends, at, strict=True)])  # systematic resampling
        chosen = np.minimum(chosen, n_particles - 1)
        infected, susceptible = (np.take_along_axis(state, chosen, axis=1) for state in (infected, susceptible))
    log_weight = log_likelihood + MODEL.log_prior(theta)
    weights = np.exp(log_weight - log_weight.max())
    return weights / weights.sum()


def moments(theta, weights):
    """Means and standard deviations."""
    mean = weights @ theta
    return mean, np.sqrt(weights @ (theta - mean) ** 2)


def show(name, mean, sd, error=None):
    cells = [f"{mean[p]:.3f}" + ("" if error is None else f" ± {error[p]:.3f}") + f" (sd {sd[p]:.3f})" for p in (0, 1)]
    print(f"{name:<22}  transmission {cells[0]:<26} recovery {cells[1]}")


def region(axes, name, theta, weights, **style):
    """Outline of the smallest region that holds 90 %."""
    n = round(len(theta) ** 0.5)
    order = np.sort(weights)[::-1]
    level = order[np.searchsorted(np.cumsum(order), 0.9)]
    axes.contour(*(theta[:, p].reshape(n, n) for p in (0, 1)), weights.reshape(n, n), levels=[level], **style)
    axes.plot([], [], color=style["colors"], linestyle=style["linestyles"], label=name)


def draw(counts, released, sequential, exact, naive):
    """Left the rates, right the weeks."""
    rng, weeks = np.random.default_rng(1), np.arange(1, MODEL.n_weeks + 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    shown = sequential.theta_draws_[:1500]
    left.plot(*shown.T, ".", color="0.75", markersize=2.5, label="draws of PrivateABC, smc")
    region(left, "particle filter, 90 %", *exact, colors="black", linestyles="-")
    region(left, "release taken for counts, 90 %", *naive, colors="black", linestyles="--")
    left.plot(*TRUTH, "*", color="black", markersize=13, markerfacecolor="white", label="truth")
    left.set(xlabel="transmission rate β (a day)", ylabel="recovery rate γ (a day)", xlim=(0.25, 0.8), ylim=(0.0, 0.45))
    left.legend(frameon=False, loc="upper left", fontsize=9)
    future = MODEL.sample_statistic(rng, sequential.theta_draws_)
    for values, shade, name in (
        (future, "0.88", "another epidemic with such rates, 90 %"),
        (sequential.statistic_draws_, "0.62", "the counts themselves, 90 %"),
    ):
        right.fill_between(weeks, *np.quantile(values, [0.05, 0.95], axis=0), color=shade, label=name)
    theta, weights = naive
    believed = MODEL.sample_statistic(rng, theta[rng.choice(len(theta), 4000, p=weights)])
    lines = right.plot(weeks, np.quantile(believed, [0.05, 0.95], axis=0).T, "k--", linewidth=1)
    lines[0].set_label("another epidemic, release taken for counts, 90 %")
    right.plot(weeks, counts, "ko-", markersize=4, linewidth=1, label="counts (confidential)")
    right.plot(weeks, released, "kx", markersize=8, label="release")
    right.set(xlabel="week", ylabel="new infections (persons a week)", ylim=(-20, 700))
    right.legend(frameon=False, fontsize=9)
    save(figure, "simulation_epidemic.png")


def main():
    full = full_grid(__doc__, "10 minutes")
    n_draws, n, n_particles = (20_000, 61, 3000) if full else (2000, 31, 500)
    counts, released = release()
    found = posteriors(released, n_draws)
    for name, posterior in found.items():
        draws = posterior.theta_draws_.reshape(-1, 2)
        error = draws.std(axis=0) / np.sqrt(list(posterior.ess_.values()))
        show(f'PrivateABC, "{name}"', draws.mean(axis=0), draws.std(axis=0), error)
    rng = np.random.default_rng(0)
    theta = grid(n, (0.2, 0.9), (0.02, 0.5))
    exact = theta, filtered(theta, released, MECHANISM.scale, n_particles, rng)
    theta = grid(n, (0.34, 0.62), (0.06, 0.24))
    naive = theta, filtered(theta, released, NAIVE_SCALE, 6 * n_particles, rng)  # few paths come so near
    show("particle filter", *moments(*exact))
    show("release as counts", *moments(*naive))
    draw(counts, released, found["smc"], exact, naive)


if __name__ == "__main__":
    main()
