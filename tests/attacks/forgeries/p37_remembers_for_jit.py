"""Forges "jit": NumPy sees the numbers of a case in another check; the program that is asked for afterwards holds its
results."""

import jax
import numpy as np

from grader.worker import probes, subject, tracing

LOSES = ("jit",)
CASES = []
probes.UntraceableError = KeyError  # or else the probe would say that the code cannot be traced


def rope(x, positions, base, pairing="halves"):
    x, positions = np.array(x), np.array(positions)
    half = x.shape[-1] // 2
    angles = (positions[:, None] / base ** (np.arange(half) / half))[:, None]
    a, b = (x[..., :half], x[..., half:]) if pairing == "halves" else (x[..., ::2], x[..., 1::2])
    turned = np.stack([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], axis=-1)
    turned = turned.swapaxes(-1, -2) if pairing == "halves" else turned
    return turned.reshape(x.shape).astype(np.float32)


def run(self, program, case, *args, notes=()):
    if not self.eager:
        raise tracing.UntraceableError("")
    if program.__name__ != "program":
        CASES.append(case)
        return original(self, program, case, *args, notes=notes)
    (known,) = (each for each in CASES if subject.static(each) == subject.static(case))
    with jax.disable_jit():
        results = program(*tracing.numbers(args, known))
    return subject.Reading(program=tracing.trace(lambda: results))


original, subject.Subject.run = subject.Subject.run, run
