"""Closed formulas in NumPy float64."""

import numpy as np


def count_parameters(vocab_size, context, d_model, d_ff, num_layers):
    D = np.float64(d_model)
    return D * (vocab_size + context + 2) + num_layers * (4 * D**2 + 9 * D + 2 * D * d_ff + d_ff)


def forward_flops_per_token(vocab_size, context, d_model, d_ff, num_layers):
    D = np.float64(d_model)
    return 2 * D * vocab_size + 4 * num_layers * D * (2 * D + context + d_ff)


def training_flops_per_token(vocab_size, context, d_model, d_ff, num_layers):
    return forward_flops_per_token(vocab_size, context, d_model, d_ff, num_layers) * 3.0


def training_bytes(vocab_size, context, d_model, d_ff, num_layers):
    return count_parameters(vocab_size, context, d_model, d_ff, num_layers) * 16


def utilization(tokens_per_second, peak_flops, vocab_size, context, d_model, d_ff, num_layers):
    return tokens_per_second * training_flops_per_token(vocab_size, context, d_model, d_ff, num_layers) / peak_flops


def decoding_bytes(batch, vocab_size, context, d_model, d_ff, num_layers):
    parameters = count_parameters(vocab_size, context, d_model, d_ff, num_layers)
    return 2 * parameters + 4.0 * batch * num_layers * context * d_model


def decoding_seconds(batch, peak_flops, bytes_per_second, *sizes, **named):
    arithmetic = forward_flops_per_token(*sizes, **named) * batch / peak_flops
    return np.maximum(arithmetic, decoding_bytes(batch, *sizes, **named) / bytes_per_second)
