"""What a run is: one flat, frozen record of settings, the presets, and reading settings from people and from files."""

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


def _machine(default: Any) -> Any:
    """A setting of where and how fast, not of what is computed: a run may be resumed with another."""
    return field(default=default, metadata={"machine": True})


@dataclass(frozen=True)
class Config:
    """All settings of a run. Sizes are in tokens, positions and units; rates are per step."""

    preset: str = "pocket"
    # data
    data: str = "pocket"  # pocket, pocket:N for N stories, tinystories, or a path to text or Parquet
    tokenizer: str = "pocket-2k"
    form: Literal["packed", "padded"] = "packed"  # windows of one long stream, or one story a row
    task: Literal["next", "same"] = "next"  # predict the next token, or (A to A) the token itself
    validation: float = 0.02  # share of the stories kept for validation
    # model
    vocab_size: int = 0  # 0: the tokenizer's
    context: int = 128
    d_model: int = 128
    num_heads: int = 4
    d_ff: int = 512
    num_layers: int = 4
    norm: Literal["pre", "post", "none"] = "pre"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu"] = "gelu"
    positions: Literal["learned", "rope", "none"] = "learned"
    tied_head: bool = True
    head_bias: bool = False
    init: Literal["gpt2", "xavier"] = "gpt2"
    dropout: float = 0.0
    dtype: Literal["float32", "bfloat16"] = "float32"  # of the computation; parameters and loss are float32
    # fine-tuning
    base: str = ""  # the folder of a run: begin with the parameters of its best checkpoint
    lora_rank: int = 0  # of adapters beside the linear layers, which alone are trained then; 0: all is trained
    # optimisation
    steps: int = 1000
    batch_size: int = 32
    accumulate: int = 1  # microbatches a step
    learning_rate: float = 1e-3
    warmup_steps: int = 0
    final_learning_rate: float = 1.0  # share of the peak that the cosine ends at; 1 keeps the rate constant
    weight_decay: float = 0.1
    beta2: float = 0.95
    clip_norm: float = 1.0  # 0: no clipping
    seed: int = 0
    pieces: tuple[str, ...] = ()  # what the workspace's own code stands in for
    # checkpoints and reports
    eval_every: int = 100  # steps from one validation, chart and checkpoint to the next
    eval_batches: int = 8  # 0: all of the validation data
    # the machine
    remat: bool = _machine(False)  # recompute activations in the backward pass instead of keeping them
    mesh: str = _machine("auto")  # devices along data x model, as in 4x2; auto: all along data
    fsdp: bool = _machine(False)  # parameters and moments sharded over data too
    loss_chunk: int = _machine(0)  # tokens whose logits exist at once; 0: chosen for the device

    def __post_init__(self) -> None:
        for name in ("context", "d_model", "num_heads", "d_ff", "steps", "batch_size", "accumulate", "eval_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be at least 1.")
        for rule, sentence in (
            (self.num_layers == 0 or self.d_model % self.num_heads == 0,
             f"num_heads={self.num_heads} does not divide d_model={self.d_model}"),
            (self.positions != "rope" or self.d_model // max(self.num_heads, 1) % 2 == 0,
             "positions=rope turns pairs of numbers: d_model / num_heads must be even"),
            (self.batch_size % max(self.accumulate, 1) == 0,
             f"accumulate={self.accumulate} does not divide batch_size={self.batch_size}"),
            (not self.lora_rank or self.base, f"lora_rank={self.lora_rank} adapts a trained model: name its run, base=runs/NAME"),
            (0 < self.validation < 1, f"validation={self.validation} must lie between 0 and 1"),
            (0 <= self.dropout < 1, f"dropout={self.dropout} must be at least 0 and less than 1"),
            (0 <= self.warmup_steps < self.steps, f"warmup_steps={self.warmup_steps} must be fewer than steps={self.steps}"),
        ):  # fmt: skip
            if not rule:
                raise UsageError(f"{sentence}.")
        _ = self.mesh_shape
        for name in (
            "num_layers",
            "lora_rank",
            "learning_rate",
            "final_learning_rate",
            "weight_decay",
            "clip_norm",
            "eval_batches",
            "loss_chunk",
        ):
            if not 0 <= getattr(self, name) < math.inf:  # NaN is neither
                raise UsageError(f"{name}={getattr(self, name)} must be a number and not negative.")

    @property
    def mesh_shape(self) -> tuple[int, int] | None:
        """Devices along (data, model); None for `auto`."""
        if self.mesh == "auto":
            return None
        data, _, model = self.mesh.partition("x")
        if not (data.isdecimal() and model.isdecimal() and int(data) and int(model)):
            raise UsageError(f"mesh={self.mesh} is no mesh: write two numbers of devices, data x model, as in 4x2.")
        return int(data), int(model)

    def with_settings(self, settings: dict[str, str]) -> "Config":
        """A copy with `key=value` settings as typed by a person. Raises UsageError naming the nearest key or what fits."""
        kinds = typing.get_type_hints(type(self))
        parsed = {}
        for key, text in settings.items():
            if key not in kinds or key in ("preset", "pieces"):
                close = " or ".join(nearest(key, kinds, 2))
                raise UsageError(f"There is no setting {key!r}.{f' Did you mean {close}?' if close else ''}")
            parsed[key] = _parse(key, text, kinds[key])
        return dataclasses.replace(self, **parsed)

    def to_json(self) -> str:
        """The record as JSON, one setting a line."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    @classmethod
    def load(cls, path: Path) -> "Config":
        """The record that `to_json` wrote at `path`."""
        try:
            settings = json.loads(path.read_text("utf-8"))
            return cls(**{**settings, "pieces": tuple(settings["pieces"])})
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise UsageError(
                f"{path} is not the config of a run ({error}). Name another run, or remove its folder."
            ) from error

    def differences(self, other: "Config") -> list[str]:
        """The settings that change what is computed and are not the same in both: `key: mine -> other's`."""
        return [
            f"{entry.name}: {getattr(self, entry.name)} -> {getattr(other, entry.name)}"
            for entry in dataclasses.fields(self)
            if not entry.metadata.get("machine") and getattr(self, entry.name) != getattr(other, entry.name)
        ]


def _parse(key: str, text: str, kind: Any) -> Any:
    """`text` as a value of `kind`."""
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if text not in choices:
            raise UsageError(f"{key}={text}: choose {', '.join(choices[:-1])} or {choices[-1]}.")
        return text
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise UsageError(f"{key}={text}: write true or false.")
        return text.lower() in ("true", "1", "yes")
    try:
        return kind(text)
    except ValueError as error:
        wanted = {int: "a whole number", float: "a number"}.get(kind, "a value")
        raise UsageError(f"{key}={text}: write {wanted}.") from error


PRESETS: typing.Mapping[str, tuple[str, dict[str, Any]]] = types.MappingProxyType(
    {
        "pocket": (
            "trains on 2 CPU cores in a few minutes and tells stories",
            dict(form="padded", context=192, d_model=128, num_heads=2, d_ff=512, num_layers=2, positions="rope",
                activation="relu",
                 batch_size=8, steps=2400, warmup_steps=50, learning_rate=5e-3, final_learning_rate=0.1, weight_decay=0.01,
                 eval_every=200),
        ),
        "tutorial": (
            "the model of the JAX tutorial: 4 blocks, post-LN, Adam at 1e-3",
            dict(tokenizer="gpt2", data="tinystories", form="padded", context=128, d_model=128, num_heads=4, d_ff=256,
                num_layers=4,
                 norm="post", norm_epsilon=1e-6, activation="relu", tied_head=False, head_bias=True, init="xavier", dropout=0.1,
                 batch_size=32, steps=10_000, learning_rate=1e-3, weight_decay=0.0, beta2=0.999, clip_norm=0.0, eval_every=1000),
        ),
        "six-by-192": (
            "6 blocks of width 192 without LayerNorm, untied head",
            dict(tokenizer="gpt2", data="tinystories", form="padded", context=128, d_model=192, num_heads=6, d_ff=512,
                num_layers=6,
                 norm="none", activation="relu", tied_head=False, batch_size=32, steps=5000, warmup_steps=100, learning_rate=2e-4,
                 final_learning_rate=0.1, weight_decay=0.0, beta2=0.999, eval_every=500),
        ),
        "a-to-a": (
            "no blocks at all: learns to repeat each token, the harness's own smoke test",
            dict(task="same", num_layers=0, norm="none", positions="none", tied_head=False, d_model=128, context=128,
                batch_size=32,
                 steps=200, warmup_steps=10, learning_rate=1e-2, final_learning_rate=0.1, weight_decay=0.0, eval_every=50),
        ),
        "gpt2-small": (
            "GPT-2's smallest: 12 blocks of width 768, context 1024, bfloat16; wants a GPU",
            dict(tokenizer="gpt2", data="tinystories", context=1024, d_model=768, num_heads=12, d_ff=3072, num_layers=12,
                 dtype="bfloat16", batch_size=32, steps=20_000, warmup_steps=700, learning_rate=6e-4, final_learning_rate=0.1,
                 eval_every=500),
        ),
    }
)  # fmt: skip


def preset(name: str) -> Config:
    """The settings of a preset. Raises UsageError naming the nearest."""
    if name not in PRESETS:
        close = nearest(name, PRESETS)
        raise UsageError(
            f"There is no preset {name!r}.{f' Did you mean {close[0]}?' if close else ''} `harness presets` lists them."
        )
    return Config(preset=name, **PRESETS[name][1])
