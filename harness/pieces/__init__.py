"""The learner's pieces: loads them from a workspace, smoke-tests them, and adapts them to the harness's interfaces.

`harness.run`, `harness.cli` and the probes of problem 32 call it. It imports `data`, `model` and `training`.
"""
