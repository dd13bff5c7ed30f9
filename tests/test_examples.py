"""What examples compute themselves, on a few data."""

import pathlib

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def on_path(monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.syspath_prepend(EXAMPLES)


@pytest.mark.slow
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
def test_naive_bayes_without_noise():
    """Catches a naive classifier that reads the tables in another order than the release has."""
    import naive_bayes_anes as example

    X, y = example.load_anes96()
    counts = example.curator(1.0).query.value(np.column_stack([X, y]))
    naive = example.naive_log_probabilities(counts, X)
    known = example.posterior(None, (X, y)).predict_log_proba(X)
    assert np.mean(naive.argmax(axis=1) == known.argmax(axis=1)) > 0.99
    assert example.score(naive, y)[0] > 0.88
