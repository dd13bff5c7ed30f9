"""A privacy budget for one data set that several fits share and cannot overspend together."""

import os
import threading
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ._accountants import as_list, epsilon_of, fits, total
from ._budgets import noise_multiplier_for
from ._guarantee import PrivacyGuarantee
from ._ledger_file import LedgerFile, check_storable
from ._number_checks import check_accountant, check_delta, check_number
from ._releases import Releases


class BudgetExceededError(ValueError):
    """A ledger has too little left; nothing was spent, and nothing may be released.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import BudgetExceededError, GaussianReleases, PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    >>> try:
    ...     ledger.spend(GaussianReleases(noise_multiplier=1.0, n_releases=1), "a mean")
    ... except BudgetExceededError:
    ...     print(len(ledger.entries))
    0
    """


@dataclass(frozen=True)
class LedgerEntry:
    """What one call of :meth:`PrivacyLedger.spend` recorded.

    Attributes
    ----------
    what : str
        The caller's words.
    releases : tuple of Releases
        What was released; these numbers are public.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import GaussianReleases, PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    >>> entry = ledger.spend(GaussianReleases(noise_multiplier=20.0, n_releases=4), "four means")
    >>> entry.what, entry.releases[0].n_releases, ledger.entries == (entry,)
    ('four means', 4, True)
    """

    what: str
    releases: tuple[Releases, ...]


class PrivacyLedger:
    """A budget (ε, δ) for one data set, spent before each release and never overspent; neighbours replace one record.

    *What may depend on earlier answers.*  Queries always may.  The noise and the number of the next releases may, too,
    if all entries are Gaussian (Smith & Thakurta 2022) or the accountant is ``"zcdp"`` (Whitehouse, Ramdas, Rogers & Wu
    2023).  With batches, the best order of the Rényi divergence depends on all entries, but the proof for noise chosen
    along the way is for one fixed order (Feldman & Zrnic 2021): decide noise and numbers before the first answer.

    *Spend first.*  :meth:`spend` records the releases, then the caller draws the noise.  A crash in between costs
    budget, never privacy.

    *One budget.*  Two ledgers for the same data set do not know about each other unless they have the same ``path``.  A
    ledger without a path lives in one process: ``copy`` and ``deepcopy`` return the ledger itself, so that copies and
    clones of an estimator share its budget; pickling it, or using it in a process forked from its own,
    is refused, since that would make two budgets out of one.  A ledger with a path is pickled as the path, and whoever
    loads it spends from the same file.

    Parameters
    ----------
    epsilon : float, positive
    delta : float in (0, 1)
    path : str or os.PathLike, optional
        A file with the entries, created if there is none.  Each call that spends locks it against other processes,
        reads it again and replaces the whole file.  While it is in use, the file ``path`` + ".holder" says by whom.
        The guarantee depends on this file: deleting it or restoring an older copy forgets what was spent, and a copy or
        a hard link, made before, is a budget of its own.
    accountant : {"tight", "rdp", "zcdp"}, default="tight"
        As for :func:`epsilon_of`.  Under ``"tight"``, one release on a batch moves the account of all entries from the
        exact one to Rényi divergences.

    Raises
    ------
    ValueError
        For a budget out of its range; for a file that is not a ledger, was damaged, or has another budget (it is left
        untouched).

    Examples
    --------
    >>> from sklearn_dpmix.privacy import GaussianReleases, PrivacyLedger
    >>> ledger = PrivacyLedger(epsilon=1.0, delta=1e-6)
    >>> entry = ledger.spend(GaussianReleases(noise_multiplier=100.0, n_releases=300), "penalty chain")
    >>> round(ledger.spent.epsilon, 3), ledger.would_fit(GaussianReleases(100.0, 300))
    (0.715, False)
    >>> ledger.would_fit(GaussianReleases(100.0, 150))
    True
    """

    def __init__(
        self, epsilon: float, delta: float, *, path: str | os.PathLike[str] | None = None, accountant: str = "tight"
    ) -> None:
        check_number("epsilon", epsilon, 0)
        check_delta(delta)
        check_accountant(accountant)
        self._budget: dict[str, Any] = {"epsilon": float(epsilon), "delta": float(delta), "accountant": accountant}
        self._entries = []
        self._mutex = threading.RLock()
        self._process = os.getpid()
        self._file = None
        if path is not None:
            if not isinstance(path, (str, bytes, os.PathLike)):
                raise TypeError(f"path must be a path of a file, or None, got path={path!r}")
            self._file = LedgerFile(path, self._budget)
            if not self._file.exists():
                self._file.begin()
            with self._file.locked():
                self._entries = self._file.read()

    @property
    def epsilon(self) -> float:
        """ε of the whole budget."""
        return self._budget["epsilon"]

    @property
    def delta(self) -> float:
        """δ of the whole budget."""
        return self._budget["delta"]

    @property
    def accountant(self) -> str:
        """How releases are added up."""
        return self._budget["accountant"]

    @property
    def path(self) -> str | None:
        """The file's resolved path, or None."""
        return None if self._file is None else self._file.path

    def spend(self, releases: Releases | Iterable[Releases], what: str = "") -> LedgerEntry:
        """Record releases before they are made, or refuse.

        Parameters
        ----------
        releases : Releases or list of Releases
        what : str, default=""
            A public note: which fit this was.

        Returns
        -------
        entry : LedgerEntry

        Raises
        ------
        BudgetExceededError
            If they exceed the budget; nothing is recorded, and nothing may be released.
        TypeError
            If ``releases`` or ``what`` is something else, or cannot be stored in a file.
        OSError
            If the file cannot be written, was removed or replaced in the meantime, or (TimeoutError) has been in use by
            one other process for half a minute; nothing is recorded.
        """
        releases = tuple(as_list(releases))
        if not isinstance(what, str):
            raise TypeError(f"what must be a string, got {what!r}")
        with self._current() as entries:
            if self._file is not None:
                check_storable(releases)
            self._check(entries, releases, what)
            entries = [*entries, (what, releases)]
            if self._file is not None:
                self._file.write(entries)
            self._entries = entries
        return LedgerEntry(what, releases)

    def check(self, releases: Releases | Iterable[Releases], what: str = "") -> None:
        """Refuse, as :meth:`spend` would now, and record nothing.

        Parameters
        ----------
        releases, what :
            As in :meth:`spend`.

        Raises
        ------
        BudgetExceededError
        """
        self._check(self._now(), as_list(releases), what)

    def _check(self, entries, releases, what):
        so_far = _flat(entries)
        if not fits([*so_far, *releases], **self._budget):
            raise BudgetExceededError(self._refusal(so_far, releases, what))

    def would_fit(self, releases: Releases | Iterable[Releases]) -> bool:
        """Whether releases would fit now; only :meth:`spend` makes sure that they still do.

        Parameters
        ----------
        releases : Releases or list of Releases
        """
        releases = as_list(releases)
        return fits([*_flat(self._now()), *releases], **self._budget)

    def remaining_mu(self) -> float | None:
        """Return the largest μ of Gaussian releases (see :class:`GaussianReleases`) that still fits.

        Returns
        -------
        mu : float or None
            In nats, rounded down; None if an entry is not exactly Gaussian.
        """
        used = total(_flat(self._now()), "mu")
        return None if used is None else max(0.0, _largest_mu(**self._budget) * (1.0 - 1e-12) - used * (1.0 + 1e-12))

    @property
    def spent(self) -> PrivacyGuarantee:
        """What all entries together promise, a :class:`PrivacyGuarantee` at the ledger's δ; ρ is None if unknown."""
        releases = _flat(self._now())
        epsilon = epsilon_of(releases, self.delta, self.accountant)
        if fits(releases, **self._budget):  # then any excess is rounding
            epsilon = min(epsilon, self.epsilon)
        return PrivacyGuarantee(epsilon, self.delta, total(releases, "rho"))

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """All entries, the oldest first, as a tuple of :class:`LedgerEntry`."""
        return tuple(LedgerEntry(what, releases) for what, releases in self._now())

    def _now(self):
        """The entries as they are now."""
        with self._current() as entries:
            return entries

    @contextmanager
    def _current(self):
        """Hold the lock on the entries, and yield them as they are now."""
        if os.getpid() != self._process:
            if self._file is None:
                raise RuntimeError(
                    f"this PrivacyLedger belongs to process {self._process}, not to process {os.getpid()}, where it "
                    "would be a second budget; pass path= to share one budget between processes"
                )
            # the parent's mutex may have been held when it forked
            self._mutex, self._process = threading.RLock(), os.getpid()
        with self._mutex:
            if self._file is None:
                yield self._entries
                return
            with self._file.locked():
                entries = self._file.read()
                if entries[: len(self._entries)] != self._entries:
                    raise ValueError(
                        f"the privacy ledger {self.path} has lost entries that were in it: an older copy was put in "
                        "its place, and it was left untouched; restore the newest"
                    )
                self._entries = entries
                yield entries

    def _refusal(self, so_far, releases, what):
        """What was requested, what was spent, what is left and what to do."""
        asked, spent, together = (
            epsilon_of(one, self.delta, self.accountant) for one in (releases, so_far, [*so_far, *releases])
        )
        used = total(so_far, "mu")
        left = ""
        if used is not None:
            left = f", which leaves Gaussian releases of μ = {max(0.0, _largest_mu(**self._budget) - used):.6g}"
        name = f"{what!r}" if what else "this"
        mu = total(releases, "mu")
        size = "" if mu is None else f" (μ = {mu:.6g})"
        return (
            f"{name} asks for ε = {asked:.6g}{size} at δ = {self.delta:g}.  Of the budget of ε = {self.epsilon:g}, "
            f"earlier releases have used {spent:.6g}{left}; together they would be {together:.6g}.  "
            "Nothing was spent.  Make fewer releases or add more noise; a larger budget is a new promise to the people "
            "in the data"
        )

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        if self._file is None:
            raise TypeError(
                "a PrivacyLedger without a path cannot be pickled, since its copy would be a second budget for the "
                "same data: pass path=, and all copies spend from one file"
            )
        return _reopen, (self.path, self._budget)

    def __repr__(self):
        path = "" if self._file is None else f", path={self.path!r}"
        return f"PrivacyLedger(epsilon={self.epsilon}, delta={self.delta}{path}, accountant={self.accountant!r})"


def _reopen(path, budget):
    """Open the ledger of a pickle; a file that is gone is not created again."""
    if not os.path.lexists(path):
        LedgerFile(path, budget).read()  # says so
    return PrivacyLedger(**budget, path=path)


def _flat(entries):
    return [one for _, releases in entries for one in releases]


def _largest_mu(epsilon, delta, accountant):
    """The largest μ of Gaussian releases within a whole budget."""
    return 0.5 / noise_multiplier_for(epsilon, delta, 1, accountant) ** 2
