"""Everything a run needs: data, mesh, compiled functions."""

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tiktoken
from jax.sharding import Mesh

from commandline.terminal import fitted
from harness.config import HUGGING_FACE, Config, ReportConfig
from harness.data.batches import Rows, check_data, make_windows, validation_batches, windows_of
from harness.data.dialogues import Messages, Template, open_template, template_of
from harness.data.hub import model_folder
from harness.data.ngrams import NgramLoss, ngram_loss
from harness.data.package_tokenizer import begin_of
from harness.data.pairs import tokenize_pair
from harness.data.prepared import key_of, open_sources, prepare_all
from harness.data.sources import Source
from harness.data.token_files import Prepared, Tokens, prepare
from harness.data.tokenizer import FILE_SUFFIX, token_bytes
from harness.errors import UsageError
from harness.model.sampling import (
    PROMPTS,
    CachedDecoder,
    Sampling,
    encode_prompt,
    generate,
    generate_batch,
    sample_key,
    stream_text,
)
from harness.pieces import assemble
from harness.pieces.checkpoints import PieceCheckpointer
from harness.pieces.load import Pieces, attribute_errors_to, check_config
from harness.rl_config import CacheConfig
from harness.run.folder import Run
from harness.run.nan_check import stop_at_nan
from harness.training.checkpoint import (
    Checkpointer,
    OrbaxCheckpointer,
)
from harness.training.dpo import preferring
from harness.training.grpo import reinforced
from harness.training.sharding import make_mesh, put_batch
from harness.training.train_step import Recipe, StepFunctions, default_recipe, make_step_functions

Log = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Session:
    """Everything that a run needs except its state."""

    run: Run
    config: Config
    mesh: Mesh
    functions: StepFunctions
    pieces: Pieces | None
    log: Log
    quiet: bool
    held_out: Prepared | None = None  # text that losses are of, in place of the validation split

    @functools.cached_property
    def prepared(self) -> Prepared:
        """The tokens, opened when they are first needed: a trained model does without.

        Raises UsageError if they do not fit the settings, or are not those that the run was trained on.
        """
        config = self.config
        if config.tokenizer.endswith(FILE_SUFFIX):
            self.run.copy_of(Path(config.tokenizer), self.run.tokenizer_file)
        sources = open_sources(config)
        key = key_of(config, sources)
        # Other settings of the data are a difference of settings, which is reported as such.
        trained = self.run.config() if self.run.config_file.exists() else config
        same = all(getattr(trained, name) == getattr(config, name) for name in ("data", "field", "validation_fraction"))
        if same and (known := self.run.data().key) not in ("", key):
            names = ", ".join(source.name for source in sources)
            raise UsageError(
                f"The data of run {self.run.folder} have changed: {names} had the key {known}, and now has {key}. "
                "Put the former data back, or start another run with --run NAME."
            )
        prepared = self._prepare(config, sources)
        for sentence in check_data(config, prepared):
            self.log(sentence)
        return prepared

    def evaluated_on(self, data: str, field: str) -> "Session":
        """A session whose losses are of all of other data, which `data` names as the setting does.

        Raises UsageError if there are none, or if they are pairs of answers and those of the run are not, or the other
        way round.
        """
        config = dataclasses.replace(self.config, data=data, field=field)
        if config.has_pairs != self.config.has_pairs:
            raise UsageError(
                f"--field {field} is not valid for this model: only the runs of `harness dpo` are evaluated on pairs, "
                "and on nothing else."
            )
        return dataclasses.replace(self, held_out=self._prepare(config, open_sources(config, whole=True)))

    def _prepare(self, config: Config, sources: tuple[Source, ...]) -> Prepared:
        """The tokens of these sources, by the piece `tokenize` if there is one."""
        tokenize = self.piece_by_name.get("tokenize")
        by_piece = f"-{self.pieces.digest}" if self.pieces and tokenize else ""
        if tokenize and (begin := begin_of(self.tokenizer)):
            piece = tokenize
            tokenize = lambda text, tokenizer: np.array([*begin, *piece(text, tokenizer)])  # noqa: E731
        prepare_one = functools.partial(
            prepare, tokenizer=self.tokenizer, tokenize=tokenize, key=by_piece, quiet=self.quiet
        )
        if config.has_dialogues and self.template:
            tokenized = functools.partial(tokenize_pair, self.template) if config.has_pairs else self.template.tokenize
            how = {"tokenize": tokenized, "key": f"-chat-{self.template.digest}", "dialogues": True}
            prepare_one = functools.partial(prepare_one, **how)
        return attribute_errors_to(self.pieces, lambda: prepare_all(config, sources, prepare_one))

    @property
    def validation(self) -> Prepared:
        """What validation losses are of: its split for validation."""
        return self.held_out or self.prepared

    @property
    def piece_by_name(self) -> dict[str, Any]:
        """The pieces by name; empty without a workspace."""
        return self.pieces.by_name if self.pieces else {}

    @functools.cached_property
    def tokenizer(self) -> tiktoken.Encoding:
        """The tokenizer of the config. A run keeps a copy of one from a file."""
        return self.run.tokenizer(self.config)

    @functools.cached_property
    def template(self) -> Template | None:
        """The chat template of a model that answers. A run keeps a copy of one from a file."""
        config = self.config
        if not config.chat:
            return None
        file = template_of(config)
        spec = str(self.run.copy_of(file, self.run.template_file)) if file else config.chat
        folders = (model_folder(name) for name in (config.tokenizer, config.base) if name.startswith(HUGGING_FACE))
        return open_template(spec, self.tokenizer, next(folders, None))

    def prompt_ids(self, prompt: str, before: Sequence[dict[str, Any]] = ()) -> list[int]:
        """The tokens of a prompt: of a question after the messages `before`, if the model answers.

        Raises UsageError if it cannot be read.
        """
        if self.template:
            return self.template.prompt([*before, {"role": "user", "content": prompt}])
        begin, ids = begin_of(self.tokenizer), encode_prompt(self.tokenizer, prompt)
        if prompt and self.pieces is not None and self.pieces.uses("encode", self.config):
            ids = assemble.encode_text(self.pieces, self.tokenizer, prompt)
        return [*begin, *(ids if prompt or not begin else ())]

    def system_messages(self, text: str | None) -> Messages:
        """What stands before all messages, if there is such a text. Raises UsageError if the model does not answer."""
        if text and not self.template:
            raise UsageError("--system needs a model that answers: one with a chat template.")
        return [{"role": "system", "content": text}] if text else []

    @property
    def prompt(self) -> str:
        """What samples begin with by default: how the run's own text begins, or how stories do."""
        objective = self.config.objective
        return (self.run.data().prompt if objective == "next_token" else "") or PROMPTS[objective]

    @property
    def end_of_text(self) -> int:
        """The id of end-of-text, or of the token that ends an answer."""
        return self.template.end if self.template else self.tokenizer.eot_token

    @functools.cached_property
    def rows(self) -> Rows:
        """The training windows, by the piece `pack` or `pack_stories` if the run uses one."""
        config, pieces = self.config, self.pieces if not self.config.has_pairs else None
        pack: Callable[[Tokens], Any] = functools.partial(make_windows, config)
        if pieces is not None and pieces.uses("pack", config):
            pack = functools.partial(assemble.pack_windows, config, pieces)
        elif pieces is not None and pieces.uses("pack_stories", config):
            pack = functools.partial(assemble.pack_segments, config, pieces)
        return windows_of(self.prepared, lambda part: pack(part.train))

    @functools.cached_property
    def validation_windows(self) -> Rows:
        """The validation windows."""
        return windows_of(self.validation, lambda part: make_windows(self.config, part.validation))

    @functools.cached_property
    def ngrams(self) -> NgramLoss | None:
        """The losses of n-gram models on the same data. None where they say nothing: copies, mixtures, dialogues, other
        data."""
        config = self.config
        if config.objective != "next_token" or config.has_dialogues or self.held_out or self.prepared.parts:
            return None
        return ngram_loss(self.prepared.train, self.prepared.validation, config.vocab_size)

    def checkpointer(self, *, read_only: bool = False) -> Checkpointer:
        """Saves and restores the checkpoints of this run, with the pieces `save` and `resume` if there are any."""
        if self.pieces is not None and "resume" in self.piece_by_name:
            if self.config.checkpoint_dir:
                raise UsageError(
                    "checkpoint_dir is not valid with the pieces `save` and `resume`; they write to the run's folder."
                )
            return PieceCheckpointer(
                self.run.checkpoints, self.functions, self.pieces, self.config.seed, keep=self.config.keep
            )
        # Checkpoints of adapters that 0.2.0 wrote hold the base as well; its runs have no record of it.
        holds_all = self.run.config_file.exists() and self.run.base() is None
        left_out = frozenset() if holds_all else self.functions.frozen
        folder = self.run.checkpoints_of(self.config)
        return OrbaxCheckpointer(folder, keep=self.config.keep, read_only=read_only, left_out=left_out)

    def tokens(self, model: Any, ids: list[int], sampling: Sampling, number: int = 0) -> Iterator[int]:
        """The tokens after `ids`, up to end-of-text (not included).

        `number` distinguishes several samples with the same seed.
        """
        if self.pieces is not None:
            if sampling.min_p:
                raise UsageError("--min-p is not valid with pieces, which choose tokens by top-k and top-p.")
            return assemble.generate_tokens(self.config, self.pieces, model, ids, sampling, self.end_of_text, number)
        return generate(CachedDecoder(model, sampling), ids, sampling, self.end_of_text, number)

    @property
    def tells_log_p(self) -> bool:
        """Whether `samples` can tell the log-probabilities of the tokens that it draws."""
        together = assemble.samples_together(self.config, self.pieces)
        return together and assemble.paging(self.config, self.pieces) is None

    def samples(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        numbers: Sequence[int] = (),
        width: int = 0,
        log_p: list[Any] | None = None,
    ) -> Iterable[list[int]]:
        """A continuation of each prompt, sampled together where the model has the harness's cache.

        Prompt i is sample `numbers[i]` of the seed, as in `tokens`; without numbers, sample i. With a `width`, prompts
        of any length up to that may be in one batch of at most `batch_size`, all batches share one program, and a
        continuation ends where the context is full; without, they have one length. With a width and `cache_blocks`, the
        batch may have any size, and prompts that are equal in a row share their cache.

        `log_p` gets the log-probabilities of each continuation and its end, if the session `tells_log_p`.
        """
        numbers = numbers or range(len(prompts))
        cache = assemble.paging(self.config, self.pieces)
        if width and cache:
            each = model, prompts, sampling, self.end_of_text, numbers, width
            return assemble.generate_together(self.pieces, *each, cache)
        if assemble.samples_together(self.config, self.pieces):
            number, padded = len(prompts), self.config.batch_size - len(prompts) if width else 0
            prompts, numbers = [*prompts, *[prompts[-1]] * padded], [*numbers, *[numbers[-1]] * padded]
            keys_B = jax.vmap(functools.partial(sample_key, sampling.seed))(jnp.array(numbers))
            lengths_B = np.array([len(prompt) for prompt in prompts])
            ids_BT = np.zeros((len(prompts), width or int(lengths_B[0])), np.int32)
            for row, prompt in zip(ids_BT, prompts, strict=True):
                row[: len(prompt)] = prompt
            lengths = lengths_B if width else None
            texts = attribute_errors_to(
                self.pieces,
                lambda: generate_batch(model, ids_BT, sampling, self.end_of_text, keys_B, lengths, log_p),
            )
            if log_p is not None and padded > 0:
                del log_p[-padded:]
            return texts[:number]
        numbered = zip(numbers, prompts, strict=True)
        return (list(self.tokens(model, [*prompt], sampling, number)) for number, prompt in numbered)

    @functools.cached_property
    def verify(self) -> Any:
        """The piece that compares an answer with the right number; None if there is none."""
        return None if self.pieces is None else assemble.verifier(self.pieces)

    @functools.cached_property
    def reference(self) -> Any:
        """The base that pairs of answers are compared with; None if the data are no pairs."""
        from harness.run.preferences import Reference  # which opens the base as a session

        return Reference(self) if self.config.has_pairs else None

    def validate(self, state: Any) -> float:
        """The mean loss of the validation batches, in nats per token, or per pair of answers."""
        return self.measure(state)[0]

    def measure(self, state: Any) -> tuple[float, dict[str, float]]:
        """The loss of `validate`, and the means of what else the loss measures, by name."""
        batches = validation_batches(self.config, self.validation_windows, jax.process_index(), jax.process_count())
        put = functools.partial(self.reference.pairs, state) if self.reference else self._put
        total, targets, more = 0.0, 0, dict[str, float]()
        for loss, count, *sums in jax.device_get([self.functions.eval_step(state, put(rows)) for rows in batches]):
            total, targets = total + float(loss), targets + int(count)
            more = {name: more.get(name, 0.0) + float(each) for named in sums for name, each in named.items()}
        return total / max(targets, 1), {name: each / max(targets, 1) for name, each in more.items()}

    def _put(self, rows: np.ndarray) -> jax.Array:
        return put_batch(rows, self.mesh)

    @functools.cached_property
    def _bytes_per_target(self) -> float:
        """The mean number of UTF-8 bytes of the targets of `validate`. 0 where that is unknown or says nothing."""
        tokenizer = self.tokenizer
        no_text = self.config.objective != "next_token" or self.config.has_pairs
        if no_text or self.validation.max_id >= tokenizer.n_vocab:
            return 0.0  # pairs have another loss, a copied token takes no bits; `tokenize` may make ids of its own
        lengths = token_bytes(tokenizer)
        batches = validation_batches(self.config, self.validation_windows)
        targets = np.concatenate([rows[:, 1:][rows[:, 1:] >= 0] for rows in batches])
        return float(lengths[targets].mean())

    def bits_per_byte(self, loss: float | None) -> float | None:
        """A loss of `validate` in bits per UTF-8 byte of the text, which does not depend on the tokenizer.

        The loss of end-of-text counts, its bytes do not: predicting where a story ends is part of the cost of its text.
        None if there is no loss, or no number of bytes. Formula: Gao et al. 2020, "The Pile", section 3.
        """
        return loss / math.log(2) / self._bytes_per_target if loss is not None and self._bytes_per_target else None


def open_session(run: Run, config: Config, pieces: Pieces | None, *, log: Log, quiet: bool = False) -> Session:
    """The session of a run. Raises UsageError if settings, devices or pieces do not fit together."""
    tokenizer = run.tokenizer(config)
    if not config.vocab_size:
        config = dataclasses.replace(config, vocab_size=tokenizer.n_vocab)
    if pieces is not None:
        check_config(config, pieces)
    mesh = make_mesh(config)
    if pieces is not None:
        config = dataclasses.replace(config, pieces=pieces.names(config, mesh.shape["data"]))
        make_piece_mesh, shape = pieces.adapted("make_mesh", config), mesh.devices.shape
        if make_piece_mesh is not None and jax.process_count() == 1:
            mesh = attribute_errors_to(pieces, lambda: make_piece_mesh(*shape))

    with jax.set_mesh(mesh):
        traced = functools.partial(_functions, _what_is_traced(config), mesh, _Used.of(pieces))
        functions = attribute_errors_to(pieces, traced)
    if config.debug_nans:
        train_step = stop_at_nan(functions, pieces.folder if pieces else None)
        functions = dataclasses.replace(functions, train_step=train_step)
    return Session(run, config, mesh, functions, pieces, log, quiet)


def _what_is_traced(config: Config) -> Config:
    """The settings that the step functions depend on: not which data, what is reported, or how continuations are
    sampled."""
    kind = HUGGING_FACE if config.base.startswith(HUGGING_FACE) else config.base and "base"
    return dataclasses.replace(config, data=Config.data, base=kind, **vars(ReportConfig()), **vars(CacheConfig()))


@dataclasses.dataclass(frozen=True)
class _Used:
    """The pieces of a session. Equal to others if they are the same objects, of which some may have no hash."""

    identity: tuple[Any, ...]
    pieces: Pieces | None = dataclasses.field(compare=False)

    @classmethod
    def of(cls, pieces: Pieces | None) -> "_Used":
        if pieces is None:
            return cls((), None)
        by_name = dict(pieces.by_name)  # kept, so that no other object gets the identity of one of them
        return cls(
            (pieces.folder, *((name, id(piece)) for name, piece in by_name.items())), Pieces(pieces.folder, by_name)
        )


@functools.lru_cache(maxsize=8)
def _functions(config: Config, mesh: Mesh, used: _Used) -> StepFunctions:
    """The step functions of a session. Sessions with the same settings and pieces share what JAX has traced and
    compiled."""
    return make_step_functions(config, mesh, make_recipe(config, mesh, used.pieces))


def make_recipe(config: Config, mesh: Mesh, pieces: Pieces | None) -> Recipe:
    """The recipe of a run: the harness's own, with the pieces if there are any, and with the loss of its reward or
    its pairs if it has any."""
    recipe = default_recipe(config, mesh) if pieces is None else assemble.recipe_from(config, mesh, pieces)
    if config.has_pairs:
        return preferring(config, recipe, None if pieces is None else pieces.adapted("dpo_loss", config))
    if not config.reward:
        return recipe
    return reinforced(config, recipe, None if pieces is None else assemble.rollout_loss(config, pieces))


def sample_text(session: Session, model: Any) -> str:
    """The default prompt of the objective, and the model's continuation."""
    tokenizer, prompt = session.tokenizer, session.prompt
    if session.config.objective == "copy":
        sampling = Sampling(temperature=0.0, max_tokens=8)
    else:
        sampling = Sampling(temperature=0.5, seed=session.config.seed)
    tokens = session.tokens(model, session.prompt_ids(prompt), sampling)
    return prompt + ("\n" if session.template else "") + "".join(stream_text(tokenizer, tokens))


def log_to_stderr(sentence: str) -> None:
    """Prints a sentence to stderr, from the first process only: wrapped on a terminal, with commands as the reader can
    type them."""
    if jax.process_index() == 0:
        print(fitted(sentence, sys.stderr), file=sys.stderr, flush=True)


def ignore(sentence: str) -> None:
    """Prints nothing."""
