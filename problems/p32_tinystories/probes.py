"""Probes of problem 32: runs of the harness with the submission's pieces. Run in workers.

A worker trains. What its model is worth is computed by programs that a witness runs on stories that the worker never
had.
"""

import contextlib
import functools
import gc
import inspect
import itertools
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.authoring import (
    STATE,
    Arrays,
    BadOutputError,
    Reading,
    Subject,
    described,
    eager,
    fill_state,
    made,
    named,
    sent,
    to_fill,
    trace,
)
from grader.problem import Case
from harness.aliases import RENAMED
from harness.config import Config
from harness.data.batches import PADDING
from harness.errors import HarnessError
from harness.model.sampling import PROMPTS, Sampling, choose_token, encode_prompt
from harness.pieces.adapt import token_chooser
from harness.pieces.load import Pieces, check_pieces
from harness.pieces.registry import MODULES, PIECES
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, open_session
from problems.p32_tinystories import held_out
from problems.p32_tinystories.held_out import STORIES, TOKENIZER

OPEN = ("learning_rate", "warmup_steps", "final_lr_fraction", "weight_decay", "beta2", "clip_norm")
NOT_SETTINGS = ("seed", "held_out", STATE)  # values of a case that do not change the compiled programs of a run
LONGEST = 400
NAMED = 12  # pieces; a note has room for no more
SHARPER = 16  # the factor of the parameters with which logits are compared
SAMPLING = Sampling(temperature=0.8, max_tokens=LONGEST)
_numbers = itertools.count()
_prompt = encode_prompt(TOKENIZER, PROMPTS["next_token"])


@eager
def belonging(subject: Subject, case: Case) -> Reading:
    """Where each piece is defined: 0 in a file of the course or not given, 1 elsewhere."""
    with _sentences():
        finished = _tried(subject).by_name
    offered = _offered(subject)
    yours = [name for name in offered if name in finished and _is_own(offered[name])]
    more = f" and {len(yours) - NAMED} more" if len(yours) > NAMED else ""
    notes = [
        f"your pieces: {', '.join(yours[:NAMED])}{more}",
        f"the harness has its own for the other {len(MODULES) - len(yours)}",
    ]
    return Reading(
        {f"pieces.{name}": np.int32(name in offered and not _is_own(offered[name])) for name in MODULES}, notes
    )


def assembled(subject: Subject, case: Case) -> Reading:
    """The logits of a model with given parameters, before and after later tokens change, and the loss that a run
    computes."""
    with _sentences():
        session = _session(subject, case)
        state = session.functions.init()
        model_with, parameters = _with_parameters(session, state, to_fill)
        optimizer = nnx.merge(session.functions.graph, state)[1]

        def program(parameters: Any, rows: Any, moved: Any) -> Arrays:
            # Without this, all tokens are about as likely, and so most means of losses are about the same.
            parameters = jax.tree.map(lambda x: SHARPER * x, parameters)

            def logits(ids_BT: Any) -> Any:
                return jax.vmap(model_with(parameters))(jnp.maximum(ids_BT[:, :-1], 0))

            total, count = session.functions.eval_step(nnx.state((model_with(parameters), optimizer)), rows)
            # One loop body computes both, so equal inputs give equal bits.
            return {"logits": jax.lax.map(logits, jnp.stack([rows, moved])), "loss": total / count}

        shape = session.config.batch_size, session.config.context + 1
        return Reading(program=trace(program, parameters, made("rows", *shape), made("moved", *shape)))


def read_assembled(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """Whether logits depend on later tokens, and how far the run's loss is from that of the logits."""
    rows = held_out.rows(case)
    logits, targets = arrays["logits"], rows[:, 1:]
    earlier = (rows == held_out.moved(case))[:, :-1]
    losses = held_out.cross_entropy(logits[0], np.maximum(targets, 0))
    return Reading(
        {
            "looks_ahead": np.int32(np.any((logits[0] != logits[1])[earlier])),
            "loss_off_by": np.float32(arrays["loss"] - np.mean(losses[targets != PADDING])),
        }
    )


@eager
def short_run_loss(subject: Subject, case: Case) -> Reading:
    """The logits of the next token after a short run."""
    with _sentences():
        session = _session(subject, case)
        train(session, log=_ignore, on_step=_reporter(subject, session, "a short run"))
        model_with, parameters = _after_training(session, _last_state(session))
    _forget(session.run)
    return Reading(
        program=trace(lambda p, *rows: {"logits": _next_logits(model_with(p), *rows)}, parameters, *_made_rows(case))
    )


def read_short_run_loss(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """The mean loss of the tokens that follow."""
    return Reading({"loss_after": held_out.loss(arrays["logits"], case)})


@eager
def trained(subject: Subject, case: Case) -> Reading:
    """The logits of the next token after a whole run, and the stories of the model alone and of the pieces."""
    with _sentences():
        session = _session(subject, case)
        train(session, log=_ignore, on_step=_reporter(subject, session, "training"))
        state = _last_state(session)
        model_with, parameters = _after_training(session, state)
        model = session.functions.model(state)
        told = [list(session.tokens(model, _prompt, SAMPLING, number)) for number in range(STORIES)]
    _forget(session.run)
    own = np.full((STORIES, LONGEST), PADDING, np.int32)
    for row, tokens in zip(own, told, strict=True):
        row[: len(tokens)] = tokens[:LONGEST]
    distribution = session.piece_by_name.get("sampling_distribution")
    choose = token_chooser(distribution) if distribution else choose_token

    def program(parameters: Any, prefixes: Any, lengths: Any, keys: Any, own: Any) -> Arrays:
        model = model_with(parameters)
        stories = _stories(model, session.config.context, jax.random.wrap_key_data(keys), choose)
        return {"logits": _next_logits(model, prefixes, lengths), "stories": stories, "own": own}

    keys = made("keys", STORIES, 2, dtype=jnp.uint32)
    return Reading(program=trace(program, parameters, *_made_rows(case), keys, sent("stories of the pieces", own)))


def read_trained(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """The mean loss of the tokens that follow, and how stories end.

    The worker's own stories can only cost points: that they end counts only if those that the witness drew end.
    """
    loss, end = held_out.loss(arrays["logits"], case), TOKENIZER.eot_token
    stories = [list(itertools.takewhile(lambda token: token != end, row)) for row in arrays["stories"].tolist()]
    own = arrays["own"]
    past = np.any(own == end)
    ended = any(len(story) < LONGEST for story in stories) and np.any(own[:, -1] == PADDING)
    text = TOKENIZER.decode([token for token in min(stories, key=len) if 0 <= token < TOKENIZER.n_vocab])
    return Reading(
        {"validation_loss": loss, "stories": np.int32(1 if past else 0 if ended else 2)},
        [f"validation loss {loss:.2f}; a story: {PROMPTS['next_token']}{text}"],
    )


@eager
def stopped(subject: Subject, case: Case) -> Reading:
    """The end of a short run, and its folder as it was at the checkpoint in its middle."""
    with _sentences():
        session = _session(subject, case, eval_every=int(case.values["steps"]) // 2)
        train(session, log=_ignore, on_step=_reporter(subject, session, "a short run"))
        end = _end(session)
    shutil.rmtree(session.run.checkpoints / str(session.config.steps))
    session.run.truncate_metrics(session.config.eval_every)
    return Reading(end, files=session.run.folder)


@eager
def resumed(subject: Subject, case: Case) -> Reading:
    """The end of the run when it is resumed. In a process that has only the folder of the run."""
    if subject.received is None:
        raise BadOutputError("the run left no files")
    run = Run(next(subject.received.iterdir()))
    with _sentences():
        config, offered = run.config(), _offered(subject)
        pieces = Pieces(Path(), by_name={name.split()[0]: offered[name.split()[0]] for name in config.pieces})
        session = open_session(run, config, pieces, log=_ignore, quiet=True)
        train(session, log=_ignore, on_step=lambda step, metrics: None)
        return Reading(_end(session))


def read_resumed(arrays: Arrays, folder: Path | None, case: Case) -> Reading:
    """How many numbers at the end of a run differ when another process resumes it from its middle."""
    end = {name.removeprefix("saved:"): x for name, x in arrays.items() if name.startswith("saved:")}
    differing = {
        name: np.size(x) if np.shape(x) != np.shape(arrays.get(name, ())) else int(np.sum(x != arrays[name]))
        for name, x in end.items()
    }
    losses = differing.pop("losses")
    return Reading({"differing.losses": np.int32(losses), "differing.model": np.int32(sum(differing.values()))})


# What is traced.


def _with_parameters(session: Session, state: Any, fill: Any) -> tuple[Callable[[Any], Any], Any]:
    """The model as a function of its parameters, and its parameters as `Given`."""
    parts: Any = nnx.split(session.functions.model(state), nnx.Param, ...)
    graph, parameters, rest = parts
    return lambda parameters: nnx.merge(graph, parameters, rest), fill_state(parameters, fill)


def _after_training(session: Session, state: Any) -> tuple[Callable[[Any], Any], Any]:
    """The model as a function of its parameters, and its parameters in `state`, which are sent along."""
    arrays = named(nnx.state(session.functions.model(state), nnx.Param), "")
    return _with_parameters(session, state, lambda path, shape, dtype: sent(path, arrays[path]))


def _made_rows(case: Case) -> tuple[Any, Any]:
    return made("prefixes", held_out.ROWS, int(case.values["context"])), made("lengths", held_out.ROWS)


def _next_logits(model: Any, prefixes_NT: Any, lengths_N: Any) -> Any:
    """The logits (N, V) of the token after each prefix, a few at a time."""

    def of_some(some: Any) -> Any:
        ids_BT, lengths_B = some
        return jax.vmap(model)(ids_BT)[jnp.arange(len(ids_BT)), lengths_B - 1]

    N, T = prefixes_NT.shape
    logits = jax.lax.map(of_some, (prefixes_NT.reshape(-1, 8, T), lengths_N.reshape(-1, 8)))
    return logits.reshape(N, -1)


def _stories(model: Any, T: int, keys: Any, choose: Any) -> Any:
    """The tokens (STORIES, LONGEST) that the model draws after the prompt, by single passes over the last T. Each story
    is filled up with end-of-text."""
    end, before = TOKENIZER.eot_token, len(_prompt)
    start = jnp.full((STORIES, before + LONGEST), end).at[:, :before].set(jnp.array(_prompt))

    def more(carry: Any) -> Any:
        length, _, ended = carry
        return (length < before + LONGEST) & ~jnp.all(ended)

    def draw(carry: Any) -> Any:
        length, ids, ended = carry
        windows = jax.lax.dynamic_slice_in_dim(ids, jnp.maximum(length - T, 0), T, axis=1)
        logits = jax.vmap(model)(windows)[:, jnp.minimum(length, T) - 1]
        tokens = jax.vmap(lambda x, key: choose(x, jax.random.fold_in(key, length), SAMPLING))(logits, keys)
        tokens = jnp.where(ended, end, tokens).astype(ids.dtype)
        return length + 1, ids.at[:, length].set(tokens), ended | (tokens == end)

    return jax.lax.while_loop(more, draw, (before, start, jnp.zeros(STORIES, bool)))[1][:, before:]


# Runs.


def _offered(subject: Subject) -> dict[str, Any]:
    """The dictionary that `pieces` returns. Raises BadOutputError if it is not a dictionary of known pieces."""
    offered: dict[str, Any] = subject.call("pieces", returns=(dict, "a dictionary of pieces by name"))
    for name, piece in offered.items():
        if name not in MODULES:
            close = nearest(str(name), MODULES)
            raise BadOutputError(
                f"`pieces` has {name!r}, which is not the name of a "
                f"piece{f'; did you mean {close[0]!r}?' if close else ''}"
            )
        if not callable(piece):
            raise BadOutputError(f"`pieces` has {described(piece)} for {name!r}; give the class or function itself")
    return offered


def _is_own(piece: Any) -> bool:
    """Whether a piece is defined in a file of the course."""
    return ProblemName.parse(getattr(inspect.unwrap(piece), "__module__", None) or "") is not None


def _tried(subject: Subject) -> Pieces:
    """The pieces, checked once for all probes. Raises HarnessError if one fails, BadOutputError if the run uses none
    that the learner made: the same one each time."""
    if "tried" not in subject.memo:
        try:
            pieces = check_pieces(_offered(subject), Path())
            used = [name for name in pieces.by_name if name in PIECES and pieces.uses(name, Config())]
            if not any(_is_own(pieces.by_name[name]) for name in used):
                raise BadOutputError(
                    "`pieces` gives no finished piece of your own that this run uses; define at least one in a file of "
                    "the course, such as MiniGPT in p06_mini_gpt.py"
                )
            subject.memo["tried"] = pieces
        except (HarnessError, BadOutputError) as error:
            subject.memo["tried"] = error
    outcome: Pieces | Exception = subject.memo["tried"]
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def _chosen(subject: Subject, steps: int) -> dict[str, Any]:
    """The settings that `settings` returns, by their present names, with the warm-up at most half of the run.

    Raises BadOutputError if one is not allowed.
    """
    returned: dict[str, Any] = subject.call("settings", returns=(dict, "a dictionary of numbers by name"))
    chosen = {RENAMED.get(name, (name, {}))[0]: value for name, value in returned.items()}
    for name, value in chosen.items():
        if name not in OPEN:
            raise BadOutputError(f"`settings` sets {name!r}, which is fixed here; you may set {', '.join(OPEN)}")
        if isinstance(value, bool) or not isinstance(value, int | float) or not np.isfinite(value):
            raise BadOutputError(f"`settings` has {described(value)} for {name!r}; it must be a number")
    rates = {name: float(value) for name, value in chosen.items()}
    return {**rates, "warmup_steps": min(int(chosen.get("warmup_steps", 0)), steps // 2)}


def _session(subject: Subject, case: Case, *, eval_every: int = 0) -> Session:
    """A run of this case, ready to train. Its programs are compiled once for all seeds."""
    fixed = {name: value for name, value in case.values.items() if name not in NOT_SETTINGS}
    key = ("session", *fixed.items())
    if key not in subject.memo:
        config = Config(
            packing="padded", activation="relu", mesh="1x1", eval_batches=1, **dict[str, Any](fixed),
            **_chosen(subject, int(fixed["steps"])),
        )  # fmt: skip
        subject.memo[key] = open_session(Run(Path()), config, _tried(subject), log=_ignore, quiet=True)
    session, seed = subject.memo[key], int(case.values["seed"])
    return replace(
        session,
        run=Run(Path.cwd() / f"run-{next(_numbers)}"),
        config=replace(session.config, seed=seed, eval_every=eval_every or session.config.steps),
        functions=replace(session.functions, init=functools.partial(session.functions.init, seed)),
    )


def _reporter(subject: Subject, session: Session, what: str) -> Any:
    """A callback that reports progress after every tenth of a run, at least five steps apart."""
    steps = session.config.steps
    often = max(steps // 10, 5)

    def watch(step: int, metrics: dict[str, Any]) -> None:
        if step % often == 0:
            subject.say(step, steps, metrics["loss"])

    return watch


def _end(session: Session) -> dict[str, Any]:
    """The losses after the checkpoint in the middle, and the parameters at the end."""
    losses = [entry["loss"] for entry in session.run.metrics()[session.config.eval_every :]]
    model = session.functions.model(_last_state(session))
    return {"losses": np.array(losses, np.float32)} | jax.tree.map(np.asarray, named(nnx.state(model), "model"))


def _last_state(session: Session) -> Any:
    """The state at the last step, from its checkpoint."""
    checkpointer = session.checkpointer()
    try:
        return checkpointer.restore(session.config.steps, session.functions.abstract_state).state
    finally:
        checkpointer.close()


def _forget(run: Run) -> None:
    """Removes a run that is no longer needed: all seeds of a `grade verify` share one small scratch folder."""
    shutil.rmtree(run.folder)


def _ignore(sentence: str) -> None:
    """Discards a message of the harness."""


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Turns an error of the harness about a piece or a setting into a message for the learner."""
    try:
        yield
    except HarnessError as error:
        raise BadOutputError(str(error)) from error
    finally:
        gc.collect()  # a run's pipeline and checkpoints keep threads until they are collected


PROBES = {
    "belonging": belonging,
    "assembled": assembled,
    "short_run_loss": short_run_loss,
    "stopped": stopped,
    "resumed": resumed,
    "trained": trained,
}
READERS = {
    "assembled": read_assembled,
    "short_run_loss": read_short_run_loss,
    "resumed": read_resumed,
    "trained": read_trained,
}
INPUTS = held_out.INPUTS
