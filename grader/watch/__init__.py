"""`grade watch`: grades a file at every save and shows the verdict.

Imports resident, report and course; never JAX and never worker.
"""
