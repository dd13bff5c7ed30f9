"""
A chain that may be published
=============================

Here the curator holds the confidential records and wants to publish posterior draws within (ε, δ).  Every iteration of
:class:`sklearn_dpmix.DPPenaltyMCMC` releases a log likelihood ratio with noise, and the acceptance is corrected for it,
so that the chain's target stays the posterior.  A budget is so many iterations of so much noise; what it buys depends
on how the sensitivity of a move is bounded, and on where the chain starts.

After Räisä, "Differentially private Markov chain Monte Carlo": the banana, whose posterior is known exactly.
``examples/study_dp_mcmc.py`` measures what each choice buys.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from sklearn_dpmix import DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.metrics import mmd
from sklearn_dpmix.models import Banana
from sklearn_dpmix.samplers import PrivateNewton

BLUE, BLACK = "#0072B2", "k"
X = Banana().sample_records(np.random.default_rng(0), np.array([0.0, 3.0]), 100_000)  # confidential
exact = Banana().sample_posterior(np.random.default_rng(1), X, size=2000)

# %%
# The same budget, (4, 1e-6), twice.  Once each record's log ratio is clipped, which charges every move for the worst
# record and the worst direction.  Once records are moved into a public norm instead: the noise is then what one record
# can change of *this* move, nothing is clipped, and a tenth of the budget pays for a good start
# (:class:`sklearn_dpmix.samplers.PrivateNewton`).  Simulations may be seeded: ``simulate=True`` says loudly that the
# result is not private.

budget = GaussianMechanism(epsilon=4.0, delta=1e-6)
parts = {"n_iter": 4000, "n_chains": 1, "simulate": True, "random_state": 0}
bounded = DPPenaltyMCMC(budget, model=Banana(data_norm=3.5), preconditioner=PrivateNewton(n_steps=2), **parts)
clipped = DPPenaltyMCMC(budget, model=Banana(), clip_bound=0.15, **parts)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of simulate=True, and of R-hat, which is printed
    chains = {"bounded records": bounded.fit(X), "clipped ratios": clipped.fit(X)}
for name, chain in chains.items():
    draws = chain.settled_draws().reshape(-1, 2)
    distance = mmd(draws[:: max(1, len(draws) // 1000)], exact[:1000])
    spent = chain.privacy_spent_
    r_hat = max(chain.r_hat_.values())
    print(
        f"{name}: MMD {distance:.2f}, R-hat {r_hat:.2f}, ε {spent.epsilon:.2f}, {chain.acceptance_rate_:.2f} accepted"
    )

# %%
# Left: the second half of either chain, over draws of the exact posterior.  Right: the first parameter along the
# chains.  The one on clipped ratios is still where it got stuck.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
left.plot(*exact.T, ".", color="0.75", ms=3, label="exact posterior")
for (name, chain), color, marker in zip(chains.items(), (BLUE, BLACK), ("o", "^")):
    draws = chain.settled_draws().reshape(-1, 2)
    left.plot(*draws[::20].T, marker, color=color, ms=4, mec="k", mew=0.3, label=name)
    right.plot(chain.theta_draws_[0, :, 0], color=color, lw=0.8 if color == BLUE else 1.6, label=name)
left.set(xlabel=r"$\theta_1$", ylabel=r"$\theta_2$")
left.legend(frameon=False)
low, high = np.quantile(exact[:, 0], [0.025, 0.975])
right.axhspan(low, high, color="0.85", lw=0, zorder=0, label="95 % of the exact posterior")
right.set(xlabel="iteration", ylabel=r"$\theta_1$")
right.legend(frameon=False, fontsize=8)
plt.show()
