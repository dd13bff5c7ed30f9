"""Run all benchmarks, print the tables and write them to docs/benchmarks.md.

``python -m benchmarks [--all] [--no-memory]``: ``--all`` adds the slow samplers, ``--no-memory`` drops the long run.
"""

import argparse
import pathlib
import platform

from . import (
    any_n,
    channels,
    curator,
    efficiency,
    logistic,
    millions,
    private_draws,
    regression,
    simulation,
    speed,
    startup,
)

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "benchmarks.md"

INTRODUCTION = """# Benchmarks

`make bench` writes this page.  Every figure that matters is a ratio within one run, measured in the processor time of
one thread.  Absolute figures are for the machine named below.  The data are those of section 4.1 of Beraha et al.
(three normals, Laplace noise).
"""


def table(header, rows, formats):
    """A markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(form.format(cell) for form, cell in zip(formats, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--no-memory", action="store_true")
    options = parser.parse_args()
    parts = [INTRODUCTION, f"Machine: {platform.machine()}, Python {platform.python_version()}.\n"]

    def section(title, text):
        parts.append(f"## {title}\n\n{text}")
        print(f"\n## {title}\n\n{text}", flush=True)

    ours, theirs = startup.imports()
    section(
        "Start",
        table(
            ("what", "seconds"),
            [
                ("import sklearn_dpmix", ours),
                ("import sklearn.mixture, numba", theirs),
                ("ratio of the two", ours / theirs),
            ],
            ("{}", "{:.2f}"),
        ),
    )
    section(
        "First fits of a process (seconds)",
        "For mixtures, everything else is at its default; for the other estimators, the examples in their docstrings "
        "are timed.\n\n"
        + table(
            ("what", "cold cache", "its processor time", "warm cache"),
            startup.first_fits(),
            ("{}", "{:.1f}", "{:.1f}", "{:.1f}"),
        ),
    )
    section(
        "Private Neal 5 against a hand-fused loop (ns a record a sweep)",
        table(
            ("ε", "n", "package", "hand-fused", "ratio"),
            speed.neal5_against_hand_fused(),
            ("{:g}", "{}", "{:.1f}", "{:.1f}", "{:.2f}"),
        ),
    )
    section(
        "Effective draws a second at n = 1000",
        "Ratios are to the package's own compiled Neal 5; the last column compares the smaller of the two rates.\n\n"
        + table(
            ("ε", "sampler", "µs a sweep", "clusters /s", "log f(0) /s", "ratio", "ratio", "ratio of the smaller"),
            efficiency.auto_against_neal5(everything=options.all),
            ("{:g}", "{}", "{:.0f}", "{:.0f}", "{:.0f}", "{:.1f}", "{:.1f}", "{:.1f}"),
        ),
    )
    section(
        "Default chains against the hand-fused Neal 5 at n = 1000 (effective draws a second)",
        any_n.COUNTS
        + table(
            ("ε", "hand-fused neal5", "default", "ratio"),
            any_n.against_hand_fused(),
            ("{:g}", "{:.0f}", "{:.0f}", "{:.1f}"),
        ),
    )
    section(
        "Default chains of any number of records (effective draws a second)",
        table(
            ("noise", "n", "draws /s", "of those at n = 1000", "worst R-hat", "whole fit, CPU s"),
            any_n.growth(),
            ("{}", "{:,}", "{:.0f}", "{:.2f}", "{:.3f}", "{:.1f}"),
        ),
    )
    section(
        "Channels of bins and other cells: Beta kernel, n = 250, ε = 50",
        "The data are those of section 4.2.  Here `auto` is `MixingMeasure`, and `Sources` on the histogram.\n"
        "`neal5` and `slice` are the paper's samplers, and `conditional` draws records exactly.\n\n"
        + table(
            ("channel", "sampler", "µs a sweep", "clusters /s", "log f(0.5) /s", "ratio to neal5", "ratio"),
            channels.exact_against_paper(),
            ("{}", "{}", "{:.0f}", "{:.0f}", "{:.0f}", "{:.1f}", "{:.1f}"),
        ),
    )
    section(
        "Beta kernel against the normal kernel (µs a sweep, n = 250)",
        table(
            ("sampler", "Beta", "normal", "ratio"), channels.beta_against_normal(), ("{}", "{:.0f}", "{:.0f}", "{:.1f}")
        ),
    )
    section(
        "Linear regression from noisy moments (Ju et al., §4.2; two predictors)",
        table(
            ("µs a sweep at n = 100, no interweaving", "hand-fused loop", "ratio"),
            [regression.against_hand_fused()],
            ("{:.1f}", "{:.1f}", "{:.2f}"),
        )
        + "\nSmallest effective sample size of a coefficient per second, without and with interweaving:\n\n"
        + table(
            ("n", "ε", "µs a sweep", "interwoven", "ESS /s", "interwoven", "ratio"),
            regression.interweaving(),
            ("{}", "{:g}", "{:.0f}", "{:.0f}", "{:.0f}", "{:.0f}", "{:.1f}"),
        ),
    )
    section(
        "Exact ABC (Example 4 of Gong 2019: million simulations a second)",
        table(("rejection", "bare NumPy loop", "ratio"), [simulation.rejection()], ("{:.1f}", "{:.1f}", "{:.2f}"))
        + '\nSimulations that `method="smc"` and rejection take for the same number of effective draws, over '
        f"{simulation.N_RUNS} runs:\n\n"
        + table(
            ("setting", "rejection keeps", "simulations", "effective draws", "times fewer than rejection"),
            simulation.sequential(),
            ("{}", "{:.1e}", "{:.0f}", "{:.0f}", "{:.0f}"),
        ),
    )
    section(
        "Curators' statistics: seconds of a fit with 10,000 draws of one chain",
        f"Naive Bayes in the setting of Ju et al., §4.1 (n = 100): {curator.naive_bayes():.3f} s.\n\n"
        + table(
            ("family", "approximation", "n = 100", "n = 1,000,000"),
            curator.families(),
            ("{}", "{}", "{:.3f}", "{:.3f}"),
        ),
    )
    section(
        "DP penalty on the banana (n = 100,000, two dimensions, four chains; iterations a second, wall time)",
        table(
            ("compiled passes", "NumPy passes", "ratio", "peak memory beyond the data, in multiples of it"),
            [private_draws.penalty()],
            ("{:.0f}", "{:.0f}", "{:.1f}", "{:.2f}"),
        ),
    )
    section(
        "Private logistic regression",
        f"A default fit with ten features takes {logistic.seconds_of_a_fit():.2f} seconds.  The table has the share of "
        "90 % intervals that contain the truth, over 20\nreleases, and their median widths (`python -m "
        "benchmarks.logistic` has more):\n\n"
        + table(
            logistic.HEAD,
            logistic.some_cells(),
            ("{}", "{}", "{:g}", "{}", *["{:.2f}"] * 6),
        )
        + "\nCompared with output perturbation with several λ: agreement with the best classifier, mean error of "
        "probabilities, width of\ntheir intervals, and the share of intervals that contain the truth:\n\n"
        + table(logistic.AGAINST_HEAD, logistic.some_against(), ("{}", "{}", "{:g}", "{}", *["{:.3f}"] * 4))
        + "\ndiffprivlib's classifier is included if a version is installed that works with this scikit-learn (0.6.6 "
        "works with 1.6 but not\nwith 1.9; [logistic_coverage.md](logistic_coverage.md) has its figures).\n",
    )
    if not options.no_memory:
        memory = startup.peak_memory()
        section(
            "Memory", f"A million records and 4 chains of 500 draws need at most {memory:.2f} GiB of resident memory.\n"
        )
        section(
            "Ten million records, one chain, the release mapped from a file",
            table(
                ("sampler", "seconds a sweep", "seconds of the rest of a fit", "memory, in multiples of the release"),
                millions.sweeps(),
                ("{}", "{:.2f}", "{:.1f}", "{:.2f}"),
            ),
        )
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
