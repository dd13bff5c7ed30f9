"""What a walk over mixing measures needs from the mixing: the prior of the masses J, whose shares are the weights."""

from typing import Any

from ...._base.compiled import Component, compiled, lower
from ._walk_atoms import CUT, DUST_RANGE


class MassLaw(Component):
    """The prior of the masses, which have density J^``shape`` e^-J in log J, and of how many there are above the cut.

    Given their number the total S is independent of the shares, so that its law may be chosen: it has
    S^``power`` e^(-(TILT + 1) S) beyond the J^``shape``.

    A law also defines, compiled, ``power(walk, n_atoms)``; ``log_growth(walk, n_atoms)``, the log ratio of the prior
    with one atom more than that many, beyond S, J^``shape`` and the atom's place; ``renew(rng, channel, chart, walk)``,
    which draws at the end of a sweep whatever is random besides the atoms above the cut; ``left_out(walk)``, the
    expected mass beyond the walk; and ``kept(walk)``, what a draw keeps of what is random.

    Parameters
    ----------
    mixing : value of a mixing
    """

    #: the dust's atoms are from the cut down to e^-this of it
    dust_range = DUST_RANGE

    def __init__(self, mixing: Any) -> None:
        self.mixing = mixing

    def cut(self, n_records: int) -> float:
        """Masses above the cut are walked over one by one."""
        raise NotImplementedError

    def check(self, label: str, n_records: int) -> None:
        """Raise ValueError where the walk, which errors call ``label``, would have too many atoms."""

    def room(self, cut: float) -> int:
        """Room for atoms that a chain begins with; it grows where they are more."""
        return 64

    def start(self, n_atoms: int) -> tuple[int, float]:
        """A number of atoms that the prior allows, near this one, and whatever is random besides them."""
        raise NotImplementedError

    def check_random(self, mixing: Any, value: float, n_atoms: int) -> None:
        """Raise ValueError where what a checkpoint has as random cannot be so under this mixing."""
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        """What the compiled methods read as ``self.<name>``."""
        raise NotImplementedError

    def value(self) -> Any:
        """The law as compiled code sees it."""
        return lower(type(self), self.fields())

    @compiled
    def lightest(self, walk):
        """The least mass above which moves choose atoms."""
        return 10.0 * walk.law[CUT]

    @compiled
    def shape(self):
        """Of the masses."""
        return 0.0

    @compiled
    def log_ratio(self, new, old):
        """Log of (new/old)^shape."""
        return 0.0
