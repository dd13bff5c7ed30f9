"""Which sweeps of a chain leave a draw, and how many count as one where draws are worth little."""

from typing import NamedTuple


class Pace(NamedTuple):
    """After the first ``n_warmup`` sweeps every ``thin``-th leaves a draw."""

    n_warmup: int
    thin: int
    times: int = 1  # as many sweeps a draw as the user asked for

    def n_drawn(self, n_done):
        return max(n_done - self.n_warmup, 0) // self.thin

    def n_sweeps(self, n_draws):
        """Sweeps that leave so many draws."""
        return self.n_warmup + n_draws * self.thin

    def slower(self, n_done):
        """The pace at which every second draw of so many sweeps is left out, but not the last."""
        n_drawn = self.n_drawn(n_done)
        return Pace(self.n_sweeps(-(n_drawn % 2)), 2 * self.thin, 2 * self.times)

    def check(self, asked, most_times):
        """Raise ValueError unless a run that was to have the pace ``asked`` may have this one."""
        is_known = self.times in (2**k for k in range(most_times.bit_length())) and self.thin == self.times * asked.thin
        if not (is_known and 0 <= asked.n_warmup - self.n_warmup <= self.thin - asked.thin):
            raise ValueError(f"it says that every {self.thin} sweeps after {self.n_warmup} leave a draw")
