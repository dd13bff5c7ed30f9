"""Compiling ahead."""

import os
import subprocess
import sys

import pytest

from sklearn_dpmix.warmup import main, warm_up

FIT = "from sklearn_dpmix.warmup import run_examples; run_examples('PrivateMCEM')"


def kept(folder):
    return sorted(path.name for path in folder.rglob("*.nbc"))


@pytest.mark.slow
def test_what_is_compiled_ahead_is_not_compiled_again(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "sklearn_dpmix.warmup", "PrivateMCEM", "--jobs", "1"]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("PrivateMCEM: ")
    before = kept(tmp_path)
    assert before
    subprocess.run([sys.executable, "-c", FIT], env=environment, check=True, capture_output=True)
    assert kept(tmp_path) == before


def test_unknown_names(capsys):
    with pytest.raises(ValueError, match="'GaussianMixture' is not an estimator of sklearn_dpmix: there are"):
        warm_up(["GaussianMixture"])
    with pytest.raises(SystemExit):
        main(["GaussianMixture"])
    assert "is not an estimator" in capsys.readouterr().err
