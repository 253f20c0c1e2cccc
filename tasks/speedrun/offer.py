"""What a submission to the speedrun offers: its settings, and three programs that it traces without any story.

The process that traces can neither import the stories nor the code that makes them. So what its programs know of
stories can only stand in the text of the submission.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from grader.authoring import BadOutputError, Given, Offer, Program, Subject, UntraceableError, named, trace

PACKINGS = ("padded", "packed")
LIMITS = {"steps": 20_000, "batch": 512, "context": 512, "tokens": 4096}
ROWS = 16  # of one batch of held-out stories
STATE = "state."


def offer(subject: Subject) -> Offer:
    """The programs `init`, `step` and `logits`, and the settings. Raises BadOutputError."""
    settings = checked(subject.call("settings", returns=(dict, "a dictionary of numbers by name")))
    V, B, T = settings["tokens"], settings["batch"], settings["context"]
    trees = list[Any]()

    def init(key: Any) -> dict[str, Any]:
        state = subject.call("init", jax.random.wrap_key_data(key), V)
        arrays = {f"{STATE}{number}": x for number, x in enumerate(named(state, "state").values())}
        trees.append(jax.tree.structure(state))
        shapes[:] = [(jnp.shape(x), jnp.result_type(x)) for x in arrays.values()]
        return arrays

    shapes: list[tuple[tuple[int, ...], Any]] = []
    programs = {"init": _traced("init", init, Given("case", "key", (2,), jnp.uint32))}
    given = [Given("case", f"{STATE}{number}", shape, dtype) for number, (shape, dtype) in enumerate(shapes)]

    def step(state: list[Any], tokens: Any, segments: Any, number: Any) -> dict[str, Any]:
        after, loss = subject.call("step", jax.tree.unflatten(trees[0], state), tokens, segments, number)
        leaves, tree = jax.tree.flatten(after)
        got = [(jnp.shape(x), jnp.result_type(x)) for x in leaves]
        if tree != trees[0] or got != shapes:
            wrong = next(
                (f"an array of {b} where `init` made {a}" for a, b in zip(shapes, got, strict=False) if a != b), ""
            )
            raise BadOutputError(f"`step` must return a state like that of `init`{wrong and f'; it has {wrong}'}")
        if jnp.shape(loss):
            raise BadOutputError(f"`step` returned a loss of shape {jnp.shape(loss)}; it must be one number")
        return {**{f"{STATE}{number}": x for number, x in enumerate(leaves)}, "loss": jnp.float32(loss)}

    def logits(state: list[Any], tokens: Any, segments: Any) -> dict[str, Any]:
        found = subject.call("logits", jax.tree.unflatten(trees[0], state), tokens, segments)
        if jnp.shape(found) != (ROWS, T, V):
            raise BadOutputError(
                f"`logits` returned shape {jnp.shape(found)} for {ROWS} rows; it must be {(ROWS, T, V)}"
            )
        return {"logits": jnp.float32(found)}

    rows = [Given("case", name, (B, T + 1), jnp.int32) for name in ("tokens", "segments")]
    programs["step"] = _traced("step", step, given, *rows, Given("case", "number", (), jnp.int32))
    rows = [Given("case", name, (ROWS, T), jnp.int32) for name in ("tokens", "segments")]
    programs["logits"] = _traced("logits", logits, given, *rows)
    return Offer(programs, settings)


def _traced(name: str, function: Callable[..., dict[str, Any]], *given: Any) -> Program:
    """The program of an entry. Raises BadOutputError if it cannot be traced."""
    try:
        return trace(function, *given)
    except UntraceableError as error:
        raise BadOutputError(f"`{name}` must be traceable by jax.jit ({error})") from error


def checked(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """The settings, checked. Raises BadOutputError."""
    names = (*LIMITS, "packing")
    if set(chosen) != set(names):
        raise BadOutputError(
            f"`settings` gives {', '.join(map(str, chosen)) or 'nothing'}; it must give {', '.join(names)}"
        )
    for name, most in LIMITS.items():
        if type(chosen[name]) is not int or not 1 <= chosen[name] <= most:
            raise BadOutputError(
                f"`settings` has {chosen[name]!r:.40} for {name!r}; it must be a whole number up to {most}"
            )
    if chosen["packing"] not in PACKINGS:
        raise BadOutputError(
            f"`settings` has {chosen['packing']!r:.40} for 'packing'; it must be {' or '.join(PACKINGS)}"
        )
    return dict(chosen)
