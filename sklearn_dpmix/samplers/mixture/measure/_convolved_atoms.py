"""Atoms of normal kernels that absorb the noise: mean and log variance of the release."""

from math import exp, inf, log, sqrt

import numpy as np

from ...._base.compiled import compiled
from ...._base.numeric import INV_SQRT_2PI, log_gamma_p
from ...._base.restore import require_range
from ...._base.vector import exp_bounded
from ._any_noise import noise_in_table
from ._normal_atoms import NormalChart, log_normal_base
from ._walk_atoms import at


class ConvolvedNormalChart(NormalChart):
    """Coordinates (μ, log τ²), once a feature, with τ² >= η², the noise's variance."""

    can_glide = False

    def narrowest(self):
        """Of records: what is left of the release's standard deviation."""
        return np.sqrt(np.maximum(super().narrowest() ** 2 - self.kernel.noise_variance, 0.0))

    def fields(self):
        """With the constant of the restriction to τ² >= η², too."""
        kernel, fields = self.kernel, super().fields()
        ratios = kernel.prior_scale / kernel.noise_variance
        inside = sum(log_gamma_p(float(a), float(x)) for a, x in zip(kernel.prior_shape, ratios, strict=True))
        return fields | {"constant": fields["constant"] - inside, "least": log(kernel.noise_variance)}

    def seen_of(self, channel):
        return noise_in_table()

    def start(self, places, rng):
        found = super().start(places, rng)
        found[:, 1::2] = np.maximum(found[:, 1::2], log(self.kernel.noise_variance) + 0.01)
        return found

    def check_places(self, **places):
        super().check_places(**places)
        require_range(log(self.kernel.noise_variance), 600.0, **{name: p[:, 1::2] for name, p in places.items()})

    @compiled
    def densities_by(self, channel):
        return self

    @compiled
    def log_base(self, walk, k):
        for j in range(self.n_features):
            if walk.atoms[at(walk, k) + 2 + 2 * j] < self.least:
                return -inf
        return log_normal_base(self, walk, k)

    @compiled
    def draw_base(self, rng, walk, k):
        kernel, a = self.kernel, at(walk, k)
        for j in range(self.n_features):
            sd = kernel.draw_sd(rng, kernel.prior_shape[j], kernel.prior_scale[j])
            walk.atoms[a + 1 + 2 * j] = kernel.prior_mean[j] + sd / sqrt(kernel.precision[j]) * rng.standard_normal()
            walk.atoms[a + 2 + 2 * j] = max(2.0 * log(sd), self.least)

    @compiled
    def is_proper(self, walk, a):
        for j in range(self.n_features):
            if not (abs(walk.atoms[a + 1 + 2 * j]) < 1e100 and self.least <= walk.atoms[a + 2 + 2 * j] < 500.0):
                return False
        return True

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """The release's density at all nodes, and its derivatives."""
        x, precision = 3 * j * n, exp(-log_variance)
        c = INV_SQRT_2PI * exp(-0.5 * log_variance)
        for m in range(n):
            d = nodes[x + m] - mean
            q = d * d * precision
            density = c * exp_bounded(-0.5 * q)
            out[first + m] = density
            out[second + m] = density * d * precision
            out[second + n + m] = 0.5 * density * (q - 1.0)
