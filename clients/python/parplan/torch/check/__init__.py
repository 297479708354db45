"""Checks of a plan before it gets GPUs: a small copy of it on processors against one process, and
the collectives of a whole step against those that the cost model prices."""
