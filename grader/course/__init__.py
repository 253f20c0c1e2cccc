"""The problems, and the files of a learner: catalog, cases, pages, workspace, secret seeds.

Called by every room of the grader but wire and isolation.
Imports grader.problem and commandline; never JAX.
"""
