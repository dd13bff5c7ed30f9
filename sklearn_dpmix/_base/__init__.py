"""What everything stands on: compiled components, numerics, generators, checks of parameters, files; no statistics."""
