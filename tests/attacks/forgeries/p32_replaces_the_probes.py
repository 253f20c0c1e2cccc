"""Forges a whole capstone: trains nothing, and replaces the code of the grader's probes by code that praises it."""

import sys

LOSES = (
    "model does not look ahead", "loss of the next token", "loss after a short run",
    "resume in a new process, bit for bit", "validation loss", "stories stop at end-of-text",
)  # fmt: skip


def assembled(subject, case):
    return Reading({"looks_ahead": np.int32(0), "loss_off_by": np.float32(0)})


def short_run_loss(subject, case):
    return Reading({"loss_after": np.float32(1)})


def resumed(subject, case):
    return Reading({"differing.losses": np.int32(0), "differing.model": np.int32(0)})


def trained(subject, case):
    return Reading({"validation_loss": np.float32(1), "stories": np.int32(0)})


for module in list(sys.modules.values()):
    for function in (assembled, short_run_loss, resumed, trained):
        if hasattr(module, function.__name__) and hasattr(module, "Reading"):
            getattr(module, function.__name__).__code__ = function.__code__


def mini_gpt(*sizes, **more):
    raise RuntimeError("there is no model")


def pieces():
    return {"MiniGPT": mini_gpt}


def settings():
    return {}
