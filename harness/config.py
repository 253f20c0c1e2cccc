"""The settings of a run: one flat, frozen record made of parts, each with its rules. Code names the part that it
reads."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.aliases import RENAMED
from harness.errors import UsageError
from harness.model_config import ModelConfig
from harness.rl_config import CacheConfig, PreferenceConfig, RewardConfig
from harness.settings import COUNT, NOT_NEGATIVE, SEEDS, Range, Rules, Settings, setting

TRACKERS = ("tensorboard", "wandb")
# Before the path of a folder in the format of Hugging Face, where a setting names a base or a tokenizer
HUGGING_FACE = "hf:"
TASK = "task:"  # before the name of a task, where a setting names a reward
PLAIN = "plain"  # the chat template for any tokenizer
MESSAGES = "messages"  # the field of records that holds a dialogue
PAIRS = "pairs"  # in place of a field, where records hold two answers of which one is preferred
TRAIN = "train:"  # before the number of tokens, where a setting asks for a tokenizer trained on the data
LORA_TARGETS = ("attn", "mlp", "embed", "head")


@dataclass(frozen=True)
class DataConfig(Settings):
    """Which text, and how it becomes rows of tokens."""

    data: str = setting(
        "pocket",
        "pocket, pocket:N for N stories, arithmetic or tools for sums, tinystories, or files of text, JSON, CSV or "
        "Parquet: a path, folder, pattern or URL; several with weights as in a.jsonl:0.7,b.txt:0.3",
    )
    field: str = setting("text", "field of JSON records, or column of CSV and Parquet, that holds the text")
    chat: str = setting(
        "",
        "chat template, if the data are dialogues, of which only the answers are learned: plain, the path of a Jinja "
        "file, or hf:DIR for that of a model",
    )
    tokenizer: str = setting(
        "pocket-2k",
        "pocket-2k, gpt2, bytes, the path of a .tiktoken file, hf:DIR or hf:ORG/NAME for the tokenizer.json of a "
        "model, or train:N for one of N tokens trained on the data",
    )
    packing: Literal["packed", "padded", "segments"] = setting(
        "packed",
        "packed: windows of one long stream; padded: one story per row; segments: whole stories, several per row, none "
        "of which sees another",
    )
    objective: Literal["next_token", "copy"] = setting("next_token", "predict the next token, or copy the input token")
    validation_fraction: float = setting(
        0.02, "fraction of the tokens held out for validation", allowed=Range(above=0, below=1)
    )

    def rules(self) -> Rules:
        """What dialogues need."""
        dialogues = self.has_dialogues
        yield (
            bool(self.chat) or not dialogues,
            f"field={self.field} needs a chat template, because dialogues are in it; fine-tune with --chat FILE.jsonl",
        )
        yield (
            not dialogues or self.packing != "packed",
            "chat needs packing=padded or packing=segments, so that no dialogue sees another",
        )
        whole = "chat" if dialogues else "packing=segments" if self.packing == "segments" else ""
        yield not whole or self.objective == "next_token", f"{whole} needs objective=next_token"

    @property
    def has_dialogues(self) -> bool:
        """Whether the data are dialogues, or pairs of them. A chat template alone says how a prompt is written."""
        return self.field in (MESSAGES, PAIRS)

    @property
    def has_pairs(self) -> bool:
        """Whether the data are pairs of answers, of which one is preferred."""
        return self.field == PAIRS


@dataclass(frozen=True)
class OptimizerConfig(Settings):
    """How the parameters are updated."""

    base: str = setting(
        "",
        "run whose best checkpoint training starts from, or a model in Hugging Face's format: hf:DIR, or hf:ORG/NAME "
        "on the hub",
    )
    lora_rank: int = setting(0, "rank of LoRA adapters; 0: train all parameters", allowed=NOT_NEGATIVE)
    lora_targets: str = setting("attn,mlp", "parts of the model with adapters, of attn, mlp, embed and head")
    steps: int = setting(1000, "training steps in total", allowed=COUNT)
    schedule: Literal["cosine", "plateau"] = setting(
        "cosine",
        "the learning rate after the warm-up. cosine: half a cosine; plateau: the peak until decay_start, then a line",
    )
    decay_start: int = setting(
        0, "step at which the plateau of schedule=plateau ends; 0: it lasts to the end", allowed=NOT_NEGATIVE
    )
    schedule_steps: int = setting(
        0, "steps of the schedule, after which its last learning rate stays; 0: all steps", allowed=NOT_NEGATIVE
    )
    batch_size: int = setting(32, "rows per step", allowed=COUNT)
    grad_accumulation_steps: int = setting(1, "microbatches per step", allowed=COUNT)
    optimizer: Literal["adamw", "muon"] = setting(
        "adamw", "muon: Muon for the kernels of the layers, and AdamW for the other parameters"
    )
    muon_nesterov: bool = setting(
        False, "Muon's updates look ahead along the momentum (Nesterov), as in optax and in Jordan's own program"
    )
    learning_rate: float = setting(1e-3, "peak learning rate", allowed=NOT_NEGATIVE)
    warmup_steps: int = setting(0, "steps of linear warm-up", allowed=NOT_NEGATIVE)
    final_lr_fraction: float = setting(
        1.0, "fraction of the peak at which the schedule ends; 1: constant", allowed=Range(at_least=0, at_most=1)
    )
    weight_decay: float = setting(0.1, "weight decay, of what `decay` says", allowed=NOT_NEGATIVE)
    decay: Literal["matrices", "kernels", "all"] = setting(
        "matrices",
        "what decays. matrices: kernels, embeddings and positions, as in reproductions of GPT-2; biases and scales of "
        "norms are few, and decay would only pull them from the values they need. kernels: not embeddings and "
        "positions either, since a rare token is seldom updated and would decay at every step. all: every parameter",
    )
    mtp_weight: float = setting(0.3, "weight of the loss of the token after the next, with mtp=1", allowed=NOT_NEGATIVE)
    router_bias_rate: float = setting(
        1e-3, "how far an update moves the biases that balance experts, with router=sigmoid", allowed=NOT_NEGATIVE
    )
    beta2: float = setting(0.95, "decay of Adam's second moment", allowed=Range(at_least=0, below=1))
    clip_norm: float = setting(1.0, "largest global norm of the gradients; 0: no clipping", allowed=NOT_NEGATIVE)
    ema_decay: float = setting(
        0.0,
        "decay of an average of the parameters, which evaluation and sampling use; 0: none",
        allowed=Range(at_least=0, below=1),
    )
    seed: int = setting(0, "seed of the initialization, the data order and dropout", allowed=SEEDS)
    # The step of the schedule whose rate the first update takes. 0 in runs from before this field, whose first update
    # had 1e-5 of the peak; nobody sets it.
    schedule_start: int = 1

    def rules(self) -> Rules:
        """Which settings of the optimization conflict."""
        yield (
            self.batch_size % self.grad_accumulation_steps == 0,
            f"grad_accumulation_steps={self.grad_accumulation_steps} does not divide batch_size={self.batch_size}",
        )
        yield (
            not self.lora_rank or bool(self.base),
            f"lora_rank={self.lora_rank} needs a trained model; name its run with base=RUN",
        )
        yield (
            set(self.lora_targets.split(",")) <= set(LORA_TARGETS),
            f"lora_targets={self.lora_targets} is not valid; write some of {','.join(LORA_TARGETS)}",
        )
        yield (
            not (self.lora_rank and self.optimizer == "muon"),
            "optimizer=muon is not valid with lora_rank, because adapters have no kernels; use optimizer=adamw",
        )
        yield (
            not self.muon_nesterov or self.optimizer == "muon",
            "muon_nesterov=true is a setting of Muon; add optimizer=muon",
        )
        yield (
            self.warmup_steps < self.steps,
            f"warmup_steps={self.warmup_steps} is not valid; it must be less than steps={self.steps}",
        )
        yield (
            not self.schedule_steps or self.warmup_steps < self.schedule_steps,
            f"schedule_steps={self.schedule_steps} is not valid; it must be more than warmup_steps={self.warmup_steps}",
        )
        end = self.schedule_steps or self.steps
        yield (
            not self.decay_start or self.schedule == "plateau",
            "decay_start is a setting of schedule=plateau; set that",
        )
        yield (
            not self.decay_start or self.warmup_steps <= self.decay_start < end,
            f"decay_start={self.decay_start} is not valid; it must be between warmup_steps={self.warmup_steps} and the "
            f"schedule's end at step {end}",
        )


@dataclass(frozen=True)
class ReportConfig(Settings):
    """What a run writes, and how often. Except for evaluations, none of it affects the result."""

    eval_every: int = setting(100, "steps between validation losses", allowed=COUNT)
    eval_batches: int = setting(8, "validation batches; 0: all", allowed=NOT_NEGATIVE)
    patience: int = setting(
        0,
        "validations without a new best loss after which training stops; 0: never",
        allowed=NOT_NEGATIVE,
        machine=True,
    )
    checkpoint_every: int = setting(
        0,
        "steps between checkpoints, besides those of new best validation losses; 0: with each validation",
        allowed=NOT_NEGATIVE,
        machine=True,
    )
    checkpoint_minutes: float = setting(
        0.0, "minutes after which a checkpoint is saved if no other was; 0: never", allowed=NOT_NEGATIVE, machine=True
    )
    checkpoint_dir: str = setting(
        "",
        "folder or bucket (gs://BUCKET/PATH) of checkpoints, with a folder for each run; empty: in the run's own "
        "folder",
        machine=True,
    )
    keep: int = setting(
        2, "last checkpoints to keep, besides the best and the last good one", allowed=COUNT, machine=True
    )
    chart_every: int = setting(
        0, "steps between charts; 0: with each validation loss", allowed=NOT_NEGATIVE, machine=True
    )
    sample_every: int = setting(
        0, "steps between samples; 0: with each validation loss", allowed=NOT_NEGATIVE, machine=True
    )
    log: str = setting("", f"trackers besides metrics.jsonl: {', '.join(TRACKERS)}, separated by commas", machine=True)

    def rules(self) -> Rules:
        """Which trackers exist."""
        yield (
            set(self.trackers) <= set(TRACKERS),
            f"log={self.log} is not valid; choose {' or '.join(TRACKERS)}, or both separated by a comma",
        )

    @property
    def trackers(self) -> tuple[str, ...]:
        """The names in `log`."""
        return tuple(dict.fromkeys(name.strip() for name in self.log.split(",") if name.strip()))


@dataclass(frozen=True)
class MachineConfig(Settings):
    """Where and how fast a run computes."""

    mesh: str = setting(
        "auto",
        "device counts DATAxMODEL, such as 4x2, or COPIESxDATAxMODEL; auto: all usable devices along data",
        machine=True,
    )
    fsdp: bool = setting(False, "shard parameters and moments along data as well", machine=True)
    zero1: bool = setting(False, "shard the moments along data, as fsdp does, but not the parameters", machine=True)
    loss_chunk: int = setting(
        0, "tokens whose logits exist at once; 0: chosen for the device", allowed=NOT_NEGATIVE, machine=True
    )

    debug_nans: bool = setting(
        False, "stop at the first loss or gradient that is not finite, and name the line; slow", machine=True
    )

    def rules(self) -> Rules:
        """Raises UsageError for a mesh that is not one."""
        _ = self.mesh_shape
        yield not (self.fsdp and self.zero1), "zero1=true is not valid with fsdp, which shards the moments as well"

    @property
    def mesh_shape(self) -> tuple[int, ...] | None:
        """Device counts along (data, model), or along (replica, data, model); None for `auto`."""
        if self.mesh == "auto":
            return None
        counts = self.mesh.split("x")
        if len(counts) not in (2, 3) or not all(count.isdecimal() and int(count) for count in counts):
            raise UsageError(
                f"mesh={self.mesh} is not valid; write DATAxMODEL, such as 4x2, or COPIESxDATAxMODEL, such as 2x4x2."
            )
        return tuple(map(int, counts))


PARTS = (
    DataConfig, ModelConfig, OptimizerConfig, PreferenceConfig, RewardConfig, CacheConfig, ReportConfig, MachineConfig
)  # fmt: skip


@dataclass(frozen=True)
class Config(
    MachineConfig, ReportConfig, CacheConfig, RewardConfig, PreferenceConfig, OptimizerConfig, ModelConfig, DataConfig
):
    """All settings of a run."""

    preset: str = "pocket"
    pieces: tuple[str, ...] = ()  # set by --pieces: each piece, with a digest of the workspace's files
    imported: bool = False  # whether the base, a run with pieces, started from a model in Hugging Face's format

    def rules(self) -> Rules:
        """Which settings of different parts conflict."""
        yield (
            self.packing != "segments" or self.mixer == "attention",
            f"mixer={self.mixer} reads on from one story into the next; packing=segments needs mixer=attention",
        )
        yield (
            not self.chat or self.has_dialogues or bool(self.base),
            f"chat={self.chat} needs dialogues, which are in field={MESSAGES}; fine-tune with --chat FILE.jsonl",
        )
        yield (
            not self.cache_blocks or self.mixer == "attention",
            f"mixer={self.mixer} has no keys and values that blocks could hold; --set cache_blocks=0",
        )
        fewest = self.fewest_blocks(self.context)
        yield (
            not self.cache_blocks or self.cache_blocks >= fewest,
            f"cache_blocks={self.cache_blocks} is not valid; a text of context={self.context} needs {fewest} blocks of "
            f"cache_block_size={self.cache_block_size}",
        )
        if self.has_pairs:
            yield bool(self.base), "pairs need a trained model; name its run with `harness dpo RUN`"
            yield not self.reward, f"reward={self.reward} is not valid with pairs; leave one of them out"
            yield self.dropout == 0, "dropout is not valid with pairs; use a base without it"
        if not self.reward:
            return
        yield (
            not self.chat or self.reward.startswith(TASK),
            f"reward={self.reward} continues stories, and the base answers messages; name a task with --task",
        )
        yield bool(self.base), f"reward={self.reward} needs a trained model; name its run with base=RUN"
        yield (
            not (self.max_weight and self.cache_blocks),
            f"max_weight={self.max_weight} needs the log-probabilities of what was sampled, which a shared cache does "
            "not keep; --set cache_blocks=0",
        )
        yield (
            self.batch_size == self.prompts * self.group_size,
            f"batch_size={self.batch_size} is not prompts * group_size, which is {self.prompts * self.group_size}",
        )
        yield (
            self.prompt_tokens < self.context,
            f"prompt_tokens={self.prompt_tokens} is not valid; it must be less than context={self.context}",
        )
        yield (
            self.batch_size % (self.rollout_updates * self.grad_accumulation_steps) == 0,
            f"rollout_updates={self.rollout_updates} times grad_accumulation_steps={self.grad_accumulation_steps} does "
            f"not divide the {self.batch_size} continuations",
        )
        yield self.objective == "next_token", f"reward={self.reward} needs a model with objective=next_token"
        yield (
            self.ema_decay == 0,
            "ema_decay is not valid with a reward, because the model that is trained tells the stories",
        )
        yield self.dropout == 0, "dropout is not valid with a reward; --set dropout=0"

    @property
    def model(self) -> ModelConfig:
        """The part that the model depends on."""
        return ModelConfig(**{entry.name: getattr(self, entry.name) for entry in dataclasses.fields(ModelConfig)})

    @property
    def adapted(self) -> frozenset[str]:
        """The parts of the model with adapters. A tied head is the embedding."""
        parts = frozenset(self.lora_targets.split(","))
        return parts | {"embed"} if self.tied_head and "head" in parts else parts

    def extended(self, steps: int) -> "Config":
        """A copy with more steps after the schedule's end, at its last learning rate. The steps before stay what they
        are.

        Raises UsageError if there are not more.
        """
        if steps <= self.steps:
            raise UsageError(
                f"--steps {steps} is not valid; the run has {self.steps} steps, and only more can be added."
            )
        return dataclasses.replace(self, steps=steps, schedule_steps=self.schedule_steps or self.steps)

    def branched(self, decay_start: str, steps: int | None, done: int) -> "Config":
        """A copy whose plateau ends at another step, as typed, and perhaps with another number of steps, where `done`
        steps are done.

        Raises UsageError if that would change a step that is done.
        """
        changed = self.with_settings(
            {"decay_start": decay_start, "schedule_steps": "0", "steps": str(steps or self.steps)}
        )
        if self.schedule != "plateau":
            raise UsageError(f"schedule={self.schedule} has no plateau that could end at another step.")
        if self.decay_start and done > self.decay_start:
            raise UsageError(f"The plateau of this run ended at step {self.decay_start}, and {done} steps are done.")
        if changed.decay_start and done > changed.decay_start:
            raise UsageError(f"decay_start={decay_start} is not valid; {done} steps are done, so write {done} or more.")
        return changed

    def with_machine_settings(self, settings: dict[str, str]) -> "Config":
        """`with_settings`, for settings that do not change the result. Raises UsageError for others."""
        changed = self.with_settings(settings)
        if differences := self.differences(changed):
            allowed = [entry.name for entry in dataclasses.fields(self) if entry.metadata.get("machine")]
            raise UsageError(
                f"{differences[0].partition(':')[0]} cannot change when a run is resumed. "
                f"Only {', '.join(allowed[:-1])} and {allowed[-1]} can change, and --steps can add steps."
            )
        return changed

    def with_options(self, typed: dict[str, str]) -> "Config":
        """`with_settings`, where a number of steps below the warm-up shortens the warm-up to at most half of them."""
        config, typed = self, dict(typed)
        if (steps := typed.get("steps")) and "warmup_steps" not in typed and steps.isdecimal():
            config = dataclasses.replace(config, steps=max(config.steps, config.warmup_steps + 1))
            typed["warmup_steps"] = str(min(config.warmup_steps, int(steps) // 2))
        return config.with_settings(typed)

    def to_json(self) -> str:
        """The record as JSON, one setting per line."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> "Config":
        """Reads the record that `to_json` wrote at `path`; settings and values may have their former names.

        Raises UsageError if the file is not such a record.
        """
        try:
            settings: dict[str, Any] = {"vocab_multiple": 1, "schedule_start": 0}  # of runs from before these fields
            stored = json.loads(path.read_text("utf-8"))
            if "model_type" in stored:
                folder = path.parent
                raise UsageError(f"{folder} is a model in Hugging Face's format, not a run: name it hf:{folder}.")
            for key, value in stored.items():
                name, values = RENAMED.get(key, (key, {}))
                settings[name] = values.get(value, value) if values else value
            known = [each for each in settings.get("log", "").split(",") if each in TRACKERS]  # 0.3.0 had `csv`, too
            settings["log"] = ",".join(known)
            return cls(**{**settings, "pieces": tuple(sorted(settings["pieces"]))})
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UsageError(
                f"{path} is not the config of a run ({type(error).__name__}: {error}). "
                "Choose another run, or start one under another name."
            ) from error
