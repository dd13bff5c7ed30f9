"""A budget that cannot be overspent: sums of what is spent, refusals and copies."""

import copy
import math
import pickle

import pytest
from ledger_case import FIT, ONE, text_of
from sklearn.base import BaseEstimator, clone

from sklearn_dpmix.privacy import (
    BudgetExceededError,
    GaussianReleases,
    LedgerEntry,
    PrivacyGuarantee,
    PrivacyLedger,
    SubsampledGaussianReleases,
    SubsampledReleases,
    approx_dp_to_zcdp,
    barker_rdp,
    epsilon_of,
    gaussian_mu,
    max_releases,
)


def test_spending_composes_and_stops_at_the_budget(ledger):
    """As many fit one by one as at once, and not one more: no other rule of composition gives this number."""
    for _ in range(FIT):
        ledger.spend(ONE)
    assert not ledger.would_fit(ONE)
    with pytest.raises(BudgetExceededError):
        ledger.spend(ONE)
    assert len(ledger.entries) == FIT
    assert 3.9 < ledger.spent.epsilon <= 4.0


def test_spent_is_the_guarantee_of_all_entries(ledger):
    assert ledger.spent == PrivacyGuarantee(0.0, 1e-6, 0.0, "replace one record")
    parts = [GaussianReleases(30.0, 5), GaussianReleases(8.0, 2)]
    ledger.spend(parts, "first")
    ledger.spend(GaussianReleases(50.0, 7))
    parts.append(GaussianReleases(50.0, 7))
    assert ledger.spent == PrivacyGuarantee(epsilon_of(parts, 1e-6), 1e-6, sum(one.mu for one in parts))
    assert ledger.entries == (LedgerEntry("first", tuple(parts[:2])), LedgerEntry("", (parts[2],)))
    batch = SubsampledReleases(barker_rdp(100), 100, 10_000, 20)
    ledger.spend(batch)
    assert ledger.spent.epsilon == epsilon_of([*parts, batch], 1e-6) and ledger.spent.rho is None


@pytest.mark.parametrize("accountant", ["zcdp", "rdp", "tight"])
def test_each_accountant_stops_where_its_releases_do(accountant):
    n = max_releases(4.0, 1e-6, 10.0, accountant)
    ledger = PrivacyLedger(4.0, 1e-6, accountant=accountant)
    ledger.spend(GaussianReleases(10.0, n - 1))
    assert not ledger.would_fit(GaussianReleases(10.0, 2))
    ledger.spend(ONE)
    with pytest.raises(BudgetExceededError):
        ledger.spend(ONE)
    assert ledger.spent.epsilon <= 4.0


def test_remaining_mu_can_be_spent_to_the_last(ledger):
    """All of it fits, a part in 10⁹ more does not; None once an entry is not Gaussian."""
    assert ledger.remaining_mu() == pytest.approx(gaussian_mu(4.0, 1e-6), rel=1e-11)
    ledger.spend(GaussianReleases(7.0, 11))
    mu = ledger.remaining_mu()
    assert mu == pytest.approx(gaussian_mu(4.0, 1e-6) - 11 / 98, rel=1e-10)
    assert not ledger.would_fit(GaussianReleases(math.sqrt(0.5 / mu) * (1 - 1e-9)))
    ledger.spend(GaussianReleases(math.sqrt(0.5 / mu)))
    assert 0 <= ledger.remaining_mu() < 1e-10
    other = PrivacyLedger(4.0, 1e-6)
    other.spend(SubsampledGaussianReleases(3.0, 1, 10))
    assert other.remaining_mu() is None


def test_remaining_mu_is_the_accountants():
    assert PrivacyLedger(4.0, 1e-6, accountant="zcdp").remaining_mu() == pytest.approx(approx_dp_to_zcdp(4.0, 1e-6))
    mu = PrivacyLedger(4.0, 1e-6, accountant="rdp").remaining_mu()
    assert epsilon_of(GaussianReleases(math.sqrt(0.5 / mu)), 1e-6, "rdp") == pytest.approx(4.0, rel=1e-9)


def test_a_refusal_leaves_everything_as_it_was(ledger):
    """And says what was asked, what was spent, what is left and what to do."""
    ledger.spend(GaussianReleases(10.0, 40), "first chain")
    before = (ledger.entries, ledger.spent, ledger.path and text_of(ledger.path))
    with pytest.raises(BudgetExceededError) as caught:
        ledger.spend(GaussianReleases(10.0, 40), "second chain")
    assert (ledger.entries, ledger.spent, ledger.path and text_of(ledger.path)) == before
    message = str(caught.value)
    for part in (
        "'second chain' asks for ε = 2.92",
        "(μ = 0.2)",
        "budget of ε = 4",
        "have used 2.92",
        "Gaussian releases of μ = 0.151",
        "together they would be 4.3",
        "Nothing was spent",
        "Make fewer releases or add more noise",
    ):
        assert part in message, (part, message)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == message
    ledger.spend(GaussianReleases(10.0, FIT - 40))


def test_a_refusal_of_what_cannot_be_accounted_records_nothing():
    ledger = PrivacyLedger(4.0, 1e-6, accountant="zcdp")
    with pytest.raises(ValueError, match="has no ρ"):
        ledger.spend([ONE, SubsampledReleases(barker_rdp(10), 1, 10)])
    for bad in (3.0, [ONE, None]):
        with pytest.raises(TypeError, match="releases must be a Releases or a list of them"):
            ledger.spend(bad)
    with pytest.raises(TypeError, match="what must be a string, got 3"):
        ledger.spend(ONE, 3)
    assert ledger.entries == ()


class Estimator(BaseEstimator):
    def __init__(self, ledger=None):
        self.ledger = ledger


def test_copies_are_the_same_budget(ledger):
    """Copies of an estimator, and scikit-learn's clones of it, share its ledger: a copy would be a second budget."""
    for other in (
        copy.copy(ledger),
        copy.deepcopy(ledger),
        copy.deepcopy([ledger])[0],
        clone(Estimator(ledger)).ledger,
    ):
        assert other is ledger


def test_a_pickled_ledger_reopens_its_file(path):
    ledger = PrivacyLedger(4.0, 1e-6, path=path, accountant="rdp")
    other = pickle.loads(pickle.dumps(ledger))
    assert repr(other) == repr(ledger) and other.accountant == "rdp"
    other.spend(ONE, "copy")
    assert ledger.entries == other.entries == (LedgerEntry("copy", (ONE,)),)
    pickled = pickle.dumps(ledger)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is gone"):
        pickle.loads(pickled)
    assert not path.exists()


def test_a_ledger_without_a_path_is_not_pickled():
    with pytest.raises(TypeError, match=r"cannot be pickled, since its copy would be a second budget.*pass path="):
        pickle.dumps(PrivacyLedger(4.0, 1e-6))


def test_arguments_are_checked(path):
    for epsilon in (0, -1.0, math.nan, math.inf, "1", None, True):
        with pytest.raises(ValueError, match="epsilon must be a finite number greater than 0, got"):
            PrivacyLedger(epsilon, 1e-6, path=path)
    for delta in (0, 1, math.nan, "0.1", None):
        with pytest.raises(ValueError, match="delta must be strictly between 0 and 1, got"):
            PrivacyLedger(1.0, delta, path=path)
    with pytest.raises(ValueError, match="accountant must be one of"):
        PrivacyLedger(1.0, 0.1, path=path, accountant="exact")
    for wrong in ("\ud800", "a\0b"):
        with pytest.raises(ValueError, match=r"^path=.* is not a valid path for a file"):
            PrivacyLedger(1.0, 0.1, path=wrong)
    assert not path.exists()
    with pytest.raises(TypeError):
        PrivacyLedger(1.0, 0.1, path)
    ledger = PrivacyLedger(1, 1e-6)
    for name in ("epsilon", "delta", "path", "accountant", "spent", "entries"):
        with pytest.raises(AttributeError):
            setattr(ledger, name, 3.0)
    assert repr(ledger) == "PrivacyLedger(epsilon=1.0, delta=1e-06, accountant='tight')"
