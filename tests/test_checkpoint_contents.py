"""Checkpoints with right checksums and wrong arrays: refused by name, or fitted; never a crash."""

import json
import os
import subprocess
import sys

import checkpoint_edits
import numpy as np
import pytest
from scripts import PACKAGE

#: whose sweeps are quick in plain Python, where an index out of range is an error and nothing compiles
QUICK = ("neal8", "bins", "binomial", "abc")


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


def check(results, cases):
    assert [result["case"] for result in results] == list(cases)
    for result in results:
        assert not result["wrong"], (result["case"], result["wrong"])
        assert result["n"] > 300
        for edit in result["accepted"]:
            name, _, words = edit.partition(" ")
            field = name.rpartition("/")[2]
            # types, shapes and what is not a number are refused, and indices that are out of range; what is in the
            # scratch is not read, and a number that could be another is fitted
            assert words.startswith("all ") or " at " in words, edit
            assert field == "work" or not ("nan" in words or "inf" in words), edit
            assert field not in ("alloc", "counts", "ints", "moves", "n_sweeps", "n_atoms", "n_clusters"), edit


@pytest.mark.nightly
def test_edited_checkpoints_are_refused_or_fitted(tmp_path):
    """Catches arrays that compiled code would read or write beyond: here an IndexError, or draws of nothing."""
    check(run(tmp_path, *QUICK, NUMBA_DISABLE_JIT="1"), QUICK)


@pytest.mark.nightly
@pytest.mark.parametrize("case", sorted(checkpoint_edits.cases()))
def test_edited_checkpoints_do_not_crash_compiled_code(case, tmp_path):
    """The same for all samplers, compiled: old code ended with SIGSEGV."""
    check(run(tmp_path, case, NUMBA_DISABLE_JIT="0"), [case])


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
