"""Inputs of a regression on privatised records: checks of records, of responses, and of the mechanism over them."""

import numpy as np
from sklearn.utils.validation import _check_y

from ..._base.parameters import check_array, check_table
from ._compose import check_mechanism

PIECES = "flat", "linear", "quadratic"  # shapes of channels under which y given a release of x is known


def check_columns(estimator, Z, y):
    """Columns (x, y) of the release."""
    if y is None:
        raise ValueError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: pass the released responses"
        )
    Z = check_table(estimator, Z, "Z", reset=True, order="C")
    y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=estimator)
    y = _check_y(y, y_numeric=True, estimator=estimator)
    if len(y) != len(Z):
        raise ValueError(f"y must have one response per row of Z, got {len(y)} responses for {len(Z)} rows")
    check_width(estimator, Z.shape[1] + 1)
    check_noised_inputs(estimator, estimator.mechanism, Z.shape[1])
    return np.column_stack([Z, y])


def check_width(estimator, width):
    mechanism = estimator.mechanism
    if mechanism is not None and not getattr(mechanism, "is_local", True):
        raise ValueError(
            f"mechanism={mechanism!r} releases a statistic of all records, and {type(estimator).__name__} takes "
            "records one by one: use PrivateLinearRegressionDA for noisy moments"
        )
    check_mechanism(mechanism, None)
    if mechanism is None:
        return
    given = np.shape(getattr(mechanism, "bounds", None))
    if len(given) == 2 and given[0] != width:
        raise ValueError(
            f"mechanism={mechanism!r} covers {given[0]} column(s), but Z and y together have {width}: give "
            "bounds of each predictor and then of y, or one pair for all"
        )
    if mechanism.n_features(width) != width:
        raise ValueError(
            f"mechanism={mechanism!r} does not release each column of (x, y): use additive noise, such as "
            "LaplaceMechanism or GaussianMechanism"
        )
    mechanism.check(width)


def check_noised_inputs(estimator, mechanism, n_features):
    """Raise ValueError if what a release of this mechanism says about x has no exact answer."""
    if not estimator.noised_inputs or mechanism is None or mechanism.is_absorbable:
        return
    if n_features > 1 or mechanism.piece_shape not in PIECES:
        raise ValueError(
            "noised_inputs=True is exact for Gaussian noise of one scale without clamping, and for one predictor "
            "under Laplace noise, clamped noise, the square wave or the piecewise mechanism, got "
            f"{n_features} predictor(s) under {mechanism!r}: predict at confidential x, with noised_inputs=False"
        )
    if mechanism.is_discrete or not mechanism.has_one_law:
        raise ValueError(
            f"noised_inputs=True needs continuous noise with one scale for all records, got mechanism={mechanism!r}: "
            "predict at confidential x, with noised_inputs=False"
        )


def check_released_inputs(mechanism, X, y):
    """Raise ValueError if X cannot be releases of predictors; beside ``y``, a released response, each row is whole."""
    try:
        mechanism.check_release(np.column_stack([X, np.full(len(X), y)]))
    except ValueError as error:
        raise ValueError(f"noised_inputs=True takes X as it was released: {error}") from None
