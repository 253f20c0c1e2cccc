"""Grades a class: takes files in, grades them, stores and summarizes the results.

Imports judge, report, course and isolation; never JAX.
"""
