"""What is fuzzed: for each public name valid arguments, and what is done with what they make.

A class without an entry in :data:`SUBJECTS` or a reason in :data:`EXEMPT` fails the tests.
"""

import importlib
import inspect
from functools import cache

from .component_subjects import COMPONENTS
from .estimator_subjects import ESTIMATORS
from .function_subjects import FUNCTIONS
from .parts import Subject
from .release_subjects import RELEASES

MODULES = (
    "sklearn_dpmix",
    *(f"sklearn_dpmix.{name}" for name in ("datasets", "kernels", "mechanisms", "metrics", "mixings", "models")),
    *(f"sklearn_dpmix.{name}" for name in ("privacy", "queries", "samplers")),
)

BASE = "a base class: it takes nothing"
RESULT = "what the package returns, not what it is given"
EXEMPT = {
    "AdditiveMechanism": BASE,
    "BinnedChannel": BASE,
    "BudgetExceededError": "an exception",
    "Coverage": RESULT,
    "FAMILIES": "a dict",
    "Family": BASE,
    "Kernel": BASE,
    "LedgerEntry": RESULT,
    "LikelihoodModel": BASE,
    "MixtureSampler": BASE,
    "NoNoise": "takes nothing",
    "Prior": BASE,
    "PrivacyGuarantee": RESULT,
    "Query": BASE,
    "RankUniformity": RESULT,
    "RecordChannel": BASE,
    "RecordModel": BASE,
    "Releases": BASE,
    "SmoothQuery": BASE,
    "compiled": "a decorator",
    "load_anes96": "takes nothing",
    "load_engel": "takes nothing",
    "load_air_time": "takes nothing",
    "load_rand_hie": "takes nothing",
    "load_rossi": "takes nothing",
}

#: Parameters that say how much work is asked for: an enormous number is no bad input, but a long run or a large
#: array, as it was asked for.  They are given small or wrong values only.
WORK = {
    "batch_size", "block_size", "max_draws", "max_iter", "max_seconds", "max_simulations", "n_attempts", "n_auxiliary",
    "n_chains", "n_draws", "n_iter", "n_jobs", "n_leapfrog", "n_median", "n_moves", "n_partitions", "n_passes",
    "n_people", "n_points", "n_released", "n_replicates", "n_samples", "n_scans", "n_simulations", "n_split_merge",
    "n_starts", "n_steps", "n_warmup", "n_weeks", "thin",
}  # fmt: skip

SUBJECTS: dict[str, Subject] = RELEASES | COMPONENTS | FUNCTIONS | ESTIMATORS


@cache
def public():
    """{name: object} of all that is public, plots left out."""
    found = {}
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            member = getattr(module, name)
            if not inspect.ismodule(member):
                found[name] = member
    return found
