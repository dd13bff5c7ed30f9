"""Records outside of the mixture: people who answer without regard to the cards, a share γ ~ Beta(a, b).

A release then has density (1 - γ) Σ w g(z | θ) + γ s(z), s the law of their answers.  In masses that is one more atom,
J₀ = γ S/(1 - γ), whose density s at the nodes is known; γ is independent of the weights, and S has the law it has.

Where one design alone was used the answers may say nothing on γ: what more of such people add to the answers, other
shares of categories take off, along a straight line in the masses M_c = J π_c.  ``trade`` goes along such lines, of
several questions, too.
"""

from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import null_space

from ...._base.compiled import apart, helper
from ._walk_atoms import (
    CUT,
    LARGEST,
    LARGEST_OUTSIDE,
    LOG_LIKELIHOOD,
    N_ATOMS,
    OUTSIDE,
    OUTSIDE_A,
    TOTAL,
    accepts,
    at,
    log_mass_inside,
    log_tilt,
)
from ._walk_likelihood import add_to, keep_trial, log_likelihood


class Outside(NamedTuple):
    """What a walk sees of records outside of the mixture."""

    density: Any  # (nodes,): s at each
    shares: Any  # (questions, K): signed shares of categories whose answers to that question are nearest to s
    copies: Any  # (questions, nodes): the law of such answers
    a: float
    b: float

    def start(self, rng: np.random.Generator) -> float:
        """A mass drawn from the prior, next to a mixture of mass 1."""
        share = float(np.clip(rng.beta(self.a, self.b), 1e-6, 1.0 - 1e-6))
        return share / (1.0 - share)


def outside_of(mechanism: Any, nodes: Any) -> Outside:
    """The records outside the mixture under a mechanism of answers, at nodes (features + 1, nodes)."""
    prior = mechanism.noncompliance
    density = np.exp(mechanism.log_noncompliant(nodes[:-1].T))
    shares, copies = [], []
    questions = zip(nodes[:-1], mechanism._matrices(), mechanism._noncompliant_rows(), strict=True)
    for z, matrix, row in questions:
        answers, places = np.unique(z.astype(int), return_inverse=True)
        law, density_here = matrix[:, answers].T, row[answers]
        shares.append(nearest_shares(law, density_here, np.bincount(places, nodes[-1])))
        copy = law @ shares[-1]
        copies.append(np.where(np.abs(density_here - copy) < 1e-12, density_here, copy)[places])
    return Outside(density, np.array(shares), np.array(copies), float(prior.a), float(prior.b))


def nearest_shares(law: Any, density: Any, counts: Any) -> Any:
    """The signed shares, of sum 1, under which answers of law (answers, K) are nearest to ``density``.

    In the metric of the answers that were given, so that what is lost of the likelihood is least.
    """
    size, scale = law.shape[1], 1.0 / np.sqrt(counts)
    even, free = np.full(size, 1.0 / size), null_space(np.ones((1, size)))
    change = np.linalg.lstsq(scale[:, None] * (law @ free), scale * (density - law @ even), rcond=1e-10)[0]
    return even + free @ change


# --- compiled --------------------------------------------------------------------------------------------------------


@helper
def move_outside(rng, walk):
    """A move of the mass outside: alone, or in exchange with one atom."""
    if rng.random() < 0.5:
        change_outside(rng, walk)
    else:
        exchange_outside(rng, walk)


@helper
def log_outside(walk, new, total):
    """Log ratio of the prior in log J₀ with this mass outside, and this total inside."""
    law, n_atoms, old = walk.law, int(walk.law[N_ATOMS]), walk.law[OUTSIDE]
    ratio = log_tilt(walk, n_atoms, total) - log_tilt(walk, n_atoms, law[TOTAL])
    ratio += log_mass_inside(walk, total, new) - log_mass_inside(walk, total, old)
    return ratio + law[OUTSIDE_A] * log(new / old)


@helper
def take_outside(rng, walk, new, total, ratio):
    """Accept this mass outside, with the mixture in ``trial``, or keep the old one; return whether it was accepted."""
    law, old = walk.law, walk.law[OUTSIDE]
    law[OUTSIDE] = new
    value = log_likelihood(walk, walk.trial, total)
    if not accepts(rng, ratio + value - law[LOG_LIKELIHOOD]):
        law[OUTSIDE] = old
        return False
    keep_trial(walk, total, value)
    return True


@apart
def change_outside(rng, walk):
    """A step of random size of log J₀."""
    law, old = walk.law, walk.law[OUTSIDE]
    new = old * exp(1.5 * exp(-6.0 * rng.random()) * rng.standard_normal())
    if not 0.0 < new < LARGEST_OUTSIDE:
        return
    for m in range(walk.n_nodes):
        walk.trial[m] = walk.mix[m] + (new - old) * walk.outside[m]
    take_outside(rng, walk, new, law[TOTAL], log_outside(walk, new, law[TOTAL]))


@apart
def exchange_outside(rng, walk):
    """Mass from an atom to those outside or back: a step of random size of log(J₀/J), with their sum kept."""
    law, atoms, old = walk.law, walk.atoms, walk.law[OUTSIDE]
    k = int(rng.random() * law[N_ATOMS])
    mass = atoms[at(walk, k)]
    both = old + mass
    new = both / (1.0 + exp(-log(old / mass) - 2.0 * exp(-6.0 * rng.random()) * rng.standard_normal()))
    rest = both - new
    if not (0.0 < new < LARGEST_OUTSIDE and law[CUT] <= rest <= LARGEST):
        return
    total = law[TOTAL] + old - new
    for m in range(walk.n_nodes):
        walk.trial[m] = walk.mix[m] + (new - old) * walk.outside[m]
    add_to(walk, walk.trial, rest - mass, k)
    ratio = log_outside(walk, new, total) + walk.masses.log_ratio(rest, mass)
    if take_outside(rng, walk, new, total, ratio):
        atoms[at(walk, k)] = rest
