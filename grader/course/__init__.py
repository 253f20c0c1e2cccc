"""The problems, and the files of a learner: catalog, cases, pages, workspace, secret seeds.

Called by judge, batch, handout and cli.
Imports the definition of a problem and commandline; never JAX.
"""
