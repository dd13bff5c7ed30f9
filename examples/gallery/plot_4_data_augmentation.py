"""
A regression from noisy moments
===============================

A curator holds 200 rows (x, y), clamps them to public bounds and releases their second moments once, with Laplace
noise.  :class:`sklearn_dpmix.PrivateLinearRegressionDA` imputes the confidential rows along with the coefficients (data
augmentation), so that noise and clamping are both accounted for.  The naive answer solves the normal equations of the
noisy moments.

After Ju, Awan, Gong & Rao, "Data augmentation MCMC for Bayesian inference from privatized data";
``examples/study_regression.py`` has their setting.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GaussianPredictors, RegressionPrior
from sklearn_dpmix.queries import RegressionMoments

BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "0.45"
N, TRUTH, EPSILONS = 200, 1.5, (0.3, 1.0, 3.0, 10.0, 30.0)
rng = np.random.default_rng(0)
X = rng.normal(size=(N, 1))
y = -0.5 + TRUTH * X[:, 0] + rng.normal(size=N)
query = RegressionMoments(x_bounds=(-3, 3), y_bounds=(-6, 6), n_features=1)
PRIOR = RegressionPrior(coef_scale=2.0)

# %%
# The noisy moments are of rows that were mapped to [-1, 1]: Σy, Σxy, Σy², Σx, Σx².  Taken as they are:


def naive_slope(S):
    matrix, vector = np.array([[N, S[3]], [S[3], S[4]]]), np.array([S[0], S[1]])
    return np.linalg.solve(matrix, vector)[1] * 6 / 3


# %%
# Six releases at each ε: posterior mean and 90 % interval of the slope.

found = []
for epsilon in EPSILONS:
    mechanism = LaplaceMechanism(epsilon=epsilon, query=query)
    for seed in range(6):
        S = mechanism.privatize(np.column_stack([X, y]), random_state=seed)
        model = PrivateLinearRegressionDA(
            mechanism,
            prior=PRIOR,
            x_model=GaussianPredictors(),
            n_records=N,
            n_chains=2,
            n_warmup=500,
            n_draws=1000,
            random_state=0,
        ).fit(S)
        (low,), (high,) = model.coef_interval(0.9)
        found.append((epsilon, seed, model.coef_[0], low, high, naive_slope(S)))
known = PrivateLinearRegressionDA(None, prior=PRIOR, n_chains=2, random_state=0).fit(X, y)
(low,), (high,) = known.coef_interval(0.9)

# %%
# As ε falls the intervals widen to the prior, N(0, 2²), and hold the truth; the naive slope goes anywhere, without an
# interval that would tell.  Slopes beyond the picture are drawn at its edge.

figure, axis = plt.subplots(figsize=(8, 3.8), layout="constrained")
axis.axhspan(low, high, color="0.85", lw=0, label="90 % interval of the records themselves")
axis.axhline(TRUTH, color="k", lw=1, ls="--", label="truth")
for epsilon, seed, mean, lower, upper, naive in found:
    x, first = epsilon * 1.12 ** (seed - 2.5), (epsilon, seed) == (EPSILONS[0], 0)
    axis.plot([x, x], [lower, upper], color=BLUE, lw=1.5, label="90 % interval given a release" if first else None)
    axis.plot(x, mean, "o", color=BLUE, ms=4, label="posterior mean" if first else None)
    shown = np.clip(naive, -3.4, 5.4)
    axis.plot(x, shown, "D", color=ORANGE, mec="k", mew=0.5, ms=4.5, label="naive" if first else None)
axis.set(xscale="log", xlabel="ε of one release", ylabel="slope", ylim=(-3.5, 5.5))
axis.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
axis.minorticks_off()
axis.legend(frameon=False, ncols=2, fontsize=8)
plt.show()

for epsilon in EPSILONS:
    rows = np.array([row[2:] for row in found if row[0] == epsilon])
    inside = np.sum((rows[:, 1] < TRUTH) & (TRUTH < rows[:, 2]))
    width = np.median(rows[:, 2] - rows[:, 1])
    print(f"ε = {epsilon:4g}: {inside} of 6 intervals hold the truth, median width {width:.2f}")
