"""What a sampler asks of a mixture kernel."""

import numpy as np

from .._compiled import Component, compiled


class Kernel(Component):
    """Base class of mixture kernels f(y | θ) with their base measure G0(dθ).

    The parameters of cluster ``k`` are the row ``theta[k]`` of an array, its sufficient statistics the row
    ``stats[k]``; compiled methods get the whole array and ``k``.  Features are independent given θ, and ``j`` names
    one.

    Every kernel defines :meth:`sizes` and the compiled methods

    ==================================================  ==============================================================
    ``draw_prior(rng, theta, k)``                        θ_k ~ G0, written into ``theta[k]``
    ``add(stats, k, j, y, sign)``                        add (``sign`` 1) or take off (-1) a record's feature
    ``update_params(rng, theta, k, stats, n)``           a move of θ_k that keeps its law given n records exact
    ``log_likelihood(theta, k, j, y)``                   log f(y | θ_k), one feature
    ``draw(rng, theta, k, j)``                           y ~ f(· | θ_k)
    ``cdf(theta, k, j, y)``                              P(Y <= y | θ_k)
    ``mean(theta, k, j)``, ``variance(theta, k, j)``     of Y given θ_k
    ==================================================  ==============================================================

    and, as far as it can, those behind a capability: :meth:`can`.
    """

    #: compiled methods behind each capability that a sampler may ask for
    CAPABILITIES = {
        "marginal": ("log_tilted_mass", "draw_tilted"),
        "predictive": ("log_predictive", "update_params"),
        "relative": ("peak", "log_relative"),
        "residuals": ("residual", "from_residual", "perturb", "log_perturb", "prior_spread", "log_prior"),
    }
    #: tilts that ``log_tilted_mass`` integrates: subsets of {"flat", "linear", "quadratic"}
    tilts: frozenset[str] = frozenset()
    #: True where the kernel's likelihood is that of the *release*, the noise included (paper §3.3)
    absorbs_noise = False

    def can(self, capability):
        """Whether the kernel defines all compiled methods behind ``capability``."""
        return all(hasattr(self, name) for name in self.CAPABILITIES[capability])

    def sizes(self, n_features):
        """Return (columns of ``theta``, columns of ``stats``) for records of ``n_features``."""
        raise TypeError(f"{type(self).__name__} must define sizes(n_features)")

    def resolve(self, release):
        """Return the kernel with its open parameters filled in from the release (see ``NormalKernel``)."""
        return self

    @compiled
    def log_density(self, theta, k, j, y):
        """Log density of a confidential feature: not the likelihood where the kernel absorbs the noise."""
        return self.log_likelihood(theta, k, j, y)

    @compiled
    def target_acceptance(self):
        """Acceptance rate that :meth:`move_params` is tuned to in the warm-up; 0 for kernels that have no step."""
        return 0.0

    @compiled
    def move_params(self, rng, theta, k, stats, n, step):
        """``update_params`` with a step size, for kernels that need one; returns the acceptance probability."""
        self.update_params(rng, theta, k, stats, n)
        return 1.0

    @compiled
    def has_base_predictive(self):
        """Whether ``log_base_predictive(j, y)``, the density of y under a fresh θ, is closed-form."""
        return False

    @compiled
    def log_base_predictive(self, j, y):
        return 0.0


def per_feature(name, value, n_features, low=-np.inf):
    """Return a kernel parameter as an array of shape (n_features,), or say what is wrong with it."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number or an array of shape (n_features,), got {value!r}") from None
    if array.shape not in ((), (1,), (n_features,)):
        raise ValueError(
            f"{name} has shape {array.shape}, but the records have {n_features} feature(s): give one, or one each"
        )
    if not np.all(np.isfinite(array)) or not np.all(array > low):
        bound = "finite" if low == -np.inf else f"finite and greater than {low:g}"
        raise ValueError(f"{name} must be {bound}, got {value!r}")
    return np.broadcast_to(array, (n_features,)).copy()
