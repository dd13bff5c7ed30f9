"""Logistic regression whose posterior draws are released under a budget."""

from functools import partial
from math import sqrt
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_features, _num_samples, check_is_fitted, validate_data

from ..._base.choices import evenly_spaced
from ..._base.parameters import check_table, check_X_y, tails
from ..._base.typing import Array, Floats, Seed
from ..._chains.datatree import Contents
from ...models import LogisticLikelihood
from ...models._likelihood import clip_rows
from ...privacy import PrivacyLedger
from ...samplers import PrivateNewton, PrivateNormalApproximation
from .._confidential import check_confidential, encode_labels
from .._decorators import fit_context
from .._monitored_draws import UNUSED, CoefficientsMixin, MonitoredDraws, despite_interruption
from ._dp_mcmc import DPMCMC
from ._dp_normal import DPNormal
from ._dp_penalty import DPPenaltyMCMC

MOST_PREDICTIVE = 1000  # draws that a prediction averages over
CHUNK = 2_000_000  # numbers of a temporary (n_draws, n) table
PRIOR_DF = 2.0  # of the default prior


class LogisticContents(Contents):
    """Contents for :class:`DPLogisticRegressionMCMC`: draws that may be published."""

    dims = {"coef": ("feature",)}

    def coords(self):
        return {"feature": self._features(self.fitted.coef_.shape[1])}


class DPLogisticRegressionMCMC(CoefficientsMixin, MonitoredDraws, ClassifierMixin, BaseEstimator):
    """Bayesian logistic regression of two classes on confidential records, released under a budget.

    **Not MCMC by default.**  Under a mechanism the default is a normal approximation: independent draws of a posterior
    given a gradient and a curvature that were released with noise; the draws allow for that noise.  Chains, which give
    the exact posterior if they mix, are run with ``sampler=DPPenaltyMCMC(...)`` and the like, and without a mechanism.

    Rows are moved into ‖x‖ <= ``data_norm``.  The log likelihood is then Lipschitz in the coefficients, so nothing else
    is clipped.

    Parameters
    ----------
    mechanism : GaussianMechanism(epsilon, delta) or (rho=...), or None
        The budget of the whole fit, for replacing one record.  None: the data are not confidential.
    sampler : "normal", PrivateNormalApproximation, DPPenaltyMCMC, DPBarkerMCMC or DPHamiltonianMC, optional
        How draws are made; this estimator sets ``mechanism``, ``model``, ``simulate`` and ``random_state``.  "normal":
        ``PrivateNormalApproximation()`` of ``sklearn_dpmix.samplers``.  None: the same under a mechanism; without one,
        chains of ``DPPenaltyMCMC(n_iter=4000)`` from the mode.
    data_norm : float, optional
        A public number, needed under a mechanism.  **Divide features by public numbers first**, so that they are about
        equally large (``X / [90, 1e5]`` for ages and incomes): noise and prior are the same for all, and a feature that
        is small compared with this number is lost (a warning says so).  Choose a length that few rows exceed: noise
        grows with it, but coefficients are those of the moved rows, and come out too far from 0 for rows as they were
        (with half of the rows longer, by a fifth in one example).  Nothing in a release shows it.
    prior_sigma : float, optional
        Prior standard deviation of each coefficient and of the intercept, on the scale of ``X``.  None: each has its
        own standard deviation, which is learnt from what is released (see Notes).
    fit_intercept : bool, default=True
    classes : pair of labels, optional
        Under a mechanism the labels are public, and None is (0, 1).  Without one, None is what ``y`` holds.
    ledger : PrivacyLedger, optional
        What the fit releases is counted here.  If not enough is left, ``fit`` raises before it looks at the data.
        None: the ledger of the ``sampler``, if it has one.
    simulate : bool, default=False
        As in :class:`DPPenaltyMCMC`.
    random_state : None, int, Generator or RandomState
        Only without a mechanism or in a simulation.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
    coef_draws_ : ndarray of shape (n_chains, n_draws, n_features)
        For the normal approximation, one "chain" of independent draws; for chains, the draws without the first
        ``burn_in``.
    intercept_draws_ : ndarray of shape (n_chains, n_draws)
    coef_, intercept_ : ndarrays of shape (1, n_features), (1,)
        Posterior means.
    sampler_ : the fitted sampler
        It has all draws.  For the normal approximation it also has ``released_``, the gradient and curvature that the
        draws are given, and ``n_effective_``, how many independent draws they are worth.  Unless ``prior_sigma`` is
        given, all this is in units in which ``data_norm`` is √n_features, and so are ``init`` and other lengths of a
        ``sampler``.
    r_hat_, ess_ : dict of str to float
        Split R-hat and bulk effective sample size of each coefficient and of the intercept; only for chains.
    privacy_spent_ : PrivacyGuarantee or None
    n_iter_ : int
        Iterations of each chain, or Newton steps of the normal approximation.
    unused_release : ndarray of shape (n_params,), or (n_chains, n, n_params)
        That of the ``sampler``, if its chains failed, or Ctrl-C ended them before the first iteration, after the budget
        was spent.  Its parameters are for features divided by ``data_norm``.

    Notes
    -----
    **The default prior.**  Rows are first multiplied by √n_features / ``data_norm``.  Features of a full row are then
    as large as the intercept's 1 and share the noise with it, and a fit does not depend on the unit of ``X``.
    Coefficients and intercept are independent and N(0, τ²), with a variance for each, τ² ~ Inv-Gamma(1, s²).  Together
    this is Student's t with two degrees of freedom and scale s, where s is 4 over the length of the longest row,
    √(n_features + 1) with an intercept.  A coefficient that is small compared with s and the noise is drawn towards 0
    as by N(0, s²); a large one is left alone.  Half of the logits of a row of equal features are within ±3.9 for one
    feature, ±5.3 for ten, and ±6.8 for a hundred.  Under the Cauchy distribution (Gelman et al. 2008) they would be
    within ±5.6, ±13 and ±40, and where noise hides some directions nothing would hold coefficients back (Ghosh et al.
    2018, for labels that separate).

    Given the design, this is multiplied by the square root of det(I + s² F(θ)), where F is Fisher's information on θ in
    the released gradient.  Where F is large this is Jeffreys' prior, which removes most of the bias of estimates (Firth
    1993), and where noise hides everything it is 1.  Under Student's t alone, many coefficients under much noise come
    out too far from 0 together, because gradients flatten the farther out they are.

    For chains, s is 3 over that length and there is no such factor, as it would have to be paid for; without
    ``data_norm`` nothing says how large rows are, and s is 3 itself.  With a ``prior_sigma`` the prior is normal and
    nothing else.

    **When the approximation is good**: in simulations with two to ten features, small and large coefficients, 400 to
    100,000 records and ε from 0.5 to 4, 90 % intervals of coefficients cover the truth in 0.92 on average, and in 0.85
    or more in each of 108 settings.  At n = 400 and small ε they are wide, and cover more often than they claim.
    They cover too seldom if several coefficients are as large as 4 to 14 and all are hidden by noise; then give a
    ``prior_sigma``.  And they hardly cover at all where classes change within a small part of ``data_norm``: of 20 fits
    to 5000 records with one x uniform on (-1, 1), its coefficient 30 and ε = 50, 1 did; a coefficient of 5 on a third
    of the range was covered in 19.

    **Exact chains.**  A budget fixes iterations × step², and with five or more coefficients a chain hardly moves at all
    (a warning says so, with R-hat).  With two coefficients and a large n, chains mix and are exact:
    ``sampler=DPPenaltyMCMC(n_iter=2000, n_chains=1, preconditioner=PrivateNewton())``.

    References
    ----------
    Firth (1993), "Bias reduction of maximum likelihood estimates"; Gelman, Jakulin, Pittau, Su (2008), "A weakly
    informative default prior distribution for logistic and other regression models"; Ghosh, Li, Mitra (2018), "On the
    use of Cauchy prior distributions for Bayesian logistic regression"; Räisä (2021), "Differentially private Markov
    chain Monte Carlo", §3.1 (Lipschitz likelihoods).
    For the normal approximation, see :class:`~sklearn_dpmix.samplers.PrivateNormalApproximation`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import DPLogisticRegressionMCMC
    >>> from sklearn_dpmix.mechanisms import GaussianMechanism
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1.0, 1.0, (5000, 1))
    >>> y = (rng.random(5000) < 1.0 / (1.0 + np.exp(-4.0 * X[:, 0]))).astype(int)
    >>> budget = GaussianMechanism(epsilon=2.0, delta=1e-6)
    >>> model = DPLogisticRegressionMCMC(budget, data_norm=1.0).fit(X, y)
    >>> model.predict([[-0.9], [0.9]])
    array([0, 1])
    """

    _contents = LogisticContents
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mechanism": "no_validation",
        "sampler": [DPMCMC, PrivateNormalApproximation, StrOptions({"normal"}), None],
        "data_norm": [Interval(Real, 0, None, closed="neither"), None],
        "prior_sigma": [Interval(Real, 0, None, closed="neither"), None],
        "fit_intercept": ["boolean"],
        "classes": ["array-like", None],
        "ledger": "no_validation",
        "simulate": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        sampler: Any = None,
        data_norm: float | None = None,
        prior_sigma: float | None = None,
        fit_intercept: bool = True,
        classes: ArrayLike | None = None,
        ledger: PrivacyLedger | None = None,
        simulate: bool = False,
        random_state: Seed = None,
    ) -> None:
        self.mechanism = mechanism
        self.sampler = sampler
        self.data_norm = data_norm
        self.prior_sigma = prior_sigma
        self.fit_intercept = fit_intercept
        self.classes = classes
        self.ledger = ledger
        self.simulate = simulate
        self.random_state = random_state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Draw from the posterior of confidential records; what is kept may be published.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Confidential.
        y : array-like of shape (n_records,)
            Confidential labels.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            For a bad parameter, before the data are looked at; for a budget that does not allow one iteration; for data
            that are not finite, or labels that are not among ``classes``.
        """
        if self.mechanism is not None and self.data_norm is None:
            raise ValueError(
                "DPLogisticRegressionMCMC needs data_norm, a public number that rows are clipped to, such as "
                "data_norm=np.sqrt(n_features) for features in [-1, 1]; got data_norm=None"
            )
        if y is None:
            raise ValueError("DPLogisticRegressionMCMC requires y to be passed, but the target y is None")
        classes, named = self._public_classes(), X
        if self.mechanism is not None:
            n_features = _num_features(np.asarray(X) if isinstance(X, str) else X)
            self._make_sampler(n_features)._prepare(_num_samples(X))  # checks all that need no record
            X, y = check_confidential(self, X, y)
        else:
            X, y = check_X_y(X, y, dtype=np.float64, estimator=self)
            check_classification_targets(y)
            classes = self._classes_of(y) if classes is None else classes
        codes = encode_labels(y, classes).astype(np.float64)
        unit = self._unit(X.shape[1])
        rows = X if unit is None else clip_rows(X, self.data_norm) * unit
        sampler = self._make_sampler(X.shape[1])
        with self._refit():
            validate_data(self, named, skip_check_array=True)  # before anything is spent
            try:
                plan = sampler._draw(rows, codes)
            except BaseException:
                self.__dict__.update({name: vars(sampler)[name] for name in UNUSED if name in vars(sampler)})
                raise
            self.classes_, self._data_norm_ = classes, self.data_norm
            self._keep(sampler, X.shape[1], unit)
        sampler._warn(plan)  # the draws are kept by now: a warning may be an error
        return self

    def _keep(self, sampler, n_features, unit):
        """Take over the draws of the fitted sampler."""
        self.sampler_, sampler.ledger = sampler, None  # it was charged, and one without a file cannot be pickled
        draws = sampler.settled_draws()
        self.coef_draws_ = draws[:, :, :n_features] * (1.0 if unit is None else unit)
        self.intercept_draws_ = draws[:, :, n_features] if self.fit_intercept else np.zeros(draws.shape[:2])
        self.coef_ = self.coef_draws_.mean(axis=(0, 1))[None, :]
        self.intercept_ = np.array([self.intercept_draws_.mean()])
        self.privacy_spent_, self.n_iter_ = sampler.privacy_spent_, sampler.n_iter_
        intercept = {"intercept": self.intercept_draws_} if self.fit_intercept else {}
        monitors = {"coef": self.coef_draws_, **intercept}
        if hasattr(sampler, "r_hat_"):
            sampler._was_interrupted_ |= despite_interruption(partial(self._monitor, monitors))
        else:
            self._monitors_ = monitors

    def _make_sampler(self, n_features):
        sampler = self.sampler
        if sampler is None and self.mechanism is None:
            sampler = DPPenaltyMCMC(n_iter=4000, preconditioner=PrivateNewton())
        elif sampler is None or isinstance(sampler, str):  # "normal"
            sampler = PrivateNormalApproximation()
        if isinstance(sampler, PrivateNormalApproximation):
            sampler = DPNormal(sampler)
        sampler = clone(sampler)
        if self.ledger is not None:
            if sampler.ledger is not None and sampler.ledger is not self.ledger:
                raise ValueError("ledger and sampler.ledger are two ledgers: give one of them")
            sampler.set_params(ledger=self.ledger)
        model = LogisticLikelihood(n_features, self.fit_intercept, data_norm=self.data_norm)
        model.check()
        if self._unit(n_features) is not None:
            model.data_norm = sqrt(n_features)
        if self.prior_sigma is None:
            model.prior_df, model.prior_sigma = PRIOR_DF, sampler._logit_scale / (model.row_norm or 1.0)
        else:
            model.prior_sigma = float(self.prior_sigma)
        return sampler.set_params(
            mechanism=self.mechanism, model=model, simulate=self.simulate, random_state=self.random_state
        )

    def _unit(self, n_features):
        """The factor by which rows are multiplied for the default prior; None if they are not."""
        is_scaled = self.prior_sigma is None and self.data_norm is not None
        return sqrt(n_features) / float(self.data_norm) if is_scaled else None

    def _public_classes(self):
        if self.classes is None:
            return None if self.mechanism is None else np.array([0, 1])
        classes = np.asarray(self.classes)
        if classes.shape != (2,) or classes[0] == classes[1]:
            raise ValueError(f"classes must be two labels, got classes={self.classes!r}")
        return np.sort(classes)

    @staticmethod
    def _classes_of(y):
        """The two labels of y, which is not confidential."""
        classes = np.unique(y)
        if len(classes) > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass: y has "
                f"{len(classes)} classes"
            )
        if len(classes) < 2:
            raise ValueError(f"DPLogisticRegressionMCMC needs two classes; y holds 1 class: {classes.tolist()}")
        return classes

    def predict_proba_draws(self, X: ArrayLike) -> Floats:
        """The probability of the second class under up to 1000 draws.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n_kept, n)
        """
        return self._each(X, lambda probabilities: probabilities)

    def _each(self, X, summarise):
        """What ``summarise`` makes of the probabilities' draws, (n_kept, n) -> (..., n), from some rows at a time."""
        check_is_fitted(self)
        X = check_table(self, X)
        coef, intercept = self.coef_draws_.reshape(-1, X.shape[1]), self.intercept_draws_.ravel()
        kept = evenly_spaced(len(coef), MOST_PREDICTIVE)
        if self._data_norm_ is not None:  # the model is for clipped rows
            X = clip_rows(X, self._data_norm_)
        parts = np.array_split(X, -(-len(X) * len(kept) // CHUNK))
        return np.concatenate([summarise(expit(coef[kept] @ x.T + intercept[kept, None])) for x in parts], axis=-1)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Posterior predictive probability of each class.

        Parameters
        ----------
        X : array-like of shape (n, n_features)

        Returns
        -------
        probabilities : ndarray of shape (n, 2)
        """
        second = self._each(X, partial(np.mean, axis=0))
        return np.column_stack([1.0 - second, second])

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Its logarithm."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: ArrayLike) -> Array:
        """The more probable class, (n,)."""
        probabilities = self.predict_proba(X)
        return self.classes_[(probabilities[:, 1] > 0.5).astype(int)]

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> tuple[Floats, Floats]:
        """Equal-tailed posterior interval of the probability of the second class.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        level : float in (0, 1), default=0.9

        Returns
        -------
        lower, upper : ndarrays of shape (n,)
        """
        lower, upper = self._each(X, partial(np.quantile, q=tails(level), axis=0))
        return lower, upper
