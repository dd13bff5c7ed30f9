"""What the search for a point partition knows about its loss: costs of moving an item, and of merging two clusters."""

import numpy as np

from .._base.compiled import Component, compiled, lower

N_BYTES = 2**18  # of a block of pairs in ``count_together``, so that it stays in a processor's cache


def count_together(rows):
    """In how many draws two items are together, for each pair: (n, n) floats that are integers."""
    n_draws, n = rows.shape
    codes = rows - rows.min(axis=1, keepdims=True)
    codes = codes.astype(np.min_scalar_type(codes.max()))
    counts = np.empty((n, n))
    step = max(1, N_BYTES // n)
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = np.zeros((stop - start, n - start))
        same = np.empty(block.shape, dtype=bool)
        for t in range(0, n_draws, 255):  # what a byte can count
            few = np.zeros(block.shape, dtype=np.uint8)
            for labels in codes[t : t + 255]:
                np.equal(labels[start:stop, None], labels[start:], out=same)
                few += same.view(np.uint8)
            block += few
        counts[start:stop, start:] = block
        counts[start:, start:stop] = block.T
    return counts


class BinderLoss(Component):
    """Pairs of items on which partitions disagree.

    Putting item i into cluster k changes the pairs by Σ_{j in k} (1 - 2π_ij), where π is the similarity.  Here costs
    are n_draws times that: integers, so floats without rounding.  Table: Σ_{j in k} n_draws π_ij at (k, i).
    """

    @staticmethod
    def scale(n):
        return max(n * (n - 1), 1)  # d counts each pair twice

    @staticmethod
    def disagreement(m, a, b):
        return m * (a + b - 2 * m)

    def _lower(self, *, rows):
        together = count_together(rows)
        np.fill_diagonal(together, 0.0)  # an item's own cluster is then as any other
        return lower(type(self), {"together": together, "n_draws": float(len(rows)), "tolerance": 0.5})

    def table(self, rows, capacity):
        return np.zeros((capacity, rows.shape[1]))

    @compiled
    def fill_costs(self, table, size, n_clusters, i, own, cost):
        for k in range(n_clusters):
            cost[k] = self.n_draws * (size[k] - (k == own)) - 2.0 * table[k, i]

    @compiled
    def shift(self, table, i, k, sign):
        for j in range(table.shape[1]):
            table[k, j] += sign * self.together[i, j]

    @compiled
    def fill_merge_costs(self, table, labels, size, n_clusters, k, cost):
        for l in range(k + 1, n_clusters):
            cost[l] = self.n_draws * size[k] * size[l]
        for i in range(labels.size):
            if labels[i] == k:
                for l in range(k + 1, n_clusters):
                    cost[l] -= 2.0 * table[l, i]

    @compiled
    def merge(self, table, k, l):
        for j in range(table.shape[1]):
            table[k, j] += table[l, j]
            table[l, j] = 0.0


class VariationOfInformation(Component):
    """Variation of information, in bits.

    With f(x) = x log2 x, putting item i into cluster k changes n times the loss from a draw by
    f(a + 1) - f(a) - 2 (f(m + 1) - f(m)), where m counts the items that k shares with the draw's cluster of i.  Here
    costs are n_draws/2 times the mean of that over draws.  Table: m at (cluster of a draw, k).
    """

    @staticmethod
    def scale(n):
        return n

    @staticmethod
    def disagreement(m, a, b):
        return m * np.log2(a * b / (m * m))

    def _lower(self, *, rows):
        n_draws, n = rows.shape
        x, at_least_1 = np.arange(n + 1.0), np.maximum(np.arange(n + 1.0), 1.0)
        step = np.log2(x + 1.0) + x * np.log1p(1.0 / at_least_1) / np.log(2.0)  # f(x + 1) - f(x), without cancellation
        fields = {"rows": rows.T, "f": x * np.log2(at_least_1), "step": step, "n_draws": float(n_draws)}
        return lower(type(self), fields | {"tolerance": 1e-9 * n_draws})

    def table(self, rows, capacity):
        return np.zeros((rows.max() + 1, capacity), dtype=np.int32)

    @compiled
    def fill_costs(self, table, size, n_clusters, i, own, cost):
        for k in range(n_clusters):
            cost[k] = 0.5 * self.n_draws * self.step[size[k] - (k == own)]
        for t in range(self.rows.shape[1]):
            row = self.rows[i, t]
            for k in range(n_clusters):
                cost[k] -= self.step[table[row, k] - (k == own)]

    @compiled
    def shift(self, table, i, k, sign):
        for t in range(self.rows.shape[1]):
            table[self.rows[i, t], k] += sign

    @compiled
    def fill_merge_costs(self, table, labels, size, n_clusters, k, cost):
        for l in range(k + 1, n_clusters):
            cost[l] = 0.5 * self.n_draws * (self.f[size[k] + size[l]] - self.f[size[k]] - self.f[size[l]])
        for row in range(table.shape[0]):
            m = table[row, k]
            if m > 0:  # else nothing changes; so small clusters cost little, however many they are
                for l in range(k + 1, n_clusters):
                    other = table[row, l]
                    cost[l] -= self.f[m + other] - self.f[m] - self.f[other]

    @compiled
    def merge(self, table, k, l):
        for row in range(table.shape[0]):
            table[row, k] += table[row, l]
            table[row, l] = 0


LOSSES = {"binder": BinderLoss(), "vi": VariationOfInformation()}
