"""Small public data and simulators of the papers' settings."""

from ._air_time import load_air_time
from ._anes96 import load_anes96
from ._engel import load_engel
from ._rand_hie import load_rand_hie
from ._rossi import load_rossi
from ._simulate import make_three_normals, three_normals_density

__all__ = [
    "load_air_time",
    "load_anes96",
    "load_engel",
    "load_rand_hie",
    "load_rossi",
    "make_three_normals",
    "three_normals_density",
]
