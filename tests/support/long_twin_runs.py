"""Two long runs of the slow twins at the paper's settings; ``python tests/support/long_twin_runs.py`` writes them."""

import json
from pathlib import Path

import numpy as np
from arviz_stats.base import array_stats
from naive_bayes_oracle import draw_naive_bayes, naive_bayes_names, naive_bayes_twin, tables
from regression_oracle import Predictors, Residual, column_names, draw_records, regression_moments, regression_twin

PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)

REGRESSION = {"n": 100, "x_bounds": (-10.0, 10.0), "y_bounds": (-10.0, 10.0), "noise": "laplace", "scale": 1.3,
              "coef_scale": 2.0, "residual": Residual(2.0),
              "predictors": Predictors((0.9001, -1.1733), ((1.0, 0.0), (0.0, 1.0)))}  # fmt: skip
REGRESSION_TRUTH = (-1.79, -2.89, -0.66)
NAIVE_BAYES = {"n": 100, "n_classes": 5, "n_values": (3,) * 5, "alpha": 2.0, "noise": "laplace", "scale": 1.0}
HERE = Path(__file__).parent


def regression_release(seed=20220):
    """One data set of the paper's setting (n = 100, p = 2, epsilon = 10, scale 13/epsilon), and its release."""
    rng = np.random.default_rng(seed)
    truth = np.array([[*REGRESSION_TRUTH, 2.0, *REGRESSION["predictors"].mean, 1.0, 0.0, 1.0]])
    x, y = draw_records(rng, truth, REGRESSION["n"], 2)
    s = regression_moments(x[0], y[0], REGRESSION["x_bounds"], REGRESSION["y_bounds"])
    return s + rng.laplace(0, REGRESSION["scale"], len(s))


def naive_bayes_release(seed=20221):
    """Truth and release of the paper's setting (n = 100, 5 classes, 5 features of 3 values, epsilon = 10, scale 1)."""
    rng = np.random.default_rng(seed)
    setting = [NAIVE_BAYES[key] for key in ("n_classes", "n_values")]
    theta, classes, features = draw_naive_bayes(rng, *setting, NAIVE_BAYES["alpha"], NAIVE_BAYES["n"])
    s = tables(classes, features, *setting)
    return theta, s + rng.laplace(0, NAIVE_BAYES["scale"], len(s))


def summarise(draws, names):
    """Means, standard deviations and quantiles of draws (n_chains, n_draws, n_columns), with their standard errors."""
    result = {"names": list(names), "probabilities": list(PROBABILITIES)}
    axes = {"chain_axis": 0, "draw_axis": 1}
    result["mean"] = draws.mean(axis=(0, 1))
    result["mean_error"] = array_stats.mcse(draws, method="mean", **axes)
    result["sd"] = draws.std(axis=(0, 1))
    result["sd_error"] = array_stats.mcse(draws, method="sd", **axes)
    result["quantiles"] = np.quantile(draws, PROBABILITIES, axis=(0, 1)).T
    errors = [array_stats.mcse(draws, method="quantile", prob=q, **axes) for q in PROBABILITIES]
    result["quantile_errors"] = np.stack(errors, axis=1)
    result["ess"] = array_stats.ess(draws, method="mean", **axes)
    result["r_hat"] = array_stats.rhat(draws, **axes)
    return {key: _rounded(value) for key, value in result.items()}


def _rounded(value):
    if isinstance(value, np.ndarray):
        return [_rounded(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def run_regression(n_draws=50_000, thin=50, n_chains=4, seed=1):
    """The long run of :func:`regression_twin` at the paper's setting; what data_regression_twin.json holds."""
    release, rng = regression_release(), np.random.default_rng(seed)
    draws, acceptance = regression_twin(release, **REGRESSION, rng=rng, n_draws=n_draws, n_chains=n_chains,
                                        n_warmup=20_000, thin=thin, incremental=True)  # fmt: skip
    setting = REGRESSION | {"residual": REGRESSION["residual"]._asdict(),
                            "predictors": REGRESSION["predictors"]._asdict()}  # fmt: skip
    head = {"setting": setting, "truth": REGRESSION_TRUTH, "release": release.tolist(), "n_chains": n_chains,
            "sweeps": n_chains * n_draws * thin, "thin": thin, "acceptance_rate": float(acceptance.mean())}  # fmt: skip
    return head | summarise(draws[:, :, :3], column_names(2)[:3])


def run_naive_bayes(n_draws=50_000, thin=20, n_chains=4, seed=2):
    """The long run of :func:`naive_bayes_twin` at the paper's setting; what data_naive_bayes_twin.json holds."""
    (truth, release), rng = naive_bayes_release(), np.random.default_rng(seed)
    draws, acceptance = naive_bayes_twin(release, **NAIVE_BAYES, rng=rng, n_draws=n_draws, n_chains=n_chains,
                                         n_warmup=20_000, thin=thin, incremental=True)  # fmt: skip
    head = {"setting": NAIVE_BAYES, "truth": _rounded(truth), "release": release.tolist(), "n_chains": n_chains,
            "sweeps": n_chains * n_draws * thin, "thin": thin, "acceptance_rate": float(acceptance.mean())}  # fmt: skip
    names = naive_bayes_names(NAIVE_BAYES["n_classes"], NAIVE_BAYES["n_values"])
    return head | summarise(draws, names)


def main():
    """Write data_regression_twin.json and data_naive_bayes_twin.json: some minutes."""
    for name, run in (("regression", run_regression), ("naive_bayes", run_naive_bayes)):
        (HERE / f"data_{name}_twin.json").write_text(json.dumps(run(), indent=1) + "\n")


if __name__ == "__main__":
    main()
