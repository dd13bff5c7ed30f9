"""Data augmentation for a user's own model, in NumPy (Ju, Awan, Gong & Rao 2022, Algorithm 1).

One sweep makes proposals for all records at once, from the model at the current θ.  Each is accepted, one record after
the other, with probability min(1, density of the release with it / without it), since the model cancels.  Then θ is
drawn given the records, by the model's own move.  The proposals do not depend on the records, so drawing them
beforehand changes nothing.

Only the loop over records of a query's release is compiled, in which each decision moves the sum.  Under a local
mechanism, records are decided independently, with NumPy.
"""

from typing import NamedTuple

import numpy as np

from ..._base.acceptance import N_COUNTERS, note_acceptance, require_acceptance
from ..._base.compiled import entry
from ..._base.restore import require, require_finite, require_same, require_sweeps, same_layout
from .._driver import is_kept
from .._parameter_draws import ThetaDraws
from .._release_density import log_entry, log_release

#: Prior draws that a chain's start is chosen from: far from the release, proposals would be all alike.
N_STARTS = 100


class UserState(NamedTuple):
    """All of a chain except its random generator: arrays that a sweep changes in place."""

    theta: np.ndarray  # (n_params,)
    records: np.ndarray  # (n, ...): imputed records, of the model's own type
    judged: np.ndarray  # (n, k): what the release asks of each record
    n_sweeps: np.ndarray  # (1,)
    floats: np.ndarray


def restored_user(model, release, state, fresh, n_sweeps):
    """Return a state read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`).

    ``release=None`` if the records are known.  What the model can go on from, only a sweep of it can tell.
    """
    state = same_layout(fresh, state)
    require_sweeps(state.n_sweeps[0], n_sweeps, "n_sweeps")
    require_finite(theta=state.theta)
    require_acceptance(state.floats)
    if release is None:
        require_same(fresh, state, "records")
    else:
        judged = release.judge(state.records)
        require(np.isclose(state.judged, judged, rtol=1e-9), "judged", "is not that of the records")
    try:
        sweep(model, release, UserState(*(part.copy() for part in state)), np.random.default_rng(0))
    except Exception as error:
        raise ValueError(f"the model cannot continue from its theta and records: {error}") from error
    return state


class QueryRelease:
    """One or more noisy sums of the query's contributions.

    Parameters
    ----------
    query : object with ``contributions(records)``
    channel : value of the mechanism
    S : ndarray of shape (n_releases, n_statistics)
    of_integers : bool
        Whether the noise is for integers only.
    """

    needs_possible_start = True  # one record at a time leads nowhere from an impossible sum

    def __init__(self, query, channel, S, of_integers):
        self.query, self.channel, self.S, self.of_integers = query, channel, S, of_integers

    def judge(self, records):
        """Contributions of the records, (n, n_statistics)."""
        expected = len(records), self.S.shape[1]
        contributions = np.asarray(self.query.contributions(records), dtype=np.float64)
        if contributions.shape != expected:
            raise ValueError(
                f"{type(self.query).__name__}.contributions(records) must have shape {expected}, a row per record and "
                f"a column for each number in the release, got {contributions.shape}"
            )
        if self.of_integers and not np.array_equal(contributions, np.rint(contributions)):
            raise ValueError(
                "the mechanism adds noise to integers, but the contributions of the model's records are not integers: "
                "use continuous noise, or a model of integers"
            )
        return contributions

    def choose(self, judged, proposed, rng):
        """Which proposals are taken, (n,), and the smallest log acceptance probability met."""
        accepted, S = np.zeros(len(judged), dtype=np.bool_), np.array(self.S)  # writable: one compiled version
        return accepted, accept_in_turn(self.channel, S, judged, proposed, judged.sum(axis=0), rng, accepted)

    def log_density(self, judged):
        """Log density of all releases given the records, up to a constant."""
        return log_density_of(self.channel, np.array(self.S), judged.sum(axis=0))


class RecordReleases:
    """A release for each record, by a local mechanism.

    Parameters
    ----------
    mechanism : object with ``log_density(Z, X)``
    Z : ndarray of shape (n, n_released)
    """

    needs_possible_start = False

    def __init__(self, mechanism, Z):
        self.mechanism, self.Z = mechanism, Z

    def judge(self, records):
        """Log density of each release given its record, (n, 1)."""
        log_density = self.mechanism.log_density(self.Z, np.reshape(records, (len(records), -1)))
        return np.asarray(log_density, dtype=np.float64)[:, None]

    def choose(self, judged, proposed, rng):
        """Which proposals are taken, (n,), and the smallest log acceptance probability met."""
        with np.errstate(invalid="ignore"):
            gain = np.nan_to_num(proposed[:, 0] - judged[:, 0], nan=0.0)  # from impossible to impossible: on
        return -rng.standard_exponential(len(gain)) <= gain, min(float(np.min(gain)), 0.0)

    def log_density(self, judged):
        """Log density of all releases given the records."""
        return float(judged.sum())


@entry
def log_density_of(channel, S, total):
    return log_release(channel, S, total)


@entry
def accept_in_turn(channel, S, contributions, proposed, total, rng, accepted):
    """Decide on each record, the sum being what the decisions so far have made of it."""
    lowest = 0.0
    for i in range(contributions.shape[0]):
        gain = 0.0
        for j in range(total.size):
            if proposed[i, j] != contributions[i, j]:
                moved = total[j] - contributions[i, j] + proposed[i, j]
                gain += log_entry(channel, S, j, moved) - log_entry(channel, S, j, total[j])
        lowest = min(lowest, gain)
        if -rng.standard_exponential() <= gain:
            accepted[i] = True
            for j in range(total.size):
                total[j] += proposed[i, j] - contributions[i, j]
    return lowest


class UserModel:
    """The user's model, with what its methods return checked.

    Parameters
    ----------
    model : object
        It has ``sample_records`` and ``sample_posterior``, and ``theta_init`` or ``sample_prior``.
    """

    def __init__(self, model):
        self.model = model

    def _array(self, call, value, shape, dtype=None):
        """What a method returned, as an array of that shape; a None in ``shape`` stands for any size."""
        try:
            array = np.asarray(value, dtype=dtype)
        except (TypeError, ValueError):
            raise ValueError(f"{type(self.model).__name__}.{call} must be numbers, got {value!r}") from None
        if array.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, array.shape)):
            words = str(tuple("n_params" if size is None else size for size in shape)).replace("'", "")
            raise ValueError(f"{type(self.model).__name__}.{call} must have shape {words}, got {array.shape}")
        if dtype is np.float64 and not np.all(np.isfinite(array)):
            raise ValueError(f"{type(self.model).__name__}.{call} must be finite, got {array.tolist()}")
        return array

    def starts(self, rng, size):
        """Parameters to start from: ``size`` prior draws, or the one that the model names; (size or 1, n_params)."""
        theta = getattr(self.model, "theta_init", None)
        if theta is not None:
            return self._array("theta_init", theta if np.ndim(theta) else [theta], (None,), np.float64)[None]
        call = f"sample_prior(rng, {size})"
        return self._array(call, self.model.sample_prior(rng, size), (size, None), np.float64)

    def first_records(self, rng, theta, n):
        call = f"sample_records(rng, theta, {n})"
        records = np.array(self.model.sample_records(rng, theta, n))
        return self._array(call, records, (n, *records.shape[1:]))

    def records(self, rng, theta, like):
        """As many records as there are, given θ, of the same shape."""
        call = f"sample_records(rng, theta, {len(like)})"
        records = self._array(call, self.model.sample_records(rng, theta, len(like)), like.shape)
        if not np.can_cast(records.dtype, like.dtype, "same_kind"):
            name = type(self.model).__name__
            raise ValueError(f"{name}.{call} must be of type {like.dtype}, as it was at first, got {records.dtype}")
        return records

    def parameters(self, rng, records, theta):
        """θ given records."""
        records = records.view()
        records.flags.writeable = False
        new = self.model.sample_posterior(rng, records, theta.copy())
        new = np.reshape(new, 1) if np.ndim(new) == 0 and len(theta) == 1 else new
        return self._array("sample_posterior(rng, records, theta)", new, theta.shape, np.float64)


def start_user_model(model, release, n_records, rng):
    """Start a chain: of some prior draws, each with records, one by the release's density, or the model's own start.

    If none is possible, of more records under these θ the first that are.
    """
    starts, best = model.starts(rng, N_STARTS), None
    for attempt in range(len(starts) + N_STARTS):
        theta = starts[attempt % len(starts)]
        records = model.first_records(rng, theta.copy(), n_records)
        judged = release.judge(records)
        value = release.log_density(judged) + rng.gumbel()
        if best is None or value > best[0]:
            best = value, theta, records, judged
        if attempt + 1 >= len(starts) and (best[0] > -np.inf or not release.needs_possible_start):
            break
    value, theta, records, judged = best
    if release.needs_possible_start and value == -np.inf:
        raise ValueError(
            "no records that were tried to start from can have led to this release, its density is 0: give the model a "
            "theta_init under which it is likelier, and check the mechanism and the release"
        )
    return UserState(theta.copy(), records, judged, np.zeros(1, dtype=np.int64), np.zeros(N_COUNTERS))


def start_known(model, records, rng):
    """Start a chain on records that are not confidential."""
    judged = np.zeros((len(records), 0))
    return UserState(model.starts(rng, 1)[0].copy(), records, judged, np.zeros(1, dtype=np.int64), np.zeros(N_COUNTERS))


def sweep(model, release, state, rng):
    """One sweep; ``release=None`` if the records are known."""
    if release is not None:
        proposed = model.records(rng, state.theta.copy(), state.records)
        judged = release.judge(proposed)
        accepted, lowest = release.choose(state.judged, judged, rng)
        state.records[accepted], state.judged[accepted] = proposed[accepted], judged[accepted]
        note_acceptance(state.floats, len(accepted), np.count_nonzero(accepted), lowest)
    state.theta[:] = model.parameters(rng, state.records, state.theta)
    state.n_sweeps[0] += 1


def advance_user_model(model, release, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws)."""
    draws = []
    for _ in range(n_sweeps):
        sweep(model, release, state, rng)
        if is_kept(int(state.n_sweeps[0]), n_warmup, thin):
            draws.append(state.theta.copy())
    return state, ThetaDraws(np.reshape(draws, (len(draws), len(state.theta))))
