"""Starts, confines, measures and kills the processes that run submissions.

Imports wire and commandline; never JAX.
"""
