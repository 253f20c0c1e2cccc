"""The problems, and the files of a learner: catalog, cases, pages, workspace, secret seeds.

Imports grader.problem and commandline; never JAX.
"""
