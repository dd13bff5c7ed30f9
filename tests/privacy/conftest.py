"""Ledgers that the tests spend from."""

import pytest

from sklearn_dpmix.privacy import PrivacyLedger


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    """A ledger of (4, 1e-6), without and with a file."""
    return PrivacyLedger(4.0, 1e-6, path=None if request.param == "memory" else tmp_path / "budget.json")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"
