"""What estimators for a curator's statistics require of their mechanism and of its release."""

import numpy as np
from sklearn.utils.validation import _get_feature_names, validate_data

from ..._base.parameters import check_array, numbers
from ..._chains.auto_draws import draws_rule
from .._chain_estimator import warn_user

#: A release less likely than this for any data is worth a warning.
IMPOSSIBLE = 1e-6
#: A released number less likely than this under the posterior is worth a warning, too.
UNLIKELY = 1e-3
#: How the names begin that queries give their statistics.
STATISTICS = ("sum(", "count(")


def require_method(who, model, method, words):
    """Raise TypeError unless the model has a method, which ``words`` describe."""
    if not callable(getattr(model, method, None)):
        name = "model=None" if model is None else type(model).__name__
        raise TypeError(f"{who}: the model needs {words}, which {name} does not have")


def check_curator(estimator, query_class):
    """Return the query of the estimator's mechanism; raise if the estimator does not understand it."""
    mechanism, who = estimator.mechanism, type(estimator).__name__
    example = f"LaplaceMechanism(epsilon=1.0, query={query_class.__name__}(...))"
    if isinstance(mechanism, type) or not hasattr(mechanism, "privatize"):
        raise TypeError(f"{who}: mechanism must be an object such as {example} or None, got {mechanism!r}")
    query = getattr(mechanism, "query", None)
    if not isinstance(query, query_class):
        raise ValueError(
            f"{who} understands releases of {query_class.__name__} only, got mechanism={mechanism!r}: use a mechanism "
            f"such as {example}"
        )
    if not hasattr(mechanism, "log_release"):
        raise TypeError(
            f"{who} needs noise that is drawn separately for each number, such as {example}, got "
            f"mechanism={mechanism!r}: estimators that simulate releases take joint noise"
        )
    query.check()
    mechanism.check()
    mechanism.scales(1, query.n_statistics)  # of a query there is one release, with one scale
    return query


def refuse_noise_on_integers(mechanism, statistic):
    """Raise ValueError if the noise is for integers; ``statistic`` says what is none."""
    if mechanism.is_discrete:
        raise ValueError(
            f"mechanism={mechanism!r} adds noise to integers, but {statistic} is not an integer: use "
            f"{mechanism.continuous}"
        )


def read_release(estimator, S):
    """Return a release, which may be one number, as an array of finite floats."""
    S = np.reshape(S, 1) if getattr(numbers(S), "ndim", 1) == 0 else S
    return check_array(S, dtype=np.float64, ensure_2d=False, input_name="release", estimator=estimator)


def check_release(estimator, S, n_statistics, words=""):
    """Return a release as an array of shape (n_releases, n_statistics), or say what is wrong with it.

    ``n_statistics=None`` takes any number; ``words`` say what the numbers are.
    """
    who, S = type(estimator).__name__, read_release(estimator, S)
    shape = S.shape
    if S.ndim == 1 or (S.ndim == 2 and S.shape == (n_statistics, 1)):
        S = S.reshape(1, -1)
    if S.ndim != 2 or S.shape[1] != (n_statistics or S.shape[1]):
        raise ValueError(f"{who}: a release must have {n_statistics} numbers{words}, got shape {shape}")
    if hasattr(estimator.mechanism, "check_release"):
        estimator.mechanism.check_release(S)
    return np.ascontiguousarray(S)


def keep_names(estimator, S, array):
    """Set ``n_features_in_``, and ``feature_names_in_`` if S, from which ``array`` was made, is a table with names."""
    validate_data(estimator, S if np.ndim(S) == 2 else array, reset=True, skip_check_array=True)


def check_statistic_names(S, query):
    """Raise if numbers are named as statistics, but not those that the query releases, in its order.

    Names are those of a table's columns, or the index of one of its rows.
    """
    names = getattr(S, "index", None) if getattr(S, "ndim", 2) == 1 else _get_feature_names(S)
    if names is None or not all(str(name).startswith(STATISTICS) for name in names):
        return
    expected = query.statistic_names()
    if list(names) != expected:
        raise ValueError(
            f"the release has the numbers {list(names)}, but {query!r} releases {expected}: give the query, with its "
            "bounds and scaling, that the release was made with, and its numbers in that order"
        )


def new_records(estimator, X):
    """X as an array if it is a table and a release did not say what its columns are called; otherwise X itself."""
    is_named = hasattr(estimator, "feature_names_in_") or estimator.mechanism is None
    return X if is_named else check_array(X, dtype=np.float64, input_name="X", estimator=estimator)


def check_query_release(estimator, S, query):
    """:func:`check_release` for an estimator that also takes records, with ``fit(X, y)``."""
    who = type(estimator).__name__
    words = (
        f", {query.statistic_names()}; for fit(X, y) on confidential records: {who} requires y to be passed, but the "
        "target y is None"
    )
    check_statistic_names(S, query)
    return check_release(estimator, S, query.n_statistics, words)


def agrees(ours, theirs):
    """Whether a parameter, a number or one for each, says what a query does."""
    ours = numbers(ours)
    return ours is not None and ours.shape in ((), np.shape(theirs)) and bool(np.all(ours == theirs))


def check_raw(estimator, query, earlier):
    """Raise, before looking at a record or spending anything, if a fit cannot privatise the records and continue."""
    draws_rule(estimator.n_draws)
    if estimator.warm_start and "_run_" in earlier:
        raise ValueError(
            "warm_start=True with fit(X, y) a second time: this would spend the budget on another release, and no "
            "chain could continue with it; to continue the chains, fit(release_) with n_records=the number of records, "
            "or fit with warm_start=False"
        )
    if estimator.checkpoint is not None:
        raise ValueError(
            f"checkpoint={estimator.checkpoint!r} with fit(X, y): each run would spend the budget on another release; "
            "release once, S = mechanism.privatize(...) of the columns (X, y), keep S, and fit(S) with the checkpoint"
        )
    if query.neighbours != "replace":
        raise ValueError(
            f"with neighbours={query.neighbours!r} the number of records is confidential, and fit(X, y) would use it: "
            "release it by its own mechanism, and fit both releases with n_records=NoisyCount(value, mechanism) "
            'where the estimator takes that; or use a query with neighbours="replace"'
        )


def check_shape(estimator, X, n_features):
    """Raise if confidential X, (n, any number), does not go with the query or with ``n_records``."""
    n, n_records = len(X), estimator.n_records
    if X.shape[1] != n_features:
        raise ValueError(f"X has {X.shape[1]} features, but the mechanism's query says n_features={n_features}")
    if n_records not in (None, n):
        raise ValueError(f"n_records={n_records!r}, but there are {n} records: leave n_records out")


def privatize_records(estimator, records):
    """Release the query's value of confidential records, (1, n_statistics), with noise of fresh entropy, not a seed."""
    if not estimator.secure:
        warn_user(
            f"{type(estimator).__name__}.fit(X, y) releases noise drawn by NumPy, which is for simulation: gaps in "
            "NumPy's floating-point noise can reveal a record.  Pass secure=True (extra [secure]), or release by "
            "mechanism.privatize(..., secure=True) of the columns (X, y) and fit what it returns",
            UserWarning,
        )
    secure = {"secure": True} if estimator.secure else {}
    release = estimator.mechanism.privatize(records, **secure).reshape(1, -1)
    estimator._keep_unused(
        release,
        "the budget is spent, but what was released is kept as unused_release: with n_records="
        f"{len(records)}, fit(unused_release) goes on with it",
    )
    return release


def warn_if_impossible(mechanism, S, low, high, names, unscaled=None):
    """Warn if a release is further outside [low, high], the range of the query, than noise takes it.

    Refuse it if ``unscaled``, the range for records that are not scaled to [-1, 1], has room for it.
    """
    probability = probability_outside(mechanism, S, low, high)
    if probability is None:
        return
    row, j = np.unravel_index(np.argmin(probability), S.shape)
    if probability[row, j] >= IMPOSSIBLE:
        return
    if unscaled is not None and np.all(probability_outside(mechanism, S, *unscaled) >= IMPOSSIBLE):
        raise ValueError(
            f"the release was made with another scaling: {names[j]} = {S[row, j]:g} is between {low[j]:g} and "
            f"{high[j]:g} before noise, but all its numbers are possible sums of records in their own unit; "
            "RegressionMoments are sums over records that the bounds map to [-1, 1]: release "
            "mechanism.privatize(records), or correct n_records if that is wrong"
        )
    warn_user(
        f"the release has {names[j]} = {S[row, j]:g}, which is between {low[j]:g} and {high[j]:g} before noise, "
        f"and the noise of {type(mechanism).__name__} goes that far with probability only {probability[row, j]:.1g}: "
        "check the mechanism's parameters, n_records and the order of the release",
        UserWarning,
    )


def warn_if_unlikely(estimator, statistic, names, hint):
    """Warn if the posterior predictive probability of a released number is small, given how many there are.

    ``statistic`` has draws of the numbers before noise; ``hint`` says what to check.
    """
    S, mechanism = estimator.release_, estimator.mechanism
    draws = statistic.reshape(-1, S.shape[1])
    draws = draws[:: max(1, len(draws) // 1000)]
    scales = np.broadcast_to(mechanism.noise_scale_for(S.shape[1]), (len(S),))
    if mechanism.tail_probability(np.zeros(1), scales[0]) is None:
        return
    gaps = np.abs(S[:, None] - (np.round(draws) if mechanism.is_discrete else draws))
    tails = [
        (2.0 * probability_beyond(mechanism, *one)).clip(max=1.0).mean(axis=0) for one in zip(gaps, scales, strict=True)
    ]
    row, j = np.unravel_index(np.argmin(tails), S.shape)
    if tails[row][j] * S.size < UNLIKELY:
        warn_user(
            f"the release contradicts the model: {names[j]} = {S[row, j]:g}, where the posterior has "
            f"{draws[:, j].mean():g} before noise, and noise goes that far with probability only {tails[row][j]:.1g} "
            f"({S.size} numbers were released): check n_records, the mechanism, the order of the release, {hint}",
            UserWarning,
        )


def probability_beyond(mechanism, distance, scale):
    """P(noise >= distance), 1/2 or more at 0; None if it is unknown.  Noise on integers jumps there."""
    if not mechanism.is_discrete:
        return mechanism.tail_probability(distance, scale)
    before = np.ceil(np.asarray(distance) - 1e-6) - 1.0
    return np.where(before < 0.0, 1.0, mechanism.tail_probability(np.maximum(before, 0.0), scale))


def probability_outside(mechanism, S, low, high):
    """The probability of noise that takes numbers in [low, high] so far outside, (S.shape); None if it is unknown."""
    distance = np.maximum(np.maximum(low - S, S - high), 0.0)
    probability = probability_beyond(mechanism, distance, np.reshape(mechanism.noise_scale_for(S.shape[1]), (-1, 1)))
    return None if probability is None else np.where(distance > 0, probability, 1.0)
