"""Channels that are finite mixtures of cells, such as bins: g(z | θ) in a few products, and exact draws of the record.

As a function of the confidential record, such a channel is

    q(z | y) = s(z) Σ_c w(z, c) h_c(y),

and a kernel can integrate each h_c: it is 1 on a bin and 0 elsewhere, or a binomial probability.  The masses
∫ h_c(y) f(y | θ) dy of all cells are kept in spare columns of ``theta``; then g(z | θ) = s(z) Σ_c w(z, c) mass_c costs
one product per cell, and y | z, θ is drawn exactly: first its cell, then y within it.
"""

from math import exp, inf, log

from .._base.compiled import compiled
from ._channel import RecordChannel

MOST_LOSS = 700.0  # beyond this, the ratio of two densities is no longer a floating-point number


class CellChannel(RecordChannel):
    """Base class of such channels, for one feature.

    A subclass lowers the field ``last_cell``, the number of the last cell, and defines the compiled ``weight(self, Z,
    i, c)`` -> w(z_i, c); ``log_scale(self, Z, i)`` -> log s(z_i); ``log_mass(self, kernel, theta, k, c)`` ->
    log ∫ h_c(y) f(y | θ_k) dy; and ``draw_within(self, rng, kernel, theta, k, c)``, a record with density proportional
    to h_c(y) f(y | θ_k).
    """

    keeps_masses = True

    @compiled
    def first_mass(self, theta):
        """The column of the first cell's mass."""
        return theta.shape[1] - self.last_cell - 1

    @compiled
    def cache(self, kernel, theta, k):
        """The kernel's mass in each cell."""
        first = self.first_mass(theta)
        for c in range(self.last_cell + 1):
            theta[k, first + c] = exp(self.log_mass(kernel, theta, k, c))

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        total = self.total(Z, i, theta, k)
        return log(total) + self.log_scale(Z, i) if total > 0.0 else -inf

    @compiled
    def total(self, Z, i, theta, k):
        """Σ_c w(z_i, c) mass_c."""
        first, total = self.first_mass(theta), 0.0
        for c in range(self.last_cell + 1):
            total += self.weight(Z, i, c) * theta[k, first + c]
        return total

    @compiled
    def draw_cell(self, rng, Z, i, theta, k):
        """The record's cell, given its cluster and the release."""
        first, chosen = self.first_mass(theta), 0
        u = rng.random() * self.total(Z, i, theta, k)
        for c in range(self.last_cell + 1):
            mass = self.weight(Z, i, c) * theta[k, first + c]
            if mass > 0.0:
                chosen = c
                u -= mass
                if u < 0.0:
                    break
        return chosen

    @compiled
    def impute(self, rng, kernel, Z, i, j, theta, k):
        """Draw y exactly: first its cell, then from the kernel within it."""
        return self.draw_within(rng, kernel, theta, k, self.draw_cell(rng, Z, i, theta, k))
