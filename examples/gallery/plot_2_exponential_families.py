"""
A rate from a noisy sum
=======================

A curator holds 50 waiting times, exponential with an unknown rate, drops those outside [0, 5] hours, and releases the
sum of the rest once with Laplace noise.  The naive posterior takes the release for the sum;
:class:`sklearn_dpmix.PrivateExpFamilyGibbs` knows of the noise and of the bounds.

After Bernstein & Sheldon, "Differentially private Bayesian inference for exponential families";
``examples/study_expfam.py`` has their figures.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import NaivePosterior, PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.metrics import rank_uniformity
from sklearn_dpmix.models import GammaPrior
from sklearn_dpmix.queries import SufficientStatistics

BLUE, ORANGE = "#0072B2", "#E69F00"
N, PRIOR = 50, GammaPrior(shape=4.0, rate=4.0)
query = SufficientStatistics("exponential", bounds=(0, 5), outside="drop", scaled=False)
mechanism = LaplaceMechanism(epsilon=0.5, query=query)
print(f"one record moves the sum by at most {query.sensitivity(1):g} hours: noise of scale {mechanism.noise_scale:g}")

# %%
# Is a posterior right?  Draw 100 true rates from the prior, records and a release for each, and rank the truth among
# 99 draws of the posterior given the release.  A right posterior has uniform ranks.  (Each fit would warn that 99 draws
# are few; here they are all that is needed.)

rng = np.random.default_rng(0)
truth = rng.gamma(4.0, 1 / 4.0, size=100)
parts = {"family": "exponential", "prior": PRIOR, "n_records": N, "n_chains": 1}
ranks = {"knows the noise": [], "naive": []}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RuntimeWarning)
    for rate in truth:
        S = mechanism.privatize(rng.exponential(1 / rate, size=(N, 1)), random_state=rng)
        aware = PrivateExpFamilyGibbs(mechanism, **parts, n_warmup=200, n_draws=99, thin=5, random_state=rng).fit(S)
        naive = NaivePosterior(mechanism, **parts, n_warmup=0, n_draws=99, random_state=rng).fit(S)
        for name, model in zip(ranks, (aware, naive)):
            ranks[name].append(int(np.sum(model.theta_draws_ < rate)))

# %%
# The distribution function of the ranks, less that of uniform ones, with the band in which it stays with probability
# 0.95.  The naive posterior is far too narrow: the truth is mostly at its ends.  (And two posteriors of one release.)

S = mechanism.privatize(np.random.default_rng(1).exponential(1 / 1.2, size=(N, 1)), random_state=1)
aware = PrivateExpFamilyGibbs(mechanism, **parts, n_draws=20_000, random_state=0).fit(S)
naive = NaivePosterior(mechanism, **parts, n_draws=20_000, random_state=0).fit(S)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
bins = np.linspace(0, 3, 61)
for model, color, style, name in ((aware, BLUE, "-", "knows the noise"), (naive, ORANGE, "--", "naive")):
    theta = model.theta_draws_.ravel()
    left.hist(theta, bins, density=True, histtype="step", color=color, ls=style, lw=1.5, label=name)
left.axvline(1.2, color="k", lw=1, ls=":", label="truth")
left.set(xlabel="rate (per hour)", ylabel="posterior density", title="one release")
left.legend(frameon=False)
for (name, found), color, style in zip(ranks.items(), (BLUE, ORANGE), ("-", "--")):
    uniformity = rank_uniformity(np.array(found), 99)
    points = uniformity.points
    right.plot(points, uniformity.ecdf - points, style, color=color, label=f"{name}: p = {uniformity.ks_pvalue:.2g}")
right.fill_between(points, uniformity.lower - points, uniformity.upper - points, color="0.85", lw=0, label="95 % band")
right.set(xlabel="rank of the truth / 100", ylabel="ECDF less uniform", title="100 data sets from the prior")
right.legend(frameon=False)
plt.show()
