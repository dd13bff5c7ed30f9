"""Releases that the tests of ledgers spend, and what their files hold."""

from pathlib import Path

from sklearn_dpmix.privacy import GaussianReleases, max_releases

ONE = GaussianReleases(10.0)  # 55 of these fit ε = 4 at δ = 1e-6 ...
FIT = max_releases(4.0, 1e-6, 10.0)


def text_of(path):
    return Path(path).read_bytes()
