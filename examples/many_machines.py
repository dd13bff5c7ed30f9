"""Chains on a cluster: the same script, the same draws, wherever the blocks of sweeps run.

``python examples/many_machines.py [scheduler address]``; without one it starts two worker processes here.
"""

import sys
import time

import joblib
import numpy as np
from distributed import Client, LocalCluster

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism


def main():
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
    release = mechanism.privatize(make_three_normals(2000, random_state=0)[0], random_state=1)
    model = PrivateDPMixture(mechanism, n_chains=4, n_warmup=500, n_draws=1000, random_state=0)

    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    address = sys.argv[1] if len(sys.argv) > 1 else LocalCluster(**local)
    with Client(address), joblib.parallel_config(backend="dask"):
        started = time.perf_counter()
        on_cluster = model.fit(release).weights_draws_
        print(f"four chains on the cluster: {time.perf_counter() - started:.1f} s")

    started = time.perf_counter()
    here = model.fit(release).weights_draws_
    print(f"four chains here, one after the other: {time.perf_counter() - started:.1f} s")
    print("the same draws to the last bit:", np.array_equal(on_cluster, here))


if __name__ == "__main__":
    main()
