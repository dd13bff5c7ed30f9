"""Privacy mechanisms: what was released, with which distribution, under which guarantee."""

from .._base.compiled import compiled
from ._additive import AdditiveMechanism
from ._binned import BinnedChannel
from ._binomial import BinomialMechanism
from ._channel import NoNoise, RecordChannel
from ._discrete_gaussian import DiscreteGaussianMechanism
from ._discrete_laplace import DiscreteLaplaceMechanism
from ._elliptical import MultivariateNormalMechanism
from ._elliptical_laplace import MultivariateLaplaceMechanism
from ._elliptical_t import MultivariateTMechanism
from ._finite_channel import FiniteChannelMechanism
from ._gaussian import GaussianMechanism
from ._haar import HaarWaveletMechanism
from ._hybrid import HybridMechanism
from ._laplace import LaplaceMechanism
from ._opendp import from_opendp
from ._perturbed_histogram import PerturbedHistogramMechanism
from ._piecewise import PiecewiseMechanism
from ._randomized_response import RandomizedResponseMechanism
from ._smooth_gaussian import SmoothGaussianMechanism
from ._smooth_laplace import SmoothLaplaceMechanism
from ._smooth_published import PublishedScaleMechanism
from ._smooth_student_t import SmoothCauchyMechanism, SmoothStudentTMechanism
from ._smoothed_histogram import SmoothedHistogramMechanism
from ._square_wave import SquareWaveMechanism
from ._unary import UnaryEncodingMechanism

__all__ = [
    "AdditiveMechanism",
    "BinnedChannel",
    "BinomialMechanism",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "FiniteChannelMechanism",
    "GaussianMechanism",
    "HaarWaveletMechanism",
    "HybridMechanism",
    "LaplaceMechanism",
    "MultivariateLaplaceMechanism",
    "MultivariateNormalMechanism",
    "MultivariateTMechanism",
    "NoNoise",
    "PerturbedHistogramMechanism",
    "PiecewiseMechanism",
    "PublishedScaleMechanism",
    "RandomizedResponseMechanism",
    "RecordChannel",
    "SmoothCauchyMechanism",
    "SmoothGaussianMechanism",
    "SmoothLaplaceMechanism",
    "SmoothStudentTMechanism",
    "SmoothedHistogramMechanism",
    "SquareWaveMechanism",
    "UnaryEncodingMechanism",
    "compiled",
    "from_opendp",
]
