"""Scripts in processes of their own, as users run them."""

import json
import os
import pathlib
import subprocess
import sys
import textwrap

import numba
import pytest

import sklearn_dpmix

COMPILES = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
PACKAGE = pathlib.Path(sklearn_dpmix.__file__).parent
#: what a script of the tests finds modules by
PATH = os.pathsep.join([str(PACKAGE.parent), str(pathlib.Path(__file__).parent)])


def run(script, *arguments, cache, **environment):
    """Run a script in its own process, with a numba cache of its own; return what its last line says, as JSON."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=script.parent,
        env={
            **os.environ,
            "PYTHONPATH": str(PACKAGE.parent),
            "NUMBA_CACHE_DIR": str(cache),
            "PYTHONDONTWRITEBYTECODE": "1",  # Python's own cache misses edits within one second
            **environment,
        },
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def write(folder, **files):
    """Write ``name="source"`` files; return the path of the first."""
    for name, source in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(source))
    return folder / f"{next(iter(files))}.py"


def edit(path, old, new):
    source = path.read_text()
    assert source.count(old) == 1, (old, source)
    path.write_text(source.replace(old, new))
