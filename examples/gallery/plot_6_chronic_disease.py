"""
Is chronic disease common enough for a programme?
=================================================

**Question.**  A programme is worth its cost if more than a quarter of person-years have a chronic-disease index above
15.  Nobody may collect the index itself: every person-year releases it with Laplace noise (ε = 5, local differential
privacy).  **Decision rule**, set beforehand: start if the posterior probability of "more than a quarter" is above 0.9,
do not if it is below 0.1, and otherwise collect more.

The data are 2000 person-years of the RAND Health Insurance Experiment (:func:`sklearn_dpmix.datasets.load_rand_hie`).
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import load_rand_hie
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism

BLUE, ORANGE = "#0072B2", "#E69F00"
LIMIT, SHARE = 15.0, 0.25
records = load_rand_hie()
X = records[np.random.default_rng(0).choice(len(records), 2000, replace=False)].reshape(-1, 1)  # confidential

# %%
# The index is a percentage: bounds of 0 and 100 are public, and no record can lie outside.  The prior is stated before
# any data: clusters some 5 points wide, their centres within some 25 points of 25.

mechanism = LaplaceMechanism(epsilon=5.0, bounds=(0, 100), clamp=False)
kernel = NormalKernel(mean=25.0, mean_precision=0.04, shape=20.0, scale=500.0)
Z = mechanism.privatize(X, random_state=1)
model = PrivateDPMixture(mechanism, kernel=kernel, n_chains=2, n_warmup=2000, n_draws=10_000, random_state=0).fit(Z)
print(f"noise of scale {mechanism.noise_scale:g}, worst R-hat {max(model.r_hat_.values()):.2f}")

# %%
# What the rule asks for is a function of each draw of the density.

above = 1 - model.cdf_draws([[LIMIT]]).ravel()
probability = np.mean(above > SHARE)
low, high = np.quantile(above, [0.025, 0.975])
print(f"share above {LIMIT:g}: {above.mean():.2f}, 95 % interval {low:.2f} to {high:.2f}")
print(f"probability that it is above {SHARE:g}: {probability:.2f}")
print("decision:", "start" if probability > 0.9 else "do not start" if probability < 0.1 else "collect more")
print(f"(confidential: {np.mean(X > LIMIT):.2f}; share of the releases themselves: {np.mean(Z > LIMIT):.2f})")

# %%
# The share of the *releases* above 15 would have said "start" whatever the truth: noise of scale 20 puts two fifths of
# them there.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
grid = np.linspace(-10, 70, 201)
lower, upper = model.density_interval(grid[:, None])
left.hist(X.ravel(), bins=np.arange(-10, 72, 2), density=True, color="0.8", label="confidential records")
left.hist(Z.ravel(), bins=np.arange(-10, 72, 2), density=True, histtype="step", color=ORANGE, label="releases")
left.fill_between(grid, lower, upper, color=BLUE, alpha=0.35, lw=0, label="posterior, 95 % band")
left.plot(grid, lower, color=BLUE, lw=1)
left.plot(grid, upper, color=BLUE, lw=1)
left.axvline(LIMIT, color="k", lw=1, ls=":")
left.set(xlabel="chronic-disease index (%)", ylabel="density (per point)", xlim=(-10, 70))
left.legend(frameon=False, fontsize=8)
right.hist(above, bins=50, density=True, color=BLUE, alpha=0.6, label="posterior")
right.axvline(SHARE, color="k", ls=":", label="worth its cost above")
right.axvline(np.mean(X > LIMIT), color="k", label="confidential share")
right.axvline(np.mean(Z > LIMIT), color=ORANGE, ls="--", lw=2, label="share of the releases")
right.set(xlabel=f"share of person-years with an index above {LIMIT:g}", ylabel="posterior density")
right.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
plt.show()
