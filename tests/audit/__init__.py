"""An audit of what the package says about privacy: releases, replays, floating point, and what is kept.

Run by ``make nightly``; a quick core of it by ``make test``.  ``python -m tests.audit`` prints the figures of
docs/audit.md.
"""
