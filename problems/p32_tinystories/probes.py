"""Probes of problem 32: runs of the harness with the submission's pieces. Run in workers."""

import contextlib
import functools
import gc
import inspect
import itertools
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from commandline.problem_name import ProblemName
from commandline.spelling import nearest
from grader.problem import Case
from grader.worker.pytrees import BadOutputError, described, named
from grader.worker.subject import Reading, Subject
from harness.config import RENAMED, Config
from harness.data.batches import PADDING, validation_batches
from harness.data.sources import pocket_version
from harness.data.tokenizer import get_tokenizer
from harness.errors import HarnessError
from harness.model.sampling import PROMPTS, Sampling, encode_prompt
from harness.pieces.load import Pieces, check_pieces
from harness.pieces.registry import MODULES
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.session import Session, open_session

SECOND_PROCESS = True
OPEN = ("learning_rate", "warmup_steps", "final_lr_fraction", "weight_decay", "beta2", "clip_norm")
STORIES, LONGEST = 3, 400
_numbers = itertools.count()
# These read files of the harness, so they run before the worker is confined.
_tokenizer = get_tokenizer("pocket-2k")
pocket_version()


def belonging(subject: Subject, case: Case) -> Reading:
    """Where each piece is defined: 0 in a file of the course or not given, 1 elsewhere."""
    offered = _offered(subject)
    _need_one(offered)
    elsewhere = {
        name: not ProblemName.parse(getattr(inspect.unwrap(piece), "__module__", None) or "")
        for name, piece in offered.items()
    }
    not_given = [name for name in MODULES if name not in offered]
    notes = [
        f"your pieces: {', '.join(offered) or 'none'}",
        f"the harness's pieces: {', '.join(not_given) or 'none'}",
    ]
    return Reading({f"pieces.{name}": np.int32(elsewhere.get(name, 0)) for name in MODULES}, notes)


def assembled(subject: Subject, case: Case) -> Reading:
    """Whether the untrained model's logits depend on later tokens, and how far the run's loss is from that of its logits."""
    with _sentences():
        session = _session(subject, case)
        model = session.functions.model(session.functions.init())
        rows = np.stack([session.validation_windows[index] for index in range(session.config.batch_size)])
        ids = np.maximum(rows[:, :-1], 0)
        moved = ids.copy()
        moved[:, -1] = (moved[:, -1] + 1) % session.config.vocab_size
        before, after = (np.asarray(_logits(model, x))[:, :-1] for x in (ids, moved))
        total, count = session.functions.eval_step(session.functions.init(), session.put(rows))
        off = float(total) / int(count) - _cross_entropy(model, [rows])
    return Reading({"looks_ahead": np.int32(not np.array_equal(before, after)), "loss_off_by": np.float32(off)})


def short_run_loss(subject: Subject, case: Case) -> Reading:
    """The mean of the last three losses of a short run."""
    _, end = _short_run(subject, case)
    return Reading({"loss_after": np.float32(np.mean(end["losses"][-3:]))})


def resumed(subject: Subject, case: Case) -> Reading:
    """How many numbers at the end of a short run differ when another process resumes it from its middle."""
    if subject.elsewhere is None:
        raise BadOutputError("this system cannot fork a process, which this problem requires; grade it on Linux")
    session, uninterrupted = _short_run(subject, case)
    options = {"folder": str(session.run.folder), "names": list(session.piece_by_name)}
    resumed_run = subject.elsewhere("second_half", options)
    differing = {
        key: np.int32(
            np.size(x) if np.shape(resumed_run.get(key)) != np.shape(x) else np.sum(np.asarray(x) != resumed_run[key])
        )
        for key, x in uninterrupted.items()
    }
    numbers = sum(number for key, number in differing.items() if key != "losses")
    _forget(session.run)
    _forget(_copied(session.run.folder))
    del subject.memo["short run", case.seed]
    return Reading({"differing.losses": differing["losses"], "differing.model": np.int32(numbers)})


def second_half(subject: Subject, case: Case, *, folder: str, names: list[str]) -> Reading:
    """In the other process: resumes a copy of the run from the checkpoint in its middle."""
    copy = _copied(Path(folder))
    shutil.copytree(folder, copy.folder)
    shutil.rmtree(copy.folder / "checkpoints" / str(case.values["steps"]))
    with _sentences():
        session = _session(subject, case, names, copy, eval_every=case.values["steps"] // 2)
        train(session, log=_ignore, on_step=lambda step, note: None)
        return Reading(_end(session))


def trained(subject: Subject, case: Case) -> Reading:
    """The validation loss of a whole run, computed from its logits alone, and how its stories end."""
    with _sentences():
        session = _session(subject, case)
        train(session, log=_ignore, on_step=_reporter(subject, session))
        state = _state(session)
        loss = _cross_entropy(
            session.functions.model(state),
            validation_batches(replace(session.config, eval_batches=0), session.validation_windows),
        )
        stories = [_story(session, state, number) for number in range(STORIES)]
    _forget(session.run)
    ended = [story for story in stories if len(story) < LONGEST]
    past = any(session.prepared.end_of_text in story for story in stories)
    text = PROMPTS["next_token"] + _tokenizer.decode(min(ended or stories, key=len))
    return Reading(
        {"validation_loss": np.float32(loss), "stories": np.int32(1 if past else 0 if ended else 2)},
        [f"validation loss {loss:.2f}; a story: {text}"],
    )


def _copied(folder: Path) -> Run:
    """The copy of a run that the other process resumes."""
    return Run(folder.with_name(f"{folder.name}-resumed"))


def _forget(run: Run) -> None:
    """Removes a run that is no longer needed: all seeds of a `grade verify` share one small scratch folder."""
    shutil.rmtree(run.folder)


def _short_run(subject: Subject, case: Case) -> tuple[Session, dict[str, Any]]:
    """A run with a checkpoint in its middle, and its end. It is trained once for the two probes that use it."""
    key = ("short run", case.seed)
    if key not in subject.memo:
        with _sentences():
            session = _session(subject, case, eval_every=int(case.values["steps"]) // 2)
            train(session, log=_ignore, on_step=_reporter(subject, session))
            subject.memo[key] = session, _end(session)
    session_and_end: tuple[Session, dict[str, Any]] = subject.memo[key]
    return session_and_end


def _offered(subject: Subject) -> dict[str, Any]:
    """The dictionary that `pieces` returns. Raises BadOutputError if it is not a dictionary of known pieces."""
    offered: dict[str, Any] = subject.call("pieces", returns=(dict, "a dictionary of pieces by name"))
    for name, piece in offered.items():
        if name not in MODULES:
            close = nearest(str(name), MODULES)
            raise BadOutputError(
                f"`pieces` has {name!r}, which is not the name of a piece{f'; did you mean {close[0]!r}?' if close else ''}"
            )
        if not callable(piece):
            raise BadOutputError(f"`pieces` has {described(piece)} for {name!r}; give the class or function itself")
    return offered


def _need_one(pieces: dict[str, Any]) -> None:
    """Raises BadOutputError if there is no piece: the harness alone is no work of the learner's."""
    if not pieces:
        raise BadOutputError("`pieces` gives no piece that is filled in; give at least one of yours, such as `MiniGPT`")


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


def _session(
    subject: Subject, case: Case, names: list[str] | None = None, run: Run | None = None, *, eval_every: int = 0
) -> Session:
    """A run of this case, ready to train: with the pieces of these names, or with all given pieces, which are checked first.

    Its programs are compiled once for all seeds.
    """

    def opened() -> Session:
        offered, steps = _offered(subject), int(case.values["steps"])
        known = None if names is None else Pieces(Path(), by_name={name: offered[name] for name in names})
        pieces = known or _tried(subject, offered)
        config = Config(
            packing="padded", activation="relu", mesh="1x1", eval_batches=1, eval_every=eval_every or steps,
            **dict[str, Any](case.values), **_chosen(subject, steps),
        )  # fmt: skip
        _need_one(pieces.by_name)
        return open_session(Run(Path()), config, pieces, log=_ignore, quiet=True)

    session = subject.once(f"session {eval_every}", case, opened)
    init = functools.partial(session.functions.init, case.seed)
    return replace(
        session,
        run=run or Run(Path.cwd() / f"run-{next(_numbers)}"),
        config=replace(session.config, seed=case.seed),
        functions=replace(session.functions, init=init),
    )


def _tried(subject: Subject, offered: dict[str, Any]) -> Pieces:
    """The pieces, checked once for all probes. Raises the same HarnessError each time if one of them fails."""
    if "tried" not in subject.memo:
        try:
            subject.memo["tried"] = check_pieces(offered, Path())
        except HarnessError as error:
            subject.memo["tried"] = error
    outcome: Pieces | HarnessError = subject.memo["tried"]
    if isinstance(outcome, HarnessError):
        raise outcome
    return outcome


def _reporter(subject: Subject, session: Session) -> Any:
    """A callback that reports progress after every tenth of a run, at least five steps apart."""
    steps = session.config.steps
    often = max(steps // 10, 5)

    def watch(step: int, note: str) -> None:
        if step % often == 0:
            subject.say(step, steps, session.run.metrics()[-1]["loss"])

    return watch


def _end(session: Session) -> dict[str, Any]:
    """The losses after the checkpoint in the middle, and the parameters at the end."""
    losses = [entry["loss"] for entry in session.run.metrics()[session.config.eval_every :]]
    model = session.functions.model(_state(session))
    return {"losses": np.array(losses, np.float32)} | jax.tree.map(np.asarray, named(nnx.state(model), "model"))


def _state(session: Session) -> Any:
    """The state at the last step."""
    checkpointer = session.checkpointer()
    try:
        return checkpointer.restore(session.config.steps, session.functions.abstract_state).state
    finally:
        checkpointer.close()


def _logits(model: Any, ids_BT: Any) -> jax.Array:
    graph, state = nnx.split(model)
    logits: jax.Array = _program(graph)(state, jnp.asarray(ids_BT))
    return logits


@functools.cache
def _program(graph: Any) -> Any:
    """The logits (B, T, V) of a model with this graph."""
    return jax.jit(lambda state, ids_BT: jax.vmap(nnx.merge(graph, state))(ids_BT))


def _cross_entropy(model: Any, batches: Any) -> float:
    """The mean loss of the next token over rows of ids, -1 for padding, in nats."""
    total, count = 0.0, 0
    for rows in batches:
        logits, targets = _logits(model, np.maximum(rows[:, :-1], 0)), rows[:, 1:]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, np.maximum(targets, 0))
        total += float(jnp.sum(losses * (targets != PADDING)))
        count += int(np.sum(targets != PADDING))
    return total / count


def _story(session: Session, state: Any, number: int) -> list[int]:
    sampling = Sampling(temperature=0.8, max_tokens=LONGEST)
    number = (session.config.seed + number) % 2**31
    return list(session.tokens(state, encode_prompt(_tokenizer, PROMPTS["next_token"]), sampling, number))


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
    "resumed": resumed,
    "second_half": second_half,
    "trained": trained,
}
