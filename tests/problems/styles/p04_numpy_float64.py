"""Computes in NumPy and float64."""

import numpy as np


def layer_norm(x, scale, bias, epsilon):
    x = np.asarray(x).astype("float64")
    mu = x.mean(axis=1, keepdims=True)
    sigma = np.sqrt(((x - mu) ** 2).mean(axis=1, keepdims=True) + epsilon)
    return np.asarray(scale) * ((x - mu) / sigma) + np.asarray(bias)
