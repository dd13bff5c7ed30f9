"""Matrices of the designs of randomised response that surveys use."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import hadamard
from scipy.special import comb, expit

from .._base.parameters import is_real, numbers, positive_integer, positive_number

#: By how much a row of probabilities may miss 1, from rounding
ROUNDING = 1e-9
MOST_VALUES = 10_000  # of a hash function
MOST_EPSILON = 700.0  # beyond it e^-ε is rounded, in the end to 0


class SurveyDesigns:
    """Constructors of a class with the parameter ``matrix``, a row for each true category; 0 is a no, and 1 a yes."""

    matrix: ArrayLike | None

    def __init__(
        self, matrix: ArrayLike | None = None, *, noncompliance: Any = None, noncompliant_answer: int | ArrayLike = 0
    ) -> None:
        self.matrix = matrix
        self.noncompliance = noncompliance
        self.noncompliant_answer = noncompliant_answer

    @classmethod
    def warner(cls, p: float) -> Self:
        """The question is "do you have A?" with probability p, and otherwise "do you not have A?" (Warner 1965).

        Parameters
        ----------
        p : float

        Returns
        -------
        mechanism : FiniteChannelMechanism

        Examples
        --------
        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> FiniteChannelMechanism.warner(0.75).matrix
        array([[0.75, 0.25],
               [0.25, 0.75]])
        """
        p = _probability("p", p)
        return cls._yes(1.0 - p, p)

    @classmethod
    def forced_response(cls, p_yes: float, p_no: float) -> Self:
        """People are told to say yes with probability p_yes, no with p_no, and the truth otherwise (Boruch 1971).

        Parameters
        ----------
        p_yes, p_no : float

        Returns
        -------
        mechanism : FiniteChannelMechanism

        Examples
        --------
        Two dice: yes on 2, 3 and 4, no on 11 and 12.

        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> FiniteChannelMechanism.forced_response(1 / 6, 1 / 12).matrix.round(3)
        array([[0.833, 0.167],
               [0.083, 0.917]])
        """
        p_yes, p_no = _probability("p_yes", p_yes), _probability("p_no", p_no)
        if p_yes + p_no > 1.0 + ROUNDING:
            raise ValueError(
                f"p_yes and p_no must sum to at most 1, got p_yes={p_yes!r} and p_no={p_no!r}: what is left is the "
                "probability of the truth"
            )
        return cls._yes(p_yes, 1.0 - p_no)

    @classmethod
    def unrelated_question(cls, p: float, prevalence: float) -> Self:
        """The question is asked with probability p, and otherwise a harmless one (Greenberg et al. 1969).

        Parameters
        ----------
        p : float
        prevalence : float
            Probability of a yes to the harmless question, which is known (a birthday in March, say).

        Returns
        -------
        mechanism : FiniteChannelMechanism

        Examples
        --------
        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> FiniteChannelMechanism.unrelated_question(0.7, 0.5).matrix.round(3)
        array([[0.85, 0.15],
               [0.15, 0.85]])
        """
        p, prevalence = _probability("p", p), _probability("prevalence", prevalence)
        return cls._yes((1.0 - p) * prevalence, p + (1.0 - p) * prevalence)

    @classmethod
    def kuk(cls, p_yes: float, p_no: float, n_draws: int = 1) -> Self:
        """People say how many red cards they drew, with replacement, from the deck of their true answer (Kuk 1990).

        Parameters
        ----------
        p_yes, p_no : float
            Share of red cards in the deck of those whose answer is yes, and of those whose answer is no.
        n_draws : int, default=1
            Number of cards drawn; answers are 0..n_draws.

        Returns
        -------
        mechanism : FiniteChannelMechanism

        Examples
        --------
        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> FiniteChannelMechanism.kuk(0.8, 0.2, n_draws=2).matrix.round(2)
        array([[0.64, 0.32, 0.04],
               [0.04, 0.32, 0.64]])
        """
        n = positive_integer("n_draws", n_draws, most=1000)
        p, k = np.array([[_probability("p_no", p_no)], [_probability("p_yes", p_yes)]]), np.arange(n + 1)
        return cls(comb(n, k) * p**k * (1.0 - p) ** (n - k))

    @classmethod
    def k_ary(cls, epsilon: float, n_categories: int) -> Self:
        """The true category with probability e^ε/(e^ε + K - 1), and otherwise one of the others at random.

        This is the distribution of :class:`RandomizedResponseMechanism` on one feature.

        Parameters
        ----------
        epsilon : float
        n_categories : int
            K, at least 2.

        Returns
        -------
        mechanism : FiniteChannelMechanism

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> FiniteChannelMechanism.k_ary(np.log(2), 3).matrix.round(3)
        array([[0.5 , 0.25, 0.25],
               [0.25, 0.5 , 0.25],
               [0.25, 0.25, 0.5 ]])
        """
        other = np.exp(-_epsilon(epsilon))
        n = positive_integer("n_categories", n_categories, least=2, most=10_000)
        return cls(np.where(np.eye(n) > 0.0, 1.0, other) / (1.0 + (n - 1) * other))

    @classmethod
    def hadamard_response(cls, epsilon: float, n_categories: int) -> Self:
        """One of L answers, e^ε times as likely where row c + 1 of the Hadamard matrix has a 1 (Acharya et al. 2019).

        L is the power of two above K.  This design is for many categories, and for ε of order 1 and less.

        Parameters
        ----------
        epsilon : float
        n_categories : int
            K, at least 2.

        Returns
        -------
        mechanism : FiniteChannelMechanism

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> FiniteChannelMechanism.hadamard_response(np.log(3), 3).matrix
        array([[0.375, 0.125, 0.375, 0.125],
               [0.375, 0.375, 0.125, 0.125],
               [0.375, 0.125, 0.125, 0.375]])
        """
        epsilon = _epsilon(epsilon)
        n = positive_integer("n_categories", n_categories, least=2, most=4095)
        size = 2 ** int(n).bit_length()  # row 0 makes all answers alike, and no category has it
        likely, other = expit(epsilon) * 2.0 / size, expit(-epsilon) * 2.0 / size
        return cls(np.where(hadamard(size)[1 : n + 1] > 0, likely, other))

    @classmethod
    def local_hashing(cls, epsilon: float, hashes: ArrayLike, n_values: int | None = None) -> Self:
        """A hash of the category, by k-ary randomised response; the hash function is drawn for each person (OLH).

        With few hash functions, drawn from a public list, the posterior can be computed for any number of people.
        Answer v under function s has the number s g + v.  Wang et al. take g = 1 + e^ε, rounded, and hash with a random
        seed.

        Parameters
        ----------
        epsilon : float
        hashes : array-like of int, shape (n_functions, n_categories)
            The value, 0 to g - 1, that each function gives to each category.
        n_values : int, optional
            g, at least 2.  None: one more than the largest value.

        Returns
        -------
        mechanism : FiniteChannelMechanism

        References
        ----------
        Wang, Blocki, Li, Jha (2017), Locally differentially private protocols for frequency estimation, §4.4.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> FiniteChannelMechanism.local_hashing(np.log(3), [[0, 0, 1], [0, 1, 1]]).matrix
        array([[0.375, 0.125, 0.375, 0.125],
               [0.375, 0.125, 0.125, 0.375],
               [0.125, 0.375, 0.125, 0.375]])
        """
        other, table = np.exp(-_epsilon(epsilon)), numbers(hashes)
        is_table = table is not None and table.ndim == 2 and len(table) > 0 and table.shape[1] > 1
        if not is_table or not np.all((table >= 0) & (table < MOST_VALUES) & (table == np.floor(table))):
            raise ValueError(
                "hashes must hold a row for each hash function and a column for each of two or more categories, "
                f"filled with integers from 0 to {MOST_VALUES - 1}, got hashes={hashes!r}"
            )
        least = max(int(table.max()) + 1, 2)
        g = least if n_values is None else positive_integer("n_values", n_values, least=least, most=MOST_VALUES)
        values = np.where(table.T[..., None] == np.arange(g), 1.0, other) / (1.0 + (g - 1) * other)
        return cls(values.reshape(table.shape[1], -1) / len(table))

    @classmethod
    def split_sample(
        cls, designs: Sequence[Any], shares: ArrayLike | None = None, *, noncompliance: Any = None
    ) -> Self:
        """One of several designs of the same question for each person, drawn at random (Clark & Desharnais 1998).

        Answers are numbered consecutively: those of the second design follow those of the first.  With two designs, the
        share of people who say no without regard to the cards can be told apart from the share of those whose true
        answer is no.

        Parameters
        ----------
        designs : list of FiniteChannelMechanism, of one question each
        shares : array-like of shape (n_designs,), optional
            Shares of the people who get each design.  None: equal shares.  The posterior does not depend on them.
        noncompliance : BetaPrior, optional
            Prior on the share of people who give the first answer of their design.

        Returns
        -------
        mechanism : FiniteChannelMechanism

        Examples
        --------
        >>> from sklearn_dpmix.mechanisms import FiniteChannelMechanism
        >>> halves = [FiniteChannelMechanism.warner(0.8), FiniteChannelMechanism.warner(0.2)]
        >>> FiniteChannelMechanism.split_sample(halves).matrix
        array([[0.4, 0.1, 0.1, 0.4],
               [0.1, 0.4, 0.4, 0.1]])
        """
        is_list = isinstance(designs, (list, tuple)) and len(designs) > 1
        if not is_list or not all(isinstance(one, cls) for one in designs):
            raise ValueError(
                f"designs must be a list of two or more {cls.__name__} objects, such as {cls.__name__}.warner(0.8), "
                f"got designs={designs!r}"
            )
        if any(one.noncompliance is not None for one in designs):
            raise ValueError(
                "designs must not have a noncompliance of their own: people are equally honest under all of them, "
                f"so give the prior to split_sample(designs, noncompliance=...), got designs={designs!r}"
            )
        questions = [one._matrices() for one in designs]
        if any(len(one) > 1 for one in questions):
            raise ValueError(f"designs must have one question each, got {[len(one) for one in questions]}")
        rows = [matrix for (matrix,) in questions]
        if len({len(matrix) for matrix in rows}) > 1:
            raise ValueError(f"designs must have equally many categories, got {[len(one) for one in rows]}")
        parts = numbers(np.full(len(rows), 1.0 / len(rows)) if shares is None else shares)
        if parts is None or parts.shape != (len(rows),) or not np.all(parts > 0) or abs(parts.sum() - 1) > ROUNDING:
            raise ValueError(f"shares must be {len(rows)} positive numbers that sum to 1, got shares={shares!r}")
        first = [share * (np.arange(one.shape[1]) == 0) for share, one in zip(parts, rows, strict=True)]
        matrix = np.hstack([share * one for share, one in zip(parts, rows, strict=True)])
        return cls(matrix, noncompliance=noncompliance, noncompliant_answer=[np.concatenate(first).tolist()])

    @classmethod
    def _yes(cls, given_no, given_yes):
        """Probabilities of a yes."""
        yes = np.array([given_no, given_yes])
        return cls(np.column_stack([1.0 - yes, yes]))


def _epsilon(value):
    epsilon = positive_number("epsilon", value)
    if epsilon > MOST_EPSILON:
        raise ValueError(f"epsilon must be at most {MOST_EPSILON:g}, since e^-epsilon is rounded beyond, got {value!r}")
    return epsilon


def _probability(name, value):
    if not is_real(value) or not 0.0 <= value <= 1.0:
        raise ValueError(f"{name} must be a probability from 0 to 1, got {name}={value!r}")
    return float(value)
