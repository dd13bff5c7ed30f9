"""From a release and the components in use to the problem that chains of a mixture run on."""

from functools import cache, cached_property, partial
from itertools import cycle

import numpy as np

from ..._chains.problem import Problem
from ...mechanisms import NoNoise
from ...samplers.mixture._run import Draws
from ...samplers.mixture._sampler import check_concentration


def lowered_kernel(kernel, mechanism, n_features, n_released=None):
    """The kernel as compiled code sees it, with the noise that it absorbs; a margin's is that of all ``n_released``."""
    scale = mechanism.noise_scale_for(n_released or n_features) if kernel.absorbs_noise else None
    return kernel._lower(n_features=n_features, noise_scale=scale)


def lowered_channel(kernel, mechanism, n_records, n_features):
    """The mechanism as compiled code sees it."""
    if mechanism is None or kernel.absorbs_noise:
        return NoNoise()._lower()
    return mechanism._lower(n_records=n_records, n_features=n_features, kernel=kernel)


class MixtureProblem:
    """A release, and the components of a posterior in use.

    Attributes
    ----------
    kernel, sampler :
        With what the release says filled in.
    Z : ndarray or None
        The release as samplers see it; None for a summary.
    values : tuple
        Sampler, channel, kernel, mixing as compiled code sees them.
    """

    def __init__(self, release, mechanism, kernel, mixing, sampler):
        n, d = release.n_records, release.n_features
        self.release, self.mixing = release, mixing
        self.sampler, self.kernel = sampler.sized(n, d, release.count_different), kernel.resolve(release)
        self.Z = release.encoded()
        self.values = (
            self.sampler._lower(n_records=n),
            lowered_channel(self.kernel, mechanism, n, d),
            lowered_kernel(self.kernel, mechanism, d),
            mixing._lower(),
        )

    @cached_property
    def seen(self):
        """What the chains see of the release."""
        return self.sampler.summarise(self.values, self.Z, self.release)

    def posed(self, chains):
        """The problem; chains start where earlier ones ended, if these are not None."""
        sampler, checked = self.sampler, (self.values, self.seen, self.kernel, self.mixing)
        start = self._start if chains is None else partial(self._continued, cycle(chains))
        restored = partial(sampler.restored, *checked)
        return Problem(
            self.release.data(),
            start,
            self._longer(1),
            restored,
            self._check_draws,
            sampler.most_times(self.seen),
            Draws.every_second,
            cache(self._longer),
        )

    def _longer(self, times):
        """What advances chains where so many sweeps count as one."""
        return partial(_advance, self.sampler, self.values, self.sampler.longer(self.values, self.seen, times))

    def _start(self, rng):
        guess = None  # these are records, and not kept: they are as large as the release
        if self.sampler.starts_near_records:
            guess = self.Z if self.kernel.absorbs_noise else self.kernel.nearest(self.release.guess())
        sizes = self.kernel.sizes(self.release.n_features)
        return self.sampler.init(self.values, self.seen, guess, sizes, rng)

    def _continued(self, ends, rng):
        return self.sampler.continued(self.values, self.seen, next(ends).state)

    def _check_draws(self, draws):
        """Raise ValueError if draws of a checkpoint cannot come from this kernel and mixing."""
        self.kernel.check_state(draws.theta, np.empty((0, 1, self.release.n_features)))
        check_concentration(self.mixing, draws.concentration, draws.n_clusters)

    def compression_error(self, draws):
        """How far the log likelihood of draws is off because of what the chains do not see; None if that is nothing."""
        return self.sampler.compression_error(self.release, self.seen, draws)


def _advance(sampler, values, Z, state, rng, n_sweeps, n_warmup, thin):
    if isinstance(Z, np.ndarray):  # another process may have it as a memory map
        Z = np.asarray(Z)
        Z.flags.writeable = False
    return sampler.advance(values, Z, state, rng, n_sweeps, n_warmup, thin)
