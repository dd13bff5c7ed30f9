"""Randomised response made by OpenDP: which mechanism its categories or its bits went through."""

from math import inf, log
from typing import Any

from ._randomized_response import RandomizedResponseMechanism
from ._unary import UnaryEncodingMechanism

#: Constructors of randomised response.
RESPONSES = {"make_randomized_response_bool", "make_randomized_response", "make_randomized_response_bitvec"}


def response_of(name: str, given: dict[str, Any], n_categories: int | None) -> Any:
    """The mechanism, from the constructor's name and arguments."""
    if name == "make_randomized_response_bitvec":  # a bit is replaced by a fair coin with probability f
        if n_categories is None:
            raise ValueError(
                "n_categories must say how many bits there are, of which one is set: a measurement of bit vectors does "
                "not know their length"
            )
        return UnaryEncodingMechanism(2.0 * log_odds(1.0 - 0.5 * given["f"]), n_categories, "symmetric")
    k = 2 if name == "make_randomized_response_bool" else len(set(given["categories"]))
    if n_categories not in (None, k):
        raise ValueError(f"n_categories={n_categories!r}, but the measurement has {k} categories: leave it out")
    return RandomizedResponseMechanism(log_odds(given["prob"]) + log(k - 1.0), k)


def log_odds(p):
    return log(p / (1.0 - p)) if p < 1.0 else inf
