"""Privacy guarantees, conversions between them, and what several releases cost together."""

from ._accountants import delta_of, epsilon_of
from ._barker import barker_rdp
from ._budgets import max_releases, noise_multiplier_for
from ._conversions import approx_dp_to_zcdp, zcdp_to_approx_dp
from ._gaussian_loss import gaussian_delta, gaussian_mu, gaussian_scale
from ._guarantee import PrivacyGuarantee
from ._ledger import BudgetExceededError, LedgerEntry, PrivacyLedger
from ._releases import GaussianReleases, Releases
from ._subsampled import SubsampledReleases
from ._subsampled_gaussian import SubsampledGaussianReleases

__all__ = [
    "BudgetExceededError",
    "GaussianReleases",
    "LedgerEntry",
    "PrivacyGuarantee",
    "PrivacyLedger",
    "Releases",
    "SubsampledGaussianReleases",
    "SubsampledReleases",
    "approx_dp_to_zcdp",
    "barker_rdp",
    "delta_of",
    "epsilon_of",
    "gaussian_delta",
    "gaussian_mu",
    "gaussian_scale",
    "max_releases",
    "noise_multiplier_for",
    "zcdp_to_approx_dp",
]
