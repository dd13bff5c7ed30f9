"""Mixtures: records that were privatised one by one."""
