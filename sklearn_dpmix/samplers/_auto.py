"""``sampler="auto"``: the fastest exact sampler that we know for the parts at hand."""

from ._base import MixtureSampler
from ._neal5 import Neal5


class Auto(MixtureSampler):
    """Stand-in that resolves to a sampler when the parts are known."""

    def resolve(self, mechanism, kernel):
        return Neal5()
