"""``sampler="auto"``: the fastest exact sampler that we know for the parts at hand (measured in ``benchmarks``)."""

from ._base import MixtureSampler
from ._interweaved import Interweaved
from ._neal5 import Neal5
from ._neal8 import Neal8
from ._reuse import ReUse


class Auto(MixtureSampler):
    """Resolves to a sampler when the parts are known.

    Noise-free records: ``ReUse``, or ``Neal8`` where the kernel lacks what that needs.  Privatised ones:
    ``Interweaved``, or ``Neal5``.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Auto
    >>> from sklearn_dpmix.kernels import NormalKernel
    >>> Auto().resolve(None, NormalKernel())
    ReUse()
    """

    def resolve(self, mechanism, kernel):
        if mechanism is None or kernel.absorbs_noise:
            return ReUse() if kernel.can("relative") else Neal8()
        return Interweaved() if all(kernel.can(need) for need in Interweaved.kernel_needs) else Neal5()
