"""Checkpoints with right checksums and wrong arrays: refused by name, or fitted; never a crash."""

import json
import os
import subprocess
import sys

import checkpoint_edits
import numpy as np
import pytest
from scripts import PACKAGE


def run(folder, *cases, **environment):
    """Lines of the script's output, in a process of its own: old code crashed."""
    done = subprocess.run(
        [sys.executable, checkpoint_edits.__file__, str(folder), *cases],
        env=os.environ | {"PYTHONPATH": str(PACKAGE.parent)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


REAL, POSITIVE, WIDTH = {"-1", "0.5"}, {"0.5"}, {"0.5", "1e+300"}
LEGAL = {}

FOUND = [
    "beta: state/0/records all 0.5",
    "beta: state/0/theta 0.5 at 0",
    "neal3: state/0/stats all 0.5",
    "neal3: draws/1/concentration all -1",
    "categories: draws/1/theta all 0.5",
    "truncated: draws/1/theta all 0.5",
    "records: state/0/contributions all 0.5",
    "regression: state/0/moments all 0.5",
    "regression: state/0/point all 0.5",
    "regression: draws/1/statistic all -1",
    "regression, given: draws/1/theta all -1",
    "poisson: state/0/n_records all 0.5",
    "poisson: draws/1/n_records all -1",
    "poisson: draws/1/statistic all 0.5",
    "gamma: draws/1/statistic all -1",
    "neal5: draws/1/concentration all 0.5",
    "binomial: draws/1/theta all -1",
    "counts, given: draws/1/statistic all 0.5",
    "tables: draws/1/theta 0.5 at 0",
    "own: state/0/theta all -1",
    "abc: state/0/factor all -1",
    "abc: draws/1/theta all -1",
]


def test_arrays_that_contradict_the_rest_are_refused(tmp_path):
    """Catches a run that goes on, to other draws, from what no chain can have had: one edit a check."""
    for result in run(tmp_path, *FOUND, NUMBA_DISABLE_JIT="1"):
        assert result["n"] == 1 and not (result["changed"] or result["same"] or result["wrong"]), result


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ({"alloc": -1}, "its alloc has numbers that are not from 0 to"),
        ({"records": np.nan}, "its records has numbers that are not finite"),
        ({"free": 2**40, "ints": None}, "its ints"),
        ({"counts": 9.0}, "its counts are not those of alloc"),
        ({"theta": np.inf}, "its theta has numbers that are not finite"),
    ],
)
def test_the_error_names_the_array(edit, named):
    """What a user reads, without a fit: of a state as a sampler starts it."""
    from sklearn_dpmix.samplers._state import N_FREE, NOT_BEGUN, STAGE, new_state

    def start():
        state = new_state(5, 1, 1, 4, 2)
        state.ints[STAGE] = NOT_BEGUN
        return state

    state = start()
    for name, value in edit.items():
        if name == "ints":
            state.ints[N_FREE] = 3
        else:
            getattr(state, name)[...] = value
    with pytest.raises(ValueError, match=named):
        state.restored(start(), 0)
    assert start().restored(start(), 0) is not None
