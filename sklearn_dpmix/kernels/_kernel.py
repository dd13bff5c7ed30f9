"""The base class of mixture kernels: what samplers need from them."""

from math import exp, inf
from typing import Any, Self

import numpy as np

from .._base.compiled import Component, compiled
from .._base.typing import Array


class Kernel(Component):
    """Base class of mixture kernels f(y | θ) with their base measure G0(dθ).

    The parameters of cluster ``k`` are the row ``theta[k]`` of an array, and its sufficient statistics are the row
    ``stats[k]``; compiled methods get the whole array and ``k``.  Features are independent given θ, and ``j`` names
    one.  A kernel whose features are not independent (``is_product = False``) defines the methods on whole records,
    ``<what>_record``; its other methods are about the marginal distributions of the features.

    Every kernel defines :meth:`sizes` and the compiled methods

    ==================================================  ==============================================================
    ``draw_prior(rng, theta, k)``                        θ_k ~ G0, written into ``theta[k]``
    ``add(stats, k, j, y, sign)``                        add (``sign`` 1) or take off (-1) a record's feature
    ``update_params(rng, theta, k, stats, n)``           a move of θ_k that is exact given n records
    ``log_likelihood(theta, k, j, y)``                   log f(y | θ_k), one feature
    ``draw(rng, theta, k, j)``                           y ~ f(· | θ_k)
    ``cdf(theta, k, j, y)``                              P(Y <= y | θ_k)
    ``mean(theta, k, j)``, ``variance(theta, k, j)``     of Y given θ_k
    ==================================================  ==============================================================

    and, where possible, the methods that each capability needs (:meth:`can`).

    Examples
    --------
    >>> from math import exp, inf, log
    >>> import numpy as np
    >>> from sklearn_dpmix.kernels import Kernel
    >>> from sklearn_dpmix.mechanisms import compiled
    >>> class ExponentialKernel(Kernel):  # y ~ Exponential(θ), θ ~ Gamma(shape, rate); one feature
    ...     def __init__(self, shape=2.0, rate=2.0):
    ...         self.shape = shape
    ...         self.rate = rate
    ...
    ...     def sizes(self, n_features):
    ...         return 1, 1  # θ; the sum of the cluster's records
    ...
    ...     @compiled
    ...     def draw_prior(self, rng, theta, k):
    ...         theta[k, 0] = rng.standard_gamma(self.shape) / self.rate
    ...
    ...     @compiled
    ...     def add(self, stats, k, j, y, sign):
    ...         stats[k, 0] += sign * y
    ...
    ...     @compiled
    ...     def update_params(self, rng, theta, k, stats, n):
    ...         theta[k, 0] = rng.standard_gamma(self.shape + n) / (self.rate + stats[k, 0])
    ...
    ...     @compiled
    ...     def log_likelihood(self, theta, k, j, y):
    ...         return log(theta[k, 0]) - theta[k, 0] * y if y >= 0.0 else -inf
    ...
    ...     @compiled
    ...     def draw(self, rng, theta, k, j):
    ...         return rng.standard_exponential() / theta[k, 0]
    ...
    ...     @compiled
    ...     def cdf(self, theta, k, j, y):
    ...         return 1.0 - exp(-theta[k, 0] * max(y, 0.0))
    ...
    ...     @compiled
    ...     def mean(self, theta, k, j):
    ...         return 1.0 / theta[k, 0]
    ...
    ...     @compiled
    ...     def variance(self, theta, k, j):
    ...         return 1.0 / theta[k, 0] ** 2
    >>> kernel, theta = ExponentialKernel(), np.array([[0.5]])
    >>> kernel.log_likelihood(theta, 0, 0, 2.0).round(4).item(), kernel.mean(theta, 0, 0).item()
    (-1.6931, 2.0)
    >>> kernel.can("marginal")
    False
    """

    #: compiled methods behind each capability that a sampler may require
    CAPABILITIES = {
        "marginal": ("log_tilted_mass", "draw_tilted"),
        "predictive": ("log_predictive", "update_params"),
        "relative": ("peak", "log_relative"),
        "conditional": ("condition",),
        "steps": ("perturb", "log_perturb", "prior_spread", "log_prior"),
        "residuals": ("residual", "from_residual"),
        "rescaling": ("rescale",),
    }
    #: what compiled code calls where a class has it, and so must be ``@compiled``
    called_compiled = frozenset(
        ("draw_prior", "add", "log_likelihood", "draw", "cdf", "mean", "variance", *sum(CAPABILITIES.values(), ()))
    )
    #: tilts that ``log_tilted_mass`` integrates: subsets of {"flat", "linear", "quadratic"}; "binomial" if there are
    #: ``log_binomial_mass`` and ``draw_binomial``; and "mean" if ``clamped_mean(theta, k, j, lo, hi)`` is the mean of
    #: the record moved to [lo, hi]
    tilts: frozenset[str] = frozenset()
    #: tilts of one feature given the others, drawn after ``condition``
    conditional_tilts: frozenset[str] = frozenset()
    #: the name by which mechanisms offer the densities of its records under noise, at many places at once; only for the
    #: class that sets it, not for classes that derive from it
    noised_as: str | None = None
    #: whether features are independent given θ
    is_product = True
    #: True if the kernel's likelihood is that of the *release*, noise included (paper §3.3)
    absorbs_noise = False

    def can(self, capability: str) -> bool:
        """Whether the kernel defines all compiled methods behind ``capability``."""
        return all(hasattr(self, name) for name in self.CAPABILITIES[capability])

    def sizes(self, n_features: int) -> tuple[int, int]:
        """Return (columns of ``theta``, columns of ``stats``) for records of ``n_features``."""
        raise TypeError(f"{type(self).__name__} must define sizes(n_features)")

    def margin(self, j: int, n_features: int) -> tuple["Kernel", slice]:
        """Return (the kernel of feature ``j`` alone, the columns of ``theta`` that are its parameters)."""
        if n_features == 1:
            return self, slice(None)
        raise ValueError(
            f"kernel={self!r} of {n_features} features does not define the marginal distribution of one: define "
            "margin(j, n_features)"
        )

    def resolve(self, release: Any) -> Self:
        """Return the kernel with its unset parameters estimated from the release (see ``NormalKernel``)."""
        return self

    def nearest(self, records: Array) -> Array:
        """Return records, (n, n_features), that the kernel can have drawn, near those that a chain would start at."""
        return records

    def check_state(self, theta: Array, records: Array) -> None:
        """Raise ValueError if compiled methods cannot use the parameters and records that were read from a file.

        A kernel checks values that its methods use as an index, or in a loop that might not end.  Here there is nothing
        to check.

        Parameters
        ----------
        theta : ndarray of shape (n_clusters, n_columns)
            Parameters of clusters, finite; columns beyond those of :meth:`sizes` are not the kernel's.
        records : ndarray of shape (n, m, n_features)
            Imputed records, m for each, finite.
        """

    @compiled
    def ends(self, j):
        """The ends of the interval that all records of feature j are on, or infinite."""
        return -inf, inf

    @compiled
    def has_density(self):
        """Whether records have a density; False if ``log_likelihood`` is that of a discrete law."""
        return True

    @compiled
    def log_density(self, theta, k, j, y):
        """Log density of a confidential feature; not the likelihood if the kernel absorbs the noise."""
        return self.log_likelihood(theta, k, j, y)

    # --- whole records: ``records`` has shape (n, auxiliaries, n_features) ----------------------------------------

    @compiled
    def add_record(self, stats, k, records, i, a, sign):
        for j in range(self.n_features):
            self.add(stats, k, j, records[i, a, j], sign)

    @compiled
    def draw_record(self, rng, theta, k, records, i, a):
        for j in range(self.n_features):
            records[i, a, j] = self.draw(rng, theta, k, j)

    @compiled
    def propose_record(self, rng, channel, Z, i, theta, k, records, row, a):
        """Draw a proposal of record i into ``records[row, a]``."""
        for j in range(self.n_features):
            records[row, a, j] = channel.propose(rng, self, Z, i, j, theta, k)

    @compiled
    def log_record(self, theta, k, records, i):
        total = 0.0
        for j in range(self.n_features):
            total += self.log_likelihood(theta, k, j, records[i, 0, j])
        return total

    @compiled
    def log_predictive_record(self, stats, k, n, records, i):
        total = 0.0
        for j in range(self.n_features):
            total += self.log_predictive(stats, k, n, j, records[i, 0, j])
        return total

    @compiled
    def peak_record(self, theta, k):
        product = 1.0
        for j in range(self.n_features):
            product *= self.peak(theta, k, j)
        return product

    @compiled
    def log_relative_record(self, theta, k, records, i):
        total = 0.0
        for j in range(self.n_features):
            total += self.log_relative(theta, k, j, records[i, 0, j])
        return total

    @compiled
    def log_marginal_record(self, channel, Z, i, theta, k):
        """log g(z_i | θ_k)."""
        total = 0.0
        for j in range(self.n_features):
            total += channel.log_marginal(self, Z, i, j, theta, k)
        return total

    # --- steps of a cluster's parameters, in which its records move along with fixed residuals ---------------------

    @compiled
    def perturb_cluster(self, rng, theta, k, to, mean_step, scale_step):
        """Write a step of all parameters of cluster k into ``theta[to]``; that of means is in prior spreads."""
        for j in range(self.n_features):
            self.perturb(rng, theta, k, to, j, mean_step * self.prior_spread(j), scale_step)

    @compiled
    def log_prior_change(self, theta, k, to):
        """Log density of G0 at ``theta[to]`` minus that at ``theta[k]``, in coordinates where steps are symmetric."""
        gain = 0.0
        for j in range(self.n_features):
            gain += self.log_prior(theta, to, j) - self.log_prior(theta, k, j)
        return gain

    @compiled
    def log_near_ratio(self, theta, k, to, step):
        """Log density of G0 at ``theta[to]``, minus that of :meth:`perturb_cluster` going there from row k."""
        total = 0.0
        for j in range(self.n_features):
            total += self.log_prior(theta, to, j)
            total -= self.log_perturb(theta, k, to, j, step * self.prior_spread(j), step)
        return total

    @compiled
    def log_weight_change(self, channel, Z, i, theta, k, to, records):
        """Change of the channel's log weight when record i's residuals move from parameters k to ``to``."""
        gain = 0.0
        for j in range(self.n_features):
            y = records[i, 0, j]
            moved = self.from_residual(theta, to, j, self.residual(theta, k, j, y))
            gain += channel.log_weight(self, Z, i, j, theta, to, moved)
            gain -= channel.log_weight(self, Z, i, j, theta, k, y)
        return gain

    @compiled
    def carry_record(self, theta, k, to, records, i):
        """Move record i so that its residuals do not change when parameters k become ``to``."""
        for j in range(self.n_features):
            records[i, 0, j] = self.from_residual(theta, to, j, self.residual(theta, k, j, records[i, 0, j]))

    @compiled
    def log_points(self, theta, k, x, size, values):
        """Add the log density of the records x[:, p], p < size, to ``values``: loops along memory, which vectorise."""
        for j in range(self.n_features):
            for p in range(size):
                values[p] += self.log_density(theta, k, j, x[j, p])

    @compiled
    def bin_masses(self, channel, theta, k, first):
        """Write the mass in each bin of a ``BinnedChannel`` into ``theta[k, first:]``."""
        for b in range(channel.last_cell + 1):
            theta[k, first + b] = exp(channel.log_mass(self, theta, k, b))

    # --- steps and base measure ------------------------------------------------------------------------------------

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
        """Whether ``log_base_predictive(j, y)``, the density of y under a fresh θ, has a closed form."""
        return False

    @compiled
    def log_base_predictive(self, j, y):
        return 0.0

    @compiled
    def log_base_record(self, X, i):
        total = 0.0
        for j in range(self.n_features):
            total += self.log_base_predictive(j, X[i, j])
        return total


def per_feature(name, value, n_features, low=-np.inf):
    """Return a kernel parameter as an array of shape (n_features,), or raise ValueError."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number or an array of shape (n_features,), got {value!r}") from None
    if array.shape not in ((), (1,), (n_features,)):
        raise ValueError(
            f"{name} has shape {array.shape}, but the records have {n_features} feature(s): give one number, or one "
            "per feature"
        )
    if not np.all(np.isfinite(array)) or not np.all(array > low):
        bound = "finite" if low == -np.inf else f"finite and greater than {low:g}"
        raise ValueError(f"{name} must be {bound}, got {value!r}")
    return np.broadcast_to(array, (n_features,)).copy()
