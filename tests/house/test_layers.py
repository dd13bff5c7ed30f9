"""Nothing imports what is above it, and every cached function takes a component first."""

import ast

import pytest
from scripts import PACKAGE

# ---------------------------------------------------------------- layers

STATISTIC = {"samplers._driver", "samplers._parameter_draws", "samplers._proposal", "samplers._release_density"}
COMPONENTS = {"_base", "kernels", "mechanisms", "mixings", "models", "privacy", "queries", "samplers"}
#: What the files of each room may import of the package, besides the files beside them: a room stands for all of its
#: files and rooms.  Nothing below knows what is above it, and no room looks into another one's files unless it says so.
ROOMS = {
    "": {"_chains.auto_draws", "_releases.summary", "estimators"},
    "_base": set(),
    "privacy": {"_base"},
    "mechanisms": {"_base", "privacy"},
    "kernels": {"_base"},
    "mixings": {"_base"},
    "models": {"_base"},
    "queries": {"_base", "models", "privacy"},
    "datasets": {"_base"},
    "metrics": {"_base"},
    "plotting": {"_base", "_chains.draws", "_posterior.partition", "metrics"},
    "samplers": {"_base", "samplers.mixture", "samplers.private", "samplers.simulation"},
    "samplers.augmentation": {"_base", *STATISTIC},
    "samplers.sums": {"_base", *STATISTIC},
    "samplers.tables": {"_base", *STATISTIC},
    "samplers.simulation": {"_base", "samplers._driver"},
    "samplers.private": {"_base"},
    "samplers.mixture": {"_base", "samplers._driver", "samplers.mixture.moves"},
    "samplers.mixture.moves": {"_base", "samplers.mixture._places", "samplers.mixture._state"},
    "samplers.mixture.cells": {
        "_base",
        "samplers.mixture._places",
        "samplers.mixture._reuse",
        "samplers.mixture._sampler",
        "samplers.mixture._state",
        "samplers.mixture.moves",
    },
    "samplers.mixture.measure": {
        "_base",
        "_releases.nodes",
        "_releases.nodes_of_scales",
        "_releases.nodes_of_several",
        "samplers._driver",
        "samplers.mixture._run",
        "samplers.mixture._sampler",
    },
    "_releases": {"_base", "mechanisms"},
    "_chains": {"_base"},
    "_posterior": {"_base", "mechanisms", "samplers"},
    "estimators": {
        "_base",
        "_chains",
        *(f"estimators.{room}" for room in ("curator", "mixture", "private", "simulation")),
    },
    "estimators.mixture": {*COMPONENTS, "_chains", "_posterior", "_releases"},
    "estimators.curator": {*COMPONENTS, "_chains", "_posterior.pointwise"},
    "estimators.private": {*COMPONENTS, "_chains"},
    "estimators.simulation": {
        *COMPONENTS,
        "_chains",
        "estimators.curator._curator",
        "estimators.curator._statistic_contents",
    },
}
SHARED = {"_chain_estimator", "_confidential", "_decorators", "_monitored_draws"}
for room in ("curator", "mixture", "private", "simulation"):
    ROOMS[f"estimators.{room}"] |= {f"estimators.{file}" for file in SHARED}
#: Instead of its room's and of what is beside it: what a room shares knows none of the others, and one file chooses
#: among all.
FILES = {
    "warmup": {"__init__"},
    "_releases.nodes": set(),
    "_releases.nodes_of_scales": {"_releases.nodes", "_releases.nodes_of_several"},
    "_releases.nodes_of_several": {"_base", "_releases.nodes"},
    "_releases.fine_cells": {"_base", "_releases.nodes"},
    "_chains.checkpoint": {"__init__", "_base", "_chains.chain", "_chains.pace"},  # of the package: its version
    "samplers._driver": {"_base", "samplers._parameter_draws"},
    "samplers._parameter_draws": set(),
    "samplers._proposal": {"_base"},
    "samplers._release_density": {"_base"},
    "samplers.mixture._places": {"_base"},
    "samplers.mixture._state": {"_base", "samplers.mixture._places"},
    "samplers.mixture._run": {
        "_base",
        "samplers._driver",
        "samplers.mixture._places",
        "samplers.mixture._state",
    },
    "samplers.mixture._sampler": {
        "_base",
        "samplers.mixture._places",
        "samplers.mixture._run",
        "samplers.mixture._state",
    },
    "samplers.mixture._auto": {"_base", "samplers.mixture"},
    **{
        f"estimators.{file}": {"_base", "_chains", *(f"estimators.{other}" for other in SHARED - {file})}
        for file in SHARED
    },
}


def place_of(path):
    """Names from the package down to a file or a room."""
    return path.relative_to(PACKAGE).with_suffix("").parts


def sources():
    """(path, syntax tree) of each file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def imported_modules(path, tree):
    """Modules of the package that a file imports, wherever in the file, as tuples of names below the package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            place = path.relative_to(PACKAGE.parent).parts
            start = place[: len(place) - node.level] if node.level else ()
            found = (*start, *(node.module.split(".") if node.module else ()))
            if found[0] == PACKAGE.name:
                yield from dict.fromkeys(module_of(found[1:], alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root, *rest = alias.name.split(".")
                if root == PACKAGE.name:
                    yield tuple(rest) or ("__init__",)


def module_of(found, name):
    """The module that ``from found import name`` is about: one of that name, or what it is imported from."""
    inner = PACKAGE.joinpath(*found, name)
    if inner.is_dir() or inner.with_suffix(".py").is_file():
        return (*found, name)
    return found or ("__init__",)


def foreign_imports(path, tree):
    """What a file imports of the package against ``ROOMS`` and ``FILES``."""
    *room, _ = place = place_of(path)
    allowed = FILES.get(".".join(place), ROOMS[".".join(room)])
    for found in imported_modules(path, tree):
        is_beside = (
            list(found[:-1]) == room
            and found != ("__init__",)
            and (PACKAGE / "/".join(found)).with_suffix(".py").is_file()
        )
        is_allowed = any(".".join([*found, ""]).startswith(f"{one}.") for one in allowed)
        if not is_allowed and not (is_beside and ".".join(place) not in FILES):
            yield ".".join(found)


def test_nothing_imports_what_is_above_it():
    """Data flows one way (STYLE): compiled base, components, samplers, estimators; and one subject has one room."""
    rooms, files = set(), set()
    for path, tree in sources():
        place = place_of(path)
        rooms.add(".".join(place[:-1]))
        files.add(".".join(place))
        extra = list(foreign_imports(path, tree))
        assert not extra, f"{path} imports {extra}"
    assert rooms == set(ROOMS)
    assert files >= set(FILES)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("mechanisms/_laplace.py", "from ..samplers import Neal5"),
        ("mechanisms/_laplace.py", "from .. import samplers"),
        ("mechanisms/_laplace.py", "from ..samplers.mixture._neal5 import Neal5"),
        ("mechanisms/_laplace.py", "import sklearn_dpmix.samplers"),
        ("mechanisms/_laplace.py", "from sklearn_dpmix.estimators import PrivateDPMixture"),
        ("mechanisms/_laplace.py", "def f():\n    from ..estimators import PrivateDPMixture"),
        ("mechanisms/_laplace.py", "from .. import __version__"),
        ("mechanisms/__init__.py", "from ..samplers import Neal5"),
        ("_base/compiled.py", "from ..privacy import PrivacyGuarantee"),
        ("_chains/chain.py", "from ..samplers import Neal5"),
        ("_chains/checkpoint.py", "from .progress import Progress"),
        ("_releases/nodes.py", "from .summary import ReleaseSummary"),
        ("samplers/mixture/_neal5.py", "from .measure._walk import MixingMeasure"),
        ("samplers/mixture/_neal5.py", "from . import measure"),
        ("samplers/mixture/_state.py", "from ._run import run"),
        ("samplers/mixture/_state.py", "from .moves._rescaling import rescale_all"),
        ("samplers/mixture/_run.py", "from .moves._rescaling import rescale_all"),
        ("samplers/mixture/moves/_rescaling.py", "def f():\n    from .._run import run"),
        ("samplers/mixture/measure/_walk.py", "from ..cells import _bins"),
        ("samplers/mixture/measure/_walk.py", "from ...._releases.summary import ReleaseSummary"),
        ("samplers/private/_target.py", "import sklearn_dpmix.samplers.mixture._conditional"),
        ("samplers/sums/_statistic.py", "from .. import MixtureSampler"),
        ("samplers/tables/_convolution.py", "from ..sums._log_concave import draw_log_concave"),
        ("samplers/simulation/_simulator.py", "from sklearn_dpmix.samplers.augmentation._carry import TARGET"),
        ("samplers/_proposal.py", "from .mixture._run import run"),
        ("estimators/_chain_estimator.py", "from .mixture._dp_mixture import PrivateDPMixture"),
        ("estimators/private/_dp_mcmc.py", "from ..curator._curator import check_release"),
        ("estimators/curator/_regression.py", "from ..mixture import _dp_mixture"),
    ],
)
def test_a_file_that_looks_where_it_may_not_is_found(file, line):
    assert list(foreign_imports(PACKAGE / file, ast.parse(line)))


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("mechanisms/_laplace.py", "from ._additive import AdditiveMechanism"),
        ("mechanisms/_laplace.py", "from . import _additive"),
        ("mechanisms/__init__.py", "from ._laplace import LaplaceMechanism"),
    ],
)
def test_a_file_may_look_beside_it(file, line):
    assert not list(foreign_imports(PACKAGE / file, ast.parse(line)))


def test_files_have_names_of_their_own():
    """A name in a traceback or an editor's tab says which file it is."""
    names = [path.name for path, _ in sources() if path.name != "__init__.py"]
    assert len(names) == len(set(names))


def calls_cache(node):
    """Whether a decorator or call asks numba for a disk cache by itself."""
    return isinstance(node, ast.Call) and any(
        word.arg == "cache" and not (isinstance(word.value, ast.Constant) and word.value.value is False)
        for word in node.keywords
    )


VALUES = {"sampler", "channel", "kernel", "mixing", "model", "mechanism", "query", "family", "law"}


def dishonest_entries(tree):
    """Functions under ``@entry`` whose first argument is not used as a component's value, and any other disk cache."""
    for node in ast.walk(tree):
        if calls_cache(node):
            yield ast.unparse(node)
        if not isinstance(node, ast.FunctionDef):
            continue
        if any(isinstance(d, ast.Name) and d.id == "entry" for d in node.decorator_list):
            first = node.args.args[0].arg if node.args.args else None
            uses = {
                n.value.id for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)
            } | {
                a.id for n in ast.walk(node) if isinstance(n, ast.Call) for a in n.args if isinstance(a, ast.Name)
            }  # fmt: skip
            if first not in VALUES or first not in uses:
                yield node.name


def test_every_cached_function_takes_a_component_first():
    """Else its cache entry would outlive the code that it was made of (see ``_base.reach``)."""
    n_entries = 0
    for path, tree in sources():
        assert not list(dishonest_entries(tree)), path
        n_entries += path.read_text().count("\n@entry\n")
    assert n_entries >= 40


@pytest.mark.parametrize(
    "source",
    [
        "@entry\ndef f(Z, channel):\n    return channel.log_noise(Z)",
        "@entry\ndef f(channel, Z):\n    return Z.sum()",
        "@njit(cache=True)\ndef f(Z):\n    return Z",
        "g = numba.njit(nogil=True, cache=True)",
        "@entry\ndef f():\n    return 1",
    ],
)
def test_a_dishonest_entry_is_found(source):
    assert list(dishonest_entries(ast.parse(source)))
