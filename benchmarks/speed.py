"""Cost of a sweep: the package's Neal 5 against the hand-fused loop for the same model, taken in turns."""

import time

import numpy as np

from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import Neal5

from .hand_fused import fused_neal5

#: base measure of Beraha et al., section 4.1
KERNEL = NormalKernel(mean=0.0, mean_precision=0.1, shape=3.0, scale=3.0)


def section_4_1(n_records, epsilon, *, clamp=False):
    """Return (mechanism, release, records) of the paper's section 4.1."""
    records, _ = make_three_normals(n_records, random_state=0)
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=(-10, 10), clamp=clamp)
    release = mechanism.privatize(records, random_state=1)
    release.flags.writeable = False
    return mechanism, release, records


class PackageChain:
    """A chain of one of the package's samplers on section 4.1, outside the estimator."""

    def __init__(self, sampler, n_records, epsilon, *, seed=0):
        mechanism, self.release, records = section_4_1(n_records, epsilon)
        sampler = sampler.resolve(mechanism, KERNEL).sized(n_records, 1)
        self.kernel = KERNEL._lower(n_features=1, noise_scale=None)
        sizes = {"n_records": n_records, "n_features": 1}
        self.values = (sampler._lower(**sizes), mechanism._lower(**sizes), self.kernel, DirichletProcess()._lower())
        self.sampler, self.rng = sampler, np.random.Generator(np.random.PCG64(seed))
        self.release = sampler.summarise(self.values, self.release, Release(self.release, mechanism))
        self.state = sampler.init(self.values, self.release, records, KERNEL.sizes(1), self.rng)

    def run(self, n_sweeps, n_warmup):
        """Advance; return (seconds of this thread's processor time, draws)."""
        started = time.thread_time()
        self.state, draws = self.sampler.advance(self.values, self.release, self.state, self.rng, n_sweeps, n_warmup, 1)
        return time.thread_time() - started, draws


class FusedChain:
    """The hand-fused loop on the same data."""

    def __init__(self, n_records, epsilon, *, seed=0):
        mechanism, release, records = section_4_1(n_records, epsilon)
        self.z, self.y = release[:, 0].copy(), records[:, 0].copy()
        self.scale, self.rng = mechanism.noise_scale, np.random.Generator(np.random.PCG64(seed))
        self.alloc = self.rng.integers(0, 5, n_records)

    def run(self, n_sweeps):
        started = time.thread_time()
        traces = fused_neal5(self.z, self.scale, 0.0, 0.1, 3.0, 3.0, 1.0, self.alloc, self.y, n_sweeps, self.rng)
        return time.thread_time() - started, traces


def neal5_against_hand_fused(repeats=9):
    """Rows (epsilon, n, package ns a record a sweep, hand-fused ns, ratio of the medians of interleaved runs)."""
    rows = []
    for epsilon in (2.0, 50.0):
        for n_records, n_sweeps in ((1000, 3000), (100_000, 40)):
            ours, fused = PackageChain(Neal5(), n_records, epsilon), FusedChain(n_records, epsilon)
            ours.run(max(n_sweeps // 4, 20), 10**9)
            fused.run(max(n_sweeps // 4, 20))
            first = ours.state.ints[4]  # sweeps so far: from here on every sweep records a draw
            times = np.array([(ours.run(n_sweeps, first)[0], fused.run(n_sweeps)[0]) for _ in range(repeats)])
            per_record = np.median(times, axis=0) / n_sweeps / n_records * 1e9
            rows.append((epsilon, n_records, *per_record, per_record[0] / per_record[1]))
    return rows
