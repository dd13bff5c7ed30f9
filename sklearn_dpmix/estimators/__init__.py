"""Estimators: validation, ``fit``, prediction from draws; no maths."""
