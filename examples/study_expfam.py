"""Exponential families from noisy sums.  The study of Bernstein & Sheldon, §4.

Truths from the prior, records from the truth, one Laplace release, a posterior; eighty times for each model, n and ε.
Binomial records under Beta(10, 10), three categories under Dirichlet(5), exponential records of rate Gamma(8, 2): the
priors are those of the code that goes with the paper.  Exponential records outside public bounds are dropped; the
bounds keep 95 % of the records *of the prior*, for the paper's are made from the rate that is to be inferred.

"exact" and "normal" are `PrivateExpFamilyGibbs` with that ``approximation``; "paper's" is the paper's sampler, written
down here, with its 2000 + 5000 sweeps; "naive" takes a noisy sum for the sum (where records are dropped, the noisy sum
of all of them, as in the paper); "OPS" is `OnePosteriorSampling`; "not private" has the sum.

Prints for each the Kolmogorov-Smirnov statistic of the truth's rank among the draws, and the mean MMD² (kernel of width
1) of the draws from those of the posterior that is not private, both of the first parameter; then the ranks of all
cells together.  Leaves a picture in examples/output/study_expfam.png.  Two minutes; ``--full`` has 1000 data sets.

As in the paper:

- Whatever knows of the noise is calibrated as well as the posterior that is not private.
- The naive posterior is not, until n and ε are large; where it is not, it is also further from the one without noise.

Not as in the paper (figures in docs/studies.md):

- OPS is calibrated, because here it does not flatten the prior: at these ε it returns the prior.
- The paper's sampler for dropped records can end where the release cannot have come from, with few records inside.
- Where the naive posterior is given dropped records too, it is the nearer one to that without noise for large n.
"""

import warnings
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from _study import full_grid, save
from matplotlib.ticker import FixedLocator, NullLocator
from scipy import stats
from scipy.special import ndtr, ndtri

from sklearn_dpmix import NaivePosterior, OnePosteriorSampling, PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.metrics import mmd, posterior_ranks, rank_uniformity
from sklearn_dpmix.models import Bernoulli, BetaPrior, DirichletPrior, Exponential, GammaPrior, Multinomial
from sklearn_dpmix.queries import SufficientStatistics

EPSILONS, SIZES = (0.01, 0.1), (10, 100, 1000, 10_000)
IMPUTED = 1000  # exponential records: more are imputed neither here nor by approximation="auto"
PAPERS_WARMUP, PAPERS_SWEEPS = 2000, 5000  # of its sampler; it keeps all of these, here they are thinned
LEVEL = 0.05  # p-values below are marked in the table; the grey band holds the other statistics of uniform ranks
SHOWN = 1000, 0.01  # n and ε of the distribution functions, as in the paper
#: Colour (Okabe-Ito), marker, line, and shift along the axis of n.
LOOKS = {
    "not private": ("#555555", "d", ":", 0.84),
    "exact": ("#0072B2", "o", "-", 0.92),
    "normal": ("#009E73", "s", "-", 1.0),
    "paper's": ("#E69F00", "v", "-", 1.08),
    "naive": ("#D55E00", "x", "--", 1.16),
    "OPS": ("#CC79A7", "^", "-.", 1.24),
}


class Lengths(NamedTuple):
    """How much is run: data sets in each cell, and of each chain."""

    n_data_sets: int
    n_warmup: int
    n_draws: int
    thin: int  # of the one chain that moves slowly: normal approximation, multinomial counts


class Model(NamedTuple):
    """A family, the prior that truths come from and that all methods have, and public bounds."""

    family: Any
    prior: Any
    bounds: tuple[float, float] | None = None

    @property
    def name(self):
        return type(self.family).__name__.lower().replace("bernoulli", "binomial")

    def curator(self, epsilon):
        """What the curator publishes beside a release."""
        query = SufficientStatistics(self.family, self.bounds, outside="drop" if self.bounds else "clamp", scaled=False)
        return LaplaceMechanism(epsilon, query=query)


def middle(prior, share=0.95):
    """Public bounds that keep the middle share of exponential records: of their law with the rate integrated out."""
    return tuple(stats.lomax(prior.shape, scale=prior.rate).ppf([0.5 * (1 - share), 0.5 * (1 + share)]))


RATE = GammaPrior(shape=8.0, rate=2.0)
MODELS = (
    Model(Bernoulli(), BetaPrior(10.0, 10.0)),
    Model(Multinomial(n_categories=3), DirichletPrior(5.0)),
    Model(Exponential(), RATE, middle(RATE)),
)


class Data(NamedTuple):
    """What a simulation made."""

    theta: np.ndarray
    records: np.ndarray
    total: np.ndarray  # the sufficient statistic of all records
    release: np.ndarray  # noisy, of the records inside the bounds
    cheat: np.ndarray  # the total with the same noise: what the naive method is given, as in the paper


def simulate(model, mechanism, n, rng):
    """Truth from the prior, records from the truth, a release of the records."""
    theta = model.prior.draw(rng, 1, model.family)
    records = model.family.draw(rng, np.repeat(theta, n, axis=0))
    total = model.family.statistics(records).sum(axis=0)
    release = mechanism.privatize(records[:, None], random_state=rng)
    return Data(theta[0], records, total, release, total + release - mechanism.query.value(records[:, None]))


def between(rng, mean, variance, low, high):
    """Draws of normals restricted to [low, high]."""
    scale = np.sqrt(variance)
    ends = ndtr((low - mean) / scale), ndtr((high - mean) / scale)
    return np.clip(mean + scale * ndtri(ends[0] + (ends[1] - ends[0]) * rng.random(len(mean))), low, high)


def product(y, noise, mean, variance):
    """Mean and variance of the product of two normal densities."""
    weight = variance / (variance + noise)
    return mean + weight * (y - mean), weight * noise


def sections(n, rate, low, high):
    """Mean and variance of the sums of those of n exponential records that are below, between and above two bounds."""

    def moments_above(x):
        return np.exp(-rate * x) * np.stack([x + 1 / rate, x**2 + 2 * x / rate + 2 / rate**2])

    upper, rest = moments_above(high), moments_above(low)
    for first, second in (moments_above(0.0) - rest, rest - upper, upper):
        yield n * first, n * (second - first**2)


def papers_sampler(model, mechanism, n, y, n_draws, rng):
    """Algorithms 1 (binomial) and 2 (exponential), a chain for each release: draws (n_releases, n_draws).

    As in the paper's text and code, not as printed: a sum's mean is n q times that of a record inside, and the sum
    inside is drawn given the release.
    """
    prior, scale = model.prior, mechanism.noise_scale_for(1)
    theta, noise = prior.draw(rng, len(y), model.family)[:, 0], rng.exponential(2 * scale**2, len(y))
    draws, thin = np.empty((len(y), n_draws)), PAPERS_SWEEPS // n_draws
    for sweep in range(-PAPERS_WARMUP, n_draws * thin):
        if model.bounds is None:
            s = between(rng, *product(y, noise, n * theta, n * theta * (1 - theta)), 0, n)
            noise = draw_noise(rng, y - s, scale)
            theta = rng.beta(prior.a + s, prior.b + n - s)
        else:
            below, inside, above = sections(n, theta, *model.bounds)
            noise = draw_noise(rng, y - between(rng, *product(y, noise, *inside), 0, np.inf), scale)
            mean, variance = np.sum([below, product(y, noise, *inside), above], axis=0)
            theta = rng.gamma(prior.shape + n) / (prior.rate + between(rng, mean, variance, 0, np.inf))
        if sweep >= 0 and sweep % thin == 0:
            draws[:, sweep // thin] = theta
    return draws


def draw_noise(rng, z, scale):
    """Variances of the normal laws that Laplace noise z is a mixture of."""
    return 1 / rng.wald(1 / (scale * np.maximum(np.abs(z), 1e-9 * scale)), scale**-2.0)


def posterior(kind, model, mechanism, n, S, lengths, rng, approximation="exact"):
    """Draws of the first parameter, nearly independent."""
    estimator = kind(
        mechanism,
        family=model.family,
        prior=model.prior,
        n_records=n,
        approximation=approximation,
        n_chains=1,
        n_warmup=lengths.n_warmup,
        n_draws=lengths.n_draws,
        thin=lengths.thin if approximation == "normal" and model.name == "multinomial" else 2,
        random_state=rng,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # releases far off are simulated on purpose; that chains mix, ranks must show
        return estimator.fit(S).theta_draws_[0, :, 0]


def fit_all(model, n, epsilon, lengths, root):
    """One cell: truths (n_data_sets,), and for each method that applies draws (n_data_sets, n_draws)."""
    mechanism, draws = model.curator(epsilon), {name: [] for name in LOOKS}
    seeds = [seed.spawn(2) for seed in root.spawn(lengths.n_data_sets)]
    data = [simulate(model, mechanism, n, np.random.default_rng(seed)) for seed, _ in seeds]
    for one, rng in zip(data, (np.random.default_rng(seed) for _, seed in seeds)):
        draws["not private"].append(posterior(PrivateExpFamilyGibbs, model, None, n, one.total, lengths, rng))
        common = model, mechanism, n
        if model.bounds is None or n <= IMPUTED:
            draws["exact"].append(posterior(PrivateExpFamilyGibbs, *common, one.release, lengths, rng))
        draws["normal"].append(posterior(PrivateExpFamilyGibbs, *common, one.release, lengths, rng, "normal"))
        draws["naive"].append(posterior(NaivePosterior, *common, one.cheat, lengths, rng))
        if model.name == "binomial":
            ops = OnePosteriorSampling(epsilon, prior=model.prior, random_state=rng).fit(one.records)
            draws["OPS"].append(ops.theta_draws_[0, :, 0])
    if model.name != "multinomial":
        y = np.array([one.release[0] for one in data])
        draws["paper's"] = papers_sampler(*common, y, lengths.n_draws, np.random.default_rng(root.spawn(1)[0]))
    return np.array([one.theta[0] for one in data]), {name: np.array(d) for name, d in draws.items() if len(d)}


class Cell(NamedTuple):
    """What is kept of one model, n and ε, by method."""

    ranks: dict[str, np.ndarray]
    uniformity: dict[str, Any]
    mmd: dict[str, float]  # mean over data sets of MMD² from the posterior that is not private


def one_cell(model, n, epsilon, lengths, root):
    truth, draws = fit_all(model, n, epsilon, lengths, root)
    ranks = {name: posterior_ranks(found, truth) for name, found in draws.items()}
    uniformity = {name: rank_uniformity(ranks[name], found.shape[1]) for name, found in draws.items()}
    reference, distances = draws["not private"], {}
    for name in draws.keys() - {"not private"}:
        each = [mmd(X, Y, bandwidth=1.0, squared=True) for X, Y in zip(draws[name], reference)]
        distances[name] = float(np.mean(each))
    return Cell(ranks, uniformity, distances)


def print_head(lengths):
    print(f"KS over {lengths.n_data_sets} data sets, * where p < {LEVEL}; MMD² from the posterior that is not private")
    print(f"{'':>11}{'ε':>6}{'n':>7} |" + "".join(f"{name:>12}" for name in LOOKS), end=" |")
    print("".join(f"{name:>10}" for name in LOOKS if name != "not private"))


def print_cell(name, n, epsilon, cell):
    """A line of the table."""
    row = f"{name:<11}{epsilon:6g}{n:7d} |"
    for method in LOOKS:
        found = cell.uniformity.get(method)
        row += f"{'':12}" if found is None else f"{found.ks_statistic:11.3f}" + "* "[found.ks_pvalue >= LEVEL]
    row += " |"
    for method in list(LOOKS)[1:]:
        row += f"{cell.mmd[method]:10.1e}" if method in cell.mmd else f"{'':10}"
    print(row, flush=True)


def print_summary(cells):
    """For each method: cells whose p-value is low, and the ranks of all cells together."""
    print(f"\n{'method':<13}{'cells':>6}{f'p < {LEVEL}':>10}{'lowest p':>10}{'KS of all ranks':>17}{'p':>10}")
    for method in LOOKS:
        found = [cell for cell in cells.values() if method in cell.ranks]
        p = np.array([cell.uniformity[method].ks_pvalue for cell in found])
        every = np.concatenate([cell.ranks[method] for cell in found])
        pooled = rank_uniformity(every, found[0].uniformity[method].n_draws)
        row = f"{method:<13}{len(found):6d}{np.sum(p < LEVEL):10d}{p.min():10.2g}"
        print(f"{row}{pooled.ks_statistic:17.3f}{pooled.ks_pvalue:10.2g}")


def draw_calibration(axis, model, epsilon, cells, n_data_sets):
    """Kolmogorov-Smirnov statistic against n."""
    axis.axhspan(0, stats.kstwo.ppf(1 - LEVEL, n_data_sets), color="#DDDDDD", lw=0)
    for method, (color, marker, line, shift) in LOOKS.items():
        at = [n for n in SIZES if method in cells[model.name, epsilon, n].uniformity]
        ks = [cells[model.name, epsilon, n].uniformity[method].ks_statistic for n in at]
        axis.plot(np.array(at) * shift, ks, marker=marker, ls=line, color=color, ms=5, lw=1.2, label=method)
    axis.set(title=f"{model.name}, ε = {epsilon:g}", xlabel="n", ylim=(0, 0.62))


def draw_ranks(axis, model, cell):
    """Distribution function of the truth's place in the posterior, less that of uniform ranks."""
    for method, (color, _, line, _) in LOOKS.items():
        if method in cell.ranks:
            n_draws = cell.uniformity[method].n_draws
            share = (np.arange(n_draws + 1) + 1) / (n_draws + 1)
            below = np.mean(cell.ranks[method][:, None] <= np.arange(n_draws + 1), axis=0)
            axis.plot(np.append(0, share), np.append(0, below - share), ls=line, color=color, lw=1.4)
    wide = stats.kstwo.ppf(1 - LEVEL, len(cell.ranks["naive"]))
    axis.axhspan(-wide, wide, color="#DDDDDD", lw=0, zorder=0)
    axis.set(title=f"{model.name}, ε = {SHOWN[1]:g}, n = {SHOWN[0]}", xlim=(0, 1), ylim=(-0.55, 0.55))
    axis.set_xlabel("place of the truth in the posterior")


def draw_utility(axis, model, cells):
    """Mean MMD² against n, both ε."""
    for method, (color, marker, _, _) in LOOKS.items():
        for epsilon, line in zip(EPSILONS, ("-", "--")):
            at = [n for n in SIZES if method in cells[model.name, epsilon, n].mmd]
            found = [cells[model.name, epsilon, n].mmd[method] for n in at]
            axis.plot(at, found, marker=marker, ls=line, color=color, ms=5, lw=1.2)
    for epsilon, line in zip(EPSILONS, ("-", "--")):
        axis.plot([], [], ls=line, color="black", lw=1.2, label=f"ε = {epsilon:g}")
    axis.legend(frameon=False, fontsize="small", loc="lower left")
    axis.set(title=f"{model.name}, distance from not private", xlabel="n", yscale="log")


def draw(cells, n_data_sets):
    figure, axes = plt.subplots(4, 3, figsize=(12.5, 13.5), layout="constrained")
    for column, model in zip(axes.T, MODELS):
        for axis, epsilon in zip(column, EPSILONS):
            draw_calibration(axis, model, epsilon, cells, n_data_sets)
        draw_ranks(column[2], model, cells[model.name, SHOWN[1], SHOWN[0]])
        draw_utility(column[3], model, cells)
        for axis in column[[0, 1, 3]]:
            axis.set(xscale="log", xlim=(6, 18_000))
            axis.xaxis.set_major_locator(FixedLocator(SIZES))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_locator(NullLocator())
    labels = "KS statistic", "KS statistic", "distribution function - uniform", "mean MMD²"
    for axis, label in zip(axes[:, 0], labels):
        axis.set_ylabel(label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=6, frameon=False)
    save(figure, "study_expfam.png")


def main():
    full = full_grid(__doc__, "an hour or more")
    lengths = Lengths(1000, 2000, 500, 10) if full else Lengths(80, 200, 200, 8)
    roots = iter(np.random.SeedSequence(0).spawn(len(MODELS) * len(EPSILONS) * len(SIZES)))
    cells = {}
    print_head(lengths)
    for model in MODELS:
        for epsilon in EPSILONS:
            for n in SIZES:
                cells[model.name, epsilon, n] = one_cell(model, n, epsilon, lengths, next(roots))
                print_cell(model.name, n, epsilon, cells[model.name, epsilon, n])
    print_summary(cells)
    draw(cells, lengths.n_data_sets)


if __name__ == "__main__":
    main()
