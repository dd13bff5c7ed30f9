"""
A density behind Laplace noise
==============================

Each of 1000 people releases a number in [-10, 10] with Laplace noise of its own (local differential privacy).  The
numbers come from three groups, around -5, 0 and 5.  Whoever holds the releases wants the density of the *confidential*
numbers: :class:`sklearn_dpmix.PrivateDPMixture` draws from its exact posterior, a Dirichlet-process mixture of normals.

After Beraha, Favaro & Rao, "MCMC for Bayesian nonparametric mixture modeling under differential privacy", section 4.1;
``examples/study_local.py`` runs the paper's grid.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import make_three_normals, three_normals_density
from sklearn_dpmix.mechanisms import LaplaceMechanism

BLUE, ORANGE = "#0072B2", "#E69F00"
GRID = np.linspace(-12, 12, 241)
X, _ = make_three_normals(1000, random_state=0)  # confidential

# %%
# A release and a fit for each ε.  The seed of the noise is there because this is a simulation: a real one is a secret.


def fit(epsilon):
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=(-10, 10))
    Z = mechanism.privatize(X, random_state=1)
    model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=2000, n_draws=8000, random_state=0)
    return model.fit(Z), Z


fits = {epsilon: fit(epsilon) for epsilon in (2.0, 10.0, 50.0)}

# %%
# Blue is the posterior mean density with its 95 % band, dashed the truth, and the steps are the releases as they are.
# At ε = 2 the noise (scale 10) is larger than all there is to see, and the band says so: the one bump is no finding.
# At ε = 10 the three groups appear; at ε = 50 the releases themselves show them.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.3), sharey=True, layout="constrained")
for axis, (epsilon, (model, Z)) in zip(axes, fits.items()):
    low, high = model.density_interval(GRID[:, None])
    axis.hist(Z.ravel(), bins=np.arange(-12, 12.5, 0.5), density=True, histtype="step", color=ORANGE, label="releases")
    axis.fill_between(GRID, low, high, color=BLUE, alpha=0.3, lw=0, label="95 % band")
    axis.plot(GRID, np.exp(model.score_samples(GRID[:, None])), color=BLUE, label="posterior mean")
    axis.plot(GRID, three_normals_density(GRID), "k--", lw=1, label="truth")
    axis.set(title=f"ε = {epsilon:g}", xlabel="confidential number", xlim=(-12, 12), ylim=(0, 0.26))
axes[0].set_ylabel("density")
axes[0].legend(fontsize=8, frameon=False)
plt.show()

# %%
# How many clusters are there?  A density says little about it, and the posterior is wide.

for epsilon, (model, _) in fits.items():
    low, high = np.quantile(model.n_clusters_draws_, [0.025, 0.975])
    print(f"ε = {epsilon:4g}: {low:.0f} to {high:.0f} clusters")
