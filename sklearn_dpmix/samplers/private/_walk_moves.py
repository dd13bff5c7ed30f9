"""Moves of a private random walk, and the coordinates in which they are made.

A coordinate vector ψ stands for θ = t(centre + root ψ), where t is the model's own ``from_working`` if it has one.  All
of it is public, or was released before the chain began.
"""

from math import log

import numpy as np


class Coordinates:
    """θ as a function of ψ.

    Parameters
    ----------
    model : object
    centre : ndarray of shape (n_params,), in working coordinates
    root : ndarray of shape (n_params, n_params)
    """

    def __init__(self, model, centre, root):
        self.model, self.centre, self.root = model, centre, root
        self.is_bent = hasattr(model, "from_working")

    def theta(self, psi):
        phi = self.centre + self.root @ psi
        return self.model.from_working(phi) if self.is_bent else phi

    def psi(self, theta):
        phi = self.model.to_working(theta) if self.is_bent else theta
        return np.linalg.solve(self.root, phi - self.centre)

    def jacobian(self, psi):
        """dθ/dψ."""
        if not self.is_bent:
            return self.root
        return self.model.working_jacobian(self.centre + self.root @ psi) @ self.root

    def log_volume(self, psi):
        """log |det dθ/dψ| up to a constant."""
        return log(abs(np.linalg.det(self.jacobian(psi)))) if self.is_bent else 0.0


class FullMove:
    """All coordinates at once: ψ' = ψ + scale z."""

    def __init__(self, scale):
        self.scale = scale

    def start(self, n_params):
        """What the move remembers."""
        return np.zeros(0)

    def propose(self, psi, memory, source):
        """(ψ', what was moved)."""
        return psi + self.scale * source.standard_normal(len(psi)), 0

    def after(self, memory, moved, accepted):
        """What it remembers after the decision."""
        return memory


class ComponentMove(FullMove):
    """One coordinate, at random: ψ_j' = ψ_j + scale z, so that ‖θ' - θ‖, and with it the noise, is smaller."""

    def propose(self, psi, memory, source):
        j = int(source.random(1)[0] * len(psi))
        new = psi.copy()
        new[j] += self.scale * source.standard_normal(1)[0]
        return new, j


class GuidedMove(ComponentMove):
    """The same, in one direction until a rejection turns it round (guided random walk, Gustafson 1998)."""

    def start(self, n_params):
        return np.ones(n_params)

    def propose(self, psi, memory, source):
        new, j = super().propose(psi, memory, source)
        new[j] = psi[j] + memory[j] * abs(new[j] - psi[j])
        return new, j

    def after(self, memory, moved, accepted):
        if accepted:
            return memory
        memory = memory.copy()
        memory[moved] = -memory[moved]
        return memory


MOVES = {"full": FullMove, "component": ComponentMove, "guided": GuidedMove}
