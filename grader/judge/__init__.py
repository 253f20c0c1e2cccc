"""Turns a file into a verdict: reference outputs, comparison, misconceptions, the first faulty submodule.

Called by batch, handout, report, cli, verify and the pytest plugin.
Imports course, wire and isolation; never JAX and never worker.
"""
