"""DP Barker: Barker's test on noisy log ratios of a batch (Heikkilä et al. 2019; Räisä 2021, Algorithm 2)."""

from math import log, sqrt

from ._penalty import Walk


class Barker(Walk):
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
        target = self.target
        if self.batch_size is None:  # nothing is private
            bound, _ = target.ratio_bound(state.theta, theta)
            ratios = target.ratios(state.theta, theta, bound)
            u = source.random(1)[0]
            released = target.temperature * ratios.total + log_public
            return released + log(u / (1.0 - u)) > 0.0, ratios.n_clipped / target.n_records
        size, widest = self.batch_size, self.ratio_limit * self.widest(target, self.batch_size)
        bound, width = target.ratio_bound(state.theta, theta)
        if width is None:
            bound = 0.5 * widest
        elif width > widest:
            return False, 0.0
        rows = target.batch(source, size, state.order)
        ratios = target.ratios(state.theta, theta, bound, rows)
        factor = target.n_records * target.temperature / size
        spread = factor * factor * (1.0 - size / target.n_records) * size / (size - 1.0) * ratios.square
        noise = sqrt(max(self.correction.variance - spread, 0.0)) * source.standard_normal(1)[0]
        released = factor * ratios.total + log_public + noise
        return released + self.correction.draw(source, 1)[0] > 0.0, ratios.n_clipped / size
