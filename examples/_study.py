"""What the studies share: the command line, a timed fit, the picture's place."""

import argparse
import pathlib
import time
import warnings

from sklearn_dpmix import PrivateDPMixture

OUTPUT = pathlib.Path(__file__).parent / "output"


def full_grid(doc, cost):
    """Whether ``--full`` was given."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help=f"the paper's grid and chain length ({cost})")
    return parser.parse_args().full


def fit(mechanism, kernel, sampler, Z, n_sweeps):
    """Two chains, half of each dropped: (model, seconds)."""
    model = PrivateDPMixture(
        mechanism,
        kernel=kernel,
        sampler=sampler,
        n_chains=2,
        n_warmup=n_sweeps,
        n_draws=n_sweeps,
        n_jobs=2,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a sampler that does not mix is a result here: ESS is printed
        started = time.perf_counter()
        model.fit(Z)
    return model, time.perf_counter() - started


def save(figure, name):
    """Leave the picture in examples/output."""
    OUTPUT.mkdir(exist_ok=True)
    figure.savefig(OUTPUT / name, dpi=110)
    print(f"picture: examples/output/{name}")
