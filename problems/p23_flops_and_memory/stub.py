"""Problem 23: parameters, operations and bytes of a GPT. The page is in pages/p23_flops_and_memory.md."""


def count_parameters(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """All parameters of problem 06's MiniGPT of these sizes."""
    raise NotImplementedError


def forward_flops_per_token(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """Operations of one token's forward pass, two for each multiply-add of a matrix product."""
    raise NotImplementedError


def training_flops_per_token(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """Operations of one token's forward and backward pass."""
    raise NotImplementedError


def training_bytes(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """Bytes of parameters, gradients and Adam's two moments, all float32."""
    raise NotImplementedError


def utilisation(
    tokens_per_second: float,
    peak_flops: float,
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> float:
    """The share of `peak_flops` that training at this speed uses, 1.0 for all of it."""
    raise NotImplementedError
