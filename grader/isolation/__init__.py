"""Starts, confines, measures and kills the processes that run submissions.

Called by judge (the parent side) and worker (the child side).
Imports wire and commandline; never JAX.
"""
