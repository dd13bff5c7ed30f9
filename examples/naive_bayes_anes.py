"""Clinton or Dole?  A classifier of votes from one noisy release of counts (1996 American National Election Study).

A curator has five answers and the expected vote of 700 people (`load_anes96`) and releases five tables, vote by answer,
once, with Laplace noise (ε-differential privacy, the number of people known).  Whoever has the release predicts the
vote of the 244 others.  All answers are of seven given categories and there are two candidates: the questionnaire says
so, and nothing is binned or looked up in the data.

The naive classifier takes the noisy counts for counts, those below 0 for 0, and adds the prior's 1 to each.

Prints a line for each ε over twenty random splits with a release each: accuracy and log loss (nats) on the people held
out, and in how many splits the posterior predictive has the smaller log loss; then the classifier that is not private,
and the shares of the two classes alone.  Leaves a picture in examples/output/naive_bayes_anes.png.  Ten seconds.

- As classes both predict about alike: at ε = 1 nine in ten, as without privacy, at ε = 0.1 hardly more than the shares.
- As probabilities they do not: in nearly every split the posterior has the smaller log loss.  It is no worse in the
  mean than the class shares at any ε, while the naive classifier is far worse up to ε = 0.1, for it is sure and wrong.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from _study import save
from matplotlib.ticker import FixedLocator, NullLocator
from scipy.special import log_softmax

from sklearn_dpmix import PrivateNaiveBayesDA
from sklearn_dpmix.datasets import load_anes96
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.queries import ClassFeatureCounts

EPSILONS = (0.03, 0.1, 0.3, 1.0, 3.0)
N_VALUES, N_CLASSES = [7] * 5, 2  # of the questionnaire: whatever the data
N_HELD_OUT = 244
SPLITS = 20  # of the people, with a release each
PARTY, SHOWN = 3, 0.3  # feature and ε of the picture on the right
BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe-Ito


def curator(epsilon):
    """What the curator publishes beside a release."""
    return LaplaceMechanism(epsilon, query=ClassFeatureCounts(N_CLASSES, N_VALUES))


def posterior(mechanism, data, n_records=None, n_draws=500):
    """Given a release, or without mechanism given records (X, y)."""
    model = PrivateNaiveBayesDA(
        mechanism,
        n_records=n_records,
        n_classes=N_CLASSES,
        n_values=N_VALUES,
        n_chains=2,
        n_warmup=50,
        n_draws=n_draws,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # draws are independent: an R-hat is over 1.05 by chance
        return model.fit(data) if mechanism is not None else model.fit(*data)


def naive_log_probabilities(release, X):
    """Plug-in: counts below 0 are 0, one more in each cell as under the prior, classes from all tables together."""
    tables = np.maximum(release, 0.0).reshape(len(N_VALUES), N_CLASSES, -1)
    of_class = 1.0 + tables.sum(axis=2).mean(axis=0)
    given = (1.0 + tables) / (1.0 + tables).sum(axis=2, keepdims=True)
    joint = np.log(of_class) + sum(np.log(table[:, x]).T for table, x in zip(given, X.T))
    return log_softmax(joint, axis=1)


def score(log_probabilities, y):
    """Accuracy and log loss (nats)."""
    right = log_probabilities.argmax(axis=1) == y
    return right.mean(), -log_probabilities[np.arange(len(y)), y].mean()


def one_split(X, y, rng):
    """Scores on held-out people: (methods: not private, shares of the classes alone) and (ε, posterior | naive)."""
    order = rng.permutation(len(y))
    test, train = order[:N_HELD_OUT], order[N_HELD_OUT:]
    known = posterior(None, (X[train], y[train])).predict_log_proba(X[test])
    shares = np.log(np.bincount(y[train], minlength=N_CLASSES) / len(train))
    bounds = score(known, y[test]), score(np.tile(shares, (N_HELD_OUT, 1)), y[test])
    found = []
    for epsilon in EPSILONS:
        mechanism = curator(epsilon)
        release = mechanism.privatize(np.column_stack([X, y])[train], random_state=rng)  # seeded: a simulation
        aware = posterior(mechanism, release, len(train)).predict_log_proba(X[test])
        found.append((score(aware, y[test]), score(naive_log_probabilities(release, X[test]), y[test])))
    return bounds, found


def print_table(bounds, found):
    """Means over splits; "better": in how many of them the posterior has the smaller log loss."""
    print(f"means over {SPLITS} splits{'accuracy':>14}{'log loss':>24}")
    print(f"{'':16}" + f"{'posterior':>12}{'naive':>10}" * 2 + f"{'better':>9}")
    for epsilon, scores in zip(EPSILONS, np.moveaxis(found, 1, 0)):
        accuracy, loss = scores.mean(axis=0).T
        better = np.sum(scores[:, 0, 1] < scores[:, 1, 1])
        print(f"ε = {epsilon:<12g}{accuracy[0]:12.3f}{accuracy[1]:10.3f}{loss[0]:12.3f}{loss[1]:10.3f}{better:9d}")
    for name, (accuracy, loss) in zip(("not private", "class shares"), bounds.mean(axis=0)):
        print(f"{name:<16}{accuracy:12.3f}{'':10}{loss:12.3f}")


def draw_scores(axis, column, bounds, found):
    """Means over splits with their range, against ε."""
    for k, (color, marker, side, label) in enumerate(
        ((BLUE, "o", 0.95, "posterior given the release"), (ORANGE, "D", 1.05, "naive: noisy counts as they are"))
    ):
        scores = found[:, :, k, column]
        ends = np.abs(np.stack([scores.min(axis=0), scores.max(axis=0)]) - scores.mean(axis=0))
        at = np.array(EPSILONS) * side
        axis.errorbar(at, scores.mean(axis=0), ends, color=color, marker=marker, ms=5, lw=1.4, label=label)
    for k, (line, label) in enumerate(((":", "not private"), ("--", "class shares alone"))):
        axis.axhline(bounds[:, k, column].mean(), color="black", ls=line, lw=1.4, label=label)
    axis.set(xscale="log", xlabel="ε", xlim=(0.02, 4.5))
    axis.xaxis.set_major_locator(FixedLocator(EPSILONS))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_locator(NullLocator())


def of_party(model):
    """P(Dole | party), all draws: (n, 7)."""
    joint = model.class_prob_draws_[..., None] * model.feature_prob_draws_[:, :, PARTY]
    return (joint[:, :, 1] / joint.sum(axis=2)).reshape(-1, N_VALUES[PARTY])


def draw_party(axis, X, y):
    """What one release says of one feature, all people taken together."""
    mechanism, party = curator(SHOWN), np.arange(N_VALUES[PARTY])
    release = mechanism.privatize(np.column_stack([X, y]), random_state=0)
    draws = of_party(posterior(mechanism, release, len(y), 2000))
    middle, ends = draws.mean(axis=0), np.quantile(draws, [0.025, 0.975], axis=0)
    axis.errorbar(party - 0.1, middle, np.abs(ends - middle), color=BLUE, marker="o", ls="", ms=6, lw=2)
    tables = 1.0 + np.maximum(release, 0.0).reshape(len(N_VALUES), N_CLASSES, -1)[PARTY]
    axis.plot(party + 0.1, tables[1] / tables.sum(axis=0), "D", color=ORANGE, ms=6)
    axis.plot(party, of_party(posterior(None, (X, y))).mean(axis=0), "_", color="black", ms=18, mew=2)
    axis.set_xticks(party, ["strong\nDem.", "", "", "indep.", "", "", "strong\nRep."])
    axis.set(title=f"P(Dole | party), one release, ε = {SHOWN:g}", xlabel="party", ylim=(-0.03, 1.03))


def main():
    X, y = load_anes96()
    rngs = [np.random.default_rng(seed) for seed in np.random.SeedSequence(0).spawn(SPLITS)]
    bounds, found = (np.array(part) for part in zip(*(one_split(X, y, rng) for rng in rngs)))
    print_table(bounds, found)
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 4.6), layout="constrained")
    for column, name in enumerate(("accuracy on held-out people", "log loss on held-out people")):
        draw_scores(axes[column], column, bounds, found)
        axes[column].set_title(name)
    axes[0].set_ylim(0.2, 1.0)
    axes[1].set(yscale="log", ylim=(0.18, 8), ylabel="nats")
    axes[1].set_yticks([0.2, 0.3, 0.5, 1, 2, 5], ["0.2", "0.3", "0.5", "1", "2", "5"])
    axes[1].yaxis.set_minor_locator(NullLocator())
    draw_party(axes[2], X, y)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    save(figure, "naive_bayes_anes.png")


if __name__ == "__main__":
    main()
