"""Chains as values: how they run, go on, are kept, summed up and shown.  Knows no sampler and no estimator."""
