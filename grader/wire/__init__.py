"""Frames, which carry data between processes, and flat vectors with the one function that compares them.

Called by judge, worker and isolation; judge and worker never import each other.
Imports NumPy, grader.problem and commandline; never JAX.
"""
