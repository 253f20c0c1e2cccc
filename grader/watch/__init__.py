"""`grade watch`: grades a file at every save and shows the verdict.

Called by cli. Imports resident, report and course; never JAX and never worker.
"""
