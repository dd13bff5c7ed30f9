"""What estimators that simulate a statistic require of their mechanism, their model and a release."""

from ..._base.parameters import refuse_class, refuse_threshold
from .._chain_estimator import warn_user
from ..curator._curator import check_release, require_method

#: The methods that a model may need, and what each returns.
METHODS = {
    "sample_statistic": "sample_statistic(rng, theta) -> statistics of shape (size, n_statistics)",
    "sample_prior": "sample_prior(rng, size) -> theta of shape (size, n_params)",
    "log_prior": "log_prior(theta) -> (size,)",
    "log_likelihood": "log_likelihood(statistics, theta) -> (size,)",
}


def check_simulation(estimator, s_obs, needs):
    """Return the release, (n_releases, n_statistics); raise if mechanism or model lack what is needed."""
    who, mechanism, model = type(estimator).__name__, estimator.mechanism, estimator.model
    if isinstance(mechanism, type) or not hasattr(mechanism, "release_density"):
        raise TypeError(
            f"{who}: mechanism must be an object that adds noise to a statistic, such as LaplaceMechanism(scale=5.0), "
            f"got {mechanism!r}"
        )
    refuse_threshold(mechanism, who)
    refuse_class("model", model)
    for method in needs:
        require_method(who, model, method, METHODS[method])
    query = getattr(mechanism, "query", None)
    n_released = getattr(mechanism, "n_released", None) or getattr(query, "n_statistics", None)
    S = check_release(estimator, s_obs, n_released)
    mechanism.check(S.shape[1])
    if query is None and len(S) > 1 and getattr(mechanism, "bounds", None) is not None:
        warn_user(
            f"{who} takes the {len(S)} rows for releases of one and the same statistic, but mechanism={mechanism!r} "
            "releases records one by one: if each row is another record, use PrivatePosteriorDA or PrivateDPMixture",
            UserWarning,
        )
    return S
