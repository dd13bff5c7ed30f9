"""Nothing imports what is above it, and every cached function takes a component first."""

import ast

import pytest
from scripts import PACKAGE

# ---------------------------------------------------------------- layers

#: What each part of the package may import of it, besides its own files.  Nothing below knows what is above it.
LAYERS = {
    "_typing": set(),
    "_compiled": set(),
    "_files": set(),
    "_restore": set(),
    "_numeric": set(),
    "_vector": set(),
    "_random": set(),
    "_parameters": set(),
    "_beta": {"_compiled"},
    "_partition_loss": {"_compiled"},
    "_partition_search": {"_compiled"},
    "_partition": {"_partition_loss", "_partition_search"},
    "privacy": {"_files"},
    "mechanisms": {"_compiled", "_numeric", "_vector", "_random", "_parameters", "privacy"},
    "kernels": {"_compiled", "_numeric", "_beta", "_vector", "_parameters", "_restore"},
    "mixings": {"_compiled", "_numeric", "_vector"},
    "_linear": {"_compiled"},
    "_nodes": set(),
    "_nodes_of_several": {"_nodes"},
    "_fine_cells": {"_compiled", "_nodes"},
    "models": {"_beta", "_compiled", "_linear", "_numeric", "_parameters"},
    "queries": {"_parameters", "_random", "models", "privacy"},
    "samplers": {
        "_compiled",
        "_linear",
        "_nodes",
        "_nodes_of_several",
        "_numeric",
        "_parameters",
        "_restore",
        "_vector",
    },
    "plotting": {"_draws", "_parameters", "_partition", "metrics"},
    "metrics": {"_parameters", "_random"},
    "datasets": {"_parameters", "_random"},
    "_chains": set(),
    "_draws": {"_parameters"},
    "_noise_source": {"mechanisms"},
    "_mixture": {"_compiled", "_vector", "samplers"},
    "_response_pieces": {"_compiled", "_mixture", "_numeric", "_vector"},
    "_response_law": {"_compiled", "_mixture", "_response_pieces"},
    "_cluster": {"_compiled", "_mixture"},
    "_pointwise": {"_cluster", "_mixture", "mechanisms"},
    "_compose": {"kernels", "mechanisms", "mixings", "samplers"},
    "_checkpoint": {"_chains", "_files", "__init__"},  # of the package: its version
    "_release_summary": {"_files", "_fine_cells", "_nodes", "_parameters", "_restore", "mechanisms"},
    "_release": {"_nodes", "_release_summary", "mechanisms"},
    "estimators": {
        "_beta",
        "_chains",
        "_checkpoint",
        "_cluster",
        "_compiled",
        "_compose",
        "_response_law",
        "_draws",
        "_mixture",
        "_noise_source",
        "_parameters",
        "_partition",
        "_pointwise",
        "_random",
        "_release",
        "_release_summary",
        "_restore",
        "kernels",
        "mechanisms",
        "mixings",
        "models",
        "privacy",
        "queries",
        "samplers",
    },
    "__init__": {"_release_summary", "estimators"},
    "warmup": {"__init__"},
}

SUMS = {"_parameter_draws", "_proposal", "_release_density"}
#: What each room of ``samplers`` may import of ``samplers``, besides the files beside it; some files have rules of
#: their own.  A room stands for all of its files.
ROOMS = {
    "": set(),
    "augmentation": SUMS,
    "sums": SUMS,
    "tables": SUMS,
    "simulation": {"_parameter_draws"},
    "private": {"_threads"},
    "mixture": {"_parameter_draws", "_threads", "mixture.moves"},
    "mixture.moves": {"mixture._state"},
    "mixture.cells": {"mixture._reuse", "mixture._sampler", "mixture._state", "mixture.moves"},
    "mixture.measure": {"_parameter_draws", "mixture._run", "mixture._sampler"},
}
#: Instead of its room's: what all samplers of mixtures share knows none of them, and one file chooses among all.
FILES = {
    "__init__": {"mixture", "private", "simulation"},
    "mixture._state": set(),
    "mixture._run": {"_parameter_draws", "mixture._state"},
    "mixture._sampler": {"mixture._run", "mixture._state"},
    "mixture._auto": {"mixture"},
}


def sources():
    """(part of the package, path, syntax tree) of each file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        yield part, path, ast.parse(path.read_text())


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


def imported_parts(path, tree):
    """Parts of the package that a file imports, wherever in the file."""
    for module in imported_modules(path, tree):
        yield module[0]


def foreign_imports(path, tree):
    """What a file of ``samplers`` imports of it, against ``ROOMS`` and ``FILES``."""
    place = path.relative_to(PACKAGE / "samplers").with_suffix("").parts
    room, file = ".".join(place[:-1]), ".".join(place)
    allowed = FILES.get(file, ROOMS[room])
    for part, *rest in imported_modules(path, tree):
        if part == "samplers":
            found = ".".join(rest)
            is_beside = rest[:-1] == list(place[:-1]) and rest and rest[-1].startswith("_")
            is_allowed = any(f"{found}.".startswith(f"{one}.") for one in allowed)
            if not is_allowed and not (is_beside and file not in FILES):
                yield found


def test_nothing_imports_what_is_above_it():
    """Data flows one way (STYLE): compiled base, components, samplers, estimators."""
    seen = set()
    for part, path, tree in sources():
        seen.add(part)
        extra = set(imported_parts(path, tree)) - LAYERS[part] - {part, "_typing"}
        assert not extra, f"{path} imports {extra}"
    assert seen == set(LAYERS)


def test_rooms_of_samplers_know_only_what_they_say():
    """One subject a room: what two of them need is beside the rooms, and no room looks into another one's files."""
    rooms, files = set(), set()
    for part, path, tree in sources():
        if part == "samplers":
            place = path.relative_to(PACKAGE / "samplers").with_suffix("").parts
            rooms.add(".".join(place[:-1]))
            files.add(".".join(place))
            extra = list(foreign_imports(path, tree))
            assert not extra, f"{path} imports {extra}"
    assert rooms == set(ROOMS)
    assert files >= set(FILES)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("mixture/_neal5.py", "from .measure._walk import MixingMeasure"),
        ("mixture/_neal5.py", "from . import measure"),
        ("mixture/_state.py", "from ._run import run"),
        ("mixture/_state.py", "from .moves._rescaling import rescale_all"),
        ("mixture/_run.py", "from .moves._rescaling import rescale_all"),
        ("mixture/moves/_rescaling.py", "def f():\n    from .._run import run"),
        ("mixture/measure/_walk.py", "from ..cells import _bins"),
        ("private/_target.py", "import sklearn_dpmix.samplers.mixture._in_blocks"),
        ("sums/_statistic.py", "from .. import MixtureSampler"),
        ("tables/_convolution.py", "from ..sums._log_concave import draw_log_concave"),
        ("simulation/_simulator.py", "from sklearn_dpmix.samplers.augmentation._carry import TARGET"),
        ("_threads.py", "from .mixture._run import run"),
    ],
)
def test_a_room_that_looks_into_another_is_found(file, line):
    assert list(foreign_imports(PACKAGE / "samplers" / file, ast.parse(line)))


def test_files_have_names_of_their_own():
    """In ``samplers``: a name in a traceback or an editor's tab says which file it is."""
    names = [path.name for part, path, _ in sources() if part == "samplers" and path.name != "__init__.py"]
    others = {path.name for part, path, _ in sources() if part != "samplers"}
    assert len(names) == len(set(names))
    assert not others & set(names)


def test_the_import_walker_sees_every_kind_of_import():
    """The broken twin: a mechanism's file that reaches up, in each way of writing it."""
    path = PACKAGE / "mechanisms" / "_laplace.py"
    for line, part in (
        ("from ..samplers import Neal5", "samplers"),
        ("from .. import samplers", "samplers"),
        ("from ..samplers._neal5 import Neal5", "samplers"),
        ("import sklearn_dpmix.samplers", "samplers"),
        ("from sklearn_dpmix.estimators import PrivateDPMixture", "estimators"),
        ("def f():\n    from ..estimators import PrivateDPMixture", "estimators"),
        ("from ._additive import AdditiveMechanism", "mechanisms"),
        ("from . import _additive", "mechanisms"),
    ):
        assert list(imported_parts(path, ast.parse(line))) == [part], line
    init = PACKAGE / "mechanisms" / "__init__.py"
    assert list(imported_parts(init, ast.parse("from ._laplace import LaplaceMechanism"))) == ["mechanisms"]
    assert list(imported_parts(init, ast.parse("from ..samplers import Neal5"))) == ["samplers"]


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
    """Else its cache entry would outlive the code that it was made of (see ``_compiled``)."""
    n_entries = 0
    for _, path, tree in sources():
        assert not list(dishonest_entries(tree)), path
        n_entries += path.read_text().count("\n@entry\n")
    assert n_entries >= 8


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
