"""The probe of problem 54: stories in rows. Runs in workers."""

import numpy as np

from grader.authoring import Arrays, BadOutputError, Reading, Subject, described, eager, named
from grader.problem import Case


@eager
def packing(subject: Subject, case: Case) -> Reading:
    """The rows of a list of stories, and their segment ids."""
    values = case.values
    ends = np.cumsum(values["lengths"]).astype(int)
    stories = [part.copy() for part in np.split(np.asarray(values["tokens"]), ends[:-1])] if len(ends) else []
    rows = subject.call("pack_stories", stories, values["context"], values["pad_id"])
    found: Arrays = {}
    for name, value in zip(("token_ids", "segment_ids"), rows, strict=True):
        found |= named(value, f"rows.{name}")
        if f"rows.{name}" not in found:
            raise BadOutputError(f"`{name}` is {described(value)}; it must be an int32 array")
    return Reading(found)


PROBES = {"packing": packing}
