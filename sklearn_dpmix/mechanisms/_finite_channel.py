"""Answers to sensitive questions: any channel from finitely many categories to finitely many answers."""

import warnings
from itertools import accumulate
from math import fsum, inf

import numpy as np

from .._base.compiled import compiled, lower
from .._base.parameters import check_one_each, is_integer, numbers, positive_integer
from .._base.typing import Array, Floats
from ..privacy import PrivacyGuarantee
from ._categories import IndirectChannel
from ._channel import Share
from ._designs import ROUNDING, SurveyDesigns
from ._own_draws import OwnDraws

#: A generous bound on what rounding of sums, quotients and logarithms may take from an ε of order 1
GUARD = 2.0**-50


class FiniteChannelMechanism(OwnDraws, SurveyDesigns, IndirectChannel):
    r"""Release the answer z with probability ``matrix[c, z]`` if the true category is c.

    There are constructors for survey designs: :meth:`warner`, :meth:`forced_response`, :meth:`unrelated_question` and
    :meth:`kuk`, for a yes (1) or no (0), and :meth:`k_ary`.  The ratio of two categories' probabilities of an answer z
    is at most max_c matrix[c, z] / min_c matrix[c, z].  ε is the logarithm of the largest of these, summed over
    questions, and is attained.  It is infinite if an answer excludes a category.

    With ``kernel="categorical"`` the posterior of the shares, and of the joint shares of several questions, is exact.

    Some people protect themselves and say no without regard to the cards.  With a prior on their share,
    ``PrivateDPMixture`` draws it together with the shares of the others (``noncompliance_draws_``).  One design of one
    question says next to nothing about that share, and its posterior stays about as wide as the prior.  Two designs
    identify it (:meth:`split_sample`), and several questions help, because such people say no to all of them.

    Parameters
    ----------
    matrix : array-like of shape (n_categories, n_answers), or a list of such
        Row c holds the probabilities of all answers for someone whose category is c.  A list has one matrix for each
        question, answered independently given the record; n_categories is the same in all.
    noncompliance : BetaPrior, optional
        Prior on the share of people who do not follow the design, whatever their category.  None: all follow it.
        ``privatize`` makes the answers of people who follow it.
    noncompliant_answer : int or list of array-like of shape (n_answers,), default=0
        What these people answer to each question; or, for each question, the probabilities of their answers.

    Raises
    ------
    ValueError
        On use, for a matrix whose rows are not probabilities that sum to 1; for records that are not categories, and
        for releases that are not answers, or that nobody would give.

    References
    ----------
    Warner (1965), Randomized response: a survey technique for eliminating evasive answer bias; Greenberg, Abul-Ela,
    Simmons, Horvitz (1969), The unrelated question randomized response model; Boruch (1971), Assuring confidentiality
    of responses in social research; Kuk (1990), Asking sensitive questions indirectly.  Clark & Desharnais (1998),
    Honest answers to embarrassing questions; Böckenholt & van der Heijden (2007), Item randomized-response models for
    measuring noncompliance.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
    >>> mechanism = FiniteChannelMechanism([[0.9, 0.1, 0.0], [0.2, 0.5, 0.3]])
    >>> mechanism.privatize(np.array([[0], [1], [1]]), random_state=0).ravel()
    array([0., 1., 0.])

    A die says "say yes" on 6, "say no" on 1, and to tell the truth otherwise:

    >>> design = FiniteChannelMechanism.forced_response(1 / 6, 1 / 6)
    >>> design.matrix.round(3)
    array([[0.833, 0.167],
           [0.167, 0.833]])
    >>> round(design.guarantee().epsilon, 3)
    1.609
    """

    noised_kernels = frozenset({"categorical"})
    has_one_law = True

    # --- parameters --------------------------------------------------------------------------------------------------

    def _matrices(self):
        """The matrices of all questions, rows divided by their sums."""
        array = numbers(self.matrix)
        questions = list(array) if array is not None and array.ndim == 3 else self.matrix
        questions = [array] if array is not None and array.ndim == 2 else questions
        if not isinstance(questions, (list, tuple)) or not questions:
            raise ValueError(
                "matrix must hold a row for each true category and a column for each answer, or be a list of one "
                f"matrix for each question, got matrix={self.matrix!r}"
            )
        found = [_rows(question, f" of question {j}" * (len(questions) > 1)) for j, question in enumerate(questions)]
        sizes = {len(one) for one in found}
        if len(sizes) > 1:
            raise ValueError(f"matrix must have the same number of categories in each question, got {sorted(sizes)}")
        return found

    @property
    def n_categories(self) -> int:  # type: ignore[override]
        """K, the number of true categories."""
        return len(self._matrices()[0])

    @property
    def n_answers(self) -> int:  # type: ignore[override]
        """The largest number of answers to a question."""
        return max(one.shape[1] for one in self._matrices())

    def check(self, n_features: int | None = None) -> None:
        self._for(n_features)
        if self.noncompliance is not None:
            if not all(hasattr(self.noncompliance, name) for name in ("a", "b", "check")):
                raise ValueError(
                    "noncompliance must be a BetaPrior on the share of people who do not follow the design, such as "
                    f"BetaPrior(1, 9), or None, got noncompliance={self.noncompliance!r}"
                )
            self.noncompliance.check()
        self._noncompliant_rows()

    def _noncompliant_rows(self):
        """Probabilities of the answers of people who do not follow the design: an array for each question."""
        matrices, answer = self._matrices(), self.noncompliant_answer
        if is_integer(answer) and 0 <= answer < min(one.shape[1] for one in matrices):
            return [(np.arange(one.shape[1]) == answer).astype(np.float64) for one in matrices]
        rows = answer.tolist() if isinstance(answer, np.ndarray) else answer
        rows = [numbers(row) for row in rows] if isinstance(rows, (list, tuple)) else []
        fits = len(rows) == len(matrices) and all(
            row is not None and row.shape == one.shape[1:] and np.all(row >= 0.0) and abs(fsum(row) - 1.0) <= ROUNDING
            for row, one in zip(rows, matrices, strict=True)
        )
        if not fits:
            raise ValueError(
                "noncompliant_answer must be the number of an answer that each question has, or a list of the "
                f"probabilities of all answers for each of {len(matrices)} question(s), got "
                f"noncompliant_answer={answer!r}"
            )
        return rows

    def _for(self, n_features, name="Z"):
        """The matrices; raises if records do not have as many features."""
        matrices = self._matrices()
        n_features = None if n_features is None else positive_integer("n_features", n_features)
        if n_features not in (None, len(matrices)):
            raise ValueError(
                f"matrix has {len(matrices)} question(s), but {name} has {n_features} column(s): pass a list of one "
                "matrix for each question"
            )
        return matrices

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one record's answers; warn if it is infinite."""
        epsilon = 0.0
        for j, matrix in enumerate(self._for(n_features, "a record")):
            most, least = matrix.max(axis=0), matrix.min(axis=0)
            excluding = np.flatnonzero((most > 0.0) & (least == 0.0))
            if excluding.size:
                z = int(excluding[0])
                warnings.warn(
                    f"answer {z} to question {j} is never given by category {int(np.argmin(matrix[:, z]))}, so it "
                    "rules that category out: epsilon is infinite",
                    UserWarning,
                    stacklevel=2,
                )
                epsilon = inf
            elif np.any(most > least):
                given = most > 0.0
                loss = float(np.max(np.log(most[given]) - np.log(least[given])))
                epsilon += loss + GUARD * (1.0 + loss)  # never less than the true value
        return PrivacyGuarantee.pure(epsilon)

    # --- releases ----------------------------------------------------------------------------------------------------

    def _simulate(self, rng, X):
        Z = np.empty(X.shape)
        for j, matrix in enumerate(self._for(X.shape[1], "X")):
            for c in np.unique(X[:, j]).astype(int):
                rows = X[:, j] == c
                Z[rows, j] = _drawn(matrix[c], rows.sum(), rng) if rng else _exactly(matrix[c], rows.sum())
        return Z

    def _secure(self, X):
        """With exactly the given probabilities."""
        return self._simulate(None, X)

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        for j, matrix in enumerate(self._for(Z.shape[1])):
            n_answers, z = matrix.shape[1], Z[:, j]
            wrong = (z != np.floor(z)) | (z < 0) | (z >= n_answers)
            if wrong.any():
                i = int(np.argmax(wrong))
                raise ValueError(
                    f"Z must hold answers, integers from 0 to {n_answers - 1}, one for each column of the matrix, "
                    f"but row {i}, column {j} has {z[i]:g}: number the answers as the matrix does"
                )
            never = matrix.max(axis=0)[z.astype(int)] == 0.0
            if self.noncompliance is not None:
                never &= self._noncompliant_rows()[j][z.astype(int)] == 0.0
            if never.any():
                i = int(np.argmax(never))
                raise ValueError(
                    f"row {i}, column {j} of Z has answer {z[i]:g}, which according to the matrix nobody gives: its "
                    "column is all zeros"
                )

    def _log_law(self, Z, X):
        check_one_each(Z, X)
        self.check_release(Z)
        with np.errstate(divide="ignore"):
            logs = [np.log(matrix) for matrix in self._matrices()]
        return sum(log_p[X[:, j].astype(int), Z[:, j].astype(int)] for j, log_p in enumerate(logs))

    def log_noncompliant(self, Z: Array) -> Floats:
        """Log probability of each release for someone who does not follow the design: (n_records,)."""
        with np.errstate(divide="ignore"):
            logs = [np.log(row) for row in self._noncompliant_rows()]
        return sum(log_p[Z[:, j].astype(int)] for j, log_p in enumerate(logs))

    def shares(self, Z: Array) -> list[Share]:
        """Of each answer to each question, if all follow the design."""
        found: list[Share] = []
        if self.noncompliance is not None:
            return found
        for j, matrix in enumerate(self._for(Z.shape[1])):
            shares = np.bincount(Z[:, j].astype(int), minlength=matrix.shape[1]) / len(Z)
            columns = zip(shares, matrix.min(axis=0), matrix.max(axis=0), strict=True)
            found += [Share(f"answer {z} in feature {j}", *column) for z, column in enumerate(columns)]
        return found

    def chances(self, Z: Array) -> Floats:
        return np.array([matrix[:, z.astype(int)] for matrix, z in zip(self._for(Z.shape[1]), Z.T, strict=True)])

    # --- where a chain starts ----------------------------------------------------------------------------------------

    def _shares(self, Z):
        """Shares from 200 steps of EM on the counts of answers."""
        found = []
        for j, matrix in enumerate(self._matrices()):
            counts = np.bincount(Z[:, j].astype(int), minlength=matrix.shape[1])
            told = (counts > 0) & (matrix.max(axis=0) > 0.0)  # answers that people give who follow the design
            seen, p = matrix[:, told], np.full(len(matrix), 1.0 / len(matrix))
            for _ in range(200 * bool(told.any())):
                p = p * (seen @ (counts[told] / (p @ seen)))
                p /= p.sum()
            found.append(p)
        return np.array(found)

    def guess(self, Z: Array) -> Floats | None:
        """(n, n_questions) categories near which a chain may start: the most probable ones."""
        parts = zip(self._matrices(), self._shares(Z), Z.T, strict=True)
        best = [np.argmax(matrix * share[:, None], axis=0)[z.astype(int)] for matrix, share, z in parts]
        return np.column_stack(best).astype(np.float64)

    # --- compiled ----------------------------------------------------------------------------------------------------

    def _lower(self, *, n_features, **context):
        matrices = self._for(n_features)
        sizes = [one.size for one in matrices]
        with np.errstate(divide="ignore"):
            table = np.log(np.concatenate([one.ravel() for one in matrices]))
        fields = {"size": len(matrices[0]), "table": table}
        fields["first"] = np.cumsum([0.0, *sizes[:-1]])
        return lower(type(self), fields | {"n_answers": np.array([float(one.shape[1]) for one in matrices])})

    @compiled
    def log_category(self, Z, i, j, c):
        return self.table[int(self.first[j]) + c * int(self.n_answers[j]) + int(Z[i, j])]


def _rows(matrix, which):
    """A matrix with rows that sum to 1 as nearly as possible."""
    array = numbers(matrix)
    if array is None and hasattr(matrix, "matrix"):
        raise ValueError(f"matrix{which} must be numbers, got a {type(matrix).__name__}: pass its matrix")
    if array is None or array.ndim != 2 or len(array) < 2 or array.shape[1] == 0:
        raise ValueError(
            f"matrix{which} must be numbers in two or more rows, one for each true category, got matrix={matrix!r}"
        )
    if not np.all((array >= 0.0) & (array <= 1.0 + ROUNDING)):  # NaN too
        c, z = np.argwhere(~((array >= 0.0) & (array <= 1.0 + ROUNDING)))[0]
        raise ValueError(f"matrix{which} must hold probabilities, but row {c}, column {z} has {array[c, z]:g}")
    totals = np.array([fsum(row) for row in array])
    if np.max(np.abs(totals - 1.0)) > ROUNDING:
        c = int(np.argmax(np.abs(totals - 1.0)))
        raise ValueError(
            f"matrix{which} must have rows that sum to 1, the probabilities of all answers given a category, but row "
            f"{c} sums to {totals[c]:.10g}: if its columns are the categories, pass its transpose"
        )
    return array / totals[:, None]


def _drawn(row, n, rng):
    below = np.cumsum(row)
    return np.searchsorted(below / below[-1], rng.random(n), side="right")


def _exactly(row, n):
    """Answers with probabilities proportional to the row's, which are whole multiples of 2^-1074."""
    from secrets import randbelow

    below = list(accumulate(p.as_integer_ratio()[0] * (2**1074 // p.as_integer_ratio()[1]) for p in row.tolist()))
    return [next(z for z, top in enumerate(below) if u < top) for u in (randbelow(below[-1]) for _ in range(n))]
