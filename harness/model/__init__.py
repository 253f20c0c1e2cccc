"""The GPT, its attention and its loss, low-rank adapters, and sampling.

`harness.training`, `harness.pieces` and `harness.run` call it. It imports no other package of the harness.
"""
