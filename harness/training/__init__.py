"""The jitted train step, the optimizer, shardings over a mesh, and checkpoints.

`harness.pieces` and `harness.run` call it. Of the harness's packages it imports only `model`.
"""
