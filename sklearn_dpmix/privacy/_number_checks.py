"""Checks of the numbers from which privacy is computed.  A message names the parameter, its value and the remedy."""

from operator import index

import numpy as np

from .._base.parameters import is_real

#: Larger integers are not floats any more.
LARGEST = float.fromhex("0x1p1023")
#: The largest count.
MOST = 2**53
#: The accountants for a budget, the loosest first.
ACCOUNTANTS = ("zcdp", "rdp", "tight")


def check_number(name, value, low, closed=False):
    """Raise unless ``value`` is a finite number above ``low`` (or equal to it where ``closed``)."""
    if not is_real(value) or not (low <= value if closed else low < value) or not value < LARGEST:
        bound = f"at least {low}" if closed else f"greater than {low}"
        raise ValueError(f"{name} must be a finite number {bound}, got {value!r}")


def check_delta(delta):
    """Raise unless 0 < δ < 1."""
    if not is_real(delta) or not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1, got {delta!r}")


def check_count(name, value, low):
    """Return ``value`` as an int of at least ``low``; 3.0 is not accepted for 3, since a count is never measured."""
    try:
        count = None if isinstance(value, (bool, np.bool_)) else index(value)
    except TypeError:
        count = None
    if count is None or count < low:
        raise ValueError(f"{name} must be an integer of at least {low}, got {value!r}")
    if count > MOST:
        raise ValueError(f"{name} must be at most 2**53, beyond which floats skip integers, got {name}={value!r}")
    return count


def check_batch(batch_size, n_records):
    """Return (batch_size, n_records) as ints with 1 <= batch_size <= n_records."""
    batch_size, n_records = check_count("batch_size", batch_size, 1), check_count("n_records", n_records, 1)
    if batch_size > n_records:
        raise ValueError(
            f"batch_size must be at most n_records, since a batch is drawn without replacement: got batch_size="
            f"{batch_size} with n_records={n_records}; pass batch_size <= {n_records}"
        )
    return batch_size, n_records


def check_orders(orders):
    """Return Rényi orders as a float array; each greater than 1, infinity included."""
    array = np.asarray(orders, dtype=np.float64)
    if array.ndim > 1 or not np.all(array > 1):
        raise ValueError(
            f"orders must be numbers greater than 1 (one, or an array of shape (n_orders,)), got {orders!r}"
        )
    return array


def check_accountant(accountant):
    """Raise unless ``accountant`` is one of :data:`ACCOUNTANTS`."""
    if not isinstance(accountant, str) or accountant not in ACCOUNTANTS:
        names = ", ".join(repr(name) for name in ACCOUNTANTS)
        raise ValueError(f"accountant must be one of {names}, got {accountant!r}")
