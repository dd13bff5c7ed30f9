"""Channels whose records each have a privacy loss and spend it evenly on their features."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import positive_array
from .._base.typing import Floats
from ..privacy import PrivacyGuarantee


class RecordLosses:
    """Part of a channel with the parameter ``epsilon``: one number, or an array of one per record."""

    epsilon: ArrayLike | None
    check: Callable[[int | None], None]

    @property
    def has_one_law(self) -> bool:
        """Whether all records have one ε."""
        return np.asarray(self.epsilon).size == 1

    def _losses(self) -> Any:
        return positive_array("epsilon", self.epsilon)

    def _losses_of(self, n_records: int, n_features: int) -> Any:
        """Each record's loss on a feature, (n_records,)."""
        epsilon = np.atleast_1d(self._losses())
        if epsilon.shape not in ((1,), (n_records,)):
            raise ValueError(
                f"epsilon has shape {epsilon.shape}, but there are {n_records} records: give one number, or one per "
                f"record{of_a_part(epsilon.size, n_records)}"
            )
        return np.broadcast_to(epsilon / n_features, (n_records,))

    def scales(self, n_records: int, n_features: int) -> Floats:
        """Each record's loss on a feature, (n_records,); (1,) if all have the same."""
        return self._losses_of(1 if self.has_one_law else n_records, n_features)

    def of_scales(self, scales: ArrayLike, n_features: int) -> Self:
        params = self.get_params(deep=False) | {"epsilon": n_features * np.asarray(scales)}  # type: ignore[attr-defined]
        return type(self)(**params)

    def _number_of_losses(self, n_records: int) -> tuple[int, Any]:
        """(1 for one ε for all, else n_records; what a record's number is multiplied by to find its entry of these)."""
        self._losses_of(n_records, 1)  # raises for another number of records
        n = np.size(self._losses())
        return n, np.int64(n > 1)

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one record's release, for the least protected record if each has its own ε."""
        self.check(n_features)
        return PrivacyGuarantee.pure(float(np.max(self._losses())))


def of_a_part(n_given, n_records):
    """What to do where there are fewer records than numbers, as in cross-validation."""
    if not 1 < n_records < n_given:
        return ""
    return " (cross-validation splits Z only: loop over the folds, and give each a mechanism with its records' numbers)"
