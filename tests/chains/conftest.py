"""Fixtures of runs that are stopped."""

import pytest

from sklearn_dpmix._chains import checkpoint


@pytest.fixture
def save_always(monkeypatch):
    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 0)
