"""Statistics that can only be simulated."""
