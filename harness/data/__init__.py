"""Stories, tokenizers, tokens on disk, batches, and the n-gram baselines.

`harness.run` and `harness.pieces` call it. It imports no other package of the harness, and no JAX.
"""
