"""
Is food a necessity?
====================

**Question.**  Food is a necessity if it takes a smaller share of a larger income: the slope of log share on log income
is below 0.  **Decision rule**, set beforehand: say so at a posterior probability of 0.95.  The records of 235 Belgian
households (Engel 1857, :func:`sklearn_dpmix.datasets.load_engel`) stay with a curator, who releases the moments of that
regression once with ε-differential privacy.  How much ε does an answer take?

``examples/regression_engel.py`` repeats it over fifty releases.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix.datasets import load_engel
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import RegressionPrior
from sklearn_dpmix.queries import RegressionMoments

BLUE, ORANGE = "#0072B2", "#E69F00"
EPSILONS, SURE = (0.3, 1.0, 3.0, 10.0), 0.95
INCOME, SHARE = (0.2, 3.0), (0.25, 1.0)  # public bounds: thousands of francs a year; of the income
X, food = load_engel()
log_income, log_share = np.log(X / 1000), np.log(food / X[:, 0])  # confidential

# %%
# The prior favours neither answer: slope and log share at 1000 francs are N(0, 1).

query = RegressionMoments(x_bounds=np.log(INCOME), y_bounds=np.log(SHARE), n_features=1)
prior = RegressionPrior(coef_scale=1.0, sigma_scale=0.2**2)
parts = {"prior": prior, "n_chains": 2, "n_warmup": 1000, "n_draws": 5000, "random_state": 0}
fits = {}
for epsilon in EPSILONS:
    mechanism = LaplaceMechanism(epsilon=epsilon, query=query)
    S = mechanism.privatize(np.column_stack([log_income, log_share]), random_state=0)
    fits[epsilon] = PrivateLinearRegressionDA(mechanism, n_records=len(food), **parts).fit(S)
known = PrivateLinearRegressionDA(None, **parts).fit(log_income, log_share)

# %%
# The answer at each ε.

for epsilon, model in fits.items():
    falls = np.mean(model.coef_draws_ < 0)
    answer = "a necessity" if falls >= SURE else "not a necessity" if falls <= 1 - SURE else "no answer yet"
    print(f"ε = {epsilon:4g}: P(slope < 0) = {falls:.3f}: {answer}")
print(f"not private: P(slope < 0) = {np.mean(known.coef_draws_ < 0):.3f}")

# %%
# Left: posterior of the slope.  Right: what the answer means, the share that food takes of an income, with 90 % bands.
# The narrow bounds help: noise is as large as the bounds are wide.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for row, (epsilon, model) in enumerate([*fits.items(), ("not private", known)]):
    low, quarter, middle, three, high = np.quantile(model.coef_draws_, [0.05, 0.25, 0.5, 0.75, 0.95])
    color = "k" if epsilon == "not private" else BLUE
    left.plot([low, high], [row, row], color=color, lw=1.5)
    left.plot([quarter, three], [row, row], color=color, lw=5, solid_capstyle="butt")
    left.plot(middle, row, "o", color="w", mec=color, ms=6)
left.axvline(0, color="k", lw=1, ls=":")
left.set_yticks(range(5), [*(f"ε = {epsilon:g}" for epsilon in EPSILONS), "not private"])
left.set(xlabel="slope of log share on log income", title="median, 50 % and 90 % interval")
grid = np.linspace(0.35, 3.0, 60)
shown = ((fits[1.0], ORANGE, "ε = 1"), (fits[10.0], BLUE, "ε = 10"), (known, "0.2", "not private"))
for model, color, name in shown:
    lines = model.intercept_draws_[..., None] + model.coef_draws_[..., 0, None] * np.log(grid)
    lower, upper = np.exp(np.quantile(lines, [0.05, 0.95], axis=(0, 1)))
    right.fill_between(grid, lower, upper, color=color, alpha=0.4, lw=0, label=name)
    right.plot(grid, lower, color=color, lw=0.8)
    right.plot(grid, upper, color=color, lw=0.8)
right.set(xlabel="income (thousands of francs a year)", ylabel="share spent on food", ylim=(0.3, 1.0))
right.legend(frameon=False)
plt.show()
