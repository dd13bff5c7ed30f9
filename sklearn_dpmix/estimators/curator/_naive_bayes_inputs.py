"""What PrivateNaiveBayesDA requires of records and of releases."""

import numpy as np

from .._chain_estimator import warn_user
from .._confidential import encode_labels
from ._curator import IMPOSSIBLE, probability_beyond, warn_if_impossible


def check_values(X, n_values):
    """Raise ValueError if X, (n, n_features), has an entry that is not a value of its feature."""
    wrong = np.argwhere(_is_no_value(X, n_values))
    if len(wrong):
        row, column = wrong[0].tolist()
        what = "" if X[row, column] >= 0 else "Negative values in data passed to PrivateNaiveBayesDA. "
        raise ValueError(
            f"{what}X must hold integers from 0 to {n_values[column] - 1} in column {column}, got {X[row, column]:g} "
            f"in row {row}: encode categories, e.g. by scikit-learn's OrdinalEncoder, or give n_values"
        )


def check_confidential_values(X, n_values):
    """The same for confidential X: the error says neither what is wrong nor where."""
    if _is_no_value(X, n_values).any():
        raise ValueError(
            f"X must hold integers from 0 to n_values - 1, n_values={n_values.tolist()} by column; what else it holds "
            "is not quoted, since it is confidential: encode categories, e.g. by scikit-learn's OrdinalEncoder, or "
            "give the query more n_values"
        )


def _is_no_value(X, n_values):
    return (X != np.floor(X)) | (X < 0) | (X >= n_values)


def public_classes(classes, n_classes):
    """The labels of classes 0, ..., n_classes - 1, from the parameter ``classes``."""
    if classes is None:
        return np.arange(n_classes)
    labels = np.asarray(classes)
    try:
        increase = np.array_equal(np.unique(labels), labels)
    except TypeError:  # of labels that cannot be compared
        increase = False
    if labels.shape != (n_classes,) or not increase:
        raise ValueError(
            f"classes must be {n_classes} different labels in increasing order, as np.unique returns them, where "
            f"classes[k] is the label of class k; got classes={classes!r}"
        )
    return labels


def encode_classes(y, n_classes, classes):
    """Return (labels, y as integers) for records that are not confidential.

    The labels are ``classes``, or 0..n_classes-1 if y holds no other integers, or otherwise the labels of y.
    """
    if classes is not None:
        labels = public_classes(classes, np.size(classes) if n_classes is None else n_classes)
        return labels, encode_labels(y, labels)
    labels, codes = np.unique(y, return_inverse=True)
    if n_classes is not None and labels.dtype.kind in "iuf" and np.all(labels == np.floor(labels)):
        if labels[0] >= 0 and labels[-1] < n_classes:
            return np.arange(n_classes), y.astype(np.intp)
    if n_classes not in (None, len(labels)):
        raise ValueError(
            f"y must hold integers from 0 to n_classes - 1 = {n_classes - 1}, or n_classes different labels, got "
            f"{len(labels)} labels such as {labels[:3].tolist()}"
        )
    return labels, codes


def count_tables(X, y, n_classes, n_values):
    """The tables of records, (n_classes * sum(n_values),), in the order of ``ClassFeatureCounts``."""
    starts = n_classes * np.cumsum([0, *n_values[:-1]])
    cells = starts + y[:, None] * np.asarray(n_values) + X.astype(np.intp)
    return np.bincount(cells.ravel(), minlength=n_classes * sum(n_values))


def warn_about_release(mechanism, query, S, n_records):
    """Warn if noise hardly ever goes as far as a count is from 0..n, or the sum of a table is from n."""
    low, high = np.zeros(S.shape[1]), np.full(S.shape[1], float(n_records))
    warn_if_impossible(mechanism, S, low, high, query.statistic_names())
    n_classes, n_values = query._sizes()
    tables = np.split(S, n_classes * np.cumsum(n_values)[:-1], axis=1)
    for j, table in enumerate(tables):
        size, total = table.shape[1], table.sum(axis=1)
        total = total[np.argmax(np.abs(total - n_records))]
        distance = abs(total - n_records) / size  # the noise of one of the counts is at least this
        tail = probability_beyond(mechanism, distance, np.max(mechanism.noise_scale_for(S.shape[1])))
        if tail is not None and 2.0 * S.size * tail < IMPOSSIBLE:
            warn_user(
                f"the counts of x{j + 1} in the release add up to {total:g}, and to n_records={n_records} before "
                f"noise; so large a gap has probability at most {2.0 * S.size * float(tail):.1g}; is n_records right?",
                UserWarning,
            )
            return
    warn_about_classes(mechanism, S, [table.reshape(len(S), n_classes, -1) for table in tables])


def warn_about_classes(mechanism, S, tables):
    """Warn if two tables, (n_releases, n_classes, n_values), differ in a class's size by more than noise explains."""
    totals = np.array([table.sum(axis=2) for table in tables])  # (features, releases, classes)
    sizes = np.array([table.shape[2] for table in tables])
    gaps = np.abs(totals[:, None] - totals[None]) / (sizes[:, None] + sizes)[..., None, None]
    j, other, row, k = np.unravel_index(np.argmax(gaps), gaps.shape)  # noise of one of the counts is at least that
    tail = probability_beyond(mechanism, gaps[j, other, row, k], np.max(mechanism.noise_scale_for(S.shape[1])))
    if tail is None or 2.0 * S.size * tail >= IMPOSSIBLE:
        return
    warn_user(
        f"class {k} has {totals[j, row, k]:g} records in the counts of x{j + 1} and {totals[other, row, k]:g} in those "
        f"of x{other + 1}; before noise they are the same, and so large a gap has a probability of at most "
        f"{2.0 * S.size * float(tail):.1g}; are n_classes, n_values and the order of the release right?",
        UserWarning,
    )
