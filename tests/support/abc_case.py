"""Example 4 of Gong (2019), short fits of it, and what a figure of theirs is judged by."""

from scipy import stats
from statistical import Disagreement

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GammaPrior, PoissonCount

Z = stats.norm.isf(0.5e-6)
EXAMPLE = PoissonCount(prior=GammaPrior(25.0, 1.0))
VAGUE = PoissonCount(prior=GammaPrior(1.0, 0.0005))  # mean 2000: few simulations are near the release
SHORT = {"n_draws": 300, "random_state": 1, "model": EXAMPLE}
FIT = LaplaceMechanism(scale=5.0)


def judge(found, expected, error, what):
    if not abs(found - expected) <= Z * error:
        raise Disagreement(f"{what}: {found:.6g}, expected {expected:.6g} ± {error:.2g}")


def draws_of(method, **params):
    return PrivateABC(FIT, method=method, **{**SHORT, **params}).fit([37.4]).theta_draws_
