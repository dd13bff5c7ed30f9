"""Births and deaths of records: the places of records say nothing of them."""

from types import SimpleNamespace

import numpy as np

from sklearn_dpmix.samplers.augmentation import _number
from sklearn_dpmix.samplers.augmentation._number import change_number

N_RUNS, N_TRIES, MOST = 300, 40, 40


class Ages:
    """Records that are numbered as they come."""

    def __init__(self):
        self.n_drawn = 0

    def draw_record(self, rng, theta, records, i):
        self.n_drawn += 1
        records[i, 0] = self.n_drawn

    def contribute(self, records, i, contributions, j):
        contributions[j, 0] = 1.0


def place_of_youngest(monkeypatch, move=None):
    """Mean place of the youngest record among all, from 0 to 1, in standard errors from the middle."""
    move = getattr(_number.move_record, "py_func", _number.move_record) if move is None else move
    monkeypatch.setattr(_number, "move_record", move)
    monkeypatch.setattr(_number, "log_release", lambda channel, S, total: 0.0)
    counting = SimpleNamespace(n_tries=N_TRIES, gain=lambda count, n, new: 0.0 if new > 4 else -np.inf)
    rng, found = np.random.default_rng(0), []
    for _ in range(N_RUNS):
        state = SimpleNamespace(
            records=np.zeros((MOST + 1, 1)),
            contributions=np.ones((MOST + 1, 1)),
            total=np.array([10.0]),
            theta=None,
            ints=np.zeros(8, np.int64),
        )
        state.ints[_number.N_RECORDS] = 10
        getattr(change_number, "py_func", change_number)(rng, Ages(), None, counting, None, None, state, 0.0)
        n = state.ints[_number.N_RECORDS]
        assert state.total[0] == n
        found.append((np.argmax(state.records[:n, 0]) + 0.5) / n)
    return (np.mean(found) - 0.5) / (np.std(found) / np.sqrt(N_RUNS))


def test_a_new_record_is_in_a_random_place(monkeypatch):
    """Sweeps go through the records in order, and keep only laws under which the order says nothing."""
    assert abs(place_of_youngest(monkeypatch)) < 4.5


def test_a_new_record_in_the_last_place_is_seen(monkeypatch):
    last = [0]

    def to_the_end(records, contributions, source, to):
        if source == MOST:
            records[last[0]] = records[MOST]
        elif source > to:
            records[to] = records[source]
        last[0] = to

    assert place_of_youngest(monkeypatch, to_the_end) > 10.0
