from ._neal5 import Neal5
