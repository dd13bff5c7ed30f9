"""Derivatives by central differences."""

import numpy as np

from sklearn_dpmix._base.differences import central_differences


def test_differences_of_squares_are_exact():
    """One number or a table for each point; catches steps that go to another parameter."""
    theta, steps = np.array([1.0, -2.0, 0.5]), np.array([0.5, 0.25, 2.0])
    weights = np.arange(12.0).reshape(3, 4)
    found = central_differences(lambda points: points**2 @ weights, theta, steps)
    np.testing.assert_array_equal(found, 2.0 * theta[:, None] * weights)
    found = central_differences(lambda points: (points**2).sum(axis=1), theta, steps)
    np.testing.assert_array_equal(found, 2.0 * theta)
