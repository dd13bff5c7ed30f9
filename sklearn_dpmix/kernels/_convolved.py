"""Normal kernel on the release itself: the τ² trick of Beraha et al., §3.3, with ERRATA's normalisation."""

from math import erfc, log, sqrt

from .._base.compiled import compiled, lower
from .._base.numeric import HALF_LOG_2PI, LEAST_GAMMA, draw_gamma_below, log_gamma_p
from ._normal import NormalKernel, log_student


class ConvolvedNormalKernel(NormalKernel):
    r"""Normal kernel whose base measure is conjugate to a *release* with Gaussian noise of standard deviation η.

    A record is N(μ, σ²) and its release N(μ, τ²) with τ² = σ² + η².  The base measure is put on τ²: N(μ | mean,
    τ²/mean_precision) · IG(τ² | shape, scale), restricted to τ² ≥ η² and normalised.  So clusters can be integrated out
    (``sampler="neal2"``, ``"neal3"``), and the prior of the records depends on η: the same numbers mean different
    priors at different ε.  It needs an unclamped Gaussian channel with one noise scale.

    Parameters
    ----------
    mean, mean_precision, shape, scale
        As in :class:`NormalKernel`, on the total variance τ².  ``scale=None`` uses the release's variance, noise
        included.

    References
    ----------
    Beraha et al., §3.3, eq. (11); ERRATA: G0 is normalised, a cluster's marginal carries P(a_n, b_n/η²)/P(a, b/η²).

    Examples
    --------
    >>> from sklearn_dpmix.kernels import ConvolvedNormalKernel
    >>> ConvolvedNormalKernel(mean=0.0, scale=3.0)
    ConvolvedNormalKernel(mean=0.0, scale=3.0)
    """

    tilts = frozenset()
    absorbs_noise = True
    noised_as = "convolved_normal"

    def can(self, capability: str) -> bool:
        return capability in ("predictive", "relative")

    def _default_scale(self, variance, shape, precision, release):
        return super()._default_scale(variance + release.noise_variance(), shape, precision, release)

    def _lower(self, *, n_features, noise_scale, **context):
        return lower(type(self), {**self._hyperparameters(n_features), "noise_variance": float(noise_scale) ** 2})

    @compiled
    def draw_sd(self, rng, shape, scale):
        """τ from IG(shape, scale) on τ² restricted to [η², ∞): 1/τ² is a gamma variable bounded above."""
        return sqrt(scale / max(draw_gamma_below(rng, shape, scale / self.noise_variance), LEAST_GAMMA))

    @compiled
    def log_predictive(self, stats, k, n, j, y):
        """Student t times the ratio of the normalisers before and after y, both with τ² ≥ η²."""
        precision, shift, shape, scale = self.posterior(stats, k, j, n)
        spread = scale * (precision + 1.0) / precision
        u = y - self.prior_mean[j] - shift
        scale_after = scale * (1.0 + 0.5 * u * u / spread)  # = scale + λ_n u² / (2 (λ_n + 1))
        return (
            log_student(u, shape, spread)
            + log_gamma_p(shape + 0.5, scale_after / self.noise_variance)
            - log_gamma_p(shape, scale / self.noise_variance)
        )

    @compiled
    def has_base_predictive(self):
        return False

    # --- the confidential record: N(μ, τ² - η²); ``log_likelihood`` stays that of the release ------------------------

    @compiled
    def record_sd(self, theta, k, j):
        excess = theta[k, 4 * j + 1] ** 2 - self.noise_variance
        return sqrt(max(excess, 1e-12 * self.noise_variance))  # τ = η has probability 0

    @compiled
    def log_density(self, theta, k, j, y):
        sd = self.record_sd(theta, k, j)
        e = (y - theta[k, 4 * j]) / sd
        return -0.5 * e * e - log(sd) - HALF_LOG_2PI

    @compiled
    def draw(self, rng, theta, k, j):
        return theta[k, 4 * j] + self.record_sd(theta, k, j) * rng.standard_normal()

    @compiled
    def cdf(self, theta, k, j, y):
        return 0.5 * erfc(-(y - theta[k, 4 * j]) / (sqrt(2.0) * self.record_sd(theta, k, j)))

    @compiled
    def variance(self, theta, k, j):
        return self.record_sd(theta, k, j) ** 2
