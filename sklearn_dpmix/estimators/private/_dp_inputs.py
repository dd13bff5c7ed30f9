"""Inputs of fits under a budget: checks of parameters and models, which see no record; checks of records; noise."""

import numpy as np
from sklearn.utils.validation import validate_data

from ..._base.generators import as_seed_sequence
from ..._base.parameters import check_array, check_X_y, numbers, refuse_class
from ...samplers.private._target import has_range
from .._chain_estimator import warn_user
from .._confidential import check_confidential
from ._dp_budget import Budget
from ._noise_source import ExactReleases, SecureNoise, SimulatedNoise, SystemNoise


class DPInputs:
    """Mixin of the estimators that release draws, or a normal law, under a budget; they have a ``_public_name``."""

    #: what the model must have besides ``log_prior`` and ``log_density``
    _needs: tuple[str, ...] = ()
    #: scale of the default prior of a logistic regression
    _logit_scale = 3.0
    batch_size: int | None = None
    clip_bound: float | None = None
    gradient_clip_bound: float | None = None
    secure = False

    def _check_model(self):
        model, who = self.model, self._public_name
        if model is None:
            raise ValueError(f"{who} needs a model, as in model=Banana() of sklearn_dpmix.models; got model=None")
        refuse_class("model", model)
        for name in ("log_density", "log_prior", *self._needs):
            if not callable(getattr(model, name, None)):
                raise TypeError(f"{who} needs {name} of the model, which {type(model).__name__} does not have")
        if hasattr(model, "check"):
            model.check()
        start = self._start(model)
        log_prior = np.asarray(model.log_prior(np.tile(start, (2, 1))))
        if log_prior.shape != (2,):
            raise ValueError(
                f"log_prior of {type(model).__name__} must return shape (size,) = (2,) for theta of shape "
                f"{(2, len(start))}, got {log_prior.shape}"
            )
        if not np.isfinite(log_prior[0]):
            raise ValueError(
                f"{who} starts at {start.tolist()}, where log_prior of {type(model).__name__} is {log_prior[0]}: give "
                "init=..., or the model a theta_init, that is possible under the prior"
            )
        if self.mechanism is not None:
            self._check_ranges(model)
        if self.preconditioner is not None:
            self.preconditioner.check(model, start, who, self.mechanism is not None)
            bounds = self.preconditioner.gradient_clip_bound, self.gradient_clip_bound
            if self.mechanism is not None and bounds == (None, None):
                self._check_range(model, "gradient_range", "gradient_clip_bound of the preconditioner")
        return model

    def _check_ranges(self, model):
        """Under a mechanism, something must say how far one record can move a log ratio."""
        if self.clip_bound is None:
            self._check_range(model, "log_ratio_range", "clip_bound")

    def _check_range(self, model, method, parameter):
        if not has_range(model, method, self._start(model)):
            raise ValueError(
                f"{self._public_name} needs {parameter}, or a model of bounded records whose {method} says how far "
                f"one record can move what is released (data_norm=... of the package's models): got {parameter}=None "
                f"and model={model!r}"
            )

    def _check_privacy(self):
        who = self._public_name
        if self.ledger is not None and not callable(getattr(self.ledger, "check", None)):
            raise TypeError(f"ledger of {who} must be a PrivacyLedger, got ledger={self.ledger!r}")
        if self.mechanism is None:
            if self.ledger is not None:
                raise ValueError(
                    f"ledger of {who} has nothing to count: without a mechanism the draws are not private; give "
                    "mechanism=GaussianMechanism(epsilon=..., delta=...), or no ledger"
                )
            return None
        if self.random_state is not None and not self.simulate:
            raise ValueError(
                f"{who} draws noise from the operating system's entropy: whoever knows random_state could remove it. "
                "Leave random_state=None, or simulate=True on data that are not confidential"
            )
        if self.secure and self.simulate:
            raise ValueError("secure=True and simulate=True exclude each other")
        return Budget(self)

    def _check_records(self, model, X, y):
        if self.mechanism is not None:
            checked = check_confidential(self, X, y, y_numeric=True)
        elif y is None:
            checked = check_array(X, dtype=np.float64, order="C", input_name="X", estimator=self)
        else:
            checked = check_X_y(X, y, dtype=np.float64, y_numeric=True, estimator=self)
        records = checked if y is None else np.column_stack(checked)
        validate_data(self, X, skip_check_array=True)
        self._check_columns(model, records, y)
        return records

    def _check_columns(self, model, records, y):
        expected = getattr(model, "n_columns", None)
        if expected is not None and records.shape[1] != expected:
            raise ValueError(
                f"{type(model).__name__} has records of {expected} numbers, but X{'' if y is None else ' with y'} has "
                f"{records.shape[1]}"
            )

    def _start(self, model):
        """The public start: ``init``, the model's ``theta_init``, or zeros."""
        name, given, n_params = "init", self.init, getattr(model, "n_params", None)
        if given is None:
            name, given = f"theta_init of {type(model).__name__}", getattr(model, "theta_init", None)
        if given is None:
            if n_params is None:
                raise TypeError(
                    f"{self._public_name} needs init=..., of shape (n_params,), or a model with theta_init or "
                    f"n_params; {type(model).__name__} has neither"
                )
            return np.zeros(n_params)
        start = numbers(given)
        if start is None or start.ndim != 1 or len(start) != (n_params or len(start)) or not np.all(np.isfinite(start)):
            length = "n_params" if n_params is None else n_params
            raise ValueError(f"{name} must be {length} finite numbers, one per parameter, got {given!r}")
        return start

    def _sources(self, n):
        """One source of noise per chain, and one for what comes before and after."""
        if self.mechanism is not None and not self.simulate:
            return [SecureNoise() if self.secure else SystemNoise() for _ in range(n)]
        seeds = as_seed_sequence(self.random_state).spawn(n)
        source = ExactReleases if self.mechanism is None else SimulatedNoise
        return [source(np.random.default_rng(seed)) for seed in seeds]

    def _warn_of_simulation(self):
        if self.simulate and self.mechanism is not None:
            warn_user(
                "simulate=True: the noise came from a generator that random_state reproduces, so the result is NOT "
                "private, whatever privacy_spent_ says; only for data that are not confidential",
                UserWarning,
            )
