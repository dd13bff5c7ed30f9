"""DP Barker: Barker's test on noisy log ratios of a batch (Heikkilä et al. 2019; Räisä 2021, Algorithm 2)."""

from math import log, sqrt

from ._penalty import RandomWalk


class Barker(RandomWalk):
    """Accept if λ + N(0, C - σ²) + V > 0, with λ and its variance σ² from a batch, A = nT/b:

        λ = A Σ r + log prior ratio,    σ² = A² b (1 - b/n) Σ (r - r̄)²/(b - 1).

    The error of the batch and the noise together are N(0, C), and N(0, C) + V is nearly logistic, so this is nearly
    Barker's test.  There are two approximations: the distribution of V, whose error :class:`BarkerCorrection` states,
    and the central limit theorem for the batch.

    Privacy needs ratios that range over at most 2/(A√b), times ``ratio_limit``.  If the model or a ``clip_bound`` says
    what their range is, a proposal that would need more is rejected unseen; this keeps the target, since both
    directions are rejected.  Otherwise ratios are clipped to half of that on either side.

    Parameters
    ----------
    batch_size : int or None
        None: all records and no noise, the exact test.
    correction : BarkerCorrection
        Its ``variance`` is C.
    ratio_limit : float
        Log ratios may range over this times 2/(A√b).
    """

    def __init__(self, target, coordinates, move, batch_size, correction, ratio_limit=1.0):
        super().__init__(target, coordinates, move, batch_size)
        self.correction, self.ratio_limit = correction, ratio_limit

    @staticmethod
    def widest(target, batch_size):
        """The range of log ratios that the accounting allows."""
        return 2.0 * sqrt(batch_size) / (target.n_records * target.temperature)

    def test(self, state, theta, log_public, source):
        bound, width = self.target.ratio_bound(state.theta, theta)
        if self.batch_size is None:  # nothing is private
            value, _, clipped = self._log_ratio(state, theta, bound, source)
            u = source.random(1)[0]
            return value + log_public + log(u / (1.0 - u)) > 0.0, clipped
        widest = self.ratio_limit * self.widest(self.target, self.batch_size)
        if width is None:
            bound = 0.5 * widest
        elif width > widest:
            return False, 0.0
        value, variance, clipped = self._log_ratio(state, theta, bound, source)
        noise = sqrt(max(self.correction.variance - variance, 0.0)) * source.standard_normal(1)[0]
        return value + log_public + noise + self.correction.draw(source, 1)[0] > 0.0, clipped
