"""Posterior draws of confidential records under a budget.  The experiments of Räisä (2021), §7.2, §7.4, and past them.

A banana-shaped posterior of which exact draws are known, n = 100,000 records, truth θ = (0, 3, 0, ...), in 2 and in 10
dimensions; budgets of ε at δ = 1e-6 that four chains share; the first half of each chain is dropped.  What is shown is
the MMD from 1000 exact draws: the biased estimate, with one bandwidth a model, the median distance of exact draws, so
that other exact draws have some MMD as well (printed beside).

- Clipping (§7.2, no noise): MMD against the clip bound and the clipped fraction, the model of the thesis' text
  (σ1² = 20, σ2² = 2.5, the others 1).
- Budget (§7.4): MMD against ε, the same model, as it is and tempered by T = 0.01, with the settings of the code that
  goes with the thesis; and beside them bounded records with a private start and geometry.
- Ladder, ε = 4: the model and settings of the experiments that followed, σ1² = 2000 and σ2² = 2500, a posterior that is
  bent much more.  In 10 dimensions the other variances are our choice: 2500 as well.  One ingredient after the other:

  - "thesis" moves in θ and starts at the truth; "public start" at zeros, as do all below;
  - "bent moves" go along the ridge, in coordinates that the model knows;
  - "bounded records" replaces clipping by a public bound on records, with the sensitivity of the move at hand;
  - "private start" spends a tenth of the budget on two Newton steps, and moves in the geometry of the model there;
  - "one chain" instead of four;
  - "no chain": nine tenths of the budget for the Newton steps, and draws from the normal law that they give, bent.

The chains are simulated (``simulate=True``), for these data are not confidential.  Leaves a picture in
examples/output/study_dp_mcmc.png.  Three minutes of one core; ``--full`` has more values, repetitions, longer chains.

As in the thesis:

- Clipping less than a tenth of the ratios does no harm that can be seen.
- Under the budget its chains do not converge: at ε = 4 MMD is 0.18 to 0.51, and the sd of θ2 a third of the exact one.

Not as in the thesis:

- In 10 dimensions chains of this length do not converge without noise either, with whatever bound.

Beyond it (figures in docs/studies.md):

- Bounded records bring the penalty algorithm to 0.07 in 2 dimensions and 0.15 in 10; HMC needs the private start too.
- One chain instead of four buys little, and two noisy Newton steps with no chain at all are as good as exact draws.
"""

import warnings
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from _study import full_grid, save
from matplotlib.ticker import NullLocator
from scipy.spatial.distance import pdist

from sklearn_dpmix import DPBarkerMCMC, DPHamiltonianMC, DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.metrics import mmd
from sklearn_dpmix.models import Banana
from sklearn_dpmix.samplers import PrivateNewton

N, DELTA, LADDER_EPSILON = 100_000, 1e-6, 4.0
#: Public bounds on the norm of records in standard deviations, which hold all but a few in 10,000 of the text's records
#: (whose mean is at 1.9), and all but 2 in 1000 or 3 in 100 of the ladder's (at 0.06), which are moved inwards.
DATA_NORM = {("bent", 2): 3.5, ("bent", 10): 4.5, ("text", 2): 5.5, ("text", 10): 6.5}
START = PrivateNewton(n_steps=2, share=0.1)
N_EXACT = 1000
#: Colour (Okabe-Ito), marker, line.
LOOKS = {
    "random walk": ("#0072B2", "o", "-"),
    "penalty": ("#0072B2", "o", "-"),
    "guided": ("#56B4E9", "v", "--"),
    "HMC": ("#D55E00", "s", "-"),
    "Barker": ("#CC79A7", "^", "-."),
    "bounded, private start": ("#009E73", "D", "-"),
    "exact": ("#000000", "", ":"),
}
#: Settings of the code that goes with the thesis, by dimension and whether the likelihood is tempered: τ, step, clip
#: bound of the penalty algorithm; the same of its guided random walk; τ, τ_g, step, clip bounds of ratio and gradient
#: of HMC (of 10 leapfrog steps); step and batch of Barker's test.
SETTINGS = {
    (2, False): ((0.1, 0.008, 2.0), (0.1, 0.008, 1.8), (0.1, 0.4, 0.0005, 2.0, 1.0), None),
    (10, False): ((0.1, 0.0015, 2.0), (0.1, 0.0015, 3.0), (0.05, 0.2, 0.00015, 2.5, 3.0), None),
    (2, True): ((0.2, 0.035, 5.0), (0.2, 0.04, 3.5), (0.2, 0.6, 0.01, 2.5, 2.0), (0.12, 1300)),
    (10, True): ((0.18, 0.02, 3.0), (0.1, 0.04, 3.0), (0.08, 0.2, 0.015, 2.5, 3.5), (0.04, 2600)),
}
RUNGS = ("thesis", "public start", "bent moves", "bounded records", "private start", "one chain", "no chain")


class Lengths(NamedTuple):
    """How much is run."""

    bounds: dict  # clip bounds by dimension
    n_walk: int  # iterations of a random walk without noise
    n_hamiltonian: int  # trajectories without noise in 2 dimensions; half as many in 10
    n_clipping: int  # random walks a clip bound; one chain of HMC
    epsilons: tuple
    most_hamiltonian: float  # largest ε of HMC: its cost grows with the budget
    n_budget: int  # repetitions; one of HMC
    n_ladder: int
    n_ladder_hamiltonian: int
    thesis_hamiltonian: int  # repetitions of the thesis' setting, of 10,000 gradients; none in 10 dimensions


SHORT = Lengths({2: (0.1, 0.3, 1.0, 3.0), 10: (0.3, 1.0, 4.0)}, 1000, 80, 1, (0.5, 2.0), 2.0, 1, 2, 1, 0)
FULL = Lengths(
    bounds={2: (0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0), 10: (0.3, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)},
    n_walk=3000,
    n_hamiltonian=300,
    n_clipping=2,
    epsilons=(0.5, 1.0, 2.0, 4.0, 8.0),
    most_hamiltonian=4.0,
    n_budget=2,
    n_ladder=5,
    n_ladder_hamiltonian=3,
    thesis_hamiltonian=1,
)


class InTheta(Banana):
    """The banana with moves in θ itself, as in the thesis, and not along its ridge."""

    @property
    def from_working(self):
        raise AttributeError("moves are made in θ")


class Problem:
    """Records from the truth, exact draws of their (tempered) posterior, and the distance from these."""

    def __init__(self, sigma, temperature, seed, n=N):
        model, rng = Banana(sigma=sigma), np.random.default_rng(seed)
        self.sigma, self.temperature, self.n_params, self.rng = tuple(sigma), temperature, len(sigma), rng
        self.truth = np.r_[0.0, 3.0, np.zeros(len(sigma) - 2)]
        self.X = model.sample_records(rng, self.truth, n)
        self.exact = self.draws(N_EXACT)
        # one number for all records of a model: of draws around the truth
        phi = self.truth + np.array(sigma) / np.sqrt(n * temperature) * np.random.default_rng(0).normal(
            size=(N_EXACT, len(sigma))
        )
        self.bandwidth = float(np.median(pdist(model.from_working(phi))))

    def draws(self, size):
        """Independent exact draws."""
        model = Banana(sigma=self.sigma)
        return model.sample_posterior(self.rng, self.X, size=size, temperature=self.temperature)

    def distance(self, draws):
        """MMD of draws (..., n_params) from exact ones."""
        return mmd(draws.reshape(-1, self.n_params), self.exact, bandwidth=self.bandwidth, biased=True)

    def baseline(self, size):
        """Median MMD of as many exact draws."""
        return float(np.median([self.distance(self.draws(size)) for _ in range(9)]))


def text_model(n_params):
    """Standard deviations of the thesis' text."""
    return np.sqrt([20.0, 2.5, *[1.0] * (n_params - 2)])


def bent_model(n_params):
    """Those of the experiments that followed, in 2 dimensions; our choice beyond."""
    return np.sqrt([2000.0, 2500.0, *[2500.0] * (n_params - 2)])


def fit(estimator, problem, seed):
    """Fitted, and silent: chains that do not mix are a result here, and that a simulation is not private is known."""
    estimator.set_params(temperature=problem.temperature, random_state=seed)
    if estimator.mechanism is not None:
        estimator.set_params(simulate=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(problem.X)


def budget(epsilon):
    return GaussianMechanism(epsilon=epsilon, delta=DELTA)


# ---------------------------------------------------------------- clipping, §7.2


def trajectories(lengths, d):
    """How many HMC has without noise."""
    return lengths.n_hamiltonian // (1 if d == 2 else 2)


def clipped(name, problem, bound, lengths, seed):
    """A list of (bound, clipped fraction, MMD), one a chain without noise."""
    n, d = lengths.n_clipping if name == "random walk" else 1, problem.n_params
    common = {"model": InTheta(sigma=problem.sigma), "clip_bound": bound, "n_chains": 1, "init": problem.truth}
    found = []
    for chain in range(n):
        if name == "random walk":
            best = 2.4 / d**0.5 * np.min(problem.sigma) / len(problem.X) ** 0.5
            estimator = DPPenaltyMCMC(n_iter=lengths.n_walk, proposal_scale=best, **common)
        else:
            mass = np.r_[1.0, 0.5, np.full(d - 2, 0.4)]  # the thesis'; its trajectories have 15 steps of 0.001
            common.update(step_size=0.002, n_leapfrog=8, mass=mass)
            estimator = DPHamiltonianMC(n_iter=trajectories(lengths, d), **common)
        fitted = fit(estimator, problem, seed + chain)
        found.append((bound, fitted.clipped_fraction_, problem.distance(fitted.settled_draws())))
    return found


def clipping(lengths):
    """``{(name, dimension): rows (bound, fraction, MMD)}``, and the MMD of as many exact draws."""
    table, exact = {}, {}
    print("\nclipping, no noise: clip bound, clipped fraction, MMD (of each chain)")
    for d in (2, 10):
        problem = Problem(text_model(d), 1.0, 0)
        for name in ("random walk", "HMC"):
            rows = [row for bound in lengths.bounds[d] for row in clipped(name, problem, bound, lengths, 1)]
            n_draws = lengths.n_walk if name == "random walk" else trajectories(lengths, d)
            table[name, d], exact[name, d] = np.array(rows), problem.baseline(n_draws - n_draws // 2)
            cells = "; ".join("{:g} {:.3f} {:.3f}".format(*row) for row in rows)
            print(f"{d:3} dimensions, {name}: {cells}; exact draws {exact[name, d]:.3f}", flush=True)
    return table, exact


# ---------------------------------------------------------------- MMD against ε, §7.4


def papers(name, problem, epsilon):
    """An estimator with the thesis' settings, or None; four chains from the truth."""
    penalty, guided, hamiltonian, barker = SETTINGS[problem.n_params, problem.temperature < 1.0]
    common = {"model": InTheta(sigma=problem.sigma), "init": problem.truth}
    root = len(problem.X) ** 0.5
    if name in ("penalty", "guided"):
        tau, step, bound = penalty if name == "penalty" else guided
        common.update(move="full" if name == "penalty" else "guided", proposal_scale=step, clip_bound=bound)
        return DPPenaltyMCMC(budget(epsilon), noise_multiplier=tau * root, **common)
    if name == "HMC":
        tau, tau_g, step, bound, gradient_bound = hamiltonian
        common.update(clip_bound=bound, gradient_clip_bound=gradient_bound, gradient_noise_ratio=tau_g / tau)
        return DPHamiltonianMC(budget(epsilon), noise_multiplier=tau * root, step_size=step, **common)
    if barker is None:
        return None
    # the budget would allow 135,000 at ε = 2 and 476,000 at 4, with the same noise
    common["n_iter"] = None if epsilon < 2.0 else 40_000
    return DPBarkerMCMC(budget(epsilon), proposal_scale=barker[0], batch_size=barker[1], **common)


def bounded(problem, epsilon, **changes):
    """Penalty with bounded records, and more; from zeros."""
    model = Banana(sigma=problem.sigma, data_norm=DATA_NORM["text", problem.n_params])
    return DPPenaltyMCMC(budget(epsilon), model=model, n_iter=2000).set_params(**changes)


def against_budget(lengths):
    """``{(dimension, temperature): {name: MMDs (n_epsilons, n_budget)}}``."""
    found = {}
    print("\nMMD against ε = " + ", ".join(f"{epsilon:g}" for epsilon in lengths.epsilons) + ": medians")
    for d, temperature in ((2, 1.0), (10, 1.0), (2, 0.01), (10, 0.01)):
        problems = [Problem(text_model(d), temperature, seed) for seed in range(lengths.n_budget)]
        cell = found[d, temperature] = {"exact": np.full((len(lengths.epsilons), 1), problems[0].baseline(N_EXACT))}
        for name in ("penalty", "guided", "HMC", "Barker", "bounded, private start"):
            cell[name] = np.full((len(lengths.epsilons), lengths.n_budget), np.nan)
            for i, epsilon in enumerate(lengths.epsilons):
                if name == "HMC" and epsilon > lengths.most_hamiltonian:
                    continue
                for j, problem in enumerate(problems[:1] if name == "HMC" else problems):
                    if name == "bounded, private start":
                        estimator = bounded(problem, epsilon, preconditioner=START)
                    else:
                        estimator = papers(name, problem, epsilon)
                    cell[name][i, j] = np.nan if estimator is None else afford(estimator, problem, j)
        for name, values in cell.items():
            values = repeated(values)
            if values.size:
                medians = " ".join(f"{median:6.3f}" for median in np.median(values, axis=1))
                print(f"{d:3} dimensions, T = {temperature:<5g}{name:>24} {medians}", flush=True)
    return found


def repeated(values):
    """The repetitions that were run."""
    return values[:, ~np.all(np.isnan(values), axis=0)]


def afford(estimator, problem, seed):
    """MMD, or NaN where the budget does not allow an iteration a chain."""
    try:
        return problem.distance(fit(estimator, problem, seed).settled_draws())
    except ValueError as error:
        if "budget" not in str(error):
            raise
        return np.nan


# ---------------------------------------------------------------- ladder


def rung(name, algorithm, problem):
    """The estimator of one rung, of the penalty algorithm or of HMC."""
    sigma, root = problem.sigma, len(problem.X) ** 0.5
    at = RUNGS.index(name)
    if at < 3:
        model = InTheta(sigma=sigma) if at < 2 else Banana(sigma=sigma)
        common = {"model": model, "init": problem.truth if at == 0 else None}
        if algorithm == "penalty":
            common.update(clip_bound=0.15, noise_multiplier=0.17 * root, proposal_scale=0.06)
            return DPPenaltyMCMC(budget(LADDER_EPSILON), **common)
        common.update(clip_bound=0.1, gradient_clip_bound=0.05, noise_multiplier=0.1 * root, gradient_noise_ratio=5.5)
        return DPHamiltonianMC(budget(LADDER_EPSILON), step_size=0.006, n_leapfrog=25, **common)
    model = Banana(sigma=sigma, data_norm=DATA_NORM["bent", problem.n_params])
    common = {"model": model, "preconditioner": START if at > 3 else None, "n_chains": 1 if at == 5 else 4}
    if name == "no chain":
        common.update(n_iter=40, preconditioner=PrivateNewton(n_steps=2, share=0.9))
        return DPPenaltyMCMC(budget(LADDER_EPSILON), **common)
    if algorithm == "penalty":
        return DPPenaltyMCMC(budget(LADDER_EPSILON), n_iter=2000, **common)
    return DPHamiltonianMC(budget(LADDER_EPSILON), n_iter=400, n_leapfrog=5, **common)


class Climbed(NamedTuple):
    """Of one rung, a row a repetition."""

    distance: list
    exact: list  # MMD of as many exact draws
    sd: list  # of θ2, and the exact one
    r_hat: list  # the worst


def draws_of(name, fitted, problem):
    """The second half of the chains; or, without them, from the normal law that they start from."""
    if name != "no chain":
        return fitted.settled_draws()
    steps = problem.rng.normal(size=(N_EXACT, problem.n_params)) @ fitted.covariance_root_.T
    return fitted.model.from_working(fitted.model.to_working(fitted.mode_) + steps)


def ladder(lengths, algorithm, d, rungs=RUNGS):
    """``{rung: Climbed}``; new records each time."""
    found = {}
    for name in rungs:
        n = lengths.n_ladder if algorithm == "penalty" else lengths.n_ladder_hamiltonian
        if algorithm == "HMC" and name == "no chain":
            n = 0
        if algorithm == "HMC" and RUNGS.index(name) < 3:
            n = lengths.thesis_hamiltonian if d == 2 else 0
        found[name] = one = Climbed([], [], [], [])
        for seed in range(n):
            problem = Problem(bent_model(d), 1.0, seed)
            fitted = fit(rung(name, algorithm, problem), problem, seed)
            draws = draws_of(name, fitted, problem)
            one.distance.append(problem.distance(draws))
            one.exact.append(problem.baseline(draws[..., 0].size))
            one.sd.append((draws[..., 1].std(), problem.exact[:, 1].std()))
            one.r_hat.append(np.nan if name == "no chain" else max(fitted.r_hat_.values()))
        if n:
            print_rung(algorithm, d, name, one)
    return found


def print_rung(algorithm, d, name, one):
    low, middle, high = np.quantile(one.distance, (0.0, 0.5, 1.0))
    sd, exact = np.median(one.sd, axis=0)
    print(
        f"{d:3} dimensions, {algorithm:8}{name:>16}{middle:8.3f}   {low:.3f}-{high:.3f}{np.median(one.exact):8.3f}"
        f"{sd:8.2f}{exact:8.2f}{np.median(one.r_hat):8.2f}",
        flush=True,
    )


# ---------------------------------------------------------------- picture


def draw_clipping(axes, table, exact):
    for (name, d), rows in table.items():
        color, marker, line = LOOKS[name]
        bounds = np.unique(rows[:, 0])
        medians = [np.median(rows[rows[:, 0] == bound, 2]) for bound in bounds]
        right = (2, 10).index(d)
        axes[right].plot(rows[:, 0], rows[:, 2], marker, color=color, ms=4, alpha=0.7, mfc="none")
        axes[right].plot(bounds, medians, line, color=color, marker=marker, ms=5, label=name)
        axes[2 + right].plot(rows[:, 1], rows[:, 2], marker, color=color, ms=5, label=name)
        for axis in (axes[right], axes[2 + right]):
            axis.axhline(exact[name, d], color=color, ls=":", lw=1.4, label="as many exact draws")
    for i, axis in enumerate(axes):
        d = (2, 10)[i % 2]
        axis.set(ylabel="MMD", yscale="log", ylim=(0.012, 6.0), title=f"no noise, {d} dimensions")
        axis.set_xlabel("clip bound" if i < 2 else "clipped fraction of the ratios")
        if i < 2:
            axis.set_xscale("log")
        else:
            axis.axvline(0.1, color="#777777", lw=1, ls="--")
            axis.set_xlim(-0.03, 1.03)
    axes[0].legend(frameon=False, fontsize="small", loc="upper right")


def draw_budget(axes, found, epsilons):
    for axis, ((d, temperature), cell) in zip(axes, found.items()):
        for name, values in cell.items():
            values = repeated(values)
            if not values.size:
                continue
            color, marker, line = LOOKS[name]
            axis.vlines(epsilons, values.min(axis=1), values.max(axis=1), color=color, lw=1, alpha=0.7)
            axis.plot(epsilons, np.median(values, axis=1), color=color, marker=marker, ls=line, ms=5, label=name)
        axis.set(xscale="log", yscale="log", ylim=(0.012, 6.0), xlabel="ε", ylabel="MMD")
        axis.set_title(f"{d} dimensions, " + ("not tempered" if temperature == 1.0 else f"T = {temperature:g}"))
        axis.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        axis.xaxis.set_minor_locator(NullLocator())


def draw_ladder(axis, found, algorithm, d):
    rungs = [name for name in RUNGS if found[name].distance]
    for place, name in enumerate(rungs):
        color, marker, _ = LOOKS["penalty" if name in RUNGS[:3] else "bounded, private start"]
        distances = found[name].distance
        axis.plot(distances, np.full(len(distances), place), marker, color=color, mfc="none", ms=4, alpha=0.8)
        axis.plot(np.median(distances), place, "|", color="black", ms=16, mew=2.5)
        axis.plot(np.median(found[name].exact), place, "x", color="#555555", ms=6)
    axis.axvline(0.1, color="#777777", lw=1, ls="--")
    axis.set_yticks(range(len(rungs)), [name if name in ("thesis", "no chain") else f"+ {name}" for name in rungs])
    axis.set(xscale="log", xlim=(0.015, 2.0), ylim=(len(rungs) - 0.5, -0.5), xlabel="MMD")
    axis.set_title(f"{algorithm}, {d} dimensions, ε = {LADDER_EPSILON:g}")


def draw(lengths, clips, budgets, ladders):
    figure, axes = plt.subplots(3, 4, figsize=(16, 11.5), layout="constrained")
    draw_clipping(axes[0], *clips)
    draw_budget(axes[1], budgets, lengths.epsilons)
    handles, labels = axes[1, 3].get_legend_handles_labels()
    axes[1, 0].legend(
        handles, labels, frameon=False, fontsize="x-small", ncols=2, loc="upper right", columnspacing=1, handlelength=1
    )
    for axis, ((algorithm, d), found) in zip(axes[2], ladders.items()):
        draw_ladder(axis, found, algorithm, d)
    save(figure, "study_dp_mcmc.png")


def main():
    lengths = FULL if full_grid(__doc__, "twenty minutes") else SHORT
    print(f"ladder at ε = {LADDER_EPSILON:g}: {'MMD':>21}{'range':>14}{'exact':>8}{'sd θ2':>8}{'exact':>8}{'R-hat':>8}")
    ladders = {(name, d): ladder(lengths, name, d) for name in ("penalty", "HMC") for d in (2, 10)}
    budgets = against_budget(lengths)
    clips = clipping(lengths)
    draw(lengths, clips, budgets, ladders)


if __name__ == "__main__":
    main()
