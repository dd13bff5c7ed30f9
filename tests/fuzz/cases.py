"""A case: one public name, one or two of its arguments spoilt; and what is said of how it ended."""

import dataclasses
import inspect
import linecache
import os
import re
import traceback
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import joblib
import numba
import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

import sklearn_dpmix
from sklearn_dpmix.estimators import _chain_estimator
from sklearn_dpmix.estimators.curator import _exp_family_engines
from sklearn_dpmix.estimators.private import _dp_mcmc

from .subjects import SUBJECTS, WORK, public
from .values import bad_value

SEED = 20261122
ALLOWED = (ValueError, TypeError, OSError, ImportError)
#: Internals of NumPy, though ValueError by inheritance.
FORBIDDEN = (np.linalg.LinAlgError, UnicodeError)
OURS = os.path.dirname(sklearn_dpmix.__file__)
#: Attributes of a fit that may be NaN, as documented or because a handful of draws has no such number.
MAY_BE_NAN = {
    "acceptance_rate_", "k_hat_", "log_evidence_", "min_acceptance_", "monte_carlo_error_", "score_", "standard_error_",
}  # fmt: skip
#: Functions of numbers, NaN included.
TAKES_NAN = {"three_normals_density"}
#: Methods with one answer a row of their first argument.
ROWWISE = {"log_density", "predict", "score_samples", "density", "predict_proba", "predict_log_proba"}


class ChainStarts(BaseException):
    """All was checked and chains would start: what is compiled and run is right, or other tests' business."""


class Wrong(Exception):
    """A case that ended as none may."""


class Case(NamedTuple):
    """What is done."""

    number: int
    name: str
    what: str  # "make", "fit", "refit" or the name of a method
    changes: dict[str, tuple[str, Any]]  # parameter: (what it is now, value)
    stops: bool  # where chains would start

    def __str__(self):
        changes = ", ".join(f"{name} is {label}" for name, (label, _) in self.changes.items())
        return f"case {self.number}: {self.name}, {self.what}, {changes}"


def draw_case(number, seed=SEED, deep=False):
    """The case of a number: the same whatever was run before; ``deep`` runs components' chains, too."""
    rng = np.random.default_rng([seed, number])
    names = sorted(SUBJECTS)
    weights = np.array([3.0 if SUBJECTS[name].data or "privatize" in SUBJECTS[name].calls else 1.0 for name in names])
    name = str(rng.choice(names, p=weights / weights.sum()))
    subject = SUBJECTS[name]
    options = ["make"] + [*subject.calls] * bool(rng.random() < 0.6)
    if subject.data:
        options += ["fit", "refit", "refit"]
    what = str(rng.choice(options))
    given = subject.calls[what]() if what in subject.calls else subject.given()
    if what == "fit" or (what == "refit" and rng.random() < 0.3):
        given = subject.data()
    changes = {}
    for target in rng.permutation(sorted(given))[: 1 if rng.random() < 0.75 else 2]:
        changes[str(target)] = spoil(rng, str(target), given[target])
    return Case(number, name, what, changes, not (deep and rng.random() < 0.5))


def spoil(rng, target, good):
    """A bad value for a parameter: for one that takes an object, often another object, itself with a bad parameter."""
    if isinstance(good, BaseEstimator) or (rng.random() < 0.1 and not is_plain(good)):
        kind = rng.random()
        if kind < 0.7:
            return other_object(rng)
    return bad_value(rng, good, small=target in WORK)


def is_plain(good):
    return isinstance(good, (bool, int, float, str, np.ndarray))


def other_object(rng):
    """An object, or its class, of one of the package's components: right in itself, or not."""
    names = [name for name, one in SUBJECTS.items() if inspect.isclass(one.make) and one.data is None]
    name = str(rng.choice(sorted(names)))
    subject = SUBJECTS[name]
    if rng.random() < 0.1:
        return f"the class {name}", subject.make
    given = subject.given()
    label = name
    if given and rng.random() < 0.5:
        target = str(rng.choice(sorted(given)))
        small = target in WORK
        what, given[target] = bad_value(rng, given[target], small)
        label = f"{name}, whose {target} is {what}"
    try:
        return label, subject.make(**given)
    except ALLOWED:  # it is checked when it is made: a case of its own
        return f"the class {name}", subject.make


# --- running one -----------------------------------------------------------------------------------------------------


class Bench:
    """Estimators that were fitted once, and what they hold."""

    def __init__(self):
        self.fitted, self.digests = {}, {}
        for name, subject in SUBJECTS.items():
            if subject.data:
                self._prepare(name)
            elif subject.use is None:  # what is calibrated is remembered
                with quiet():
                    made = subject.make(**subject.given())
                    for call, arguments in subject.calls.items():
                        getattr(made, call)(**arguments())

    def _prepare(self, name):
        with quiet():
            subject = SUBJECTS[name]
            self.fitted[name] = subject.make(**subject.given()).fit(**subject.data())
            for call, arguments in subject.calls.items():  # warm: what is compiled here is not a case's time
                getattr(self.fitted[name], call)(**arguments())
        self.digests[name] = digest(self.fitted[name])

    def run(self, case):
        """Return "refused" or "right"; raise Wrong."""
        with quiet():
            try:
                ending = getattr(self, f"_{case.what}", self._call)(case)
            finally:
                restore_chains()
        self.check(case.name, case)
        return ending

    def check(self, name, case):
        """Earlier fits are as they were."""
        if name in self.fitted and digest(self.fitted[name]) != self.digests[name]:
            self._prepare(name)
            raise Wrong(f"{case}: the earlier fit of {name} changed")

    def _make(self, case):
        """Make it, and do all that can be done with it."""
        subject = SUBJECTS[case.name]
        given = subject.given() | values(case)
        if "query" in case.changes and "bounds" in given:  # one of the two
            given["bounds"] = None
        made = self._attempt(case, "", subject.make, given)
        if isinstance(made, Refused):
            return "refused"
        endings = []
        if subject.use is not None:
            endings.append(self._attempt(case, "", subject.use, {"one": made}, stops=case.stops))
        elif subject.data is not None:
            endings.append(self._attempt(case, "fit", made.fit, subject.data(), stops=self._stops(case)))
        else:
            for call, arguments in subject.calls.items():
                endings.append(self._attempt(case, call, getattr(made, call), arguments()))
        return "refused" if any(isinstance(one, Refused) for one in endings) else "right"

    def _fit_new(self, case):
        subject = SUBJECTS[case.name]
        made = subject.make(**subject.given())
        return self._attempt(case, "fit", made.fit, subject.data() | values(case), stops=self._stops(case))

    def _refit(self, case):
        """Fit the earlier fit again, with what is bad: it must come out as it was where that is refused."""
        subject, fitted = SUBJECTS[case.name], self.fitted[case.name]
        given, data, bad = subject.given(), subject.data(), values(case)
        if set(bad) <= set(given):
            given |= bad
        else:
            data |= bad
        params = fitted.get_params(deep=False)
        for name, value in given.items():
            setattr(fitted, name, value)
        before = digest(fitted, params=False)
        try:
            ending = self._attempt(case, "fit", fitted.fit, data, stops=self._stops(case))
        except Wrong:
            self._prepare(case.name)
            raise
        after = digest(fitted, params=False)
        for name, value in params.items():
            setattr(fitted, name, value)
        if not isinstance(ending, Refused):
            self._prepare(case.name)
        elif before != after:
            self._prepare(case.name)
            raise Wrong(f"{case}: a fit that was refused changed the earlier one")
        return "refused" if isinstance(ending, Refused) else "right"

    def _call(self, case):
        subject = SUBJECTS[case.name]
        if case.what == "fit":
            ending = self._fit_new(case)
        else:
            one = self.fitted[case.name] if subject.data else subject.make(**subject.given())
            ending = self._attempt(case, case.what, getattr(one, case.what), subject.calls[case.what]() | values(case))
        return "refused" if isinstance(ending, Refused) else "right"

    def _stops(self, case):
        """Where parts were changed, chains would compile anew."""
        parts = {"mechanism", "kernel", "mixing", "sampler", "model", "method", "family", "prior", "x_model"}
        return bool(parts & set(case.changes)) or (case.stops and "n_draws" not in case.changes)

    def _attempt(self, case, call, function, arguments, stops=False):
        held = {name: digest_of(value) for name, value in arguments.items()}
        if stops:
            stop_chains()
        try:
            answer = function(**arguments) if "one" not in arguments else function(arguments["one"])
        except ChainStarts:
            return Refused()
        except Exception as error:
            complain_of_error(case, error)
            answer = Refused()
        finally:
            restore_chains()
        for name, value in arguments.items():
            if digest_of(value) != held[name]:
                raise Wrong(f"{case}: {call or case.name} changed its argument {name}")
        if not isinstance(answer, Refused) and case.name not in TAKES_NAN:
            complaint = wrong_in(answer)
            if complaint is None and call in ROWWISE:
                complaint = wrong_length(answer, next(iter(arguments.values())))
            if complaint:
                raise Wrong(f"{case}: {call or case.name} gave {complaint}")
        return answer


class Refused:
    """It was refused by name, or stopped where chains would start."""


def values(case):
    return {name: value for name, (_, value) in case.changes.items()}


def quiet():
    return warnings.catch_warnings(action="ignore")


STARTS = {_chain_estimator: "start_chains", _dp_mcmc: "run_chains"}
if numba.config.DISABLE_JIT:  # sums over ten thousands of points, which take minutes as Python
    STARTS[_exp_family_engines] = "modes"
ORIGINALS = {module: getattr(module, name) for module, name in STARTS.items()}


def stop_chains():
    def start(*args, **kwargs):
        raise ChainStarts

    for module, name in STARTS.items():
        setattr(module, name, start)


def restore_chains():
    for module, name in STARTS.items():
        setattr(module, name, ORIGINALS[module])


def digest(estimator, params=True):
    """What an estimator holds, as a hash."""
    held = dict(vars(estimator))
    if not params:
        held = {name: value for name, value in held.items() if name not in estimator.get_params(deep=False)}
    return joblib.hash(held)


def digest_of(value):
    """Hash of an argument that could be written to; None of others."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject and value.size < 10**5:
        return joblib.hash(np.asarray(value))
    return repr(value) if isinstance(value, (list, dict)) else None


# --- judging one -----------------------------------------------------------------------------------------------------


def complain_of_error(case, error):
    """Raise Wrong for an error that is not one of ours or scikit-learn's, or names nothing."""
    kind, message = type(error).__name__, str(error)
    where = "".join(traceback.format_tb(error.__traceback__)[-2:])
    if is_of_constraints(error):  # scikit-learn's own comparison, of an integer that no float holds
        return
    if not isinstance(error, ALLOWED) or isinstance(error, FORBIDDEN) or "numba" in type(error).__module__:
        raise Wrong(f"{case}: {kind}: {message[:300]}\n{where}") from error
    if not message.strip():
        raise Wrong(f"{case}: {kind} without a message\n{where}") from error
    if not (is_on_purpose(error) or names_something(case, message)):
        raise Wrong(f"{case}: {kind}, which names nothing: {message[:300]}\n{where}") from error


def is_of_constraints(error):
    """Whether an OverflowError comes from scikit-learn's check of parameters against intervals."""
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
    return isinstance(error, OverflowError) and "validate_parameter_constraints" in names


def is_on_purpose(error):
    """Whether the error comes from a ``raise`` of this package, or from scikit-learn's checks of arrays."""
    frames = list(traceback.walk_tb(error.__traceback__))
    last, line = frames[-1]
    source = linecache.getline(last.f_code.co_filename, line).strip()
    if last.f_code.co_filename.startswith(OURS):
        return source.startswith("raise ")
    checks = {"check_array", "validate_parameter_constraints"}
    is_checked = any(frame.f_code.co_name in checks for frame, _ in frames)
    return is_checked or (os.path.join("sklearn", "utils") in last.f_code.co_filename and source.startswith("raise "))


def names_something(case, message):
    """Whether a message names what was given, its class, or another parameter of it."""
    subject = SUBJECTS[case.name]
    names = {case.name, *case.changes, *subject.given()}
    for arguments in [*subject.calls.values(), *([subject.data] if subject.data else [])]:
        names |= set(arguments())
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names) or any(
        name in message for name in public()
    )


def wrong_in(answer, name=""):
    """What is wrong with an answer: NaN, infinity above all; None where nothing is."""
    if answer is None or isinstance(answer, (str, bool, np.bool_, int)):
        return None
    if isinstance(answer, (float, np.floating, np.ndarray, np.integer)):
        array = np.asarray(answer)
        if array.dtype.kind not in "fiub":
            return None if array.dtype.kind in "USOmM" and name else f"{name} of dtype {array.dtype}"
        if array.dtype.kind == "f" and (np.isnan(array).any() or (array == np.inf).any()):
            return f"{name or 'an answer'} that is {answer!r}"[:200]
        return None
    if isinstance(answer, Mapping):
        answer = tuple(answer.values())
    if isinstance(answer, (tuple, list)):
        return next((found for found in (wrong_in(one, name) for one in answer) if found), None)
    if dataclasses.is_dataclass(answer) and type(answer).__name__ == "PrivacyGuarantee":
        numbers = [one for one in (answer.epsilon, answer.delta) if one is not None]  # ρ may be infinite
        is_right = all(0 <= one < np.inf for one in numbers) and not (answer.rho is not None and not answer.rho >= 0)
        return None if is_right else f"the guarantee {answer!r}"
    if hasattr(answer, "fit"):
        for attribute, value in vars(answer).items():
            is_public = attribute.endswith("_") and not attribute.startswith("_") and attribute not in MAY_BE_NAN
            if is_public and isinstance(value, (np.ndarray, float)):
                found = wrong_in(value, attribute)
                if found:
                    return found
    return None


def wrong_length(answer, rows):
    n = rows.shape[0] if hasattr(rows, "shape") and not scipy.sparse.issparse(rows) and rows.shape else len(rows)
    given = np.shape(answer)
    return None if given and given[0] == n else f"shape {given} for {n} rows"
