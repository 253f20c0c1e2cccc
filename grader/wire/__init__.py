"""Frames, which carry data between processes, and flat vectors with the one function that compares them.

Imports NumPy, grader.problem and commandline; never JAX.
"""
