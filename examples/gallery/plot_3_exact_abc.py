"""
ABC without a tolerance
=======================

Nothing but a simulator is known, and a count was released with Laplace noise.  Approximate Bayesian computation keeps
parameters whose simulated count is near the observed one, and what is near is a choice.  Under a privacy mechanism it
is none: keep a parameter with the probability q(released | simulated) / max q, q the noise's own density, and what is
kept comes from the exact posterior.  :class:`sklearn_dpmix.PrivateABC` does that, :class:`sklearn_dpmix.PrivateMCEM`
finds the maximum of the likelihood.

After Gong, "Exact inference with approximate computation for differentially private data via perturbations",
Example 4: a Poisson count, prior Gamma(25, 1), ε = 0.2, and 37.4 was released.  ``examples/simulation_epidemic.py``
does the same with an epidemic.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from sklearn_dpmix import PrivateABC, PrivateMCEM
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GammaPrior, PoissonCount

BLUE, ORANGE = "#0072B2", "#E69F00"
mechanism = LaplaceMechanism(scale=5.0)  # one person changes the count by 1: ε = 1/5
count = PoissonCount(prior=GammaPrior(25, 1))
posterior = PrivateABC(mechanism, model=count, n_draws=20_000, random_state=0).fit([37.4])
maximum = PrivateMCEM(mechanism, model=count, random_state=0).fit([37.4])

# %%
# Here the answer is known: a sum over all counts that could have been there.

theta, counts = np.linspace(8, 65, 400), np.arange(150)
likelihood = stats.poisson.pmf(counts, theta[:, None]) @ stats.laplace.pdf(37.4 - counts, scale=5.0)
exact = likelihood * stats.gamma.pdf(theta, 25)
exact /= np.trapezoid(exact, theta)
mean = np.trapezoid(theta * exact, theta)
print(f"posterior mean {posterior.theta_draws_.mean():.2f} (exact: {mean:.2f}, the paper: 28.58)")
print(f"maximum likelihood {maximum.theta_[0]:.2f} ± {maximum.standard_error_[0]:.2f} (the paper: 37.24)")
print(f"{posterior.acceptance_rate_:.2f} of the simulations were kept")

# %%
# The prior pulls the count down from the maximum of the likelihood.  A tolerance is another kernel, and so another
# posterior: keeping all counts within 15 of the release, as one might, leaves it too near to the prior.

rng = np.random.default_rng(0)
prior = rng.gamma(25, size=200_000)
near = prior[np.abs(rng.poisson(prior) - 37.4) < 15]

figure, axis = plt.subplots(figsize=(7, 3.8), layout="constrained")
bins = np.linspace(8, 65, 58)
axis.hist(posterior.theta_draws_.ravel(), bins, density=True, color=BLUE, alpha=0.5, label="exact ABC")
axis.hist(near, bins, density=True, histtype="step", color=ORANGE, lw=2, label="ABC, tolerance 15")
axis.plot(theta, exact, "k", lw=1.5, label="sum over counts")
axis.plot(theta, stats.gamma.pdf(theta, 25), "k:", lw=1.2, label="prior")
axis.axvline(maximum.theta_[0], color="k", lw=1, ls="--", label="maximum likelihood")
axis.set(xlabel="expected number of persons", ylabel="density", xlim=(8, 65))
axis.legend(frameon=False)
plt.show()
