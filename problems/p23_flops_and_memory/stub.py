"""Problem 23: parameters, operations and bytes of a GPT.

The page is in pages/p23_flops_and_memory.md.
"""


def count_parameters(
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> int:
    """The number of parameters of problem 06's MiniGPT with these sizes."""
    raise NotImplementedError


def forward_flops_per_token(
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> int:
    """The operations of the forward pass for one token: two for each
    multiply-add of a matrix product."""
    raise NotImplementedError


def training_flops_per_token(
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> int:
    """The operations of the forward and backward pass for one token."""
    raise NotImplementedError


def training_bytes(
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> int:
    """The bytes of parameters, gradients and Adam's two moments, all float32."""
    raise NotImplementedError


def utilization(
    tokens_per_second: float,
    peak_flops: float,
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> float:
    """The fraction of `peak_flops` that training at this speed uses, 1.0 for all of
    it."""
    raise NotImplementedError


def decoding_bytes(
    batch: int,
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> int:
    """The bytes that a step of decoding reads in bfloat16: the parameters once, and a
    cache of `context` tokens a sequence."""
    raise NotImplementedError


def decoding_seconds(
    batch: int,
    peak_flops: float,
    bytes_per_second: float,
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> float:
    """The seconds that a step of decoding takes: those of its operations or those of
    its bytes, whichever are more."""
    raise NotImplementedError
