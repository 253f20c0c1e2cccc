"""The evidence of the speedrun. A submission's worker traces three programs. A witness trains with them, on stories
that the worker never had, and counts each operation that runs."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import (
    BadOutputError,
    Given,
    Offer,
    Program,
    RefusedProgramError,
    Repeated,
    Subject,
    UntraceableError,
    Weighed,
    Witness,
    described,
    named,
    stablehlo,
    trace,
)
from grader.wire.channel import Frame
from tasks.speedrun import stories as stories_
from tasks.speedrun.stories import END, PACKINGS, PUBLIC_SEED, UnwritableError, Vocabulary

__all__ = ["Witness", "offer", "weigh"]

BAR = 0.95  # bits per byte: 5% below problem 32's reference, which reaches 1.00
STORIES, HELD_OUT = 3000, 200
ROWS = 16  # of one batch of held-out stories
MOST_TOKENS, LONGEST_TOKEN = 4096, 16  # the second in bytes
# A token of several words would store text: 4,096 phrases reach the loss without a step of training.
ONE_WORD = re.compile(rb"\s*\S*")
MOST_STATE = 1 << 21  # numbers of 32 bits
MOST_CONSTANTS = 512  # numbers that the programs contain, each of them
SAME = 1e-3  # logits that do not depend on later tokens differ by less, relative to the largest
LIMITS = {"steps": 20_000, "batch": 512, "context": 512}
STATE = "state."
LARGEST_PIECES = 8


# In the worker of a submission.


def offer(subject: Subject) -> Offer:
    """The programs `init`, `step` and `logits`, and the settings with the vocabulary. Raises BadOutputError."""
    settings = _settings(subject.call("settings", returns=(dict, "a dictionary of numbers by name")))
    tokens = _tokens(subject.call("vocabulary", stories_.texts(STORIES, PUBLIC_SEED)))
    V, B, T = len(tokens), settings["batch"], settings["context"]
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
    return Offer(programs, {**settings, "vocabulary": [token.hex() for token in tokens]})


def _traced(name: str, function: Callable[..., dict[str, Any]], *given: Any) -> Program:
    """The program of an entry. Raises BadOutputError if it cannot be traced."""
    try:
        return trace(function, *given)
    except UntraceableError as error:
        raise BadOutputError(f"`{name}` must be traceable by jax.jit ({error})") from error


def _settings(chosen: Mapping[str, Any]) -> dict[str, Any]:
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


def _tokens(found: Any) -> list[bytes]:
    """The tokens of a vocabulary, checked. Raises BadOutputError."""
    if not isinstance(found, list | tuple) or not all(type(token) is bytes for token in found):
        raise BadOutputError(f"`vocabulary` returned {described(found)}; it must return a list of bytes")
    if len(found) > MOST_TOKENS or len(set(found)) < len(found):
        raise BadOutputError(
            f"`vocabulary` returned {len(found)} tokens; it must return at most {MOST_TOKENS}, each once"
        )
    if not all(1 <= len(token) <= LONGEST_TOKEN for token in found):
        raise BadOutputError(f"`vocabulary` returned tokens that are empty or longer than {LONGEST_TOKEN} bytes")
    if many := next((token for token in found if not ONE_WORD.fullmatch(token)), None):
        raise BadOutputError(
            f"`vocabulary` returned {many!r}; a token may have spaces and line ends only at its beginning"
        )
    if END not in found:
        raise BadOutputError("`vocabulary` lacks the zero byte, which ends each story")
    return list(found)


# In the witness.


def weigh(offered: Offer, seed: int, witness: Witness) -> Iterator[Frame | Weighed]:
    """Trains from the seed and computes the loss on held-out stories. Yields reports of progress, then what was found.

    Raises BadOutputError or RefusedProgramError.
    """
    rng = np.random.default_rng(seed)
    settings = _settings({name: value for name, value in offered.settings.items() if name != "vocabulary"})
    vocabulary = Vocabulary(_tokens([bytes.fromhex(token) for token in offered.settings["vocabulary"]]))
    V, B, T = len(vocabulary.tokens), settings["batch"], settings["context"]
    init, step, logits = _programs(offered.programs, witness, V, B, T)
    try:
        training = vocabulary.stories(stories_.texts(STORIES, int(rng.integers(1, 2**62))))
        texts = stories_.texts(HELD_OUT, int(rng.integers(1, 2**62)))
        held_out = PACKINGS[settings["packing"]](vocabulary.stories(texts), T)
    except UnwritableError as error:
        raise BadOutputError(str(error)) from None
    state, steps = init({"key": rng.integers(2**32, size=2, dtype=np.uint32)}), settings["steps"]
    rows = stories_.batches(training, settings["packing"], T, B, rng)
    for number, (tokens, segments) in enumerate(itertools.islice(rows, steps)):
        state = step({**state, "tokens": tokens, "segments": segments, "number": np.int32(number)})
        if number % max(steps // 20, 1) == 0:
            loss = float(np.nan_to_num(np.asarray(state["loss"])))
            yield Frame("progress", {"step": number, "steps": steps, "loss": loss})
    nats = _nats(logits, state, held_out, rng)
    bits = nats / np.log(2) / stories_.number_of_bytes(texts)
    missed = f"it reaches {bits:.3f} bits per byte, and the task asks for {BAR:.2f}" if bits > BAR else ""
    work = {"initialization": init.total, **_pieces(step.work), "validation": logits.total}
    figures = {"bits per byte": round(float(bits), 4), "steps": steps, "tokens": V}
    yield Weighed(sum(work.values()), missed, figures, work)


def _pieces(work: Counter[str]) -> dict[str, int]:
    """The work of the steps: the largest pieces, and the rest together."""
    largest = work.most_common(LARGEST_PIECES)
    rest = work.total() - sum(size for _, size in largest)
    return {f"steps: {name}": size for name, size in largest} | ({"steps: others": rest} if rest else {})


def _programs(programs: Mapping[str, Program], witness: Witness, V: int, B: int, T: int) -> list[Repeated]:
    """The three programs, compiled. Raises RefusedProgramError if they do not fit each other or hold too many
    numbers."""
    init, step, logits = (witness.sound(programs[name]) for name in ("init", "step", "logits"))
    made = dict(zip(init.program.outputs, zip(init.output_shapes, _kinds(init), strict=True), strict=True))
    after = dict(zip(step.program.outputs, zip(step.output_shapes, _kinds(step), strict=True), strict=True))
    if after.pop("loss", None) != ((), "f32") or after != made:
        raise RefusedProgramError("its step does not return a state like that of `init`")
    if dict(zip(logits.program.outputs, logits.output_shapes, strict=True)) != {"logits": (ROWS, T, V)}:
        raise RefusedProgramError("its logits have another shape")
    rows = {
        "key": ((2,), "ui32"), "number": ((), "i32"),
        "tokens": ((B, T + 1), "i32"), "segments": ((B, T + 1), "i32"),
    }  # fmt: skip
    short = dict.fromkeys(("tokens", "segments"), ((ROWS, T), "i32"))
    for compiled, known in ((init, {"key": rows["key"]}), (step, made | rows), (logits, made | short)):
        for item in compiled.program.inputs:
            kind = (item.shape, stablehlo.element_type(jnp.dtype(item.dtype)))
            if item.source != "case" or known.get(item.name) != kind:
                raise RefusedProgramError(f"its program takes an array that does not exist, {item.name!r:.60}")
        if (count := stablehlo.numbers_written(compiled.parsed)) > MOST_CONSTANTS:
            raise RefusedProgramError(
                f"a program contains {count} numbers as constants, and the limit is {MOST_CONSTANTS}: compute tables "
                "and masks with `jnp`, and let the parameters be drawn from the key"
            )
    size = sum(map(stablehlo.numbers, stablehlo.returned(init.parsed)))
    if size > MOST_STATE:
        raise RefusedProgramError(f"its state holds {size} numbers, and the limit is {MOST_STATE}")
    return [Repeated(init), Repeated(step), Repeated(logits)]


def _kinds(compiled: Any) -> list[str]:
    return stablehlo.dtypes(stablehlo.returned(compiled.parsed))


def _nats(logits: Repeated, state: Mapping[str, Any], held_out: stories_.Rows, rng: Any) -> float:
    """The sum of the losses of held-out rows, in nats. Raises RefusedProgramError if logits depend on later tokens.

    Each row is shown twice: as it is, and from a random place on with the tokens of another row. The second time costs
    nothing. Logits before that place must be equal. A program that knows of the next token cannot return the same: the
    first token after the place is another one, and what replaces it are stories, too.
    """
    total = 0.0
    for ids, segments in _spread(*held_out):
        tokens, parts = ids[:, :-1], segments[:, :-1]
        found = np.asarray(logits({**state, "tokens": tokens, "segments": parts})["logits"], np.float64)
        if not np.isfinite(found).all():
            raise RefusedProgramError("its logits are not finite")
        later = np.arange(tokens.shape[1]) >= rng.integers(1, tokens.shape[1] + 1, size=len(tokens))[:, None]
        others = np.roll(np.arange(len(tokens)), int(rng.integers(1, len(tokens))))
        moved = {
            "tokens": np.where(later, tokens[others], tokens), "segments": np.where(later, parts[others], parts)
        }  # fmt: skip
        again = np.asarray(logits({**state, **moved}, counts=False)["logits"], np.float64)
        if np.any(np.abs(found - again)[~later] > SAME * max(1.0, np.abs(found).max())):
            raise RefusedProgramError("its logits depend on later tokens, or on other rows")
        highest = found.max(-1)
        losses = np.log(np.sum(np.exp(found - highest[..., None]), -1)) + highest
        losses -= np.take_along_axis(found, ids[:, 1:, None], -1)[..., 0]
        total += float(losses[stories_.targets(segments)].sum())
    return total


def _spread(ids: Any, segments: Any) -> Iterator[stories_.Rows]:
    """Yields batches of ROWS rows, of which none begins where another one ends. The last rows may be padding."""
    count = max(2, -(-len(ids) // ROWS))
    more = ((0, count * ROWS - len(ids)), (0, 0))
    ids, segments = np.pad(ids, more), np.pad(segments, more)
    for start in range(count):
        yield ids[start::count], segments[start::count]
