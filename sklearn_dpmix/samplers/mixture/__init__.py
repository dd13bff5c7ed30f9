"""Samplers for mixture posteriors: their state, what each requires, their sweeps, and which one is the default."""
