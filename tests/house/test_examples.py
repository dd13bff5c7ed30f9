"""What examples compute themselves, on a few data."""

import pathlib

import numpy as np
import pytest
from scipy import stats

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def on_path(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.nightly  # half a minute, of a study
def test_the_paper_s_sampler_agrees_with_ours_for_many_records():
    """Catches a sampler in the study of exponential families that is not the paper's, and a wrong prior or bound."""
    import study_expfam as study

    lengths = study.Lengths(n_data_sets=20, n_warmup=200, n_draws=200, thin=8)
    for model in study.MODELS[::2]:
        truth, draws = study.fit_all(model, 1000, 1.0, lengths, np.random.SeedSequence(1))
        ours, papers = draws["exact"], draws["paper's"]
        assert ours.shape == papers.shape == (20, 200)
        inside = truth > (2.5 if model.name == "exponential" else 0.0)  # elsewhere they need not agree: docs/studies.md
        gap = (papers.mean(axis=1) - ours.mean(axis=1)) / ours.std(axis=1)
        assert np.all(np.abs(gap[inside]) < 0.6), gap
        assert 0.85 < np.median(papers.std(axis=1) / ours.std(axis=1)) < 1.15


@pytest.mark.slow
def test_a_cell_of_the_study_of_exponential_families():
    """Catches a study that ranks or compares the wrong draws: the naive posterior is far off, the others are not."""
    import study_expfam as study

    lengths = study.Lengths(n_data_sets=30, n_warmup=100, n_draws=100, thin=8)
    for model in study.MODELS[:2]:
        cell = study.one_cell(model, 100, 0.01, lengths, np.random.SeedSequence(2))
        pvalues = {name: found.ks_pvalue for name, found in cell.uniformity.items()}
        assert pvalues.pop("naive") < 1e-4 < min(pvalues.values())
        assert cell.mmd["exact"] < 0.5 * cell.mmd["naive"]


@pytest.mark.slow
def test_an_epidemic_by_a_filter_and_by_abc():
    """Catches a filter of another model, or weights without the prior: ABC and the filter share no code."""
    import simulation_epidemic as example

    counts, released = example.release()
    assert np.all(counts >= 0) and counts.sum() < 1000
    posterior = example.PrivateABC(
        example.MECHANISM, model=example.MODEL, method="smc", n_draws=400, random_state=0
    ).fit(released)  # fmt: skip
    theta, rng = example.grid(12, (0.25, 0.8), (0.02, 0.42)), np.random.default_rng(0)

    def moments(scale):
        runs = [example.filtered(theta, released, scale, 60, rng) for _ in range(6)]
        return np.array([np.concatenate(example.moments(theta, weights)) for weights in runs])

    draws, ess = posterior.theta_draws_, min(posterior.ess_.values())
    found, spread = np.concatenate([draws.mean(axis=0), draws.std(axis=0)]), np.tile(draws.std(axis=0), 2)
    error = spread * np.sqrt(np.repeat([1.0, 0.5], 2) / ess)
    runs = moments(example.MECHANISM.scale)
    error = np.hypot(error, runs.std(axis=0, ddof=1) / 6**0.5)
    z = stats.norm.isf(0.5e-6)
    assert np.all(np.abs(runs.mean(axis=0) - found) < z * error)
    assert np.any(np.abs(moments(4.0 * example.MECHANISM.scale).mean(axis=0) - found) > z * error)  # a twin


@pytest.mark.slow
def test_naive_bayes_without_noise():
    """Catches a naive classifier that reads the tables in another order than the release has."""
    import naive_bayes_anes as example

    X, y = example.load_anes96()
    counts = example.curator(1.0).query.value(np.column_stack([X, y]))
    naive = example.naive_log_probabilities(counts, X)
    known = example.posterior(None, (X, y)).predict_log_proba(X)
    assert np.mean(naive.argmax(axis=1) == known.argmax(axis=1)) > 0.99
    assert example.score(naive, y)[0] > 0.88


@pytest.mark.slow
def test_output_perturbation_is_calibrated():
    """Catches a sensitivity that does not cover what one record does to the minimiser."""
    import logistic_private as example

    rng = np.random.default_rng(0)
    rows = example.simulated(rng, 60, 1)._replace(data_norm=1.0)
    corner = np.full(rows.X.shape[1], 1.0)
    for weight in (0.01, 0.1):
        sensitivity = 2.0 * rows.row_norm / (60 * weight)
        ends = []
        for sign in (-1.0, 1.0):
            X, y = rows.X.copy(), rows.y.copy()
            X[0], y[0] = sign * corner, 1
            ends.append(example.regularised(rows._replace(X=X, y=y), weight))
        assert 0.1 * sensitivity < np.linalg.norm(ends[1] - ends[0]) < sensitivity


@pytest.mark.slow
def test_a_data_set_of_the_private_logistic_regression():
    """Catches intervals and scores of other rows than the truth's, and a default that leaves out its noise."""
    import logistic_private as example

    found = example.one_data_set(lambda rng: example.simulated(rng, 3000, 500), 0, n_iter=40)
    accuracy, loss, error, width, holds, r_hat, _ = found["not private", None]
    assert accuracy > 0.65 and loss < 0.62 and error < 0.15 and holds > 0.6 and r_hat < 1.3
    for epsilon in example.EPSILONS:
        default, two_chains = found["the default", epsilon], found["penalty, T = 1", epsilon]
        assert default[3] > 1.1 * width and default[4] > max(0.5, two_chains[4])
    assert found["the default", min(example.EPSILONS)][3] > 2.0 * width
    assert example.calibration_error(np.array([0.1, 0.2, 0.6, 0.9]), np.array([0, 0, 1, 1]), 2) == pytest.approx(0.2)


@pytest.mark.slow
def test_what_bounded_records_buy_a_private_chain():
    """Catches a rung that is not what it says: the thesis' setting far off from zeros, bounded records near."""
    import study_dp_mcmc as study

    lengths = study.SHORT._replace(n_ladder=1, n_clipping=1, n_walk=300)
    climbed = study.ladder(lengths, "penalty", 2, ("public start", "private start", "no chain"))
    far, near, none = (climbed[name].distance[0] for name in climbed)
    assert far > 0.5 > 0.2 > near and none < 0.1
    assert climbed["no chain"].exact[0] < 0.05
    problem = study.Problem(study.text_model(2), 1.0, 0)
    (tight,) = study.clipped("random walk", problem, 0.03, lengths, 0)
    (loose,) = study.clipped("random walk", problem, 10.0, lengths, 0)
    assert tight[1] > 0.5 and loose[1] == 0.0


@pytest.mark.slow
def test_a_billion_records_in_small(monkeypatch, tmp_path):
    """Catches chunks that are made alike, lost or counted twice, and a picture of something else."""
    pytest.importorskip("distributed")
    import billion as example

    monkeypatch.setattr(example, "CHUNK", 10_000)
    summaries = [example.summarise(25_000, seed) for seed in range(2)]
    assert summaries[0]._sums.mean != summaries[1]._sums.mean
    summary = example.merge(summaries)
    assert (summary.n_records, summary.n_batches) == (50_000, 6)
    error = np.sqrt((2.0 * example.MECHANISM.noise_scale**2 + 21.0**2) / 50_000)
    assert abs(summary._sums.mean - example.WEIGHTS @ example.MEANS) < 5.0 * error
    monkeypatch.setattr(example, "OUTPUT", tmp_path / "examples" / "output" / "billion.png")
    model = example.PrivateDPMixture(example.MECHANISM, n_chains=1, n_warmup=20, n_draws=20, random_state=0)
    (tmp_path / "examples").mkdir()
    with pytest.warns(RuntimeWarning, match="the chains have not mixed"):
        example.draw(model.fit(summary), summary)
    assert example.OUTPUT.stat().st_size > 10_000
