"""Releases that are not one array: summaries, iterators of batches, Arrow, Parquet, Dask; each in one pass."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import chain

from ..._releases.summary import ReleaseSummary, checked_batch

FAN_IN = 8  # summaries merged together on a worker
INSTEAD = (
    "fit an array, or use a normal, truncated normal or beta kernel, additive noise with one scale or a window "
    "mechanism with one epsilon"
)


def summary_of(Z, mechanism, before=None):
    """Return a summary of a release that is not one array, and None for an array.

    If ``before``, a summary of earlier records, is given, return one of these and the new records, arrays included;
    ``before`` itself is not changed.
    """
    kind = kind_of(Z)
    if isinstance(Z, (list, tuple)) and Z and len(getattr(Z[0], "shape", ())) == 2:
        raise ValueError(
            f"Z is a {type(Z).__name__} of {len(Z)} tables: pass an iterator of batches, iter(Z), or join them, "
            "np.concatenate(Z)"
        )
    if isinstance(Z, (list, tuple)) and Z and isinstance(Z[0], ReleaseSummary):
        raise TypeError(f"Z is a {type(Z).__name__} of {len(Z)} summaries: merge them into one, by merge()")
    if kind is None and is_no_table(Z):
        raise TypeError(
            f"Z is a {type(Z).__name__}, which is neither a table nor an iterator of batches: pass an array, or "
            "iter(Z) if its items are batches"
        )
    if kind is None and before is None:
        return None
    summary = ReleaseSummary(mechanism) if before is None else deepcopy(before)
    if kind is ReleaseSummary:
        Z._check_same_mechanism(mechanism)
        return deepcopy(Z) if before is None else summary.merge(Z)
    if kind is from_dask:
        summary = summary.merge(from_dask(Z, mechanism, summary.width))
    else:
        for batch in [Z] if kind is None else kind(Z):
            summary.update(batch)
    if not summary.n_records:
        what = f"it is an empty {type(Z).__name__}, or of parts without rows"
        raise ValueError(f"Z holds no records: {'its files have no rows' if kind is from_files else what}")
    return summary


def summary_so_far(model):
    """Summary of what a model was fitted to, of nothing before the first fit."""
    if hasattr(model, "summary_"):
        model.summary_._check_same_mechanism(model.mechanism)
        return model.summary_
    summary = ReleaseSummary(model.mechanism)
    if hasattr(model, "_release_"):
        ReleaseSummary(model.mechanism_)._check_same_mechanism(model.mechanism)
        name, *_ = getattr(model, "feature_names_in_", [None])
        summary._add(checked_batch(model._release_, "batch 0", model.mechanism)[0], name)
    return summary


def check_takes_summaries(who, kernel, mixing, sampler):
    """Raise ValueError where the sampler needs the records, and ``who`` has batches or a summary of them."""
    if not kernel.is_product:  # correlated ones keep something beside each record
        raise ValueError(f"{who}, but kernel={kernel!r} needs all records at once: {INSTEAD}")
    if not sampler.takes_summaries:
        raise ValueError(
            f"{who}, but the sampler is {sampler.label} (under mixing={mixing!r}), which needs all records at once: "
            f'{INSTEAD}, sampler="mixing_measure", and a mixing that this takes'
        )


def kind_of(Z):
    """What a release is that is not an array: ``ReleaseSummary``, or the function that reads it; None for an array.

    Optional packages are recognised by the names of their modules: whoever passes their objects has imported them.
    """
    module = type(Z).__module__.partition(".")[0]
    if isinstance(Z, ReleaseSummary):
        return ReleaseSummary
    if module in ("dask", "dask_expr"):
        return from_dask
    if isinstance(Z, (str, os.PathLike)) or (isinstance(Z, list) and Z and isinstance(Z[0], (str, os.PathLike))):
        return from_files
    if module == "pyarrow" and hasattr(Z, "to_batches") and not hasattr(Z, "num_rows"):
        return from_dataset
    return iter if isinstance(Z, Iterator) or (module == "pyarrow" and hasattr(Z, "read_next_batch")) else None


def is_no_table(Z):
    """Whether something has neither entries as arrays, lists and data frames have them, nor a shape."""
    is_table = isinstance(Z, Sequence) or any(hasattr(Z, name) for name in ("__array__", "__dataframe__", "shape"))
    return not is_table and (isinstance(Z, Iterable) or callable(Z))


def from_files(paths):
    """Batches of Parquet files, or of a folder of them."""
    try:
        from pyarrow.dataset import dataset
    except ImportError:
        raise ImportError(
            f"reading {paths!r} needs pyarrow: pip install 'sklearn-dpmix[arrow]', or pass an array"
        ) from None
    return from_dataset(dataset(paths, format="parquet"))


def from_dataset(data):
    """Batches of an Arrow dataset, or of a scanner of one (which may choose the column)."""
    try:
        fragments = list(data.get_fragments())
    except (AttributeError, ValueError):  # a scanner, or a dataset that is filtered
        return data.to_batches()
    first = fragments[0].physical_schema.names if fragments else []
    for one in fragments:
        if data.schema.names == first != one.physical_schema.names:
            raise ValueError(
                f"{file_of(one)} has columns {one.physical_schema.names}, but {file_of(fragments[0])} has {first}: "
                "choose one by dataset(paths).scanner(columns=[name])"
            )
    return chain.from_iterable(batches_of(one, data.schema) for one in fragments)


def batches_of(fragment, schema):
    """Batches of one file of a dataset, whose errors name the file.

    Numbers are read in a type that holds both the file's and the dataset's, which is that of the first file.
    """
    import pyarrow as pa

    try:
        own = pa.schema([field for field in fragment.physical_schema if field.name in schema.names])
        with suppress(pa.ArrowTypeError):  # such as text and numbers: in the dataset's type, if Arrow can
            schema = pa.unify_schemas([schema, own], promote_options="permissive")
        yield from fragment.to_batches(schema=schema)
    except (ValueError, TypeError, NotImplementedError) as error:  # Arrow's are such
        raise ValueError(f"{file_of(fragment)}: {error}") from error


def file_of(fragment):
    """The path of a fragment of a dataset, if it has one."""
    return getattr(fragment, "path", "a part in memory")


def from_dask(data, mechanism, width):
    """Summary of a Dask array or data frame: its parts are summarised where they are, and merged as a tree."""
    from dask import delayed

    if not hasattr(data, "ndim"):
        raise TypeError(f"Z is a {type(data).__name__} of Dask: make it a Dask array or data frame")
    parts = data.to_delayed()
    n_columns = data.shape[1] if data.ndim == 2 else 0
    if n_columns != 1:
        raise ValueError(f"a summary takes one feature for now, as a column, but Z has {n_columns or 'no'} columns")
    name = data.columns[0] if hasattr(data, "columns") else None
    name = name if isinstance(name, str) else None
    parts = [delayed(_of_part)(part, k, name, mechanism, width) for k, part in enumerate(getattr(parts, "flat", parts))]
    while len(parts) > 1:
        parts = [delayed(_merged)(parts[first : first + FAN_IN]) for first in range(0, len(parts), FAN_IN)]
    return parts[0].compute()


def _of_part(part, number, name, mechanism, width):
    summary = ReleaseSummary(mechanism, width=width)
    z, column = checked_batch(part, f"part {number}", mechanism)
    if name != column:
        raise ValueError(f"part {number} has column {column!r}, but the frame has {name!r}: give all parts one name")
    summary._add(z, column)
    return summary


def _merged(summaries):
    first, *others = deepcopy(summaries)  # which Dask may use again
    for other in others:
        first = first.merge(other)
    return first
