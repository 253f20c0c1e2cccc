"""The probes of problem 65: what automata read, which tokens they allow, and texts. Run in workers."""

import ast
from typing import Any

import numpy as np

from grader.authoring import BadOutputError, Reading, Subject, described, eager
from grader.problem import Case

SYMBOLS, LONGEST = 256, 60


@eager
def reading(subject: Subject, case: Case) -> Reading:
    """For each text, whether the automaton accepts it, and how many of its bytes it reads."""
    expression, texts = (ast.literal_eval(str(case.values[name])) for name in ("expression", "texts"))
    transitions, accepting = map(np.asarray, subject.call("build_automaton", expression))
    S = len(transitions) if transitions.ndim else 0
    if transitions.shape != (S, SYMBOLS) or accepting.shape != (S,) or not S:
        raise BadOutputError(
            f"`build_automaton` returned arrays of the shapes {transitions.shape} and {accepting.shape}; "
            "they must be (S, 256) and (S,)"
        )
    if not np.issubdtype(transitions.dtype, np.integer) or transitions.min() < -1 or transitions.max() >= S:
        raise BadOutputError(
            f"`transitions` must hold integers from -1 to S - 1 = {S - 1}; yours are {_range(transitions)}"
        )
    found = [_read(transitions, accepting, text) for text in texts]
    accepted, read = np.array(found, np.int32).T
    return Reading({"texts.accepted": accepted, "texts.read": read})


def _range(array: Any) -> str:
    return f"{array.dtype} from {array.min()} to {array.max()}"


def _read(transitions: Any, accepting: Any, text: bytes) -> tuple[int, int]:
    state = 0
    for place, byte in enumerate(text):
        state = int(transitions[state, byte])
        if state < 0:
            return 0, place
    return int(bool(accepting[state])), len(text)


@eager
def transitions(subject: Subject, case: Case) -> Reading:
    """The next state of each state and token."""
    values = case.values
    vocabulary, end_id = ast.literal_eval(str(values["vocabulary"])), values["end_id"]
    table: Any = values["transitions"]
    result = subject.call("token_transitions", table.copy(), np.array(values["accepting"]), vocabulary, end_id)
    found = np.asarray(result)
    if found.dtype == bool:
        raise BadOutputError(
            "`token_transitions` returned booleans; it must return the next states, and -1 where there is none"
        )
    if found.shape != (len(table), len(vocabulary)) or not np.issubdtype(found.dtype, np.integer):
        raise BadOutputError(
            f"`token_transitions` returned {described(result)}; it must return integers ({len(table)}, "
            f"{len(vocabulary)})"
        )
    return Reading({"next": found.astype(np.int32)})


@eager
def texts(subject: Subject, case: Case) -> Reading:
    """A text of a model whose logits depend on the last token and on all of them. Row V of `after` holds the first
    ones."""
    after: Any = case.values["after"]
    calls = []

    def next_logits(token_ids: Any) -> Any:
        calls.append(len(token_ids))
        if len(calls) > LONGEST:
            raise BadOutputError("`constrained_text` has asked for the logits of more than `max_tokens` tokens")
        V, ids = len(after) - 1, [int(each) for each in token_ids]
        all_of_them = sum((place + 2) * (each + 1) for place, each in enumerate(ids)) % V
        return after[ids[-1]] + after[all_of_them] if ids else after[V].copy()

    values = case.values
    result = subject.call(
        "constrained_text", next_logits, np.array(values["next_states"]), values["end_id"], values["max_tokens"],
        returns=(list | tuple | np.ndarray, "a list of token ids"),
    )  # fmt: skip
    return Reading({"text": np.array([int(each) for each in result], np.int32).reshape(-1)})


PROBES = {"reading": reading, "transitions": transitions, "texts": texts}
