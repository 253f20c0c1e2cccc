"""The settings of a run: one flat, frozen record, with the rules and the help of each setting; and the presets."""

import dataclasses
import json
import math
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from commandline.spelling import nearest
from harness.errors import UsageError

# Former names of settings, with the new name and the new spelling of each value that was renamed.
# Old config.json files still load; on the command line a former name is a usage error.
RENAMED: typing.Mapping[str, tuple[str, dict[str, str]]] = types.MappingProxyType(
    {
        "form": ("packing", {}),
        "task": ("objective", {"next": "next_token", "same": "copy"}),
        "validation": ("validation_fraction", {}),
        "accumulate": ("grad_accumulation_steps", {}),
        "final_learning_rate": ("final_lr_fraction", {}),
    }
)


# Names of settings in other programs, for the hint on an unknown one.
CALLED_ELSEWHERE: typing.Mapping[str, str] = types.MappingProxyType(
    {
        "lr": "learning_rate", "min_lr": "final_lr_fraction", "wd": "weight_decay", "grad_clip": "clip_norm", "bs": "batch_size",
        "max_steps": "steps", "max_iters": "steps", "warmup_iters": "warmup_steps", "eval_interval": "eval_every",
        "block_size": "context", "seq_len": "context", "n_layer": "num_layers", "n_head": "num_heads", "n_embd": "d_model",
        "gradient_accumulation_steps": "grad_accumulation_steps",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Range:
    """The finite numbers that a setting may take."""

    at_least: int | float = -math.inf
    above: int | float = -math.inf
    below: int | float = math.inf

    def __contains__(self, value: int | float) -> bool:
        return math.isfinite(value) and self.at_least <= value and self.above < value < self.below

    def __str__(self) -> str:
        bounds = [
            ("at least", self.at_least),
            ("more than", self.above),
            ("less than", self.below),
        ]
        return " and ".join(f"{words} {bound:,}" for words, bound in bounds if math.isfinite(bound))


COUNT = Range(at_least=1)
NOT_NEGATIVE = Range(at_least=0)
SEEDS = Range(at_least=0, below=2**32)


def setting(default: Any, help_text: str, *, allowed: Range | None = None, machine: bool = False) -> Any:
    """A field of `Config` with its help and its range. The choices of a `Literal` are part of its type.

    A `machine` setting changes where and how fast a run computes, not what. A run may be resumed with another value of it.
    """
    return field(default=default, metadata={"help": help_text, "range": allowed, "machine": machine})


@dataclass(frozen=True)
class Config:
    """All settings of a run. Raises UsageError, naming the setting, if a value is out of range or two values conflict."""

    preset: str = "pocket"
    # data
    data: str = setting("pocket", "pocket, pocket:N for N stories, tinystories, or the path of a text or Parquet file")
    tokenizer: str = setting("pocket-2k", "pocket-2k or gpt2")
    packing: Literal["packed", "padded"] = setting("packed", "windows of one long stream, or one story per row")
    objective: Literal["next_token", "copy"] = setting("next_token", "predict the next token, or copy the input token")
    validation_fraction: float = setting(
        0.02, "fraction of the stories held out for validation", allowed=Range(above=0, below=1)
    )
    # model
    vocab_size: int = setting(0, "rows of the embedding; 0: the size of the tokenizer", allowed=NOT_NEGATIVE)
    context: int = setting(128, "tokens per row", allowed=COUNT)
    d_model: int = setting(128, "width of the residual stream", allowed=COUNT)
    num_heads: int = setting(4, "attention heads", allowed=COUNT)
    d_ff: int = setting(512, "width of the feed-forward layer", allowed=COUNT)
    num_layers: int = setting(4, "transformer blocks", allowed=NOT_NEGATIVE)
    norm: Literal["pre", "post", "none"] = setting("pre", "where LayerNorm is applied")
    norm_epsilon: float = setting(1e-5, "epsilon of LayerNorm", allowed=NOT_NEGATIVE)
    activation: Literal["relu", "gelu"] = setting("gelu", "activation of the feed-forward layer")
    positions: Literal["learned", "rope", "none"] = setting("learned", "position encoding")
    tied_head: bool = setting(True, "use the token embedding as the output head")
    head_bias: bool = setting(False, "add a bias to the output head")
    init: Literal["gpt2", "xavier"] = setting("gpt2", "initialization of the parameters")
    dropout: float = setting(0.0, "dropout rate in training", allowed=Range(at_least=0, below=1))
    dtype: Literal["float32", "bfloat16"] = setting("float32", "compute dtype; parameters and loss stay in float32")
    # fine-tuning
    base: str = setting("", "name or folder of a run whose best checkpoint training starts from")
    lora_rank: int = setting(0, "rank of LoRA adapters; 0: train all parameters", allowed=NOT_NEGATIVE)
    # optimization
    steps: int = setting(1000, "training steps in total", allowed=COUNT)
    schedule_steps: int = setting(
        0, "steps of the schedule, after which its last learning rate stays; 0: all steps", allowed=NOT_NEGATIVE
    )
    batch_size: int = setting(32, "rows per step", allowed=COUNT)
    grad_accumulation_steps: int = setting(1, "microbatches per step", allowed=COUNT)
    learning_rate: float = setting(1e-3, "peak learning rate", allowed=NOT_NEGATIVE)
    warmup_steps: int = setting(0, "steps of linear warm-up", allowed=NOT_NEGATIVE)
    final_lr_fraction: float = setting(
        1.0, "fraction of the peak at which the cosine ends; 1: constant", allowed=NOT_NEGATIVE
    )
    weight_decay: float = setting(0.1, "weight decay of matrices", allowed=NOT_NEGATIVE)
    beta2: float = setting(0.95, "decay of Adam's second moment", allowed=Range(at_least=0, below=1))
    clip_norm: float = setting(1.0, "largest global norm of the gradients; 0: no clipping", allowed=NOT_NEGATIVE)
    seed: int = setting(0, "seed of the initialization, the data order and dropout", allowed=SEEDS)
    pieces: tuple[str, ...] = ()  # set by --pieces: each piece, with a digest of the workspace's files
    # checkpoints and reports
    eval_every: int = setting(
        100, "steps between checkpoints; each comes with a validation loss and charts", allowed=COUNT
    )
    eval_batches: int = setting(8, "validation batches; 0: all", allowed=NOT_NEGATIVE)
    # the machine
    remat: bool = setting(False, "recompute activations in the backward pass to save memory", machine=True)
    mesh: str = setting(
        "auto", "device counts DATAxMODEL, such as 4x2; auto: all usable devices along data", machine=True
    )
    fsdp: bool = setting(False, "shard parameters and moments along data as well", machine=True)
    loss_chunk: int = setting(
        0, "tokens whose logits exist at once; 0: chosen for the device", allowed=NOT_NEGATIVE, machine=True
    )

    def __post_init__(self) -> None:
        for entry in dataclasses.fields(self):
            allowed, value = entry.metadata.get("range"), getattr(self, entry.name)
            if allowed is not None and value not in allowed:
                raise UsageError(f"{entry.name}={value} is not valid; it must be {allowed}.")
        for consistent, sentence in (
            (self.num_layers == 0 or self.d_model % self.num_heads == 0,
             f"num_heads={self.num_heads} does not divide d_model={self.d_model}"),
            (self.positions != "rope" or self.d_model // self.num_heads % 2 == 0,
             f"positions=rope needs an even head width; d_model / num_heads is {self.d_model // self.num_heads}"),
            (self.batch_size % self.grad_accumulation_steps == 0,
             f"grad_accumulation_steps={self.grad_accumulation_steps} does not divide batch_size={self.batch_size}"),
            (not self.lora_rank or self.base,
             f"lora_rank={self.lora_rank} needs a trained model; name its run with base=RUN"),
            (self.warmup_steps < self.steps,
             f"warmup_steps={self.warmup_steps} is not valid; it must be less than steps={self.steps}"),
            (not self.schedule_steps or self.warmup_steps < self.schedule_steps,
             f"schedule_steps={self.schedule_steps} is not valid; it must be more than warmup_steps={self.warmup_steps}"),
        ):  # fmt: skip
            if not consistent:
                raise UsageError(f"{sentence}.")
        _ = self.mesh_shape

    @property
    def mesh_shape(self) -> tuple[int, int] | None:
        """Device counts along (data, model); None for `auto`."""
        if self.mesh == "auto":
            return None
        data, _, model = self.mesh.partition("x")
        if not (data.isdecimal() and model.isdecimal() and int(data) and int(model)):
            raise UsageError(f"mesh={self.mesh} is not valid; write DATAxMODEL device counts, such as 4x2.")
        return int(data), int(model)

    def extended(self, steps: int) -> "Config":
        """A copy with more steps after the schedule's end, at its last learning rate. The steps before stay what they are.

        Raises UsageError if there are not more.
        """
        if steps <= self.steps:
            raise UsageError(
                f"--steps {steps} is not valid; the run has {self.steps} steps, and only more can be added."
            )
        return dataclasses.replace(self, steps=steps, schedule_steps=self.schedule_steps or self.steps)

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

    def with_settings(self, settings: dict[str, str]) -> "Config":
        """A copy with `key=value` settings as typed on the command line.

        Raises UsageError for an unknown key, naming the nearest one, and for a value of the wrong type.
        """
        kinds = typing.get_type_hints(type(self))
        parsed = {}
        for key, text in settings.items():
            if key in RENAMED:
                name, values = RENAMED[key]
                raise UsageError(f"{key} has been renamed; write {name}={values.get(text, text)}.")
            if key not in kinds or key in ("preset", "pieces"):
                close = CALLED_ELSEWHERE.get(key) or " or ".join(nearest(key, kinds, 2))
                hint = f"Did you mean {close}?" if close else "`harness settings` lists them."
                raise UsageError(f"There is no setting {key!r}. {hint}")
            parsed[key] = _parse(key, text, kinds[key])
        return dataclasses.replace(self, **parsed)

    def to_json(self) -> str:
        """The record as JSON, one setting per line."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> "Config":
        """Reads the record that `to_json` wrote at `path`; settings and values may have their former names.

        Raises UsageError if the file is not such a record.
        """
        try:
            settings = {}
            for key, value in json.loads(path.read_text("utf-8")).items():
                name, values = RENAMED.get(key, (key, {}))
                settings[name] = values.get(value, value) if values else value
            return cls(**{**settings, "pieces": tuple(settings["pieces"])})
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"{path} is not the config of a run ({type(error).__name__}: {error}). "
                "Choose another run, or remove its folder."
            ) from error

    def differences(self, other: "Config") -> list[str]:
        """The settings that change the result of a run and differ, as `key: this one -> the other`."""
        return [
            f"{entry.name}: {getattr(self, entry.name)} -> {getattr(other, entry.name)}"
            for entry in dataclasses.fields(self)
            if not entry.metadata.get("machine") and getattr(self, entry.name) != getattr(other, entry.name)
        ]


def describe_settings() -> list[str]:
    """One line for each setting that `--set` takes: name, default, help, and its choices or range."""
    kinds, lines = typing.get_type_hints(Config), []
    for entry in dataclasses.fields(Config):
        if "help" not in entry.metadata:
            continue
        choices, allowed = _choices(kinds[entry.name]), entry.metadata["range"]
        rule = f" ({', '.join(choices)})" if choices else f" ({allowed})" if allowed else ""
        lines.append(f"{entry.name}={entry.default}: {entry.metadata['help']}{rule}")
    return lines


def _choices(kind: Any) -> tuple[str, ...]:
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else ()


def _parse(key: str, text: str, kind: Any) -> Any:
    """Converts `text` to a value of type `kind`. Raises UsageError if it is not one."""
    if choices := _choices(kind):
        if text not in choices:
            raise UsageError(f"{key}={text} is not valid; choose {', '.join(choices[:-1])} or {choices[-1]}.")
        return text
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise UsageError(f"{key}={text} is not valid; write true or false.")
        return text.lower() in ("true", "1", "yes")
    try:
        return kind(text)
    except ValueError as error:
        wanted = {int: "a whole number", float: "a number"}.get(kind, "a value")
        raise UsageError(f"{key}={text} is not valid; write {wanted}.") from error


PRESETS: typing.Mapping[str, tuple[str, dict[str, Any]]] = types.MappingProxyType(
    {
        "pocket": (
            "trains on 2 CPU cores in a few minutes and tells stories",
            dict(
                packing="padded", context=192, d_model=128, num_heads=2, d_ff=512, num_layers=2, positions="rope",
                activation="relu", batch_size=8, steps=2400, warmup_steps=50, learning_rate=5e-3, final_lr_fraction=0.1,
                weight_decay=0.01, eval_every=200,
            ),
        ),
        "tutorial": (
            "the model of the JAX tutorial: 4 blocks, post-LN, Adam at 1e-3",
            dict(
                tokenizer="gpt2", data="tinystories", packing="padded", context=128, d_model=128, num_heads=4, d_ff=256,
                num_layers=4, norm="post", norm_epsilon=1e-6, activation="relu", tied_head=False, head_bias=True,
                init="xavier", dropout=0.1, batch_size=32, steps=10_000, learning_rate=1e-3, weight_decay=0.0,
                beta2=0.999, clip_norm=0.0, eval_every=1000,
            ),
        ),
        "six-by-192": (
            "6 blocks of width 192 without LayerNorm, untied head",
            dict(
                tokenizer="gpt2", data="tinystories", packing="padded", context=128, d_model=192, num_heads=6, d_ff=512,
                num_layers=6, norm="none", activation="relu", tied_head=False, batch_size=32, steps=5000,
                warmup_steps=100, learning_rate=2e-4, final_lr_fraction=0.1, weight_decay=0.0, beta2=0.999,
                eval_every=500,
            ),
        ),
        "a-to-a": (
            "no blocks: learns to copy each token; a smoke test of the harness",
            dict(
                objective="copy", num_layers=0, norm="none", positions="none", tied_head=False, d_model=128, context=128,
                batch_size=32, steps=200, warmup_steps=10, learning_rate=1e-2, final_lr_fraction=0.1, weight_decay=0.0,
                eval_every=50,
            ),
        ),
        "gpt2-small": (
            "GPT-2 small: 12 blocks of width 768, context 1024, bfloat16; needs a GPU",
            dict(
                tokenizer="gpt2", data="tinystories", context=1024, d_model=768, num_heads=12, d_ff=3072, num_layers=12,
                dtype="bfloat16", batch_size=32, steps=20_000, warmup_steps=700, learning_rate=6e-4,
                final_lr_fraction=0.1, eval_every=500,
            ),
        ),
    }
)  # fmt: skip


def preset(name: str) -> Config:
    """The settings of a preset. Raises UsageError, naming the nearest preset, if there is none of that name."""
    if name not in PRESETS:
        close = nearest(name, PRESETS)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise UsageError(f"There is no preset {name!r}.{hint} `harness presets` lists them.")
    return Config(preset=name, **PRESETS[name][1])


def typed_settings(settings: tuple[str, ...], flags: dict[str, Any]) -> dict[str, str]:
    """The `--set` settings and the other options, by key. Raises UsageError for a setting without a value."""
    typed = {key: str(value) for key, value in flags.items() if value is not None and value is not False}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting} is not valid; write KEY=VALUE, such as --set learning_rate=1e-3.")
        typed[key.strip().replace("-", "_")] = value.strip()
    return typed


def with_options(config: Config, typed: dict[str, str]) -> Config:
    """The config with the settings that were typed.

    A number of steps below the config's warm-up shortens the warm-up to at most half of them.
    """
    typed = dict(typed)
    if (steps := typed.get("steps")) and "warmup_steps" not in typed and steps.isdecimal():
        config = dataclasses.replace(config, steps=max(config.steps, config.warmup_steps + 1))
        typed["warmup_steps"] = str(min(config.warmup_steps, int(steps) // 2))
    return config.with_settings(typed)
