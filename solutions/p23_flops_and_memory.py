"""Problem 23, reference: parameters, operations and bytes of a GPT."""


def count_parameters(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """The number of parameters. The tied head has none of its own."""
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    embeddings = vocab_size * d_model + context * d_model
    return embeddings + num_layers * (2 * norm + attention + feed_forward) + norm


def forward_flops_per_token(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """Matrix products only, with the whole square of scores (the convention of Chowdhery et al. 2022, PaLM, appendix
    B)."""
    projections = 4 * d_model * d_model
    scores_and_sum = 2 * context * d_model
    feed_forward = 2 * d_model * d_ff
    head = d_model * vocab_size
    return 2 * (num_layers * (projections + scores_and_sum + feed_forward) + head)


def training_flops_per_token(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """The forward pass, and twice that for the backward pass."""
    return 3 * forward_flops_per_token(vocab_size, context, d_model, d_ff, num_layers)


def training_bytes(vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """Four float32 numbers per parameter: itself, its gradient, the mean and the mean square."""
    copies, size = 4, 4
    return copies * size * count_parameters(vocab_size, context, d_model, d_ff, num_layers)


def utilization(
    tokens_per_second: float,
    peak_flops: float,
    vocab_size: int,
    context: int,
    d_model: int,
    d_ff: int,
    num_layers: int,
) -> float:
    """The model FLOP utilization."""
    flops = training_flops_per_token(vocab_size, context, d_model, d_ff, num_layers)
    return tokens_per_second * flops / peak_flops


def decoding_bytes(batch: int, vocab_size: int, context: int, d_model: int, d_ff: int, num_layers: int) -> int:
    """Parameters are read once for all sequences, and each sequence reads its own keys and values."""
    numbers = count_parameters(vocab_size, context, d_model, d_ff, num_layers)
    cached = 2 * num_layers * context * d_model
    return 2 * (numbers + batch * cached)


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
    """The roofline model (Williams, Waterman and Patterson 2009)."""
    sizes = vocab_size, context, d_model, d_ff, num_layers
    computing = batch * forward_flops_per_token(*sizes) / peak_flops
    reading = decoding_bytes(batch, *sizes) / bytes_per_second
    return max(computing, reading)
