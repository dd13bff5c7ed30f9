"""``python -m tests.audit``: measure, and print the tables of docs/audit.md."""

import zlib

import numpy as np

from . import floats, measure
from .case_list import all_cases
from .replay import barker_shares, replay, replay_barker, shares
from .replay_cases import BARKER, CASES
from .test_floating_point import LAPLACE, N, releases


def figure(value):
    """Four digits; a dash for nothing."""
    return f"{value:.4g}" if value > 0.0 else "–"


def release_rows():
    """A row a case; seeds as in ``test_releases``."""
    yield "| release | stated | law | draws, at least | audited / stated | fit, p | draws a side |"
    yield "|---|---|---|---|---|---|---|"
    for name, case in all_cases().items():
        one = case.audit(np.random.default_rng([zlib.crc32(name.encode()), 0]))
        stated = f"ε = {figure(one.epsilon)}" + (f", δ = {figure(one.delta)}" if one.delta else "")
        cells = (name, stated, figure(one.law), figure(one.draws), f"{one.ratio:.3f}", f"{one.fit:.2g}")
        yield f"| {' | '.join(cells)} | {one.n_draws:,} |"


def replay_rows():
    """A row a fit."""
    yield "| fit | releases compared | largest difference / sensitivity |"
    yield "|---|---|---|"
    for name, data in CASES.items():
        found = shares(replay(*data)[0])
        yield f"| {name} | {len(found)} | {np.max(found):.4f} |"
    for name, data in BARKER.items():
        found = barker_shares(replay_barker(*data)[0], data[0]._curve())
        yield f"| {name} (Rényi divergence / accounted) | {len(found)} | {np.max(found):.4f} |"


def floating_point_rows():
    """NumPy's noise and OpenDP's."""
    yield "| distinguisher of 0 from 1 | draws a side | stated ε | NumPy noise, at least | `secure=True`, at least |"
    yield "|---|---|---|---|---|"
    pairs, few = [releases(LAPLACE, secure) for secure in (False, True)], 1500
    shown = [floats.shown_by_multiples(*pair) for pair in pairs]
    yield f"| multiples of 2⁻⁵³ | {N:,} | 0.5 | {figure(shown[0])} | {figure(shown[1])} |"
    scale = float(LAPLACE.noise_scale)
    both = {"attainable sets": floats.shown_by_attainable_sets, "snapping": floats.shown_by_snapping}
    for words, shown_by in both.items():
        shown = [shown_by(*(z[:few] for z in pair), scale) for pair in pairs]
        yield f"| {words} | {few:,} | 0.5 | {figure(shown[0])} | {figure(shown[1])} |"


if __name__ == "__main__":
    for rows in (release_rows, replay_rows, floating_point_rows):
        for row in rows():
            print(row, flush=True)
        print()
    print(f"Bounds from draws hold with probability 1 - {measure.ALPHA:g}.")
