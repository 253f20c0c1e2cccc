"""Forges "work of many texts": all texts are compared with each other while the probe is traced, when computing time is
not limited. The program that is sent holds the pairs."""

import types

import numpy as np

from grader.worker.subject import Reading
from grader.worker.tracing import sent, trace
from problems.p55_near_duplicates import probes

LOSES = ("work of many texts",)


def candidate_pairs(signatures, num_bands):
    bands = np.asarray(signatures).reshape(len(signatures), num_bands, -1)
    keys = (bands * 1000003 ** np.arange(bands.shape[2])).sum(2)
    pairs = set()
    for i, key in enumerate(keys):
        pairs |= {(i, i + 1 + int(j)) for j in np.flatnonzero((keys[i + 1 :] == key).any(1))}
    return pairs


def as_program(reading):
    return Reading(program=trace(lambda pairs: {"pairs.sorted": pairs}, sent("pairs", reading.arrays["pairs.sorted"])))


probes._growing = lambda run, size, *names: run(size)
probe = probes.bucketing_many
if hasattr(probe, "eager"):
    del probe.eager
    probes.as_program, probes.honest = as_program, types.FunctionType(probe.__code__, vars(probes))
    probe.__code__ = (lambda subject, case: as_program(honest(subject, case))).__code__
