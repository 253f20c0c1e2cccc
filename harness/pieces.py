"""Pieces: the learner's own classes and functions in place of the harness's.

Pieces are written for one example and are batched here with `jax.vmap`. Each is first tried on a tiny example, so that a
broken one is named before anything is trained with it. Rows are `T + 1` ids with -1 for padding; a piece sees them whole, so
a model that is made with pieces has one position more, and -1 is its `pad_id`.
"""

import functools
import hashlib
import importlib
import re
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jaxtyping import Array

from harness.config import Config
from harness.errors import HarnessError, PieceError, UsageError
from harness.model import GPT, Parts
from harness.state import LossSum

MODULES = {
    "TokenAndPositionEmbed": "p01_token_embedding",
    "CausalMHA": "p03_causal_mha",
    "GPTBlock": "p05_gpt_block",
    "MiniGPT": "p06_mini_gpt",
    "next_token_loss": "p07_next_token_loss",
    "train_step": "p08_train_step",
}
PAD_ID = -1
V, T, D, H, F, L = 11, 5, 12, 3, 14, 2  # sizes of the trial


@dataclass
class Pieces:
    """What a workspace defines, by name."""

    folder: Path
    found: dict[str, Any] = field(default_factory=dict)
    stubs: list[str] = field(default_factory=list)  # there, and not filled in
    digests: dict[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """For the config: each piece and a digest of its file, so that a run is not resumed with another piece."""
        return tuple(f"{name} {self.digests[name]}" for name in self.found)

    def describe(self) -> list[str]:
        """Which pieces are whose, a sentence each."""
        lines = []
        for name in MODULES:
            file = self.folder / f"{MODULES[name]}.py"
            whole = self.found.get("MiniGPT")
            if name not in self.found:
                state = "not filled in yet" if name in self.stubs else "not there"
                lines.append(f"{name}: the harness's ({file.name} is {state})")
            elif whole is not None and name in ("TokenAndPositionEmbed", "CausalMHA", "GPTBlock"):
                used = self.found[name] in _reached(sys.modules[whole.__module__])
                lines.append(
                    f"{name}: {'yours, through MiniGPT' if used else 'not used: your MiniGPT does not import it'}"
                )
            else:
                lines.append(f"{name}: yours, {file}")
        return lines

    def copy_to(self, folder: Path) -> None:
        """Keeps the files with the run, which can then be sampled from wherever the workspace goes."""
        if folder.exists():
            return  # with the same settings, so with the same pieces
        folder.mkdir(parents=True)
        for file in sorted(self.folder.glob("*.py")):
            shutil.copyfile(file, folder / file.name)


def _reached(module: ModuleType) -> list[Any]:
    """Everything that a module of the workspace names, and what those of it name in turn."""
    seen: list[Any] = []
    for value in vars(module).values():
        seen.append(value)
        inner = sys.modules.get(getattr(value, "__module__", None) or "")
        if inner is not None and inner is not module and inner.__name__ in MODULES.values():
            seen.extend(vars(inner).values())
    return seen


def load_pieces(folder: Path) -> Pieces:
    """The pieces that a workspace defines, each tried. Raises UsageError if there is none, PieceError if one is broken."""
    if not folder.is_dir():
        raise UsageError(
            f"There is no folder {folder}. --pieces takes a workspace, such as the one `grade start` makes."
        )
    pieces = Pieces(folder)
    sys.path.insert(0, str(folder.absolute()))
    sys.dont_write_bytecode = True  # the workspace is the learner's
    for name, module_name in MODULES.items():
        file = folder / f"{module_name}.py"
        if not file.exists():
            continue
        module = _guarded(name, file, functools.partial(importlib.import_module, module_name))
        if Path(module.__file__ or "").resolve() != file.resolve():
            raise PieceError(f"{module_name} was imported from {module.__file__}, not from {folder}.")
        piece = getattr(module, name, None)
        if piece is None:
            continue
        try:
            _guarded(name, file, functools.partial(TRIALS[name], piece), stub=True)
        except NotImplementedError:
            pieces.stubs.append(name)
            continue
        pieces.found[name] = piece
        sources = b"".join(
            file.read_bytes() for file in sorted(folder.glob("p[0-9][0-9]_*.py")) if file.stem in MODULES.values()
        )
        pieces.digests[name] = hashlib.sha256(sources).hexdigest()[:12]
    if not pieces.found:
        raise UsageError(
            f"There is no piece in {folder} yet. It looks for {', '.join(f'{m}.py' for m in MODULES.values())}."
        )
    return pieces


def _guarded(name: str, file: Path, work: Callable[[], Any], *, stub: bool = False) -> Any:
    """`work()`, its errors in one sentence that says whose and where."""
    try:
        return work()
    except PieceError:
        raise
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        if stub and isinstance(error, NotImplementedError):
            raise
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).parent == file.absolute().parent
        ]
        line = frames[-1].lineno if frames else getattr(error, "lineno", None)
        where = f"{Path(frames[-1].filename).name if frames else file.name}{f', line {line}' if line else ''}"
        number = int(file.name[1:3])
        said = re.sub(r"\s+", " ", str(error)).strip()
        raise PieceError(
            f"{name} of {file} failed: {type(error).__name__}: {said[:300]} ({where}). `grade problem {number:02}` says more."
        ) from error


def blame(pieces: Pieces | None, work: Callable[[], Any]) -> Any:
    """`work()`; an error that came from a file of the workspace is a PieceError that says where."""
    try:
        return work()
    except HarnessError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if pieces and Path(frame.filename).parent == pieces.folder.absolute()]
        if not theirs:
            raise
        name = Path(theirs[-1].filename).name
        said = re.sub(r"\s+", " ", str(error)).strip()
        raise PieceError(
            f"{name}, line {theirs[-1].lineno}, failed in the run, although it works on a tiny example: "
            f"{type(error).__name__}: {said[:300]}. `grade problem {name[1:3]}` says more."
        ) from error


def _returned(name: str, value: Any, shape: tuple[int, ...], given: str) -> Any:
    """Checks what a piece returned."""
    number = int(MODULES[name][1:3])
    if not isinstance(value, jax.Array | np.ndarray):
        got = f"{value!r:.60}" if value is None or isinstance(value, str | float | int) else f"a {type(value).__name__}"
    elif value.shape != shape or not jnp.issubdtype(value.dtype, jnp.floating):
        got = f"{value.dtype}{list(value.shape)}"
    elif not jnp.isfinite(value).all():
        got = "numbers that are not finite"
    else:
        return value
    raise PieceError(
        f"{name} of {MODULES[name]}.py returned {got} for {given}; it must return finite floats of shape {shape}. "
        f"`grade problem {number:02}` says more."
    )


def _try_module(name: str, make: Callable[[Any], Any], given: Any, shape: tuple[int, ...]) -> None:
    what = f"{given.dtype}{list(given.shape)}"
    _returned(name, make(nnx.Rngs(0))(given), shape, what)
    graph, parameters = nnx.split(make(nnx.Rngs(0)))
    batch = jnp.stack([given, given])
    traced = jax.jit(lambda p, b: jax.vmap(nnx.merge(graph, p))(b))(parameters, batch)
    _returned(name, traced, (2, *shape), f"a batch of {what}, under jit and vmap")


def _try_loss(loss: Any) -> None:
    logits, ids = jnp.ones((T, V)), jnp.array([3, 1, 4, PAD_ID, PAD_ID])
    _returned(
        "next_token_loss", jax.jit(loss, static_argnums=2)(logits, ids, PAD_ID), (), f"logits of shape ({T}, {V})"
    )


def _try_step(step: Any) -> None:
    config = Config(vocab_size=V, context=T, d_model=D, num_heads=H, d_ff=F, num_layers=L)
    model = GPT(config, nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    before = jax.tree.map(np.asarray, nnx.state(model))
    _returned("train_step", step(model, optimizer, jnp.ones((2, T), int), PAD_ID), (), f"ids of shape (2, {T})")
    after = jax.tree.map(np.asarray, nnx.state(model))
    if all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)):
        raise PieceError(
            "train_step of p08_train_step.py left every parameter as it was. `grade problem 08` says more."
        )


IDS = np.array([3, 1, 4, 1, 5], np.int32)
X = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)
TRIALS: dict[str, Callable[[Any], None]] = {
    "TokenAndPositionEmbed": lambda p: _try_module("TokenAndPositionEmbed", lambda r: p(V, T, D, rngs=r), IDS, (T, D)),
    "CausalMHA": lambda p: _try_module("CausalMHA", lambda r: p(D, H, rngs=r), X, (T, D)),
    "GPTBlock": lambda p: _try_module("GPTBlock", lambda r: p(D, H, F, rngs=r), X, (T, D)),
    "MiniGPT": lambda p: _try_module("MiniGPT", lambda r: p(V, D, H, F, L, max_T=T, rngs=r), IDS, (T, V)),
    "next_token_loss": _try_loss,
    "train_step": _try_step,
}


class _Batched(nnx.Module):
    """A piece for one example as a part for many."""

    def __init__(self, piece: nnx.Module):
        self.piece = piece

    def __call__(self, x: Array, *_: Any) -> tuple[Array, None]:
        return jax.vmap(self.piece)(x), None


class _BatchedEmbed(nnx.Module):
    """The embedding of one story as one of many."""

    def __init__(self, piece: Any):
        self.piece = piece

    def __call__(self, ids_BT: Array) -> Array:
        return jax.vmap(self.piece)(ids_BT)

    def table(self) -> nnx.Param:
        """The token vectors, for a tied head: the course's `embed`, an `nnx.Embed`."""
        return self.piece.embed.embedding


def model_builder(config: Config, pieces: Pieces) -> Callable[[nnx.Rngs], nnx.Module]:
    """Builds the model of a run with pieces: their whole model, or the harness's with their parts in it."""
    c = replace(config, context=config.context + 1)
    found = pieces.found
    if "MiniGPT" in found:
        model = found["MiniGPT"]
        return lambda rngs: model(
            c.vocab_size, c.d_model, c.num_heads, c.d_ff, c.num_layers, max_T=c.context, rngs=rngs
        )
    attention, block, embed = (found.get(name) for name in ("CausalMHA", "GPTBlock", "TokenAndPositionEmbed"))
    parts = Parts(
        attention=attention and (lambda config, rngs: _Batched(attention(c.d_model, c.num_heads, rngs=rngs))),
        block=block and (lambda config, rngs: _Batched(block(c.d_model, c.num_heads, c.d_ff, rngs=rngs))),
        embed=embed and (lambda config, rngs: _BatchedEmbed(embed(c.vocab_size, c.context, c.d_model, rngs=rngs))),
    )
    return lambda rngs: GPT(c, rngs, parts)


def piece_loss(pieces: Pieces) -> LossSum:
    """The loss of rows through a model that gives logits. A mean over a story's targets is weighed with their number."""
    one_story = pieces.found.get("next_token_loss", _mean_cross_entropy)

    def loss_sum(model: nnx.Module, ids_BT: Array, key: Any) -> tuple[Array, Array]:
        del key  # pieces have no dropout
        logits_BTV = jax.vmap(model)(ids_BT)
        losses_B = jax.vmap(lambda logits, ids: one_story(logits, ids, PAD_ID))(logits_BTV, ids_BT)
        counts_B = jnp.sum(ids_BT[:, 1:] != PAD_ID, axis=1)
        return jnp.sum(losses_B * counts_B.astype(losses_B.dtype)), jnp.sum(counts_B)

    return loss_sum


def _mean_cross_entropy(logits_TV: Array, ids_T: Array, pad_id: int) -> Array:
    targets = ids_T[1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits_TV[:-1], jnp.maximum(targets, 0))
    return jnp.sum(losses * (targets != pad_id)) / jnp.maximum(jnp.sum(targets != pad_id), 1)


def check_config(config: Config, pieces: Pieces) -> None:
    """Raises UsageError for settings that pieces cannot be used with."""
    for rule, sentence in (
        (config.task == "next", "they predict the next token; leave out task=same"),
        (config.dropout == 0, "they have no dropout; --set dropout=0"),
        (
            "train_step" not in pieces.found or config.accumulate == 1,
            "train_step takes the whole batch; --set accumulate=1",
        ),
        (config.dtype == "float32", "they compute in float32; --set dtype=float32"),
    ):
        if not rule:
            raise UsageError(f"Pieces of {pieces.folder}: {sentence}.")
