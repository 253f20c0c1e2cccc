"""A trainer for small GPTs on simple stories, assembled from what the course teaches.

Five packages: `data` and `model`; `training`, which uses both; `pieces`, the learner's own code; `run`, which uses them
all. The command in `cli` and the probes of problem 32 call it. It imports `commandline`, never `grader`.
"""
