"""The channel of one record: what a sampler asks of a local mechanism (Beraha et al., eq. 4).

``Z[i]`` is the release of record ``i`` and ``y`` the confidential value of its feature ``j``.  Features are released
independently given the record, so every question is about one feature.
"""

from math import exp, inf, log

from .._compiled import Component, compiled, lower


class RecordChannel(Component):
    """Base class of local mechanisms as samplers see them.

    A subclass defines the compiled ``log_channel(self, Z, i, j, y)``, the log density (or mass) of feature ``j`` of release
    ``i`` given the confidential value ``y``; that is all ``"neal5"`` and ``"slice"`` need.  Where the channel, as a function
    of ``y``, is piecewise log-quadratic, it also sets :attr:`piece_shape` and defines ``n_pieces(self)`` and
    ``piece(self, Z, i, j, p)`` -> ``(lo, hi, anchor, value, slope, curvature)``, meaning that on ``lo <= y <= hi``

        log q(z | y) = value + slope (y - anchor) - curvature (y - anchor)² / 2.

    Pieces cover the line and may be empty.  With a kernel that can integrate such a tilt (DESIGN 2.2), the marginal density
    g(z | θ) is then closed-form and y | z, θ is drawn exactly.
    """

    #: ``None`` (no pieces), ``"flat"``, ``"linear"`` or ``"quadratic"``: the hardest tilt among the pieces.
    piece_shape = None

    @compiled
    def propose(self, rng, kernel, Z, i, j, theta, k):
        """Draw y from the kernel: the proposal of Beraha et al., Algorithm 1 line 10."""
        return kernel.draw(rng, theta, k, j)

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        """Log importance weight of a proposed y, up to a constant: the channel's density (Beraha et al., eq. 8)."""
        return self.log_channel(Z, i, j, y)

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        """log g(z | θ) = log ∫ q(z | y) f(y | θ) dy (Beraha et al., eq. 5), in closed form piece by piece."""
        top, total = -inf, 0.0
        for p in range(self.n_pieces()):
            lo, hi, anchor, value, slope, curvature = self.piece(Z, i, j, p)
            if lo < hi:
                mass = value + kernel.log_tilted_mass(theta, k, j, lo, hi, anchor, slope, curvature)
                if mass > top:
                    total = total * exp(top - mass) + 1.0
                    top = mass
                elif mass > -inf:
                    total += exp(mass - top)
        return top + log(total) if total > 0.0 else -inf

    @compiled
    def impute(self, rng, kernel, Z, i, j, theta, k):
        """Draw y from its exact conditional, proportional to q(z | y) f(y | θ): a piece by its mass, then y within."""
        top, total, chosen = -inf, 0.0, 0
        for p in range(self.n_pieces()):
            lo, hi, anchor, value, slope, curvature = self.piece(Z, i, j, p)
            if lo < hi:
                mass = value + kernel.log_tilted_mass(theta, k, j, lo, hi, anchor, slope, curvature)
                if mass > top:
                    total = total * exp(top - mass)
                    top = mass
                share = exp(mass - top) if mass > -inf else 0.0
                total += share
                if rng.random() * total < share:
                    chosen = p
        lo, hi, anchor, value, slope, curvature = self.piece(Z, i, j, chosen)
        return kernel.draw_tilted(rng, theta, k, j, lo, hi, anchor, slope, curvature)


class NoNoise(RecordChannel):
    """The channel of ``mechanism=None``: z is y.  Its "marginal" is the kernel itself, so samplers become ordinary ones."""

    piece_shape = "flat"

    def _lower(self, **context):
        return lower(type(self), {"unused": 0.0})

    @compiled
    def propose(self, rng, kernel, Z, i, j, theta, k):
        return Z[i, j]

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        return kernel.log_likelihood(theta, k, j, y)

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        return kernel.log_likelihood(theta, k, j, Z[i, j])

    @compiled
    def impute(self, rng, kernel, Z, i, j, theta, k):
        return Z[i, j]

    @compiled
    def log_channel(self, Z, i, j, y):
        return 0.0 if y == Z[i, j] else -inf
