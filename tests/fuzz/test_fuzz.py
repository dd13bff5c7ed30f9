"""Random bad inputs: each is refused by name, or gives a right answer; nothing crashes, hangs or changes a fit."""

import inspect

import numpy as np
import pytest

from .cases import SEED, Case, Wrong, complain_of_error, draw_case, wrong_in
from .subjects import EXEMPT, SUBJECTS, public
from .values import NUMBERS, OTHERS
from .worker import SECONDS, Watch

N_CASES, N_NIGHTLY = 500, 10_000


def report(watch, n_cases):
    """What went wrong, case by case."""
    assert sum(watch.endings.values()) == n_cases, watch.endings
    assert not watch.findings, "\n\n".join(map(str, watch.findings.values()))


@pytest.mark.slow
def test_bad_inputs_are_refused_by_name_or_give_a_right_answer(tmp_path):
    """Catches a parameter, an array or a file that is not checked: see ``cases.py`` for what is allowed.

    Most cases must be refused, or the values are not bad; some must be right, or nothing is made at all.
    """
    watch = Watch(SEED, 0, N_CASES, folder=tmp_path)
    report(watch, N_CASES)
    assert watch.endings["refused"] > 0.5 * N_CASES and watch.endings["right"] > 0.05 * N_CASES


@pytest.mark.nightly
def test_bad_inputs_in_full(tmp_path):
    """The same at length, with the chains of half of the components run."""
    watch = Watch(SEED, 0, N_NIGHTLY, deep=True, folder=tmp_path)
    report(watch, N_NIGHTLY)


# --- the table is whole ----------------------------------------------------------------------------------------------


def test_every_public_name_is_fuzzed_or_has_a_reason_not_to_be():
    """Catches a public class or function that is added without an entry, and an entry of what is no more."""
    assert sorted([*SUBJECTS, *EXEMPT]) == sorted(public())


@pytest.mark.parametrize("name", sorted(SUBJECTS))
def test_every_parameter_of_a_constructor_is_fuzzed(name):
    """Catches a parameter that is added and never spoilt."""
    parameters = [one for one in inspect.signature(SUBJECTS[name].make).parameters if one != "self"]
    assert sorted(SUBJECTS[name].given()) == sorted(parameters)


def test_every_bad_value_can_be_made():
    """And anew each time: those that are used up would be good for one case only."""
    assert all(make() is not None or name == "None" for name, make in OTHERS.items()) and len(NUMBERS) > 30


def test_a_case_is_the_same_whatever_came_before():
    """Catches cases that share a generator: a finding could not be repeated by its number."""
    first = [str(draw_case(number)) for number in range(30)]
    assert first == [str(draw_case(number)) for number in reversed(range(30))][::-1]
    assert len(set(first)) == 30


# --- broken twins: what must be found --------------------------------------------------------------------------------


CASE = Case(7, "LaplaceMechanism", "privatize", {"X": ("x", "x")}, True)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("a"), IndexError("a"), AttributeError("a"), OverflowError("epsilon"), ZeroDivisionError("epsilon"),
        RecursionError("epsilon"), MemoryError("epsilon"), np.linalg.LinAlgError("epsilon"), AssertionError("epsilon"),
        ValueError(""), TypeError("'<' not supported"), ValueError("math domain error"),
    ],
    ids=repr,
)  # fmt: skip
def test_errors_of_no_name_are_found(error):
    """Catches a judge that lets an error of the inside pass."""
    try:
        raise error
    except Exception as raised:
        with pytest.raises(Wrong):
            complain_of_error(CASE, raised)


@pytest.mark.parametrize("answer", [np.nan, np.array([1.0, np.inf]), (1.0, [np.nan]), np.array([None]), {"a": np.nan}])
def test_answers_that_are_no_numbers_are_found(answer):
    assert wrong_in(answer)


CRASHES = {
    "crash": "import ctypes; ctypes.string_at(0)",
    "hang": "while True: pass",
    "memory": "bytearray(10**15)",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_or_a_hang_is_found_and_the_cases_after_it_are_run(name, tmp_path, monkeypatch):
    """Catches a watch that waits for ever, or stops at the first case that takes the process with it."""
    monkeypatch.setattr("fuzz.worker.SECONDS", 0.5)
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import sys\n"
        "print('ready', flush=True)\n"
        "for number in range(*map(int, sys.argv[2:4])):\n"
        "    print('begin', number, flush=True)\n"
        "    ending = 'right'\n"
        "    try:\n"
        "        if number == 2:\n"
        f"            {CRASHES[name].replace('; ', chr(10) + ' ' * 12)}\n"
        "    except MemoryError:\n"
        "        ending = 'MemoryError'\n"
        "    print('end', number, chr(34) + ending + chr(34), flush=True)\n"
        "print('done', flush=True)\n"
    )
    watch = Watch(SEED, 0, 5, folder=tmp_path, program=[str(worker)])
    assert list(watch.findings) == [2] and watch.endings == {"right": 4, "wrong": 1}
    assert SECONDS == 5.0
