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
    "_nodes_of_several": set(),
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
}


def sources():
    """(part of the package, path, syntax tree) of each file."""
    for path in sorted(PACKAGE.rglob("*.py")):
        part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        yield part, path, ast.parse(path.read_text())


def imported_parts(path, tree):
    """Parts of the package that a file imports, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            package = path.relative_to(PACKAGE.parent).with_suffix("").parts
            start = package[: len(package) - node.level] if node.level else ()
            if path.name == "__init__.py" and node.level:
                start = package[: len(package) - node.level]
            found = (*start, *(node.module or "").split(".")) if node.module else start
            if found and found[0] == PACKAGE.name:
                names = [found[1]] if len(found) > 1 else [alias.name for alias in node.names]
                yield from names
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root, _, rest = alias.name.partition(".")
                if root == PACKAGE.name:
                    yield rest.partition(".")[0]


def test_nothing_imports_what_is_above_it():
    """Data flows one way (STYLE): compiled base, components, samplers, estimators."""
    seen = set()
    for part, path, tree in sources():
        if part in LAYERS:
            seen.add(part)
            extra = set(imported_parts(path, tree)) - LAYERS[part] - {part, "_typing"}
            assert not extra, f"{path} imports {extra}"
        if part not in ("estimators", "__init__"):
            assert "estimators" not in imported_parts(path, tree), path
        if part != "plotting":
            assert "plotting" not in imported_parts(path, tree), path
    assert seen == set(LAYERS)


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


VALUES = {"sampler", "channel", "kernel", "mixing", "model", "mechanism", "query", "family"}


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
