"""Practice after a problem was passed: reviews on the dates of FSRS, and hunts for a fault in a program.

Imports course, judge and report. Never JAX, and no room below imports it.
"""
