"""Checkpoints with right checksums and wrong arrays: refused by name, or fitted; never a crash."""

import json
import os
import subprocess
import sys

import checkpoint_edits
import numpy as np
import pytest
from scripts import PATH


def run(folder, *cases, **environment):
    """Lines of the script's output, in a process of its own: old code crashed."""
    done = subprocess.run(
        [sys.executable, checkpoint_edits.__file__, str(folder), *cases],
        env=os.environ | {"PYTHONPATH": PATH} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


#: Edits that may change what comes: to numbers that the array could have had as well, which no check can tell.  Widths
#: of a law when it was last drawn from save evaluations, whatever they are.
REAL, POSITIVE, WIDTH = {"-1", "0.5"}, {"0.5"}, {"0.5", "1e+300"}
FINITE = REAL | {"1e+300", "-1e+300"}  # records of a user's model: nobody else knows what they can be
MIXTURE = {"state/0/records": REAL, "state/0/theta": REAL, "draws/1/theta": REAL}
GIVEN = {"state/0/theta": REAL, "draws/1/theta": REAL}  # records are
FAMILY = {"state/0/width": WIDTH, "draws/1/theta": POSITIVE}
WALK = {"state/0/mass": POSITIVE, "state/0/place": REAL, "state/0/dust_place": REAL}
RANDOM = {"state/0/floats": POSITIVE, "draws/1/concentration": POSITIVE}
POINT = {"state/0/metric": POSITIVE, "state/0/step": REAL, "state/0/held": REAL, "state/0/floats": REAL}
PATHS = {f"state/0/{name}": REAL for name in ("metric", "vectors", "path_products", "path_floats")}
LEGAL = {
    "neal8": MIXTURE | RANDOM,
    "mixing measure": RANDOM | WALK | {"draws/1/theta": REAL},
    "convolved": WALK | {"draws/1/theta": REAL},
    **{case: MIXTURE for case in ("interweaved", "slice", "neal5", "imputed", "truncated", "conditional")},
    **{case: GIVEN for case in ("beta", "reuse", "neal2", "neal3", "jain_neal")},
    "categories": WALK,
    "correlated": WALK | {"state/0/records": REAL, "draws/1/theta": REAL},
    "bins": MIXTURE,
    "sources": MIXTURE,
    **{case: FAMILY for case in ("binomial", "counts", "poisson", "poisson, known", "counts, given")},
    "multinomial": {"state/0/width": WIDTH},
    **{case: {"draws/1/theta": POSITIVE} for case in ("tables", "collapsed", "tables, given")},  # two values: halves
    "gamma": FAMILY | {"state/0/statistic": POSITIVE, "draws/1/statistic": POSITIVE},
    "normal": FAMILY | GIVEN | {"state/0/statistic": REAL, "draws/1/statistic": REAL},
    "normal, whole numbers": FAMILY | {"state/0/statistic": REAL, "draws/1/statistic": REAL},
    "normal counts": {"state/0/width": WIDTH, "draws/1/statistic": REAL},
    "records": MIXTURE | {"state/0/steps": REAL, "state/0/reference": REAL, "draws/1/statistic": REAL},
    "beta, given": FAMILY | {"state/0/theta": POSITIVE},
    "normal, given": FAMILY | GIVEN,
    "regression": POINT | {"draws/1/theta": REAL, "draws/1/statistic": REAL},
    **{
        case: MIXTURE
        | PATHS
        | {"state/0/steps": REAL, "state/0/reference": REAL, "state/0/floats": POSITIVE, "draws/1/statistic": REAL}
        for case in ("regression, normal predictors", "regression, histograms")
    },
    "regression, given": {"state/0/theta": REAL, "draws/1/theta": REAL},
    "own": {"state/0/theta": POSITIVE, "state/0/records": FINITE, "draws/1/theta": REAL},
    "one normal": {"state/0/point": REAL, "state/0/floats": REAL, "draws/1/theta": REAL, "draws/1/weights": {"0.5"}},
    "own, given": {"draws/1/theta": REAL},
    "abc": {
        "state/0/theta": POSITIVE,
        "state/0/statistic": REAL,
        "state/0/log_target": REAL,
        "state/0/factor": POSITIVE,
        "state/0/centres": REAL,
        "draws/1/theta": POSITIVE,
        "draws/1/statistics": REAL,
    },
}

#: one edit a check that refuses it, by case
FOUND = [
    "beta: state/0/records all 0.5",
    "beta: state/0/theta 0.5 at 0",
    "neal3: state/0/stats all 0.5",
    "neal3: draws/1/concentration all -1",
    "categories: draws/1/theta all 0.5",
    "categories: state/0/floats -1 at 1",
    "truncated: draws/1/theta all 0.5",
    "records: state/0/contributions all 0.5",
    "regression: state/0/moments all 0.5",
    "regression: state/0/point all 0.5",
    "regression: draws/1/statistic all -1",
    "regression, given: draws/1/theta all -1",
    "regression, histograms: draws/1/theta all -1",
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


def check(results, cases):
    assert [result["case"] for result in results] == list(cases)
    for result in results:
        assert result["n"] > 100 and not result["wrong"], (result["case"], result["wrong"])
        legal = LEGAL[result["case"]]
        for edit in result["changed"]:
            array, _, words = edit.partition(" ")
            assert words.removeprefix("all ").partition(" at ")[0] in legal.get(array, ()), (result["case"], edit)


@pytest.mark.nightly
@pytest.mark.parametrize("case", LEGAL)
def test_edited_checkpoints_are_refused_or_change_nothing(case, tmp_path):
    """Catches arrays that compiled code would read or write beyond, here an IndexError, and draws of what cannot be."""
    assert set(LEGAL) == set(checkpoint_edits.cases())
    check(run(tmp_path, case, NUMBA_DISABLE_JIT="1"), [case])


@pytest.mark.nightly
@pytest.mark.parametrize(
    "case", ["neal8", "slice", "bins", "sources", "records", "counts", "normal", "regression", "collapsed"]
)
def test_edited_checkpoints_do_not_crash_compiled_code(case, tmp_path):
    """The same compiled, for each kind of state: old code ended with SIGSEGV."""
    check(run(tmp_path, case, NUMBA_DISABLE_JIT="0"), [case])


def test_arrays_that_contradict_the_rest_are_refused(tmp_path):
    """Catches a run that goes on, to other draws, from what no chain can have had: one edit a check.

    The script first resumes each case from what was written in the warm-up, so here are all cases.
    """
    others = set(LEGAL) - {edit.partition(":")[0] for edit in FOUND}
    for result in run(tmp_path, *FOUND, *(f"{case}: n_done=-1" for case in sorted(others)), NUMBA_DISABLE_JIT="1"):
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
    from sklearn_dpmix.samplers.mixture._places import N_FREE, NOT_BEGUN, STAGE
    from sklearn_dpmix.samplers.mixture._state import new_state

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
