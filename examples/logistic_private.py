"""What does a private logistic regression know, and does it know how little?  Breast cancer, and 100,000 made-up rows.

A curator fits `DPLogisticRegressionMCMC` under (ε, δ = 1e-6) and publishes the draws.  Beside it stand the posterior
without privacy and output perturbation (Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 1): the minimiser of
mean log loss + λ‖θ‖²/2, which one record moves by at most S = 2R/(nλ), plus noise of density ∝ exp(-ε‖b‖/S), pure ε-DP.
Its λ is the best of four on the test rows, separately for each ε: more than it could know.  Its intervals know the
noise, and neither the sampling error nor what λ shrinks.

Data: 569 tumours (scikit-learn's), 400 of them to fit: malignant or not from mean radius, texture and concavity, a
feature each of size, chromatin and outline, mapped to [-1, 1] by the rounded ends of the table in the data set's
description.  **That table is public; ranges taken from your own records would not be.**  And 100,000 simulated rows:
ten features uniform on [-1, 1], known coefficients, so that intervals can be held against the true probabilities.

Prints for each method medians over splits or data sets, each with fresh noise: accuracy with its range, log loss
(nats), calibration error (mean gap of frequency and probability over bins of equal numbers), mean width of the 90 %
intervals of probabilities, the share of them that hold the true probability (of the tumours: the answer without
privacy, which is not the truth), worst R-hat (of chains) and smallest effective sample size.
Leaves a picture in examples/output/logistic_private.png.  Some two minutes; ``--full`` has more data
sets and longer chains of the penalty method.

- The default is a normal approximation given a noisy gradient and curvature, whose noise it counts: no chains.  For
  n = 100,000 its intervals hold the truth in 0.95 (ε = 1) and 0.96 (ε = 4), without privacy in 0.96, all ± 0.04 with
  five data sets, and are 1.1 and 1.0 times as wide as without privacy.
- "100 starts" are a hundred draws around the end of three noisy Newton steps, the last one's noise included, and four
  steps of the penalty method from each: another normal approximation, which leaves out the noise of the curvature.
  They hold the truth in 0.91 and 0.96, at 1.3 and 1.1 times the width.
- No chain mixes, at T = 1 or T = 0.02.  Two at T = 1 are two draws of the start, and hold the truth in 0.38 to 0.61.
  T = 0.02 costs three to six times the width, and still Barker's hold it in half of the cases.
- On 400 tumours no intervals are wide enough: the default's hold the answer without privacy in 0.68 and 0.75, those of
  100 starts in 0.52 and 0.54 (± 0.05).
- Output perturbation's intervals depend on λ, and log loss hardly tells which: at n = 100,000 and ε = 4, λ = 0.001 and
  0.003 have 0.530 both, and hold the truth in 0.88 and 0.29.
"""

import warnings
from math import sqrt
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from _study import full_grid, save
from matplotlib.ticker import MaxNLocator, NullLocator
from scipy.special import expit
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

from sklearn_dpmix import DPBarkerMCMC, DPHamiltonianMC, DPLogisticRegressionMCMC, DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.samplers import PrivateNewton

EPSILONS, DELTA = (1.0, 4.0), 1e-6
COLUMNS = [0, 1, 6]  # mean radius, mean texture, mean concavity
LOW, HIGH = np.array([5.0, 10.0, 0.0]), np.array([30.0, 40.0, 0.45])  # of the published table, rounded
N_TRAIN = 400
TRUTH = np.append(np.linspace(1.2, -1.2, 10), -0.5)  # of the simulated rows, the intercept last
LAMBDAS = (0.001, 0.003, 0.01, 0.03)  # of output perturbation
LEVEL = 0.9
TEMPERED = 0.02
N_INTERVALS = 3000  # test rows that intervals are of, the first
BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe-Ito
HEADS = ("accuracy", "log loss", "calibration", "width", "holds", "R-hat", "ESS")


class Rows(NamedTuple):
    """Rows to fit and to test, in [-1, 1], and the true probabilities of the latter where they are known."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    truth: np.ndarray | None
    data_norm: float
    n_bins: int  # of the calibration error

    @property
    def row_norm(self):
        """Of a row with the intercept's 1."""
        return sqrt(self.data_norm**2 + 1.0)

    def design(self, X):
        """Rows as DPLogisticRegressionMCMC has them, and the 1."""
        norms = np.maximum(np.linalg.norm(X, axis=1), 1e-300)
        return np.column_stack([X * np.minimum(1.0, self.data_norm / norms)[:, None], np.ones(len(X))])


def tumours(rng):
    """A random split."""
    data = load_breast_cancer()
    X = np.clip(2.0 * (data.data[:, COLUMNS] - LOW) / (HIGH - LOW) - 1.0, -1.0, 1.0)
    y = (data.target == list(data.target_names).index("malignant")).astype(int)
    order = rng.permutation(len(y))
    fit, test = order[:N_TRAIN], order[N_TRAIN:]
    return Rows(X[fit], y[fit], X[test], y[test], None, data_norm=1.0, n_bins=5)


def simulated(rng, n=100_000, n_test=20_000):
    X = rng.uniform(-1.0, 1.0, (n + n_test, len(TRUTH) - 1))
    p = expit(X @ TRUTH[:-1] + TRUTH[-1])
    y = (rng.random(len(p)) < p).astype(int)
    norm = sqrt((len(TRUTH) - 1) / 2)  # one row in twenty is longer
    return Rows(X[:n], y[:n], X[n:], y[n:], p[n:], norm, n_bins=20)


def samplers(rows, n_iter):
    """By name, None being the default; ``n_iter`` of the penalty method."""
    common = {"n_chains": 2, "preconditioner": PrivateNewton(n_steps=3, share=0.3)}
    # of few records a test costs much, and only tests of tiny moves are affordable
    tests = {"n_iter": 1500} if len(rows.y) > 10_000 else {"n_iter": 600, "batch_size": 100, "ratio_limit": 0.1}
    starts = PrivateNewton(n_steps=3, share=0.9)
    found = {
        "the default": None,
        "100 starts": DPPenaltyMCMC(n_iter=400, n_chains=100, burn_in=0.0, preconditioner=starts),
    }
    for T in (1.0, TEMPERED):
        found[f"penalty, T = {T:g}"] = DPPenaltyMCMC(n_iter=n_iter, temperature=T, **common)
        found[f"HMC, T = {T:g}"] = DPHamiltonianMC(n_iter=24, n_leapfrog=5, temperature=T, **common)
        found[f"Barker, T = {T:g}"] = DPBarkerMCMC(temperature=T, **tests, **common)
    return found


def posterior(rows, epsilon, sampler, seed):
    """(probabilities of the test rows, ends of their intervals, R-hat, ESS); ε None: not private."""
    model = DPLogisticRegressionMCMC(
        None if epsilon is None else GaussianMechanism(epsilon, DELTA),
        sampler=sampler,
        data_norm=rows.data_norm,
        simulate=epsilon is not None,  # a seed, because this is a simulation: with real records leave it out
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a simulation, and that chains have not mixed: R-hat is printed
        model.fit(rows.X, rows.y)
    known = model.sampler_
    ends = model.predict_interval(rows.X_test[:N_INTERVALS], LEVEL)
    p = model.predict_proba(rows.X_test)[:, 1]
    if not hasattr(known, "r_hat_"):  # no chains
        return p, ends, np.nan, known.n_effective_
    return p, ends, max(known.r_hat_.values()), min(known.ess_.values())


def not_private(rows, seed):
    start = PrivateNewton(n_steps=6)
    sampler = DPHamiltonianMC(n_iter=100, n_chains=2, n_leapfrog=3, burn_in=0.0, preconditioner=start)
    return posterior(rows, None, sampler, seed)


def regularised(rows, weight):
    """The minimiser of mean log loss + weight ‖θ‖²/2, the intercept included: confidential."""
    design = rows.design(rows.X)
    fit = LogisticRegression(C=1.0 / (weight * len(design)), fit_intercept=False, tol=1e-6, max_iter=1000)
    return fit.fit(design, rows.y).coef_[0]


def output_perturbation(rows, fitted, epsilon, weight, rng):
    """As :func:`posterior`, with intervals by draws of the noise."""
    sensitivity, n_params = 2.0 * rows.row_norm / (len(rows.y) * weight), len(fitted)

    def noise(size):
        direction = rng.standard_normal((size, n_params))
        direction /= np.linalg.norm(direction, axis=1)[:, None]
        return direction * rng.gamma(n_params, sensitivity / epsilon, (size, 1))

    released = fitted + noise(1)[0]
    test = rows.design(rows.X_test)
    draws = expit((released + noise(400)) @ test[:N_INTERVALS].T)
    ends = np.quantile(draws, [0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL], axis=0)
    return expit(test @ released), ends, np.nan, np.nan


def calibration_error(p, y, n_bins):
    """Mean |frequency - probability| over bins of equal numbers of test rows."""
    bins = np.array_split(np.argsort(p, kind="stable"), n_bins)
    return sum(len(rows) * abs(y[rows].mean() - p[rows].mean()) for rows in bins) / len(p)


def score(rows, answer, truth):
    """What the table has, in the order of ``HEADS``."""
    p, (low, high), r_hat, ess = answer
    p = np.clip(p, 1e-12, 1.0 - 1e-12)
    loss = -np.mean(np.where(rows.y_test == 1, np.log(p), np.log1p(-p)))
    truth = truth[:N_INTERVALS]
    holds = np.mean((low <= truth) & (truth <= high))
    accuracy, error = np.mean((p > 0.5) == rows.y_test), calibration_error(p, rows.y_test, rows.n_bins)
    return [accuracy, loss, error, np.mean(high - low), holds, r_hat, ess]


def one_data_set(make, seed, n_iter):
    """{(method, ε): scores}; output perturbation for each λ."""
    rng = np.random.default_rng(seed)
    rows = make(rng)
    answer = not_private(rows, seed)
    truth = answer[0] if rows.truth is None else rows.truth
    found = {("not private", None): score(rows, answer, truth)}
    fitted = {weight: regularised(rows, weight) for weight in LAMBDAS}
    for epsilon in EPSILONS:
        for weight in LAMBDAS:
            answer = output_perturbation(rows, fitted[weight], epsilon, weight, rng)
            found[weight, epsilon] = score(rows, answer, truth)
        for name, sampler in samplers(rows, n_iter).items():
            found[name, epsilon] = score(rows, posterior(rows, epsilon, sampler, seed), truth)
    return found


def with_best_weight(found):
    """{(method, ε): (n_data_sets, 7)} with output perturbation at the λ of the smallest median log loss."""
    scores = {key: np.array([one[key] for one in found]) for key in found[0]}
    kept = {key: value for key, value in scores.items() if isinstance(key[0], str)}
    for epsilon in EPSILONS:
        medians = {weight: np.median(scores[weight, epsilon], axis=0) for weight in LAMBDAS}
        best = min(LAMBDAS, key=lambda weight: medians[weight][1])
        kept["output perturbation", epsilon] = scores[best, epsilon]
        print(f"output perturbation at ε = {epsilon:g} has λ = {best:g} of")
        for weight, (_, loss, _, width, holds, _, _) in medians.items():
            print(f"  λ = {weight:<6g} log loss {loss:.3f}, width {width:.3f}, holds {holds:.3f}")
    return kept


def in_order(scores, epsilon):
    """Methods, the baseline first."""
    names = [name for name, of in scores if of == epsilon]
    return sorted(names, key=lambda name: name != "output perturbation")


def print_table(scores):
    print(f"{'':28}{HEADS[0]:>21}" + "".join(f"{head:>12}" for head in HEADS[1:]))
    for epsilon in (None, *EPSILONS):
        print("" if epsilon is None else f"ε = {epsilon:g}")
        for name in in_order(scores, epsilon):
            values = scores[name, epsilon]
            cells = [f"{value:12.3f}" if value == value else f"{'–':>12}" for value in np.median(values, axis=0)]
            of_accuracy = f"{cells[0][-7:]} [{values[:, 0].min():.3f}, {values[:, 0].max():.3f}]"
            print(f"  {name:<26}{of_accuracy}" + "".join(cells[1:]))


def draw(axes, title, scores):
    """A dot a method and ε, with the range over data sets; the posterior without privacy is a line."""
    names = in_order(scores, EPSILONS[0])
    for axis, column in zip(axes, (0, 2, 3, 4)):
        axis.axvline(np.median(scores["not private", None][:, column]), color="black", ls=":", label="not private")
        for epsilon, color, marker, side in zip(EPSILONS, (ORANGE, BLUE), "Do", (0.16, -0.16)):
            for row, name in enumerate(names):
                values = scores[name, epsilon][:, column]
                at, label = len(names) - row - side, f"ε = {epsilon:g}" if row == 0 else None
                axis.plot([values.min(), values.max()], [at, at], color=color, lw=1.4)
                face = "white" if marker == "D" else color  # for print in grey
                axis.plot(np.median(values), at, marker, color=color, mfc=face, mew=1.6, ms=6, label=label)
        axis.set_yticks(range(len(names), 0, -1), names if axis is axes[0] else [""] * len(names))
        axis.grid(axis="y", lw=0.4, alpha=0.5)
    axes[0].set_title(title, loc="left")
    for axis in axes[:2]:
        axis.xaxis.set_major_locator(MaxNLocator(4))
    axes[2].set(xscale="log", xlim=(0.003, 1.0))
    axes[2].set_xticks([0.01, 0.03, 0.1, 0.3, 1.0], ["0.01", "0.03", "0.1", "0.3", "1"])
    axes[2].xaxis.set_minor_locator(NullLocator())
    axes[3].axvline(LEVEL, color="black", ls="--", lw=1, label=f"{LEVEL:.0%}".replace("%", " %"))
    axes[3].set_xlim(-0.03, 1.03)


def main():
    full = full_grid(__doc__, "about ten minutes")
    figure, axes = plt.subplots(2, 4, figsize=(12.5, 7.2), layout="constrained")
    n_iter = 1000 if full else 200
    cases = (("569 tumours", tumours, 100 if full else 25), ("100,000 simulated", simulated, 12 if full else 5))
    for row, (title, make, repetitions) in enumerate(cases):
        print(f"\n{title}: {repetitions} repetitions")
        scores = with_best_weight([one_data_set(make, seed, n_iter) for seed in range(repetitions)])
        print_table(scores)
        draw(axes[row], title, scores)
        last = "90 % intervals that hold the " + ("truth" if make is simulated else "answer\nwithout privacy")
        for axis, label in zip(axes[row], ("accuracy", "calibration error", "width of 90 % intervals", last)):
            axis.set_xlabel(label)
    figure.legend(*axes[0, 3].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, "logistic_private.png")


if __name__ == "__main__":
    main()
