"""Grades a class: takes files in, grades them, stores and summarizes the results.

Called by cli.
Imports judge, report, course and isolation; never JAX.
"""
