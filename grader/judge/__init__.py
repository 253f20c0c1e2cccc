"""Turns a file into a verdict: reference outputs, comparison, misconceptions, the first faulty submodule.

Imports course, wire and isolation; never JAX and never worker.
"""
