"""The settings of a model: those of the decoder of the course, and the choices by which the models that people use
differ from it."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

from harness.settings import COUNT, NOT_NEGATIVE, Range, Rules, Settings, setting


@dataclass(frozen=True)
class GPTConfig(Settings):
    """The settings of the decoder of the course, `gpt.py`."""

    vocab_size: int = setting(0, "rows of the embedding; 0: the size of the tokenizer", allowed=NOT_NEGATIVE)
    vocab_multiple: int = setting(
        128,
        "the embedding and the head have a multiple of so many rows; those after the vocabulary are unused",
        allowed=COUNT,
    )
    context: int = setting(128, "tokens per row", allowed=COUNT)
    d_model: int = setting(128, "width of the residual stream", allowed=COUNT)
    num_heads: int = setting(4, "attention heads", allowed=COUNT)
    num_kv_heads: int = setting(
        0, "heads of keys and values, which groups of attention heads share; 0: num_heads", allowed=NOT_NEGATIVE
    )
    head_width: int = setting(0, "width of an attention head; 0: d_model / num_heads", allowed=NOT_NEGATIVE)
    window: int = setting(0, "how many tokens a position attends to, itself included; 0: all", allowed=NOT_NEGATIVE)
    d_ff: int = setting(512, "width of the feed-forward layer", allowed=COUNT)
    num_layers: int = setting(4, "transformer blocks", allowed=NOT_NEGATIVE)
    norm: Literal["pre", "post", "branch", "both", "none"] = setting(
        "pre",
        "where the norm is applied. branch: to what attention and the feed-forward layer add (OLMo 2); both: there, "
        "and as pre (Gemma 3)",
    )
    norm_kind: Literal["layernorm", "rmsnorm", "rmsnorm_1"] = setting(
        "layernorm", "which norm. rmsnorm_1: RMSNorm whose scale is stored as its difference from 1 (Gemma)"
    )
    norm_epsilon: float = setting(1e-5, "epsilon of the norm", allowed=NOT_NEGATIVE)
    activation: Literal["relu", "gelu", "gelu_exact", "swiglu", "geglu"] = setting(
        "gelu",
        "activation of the feed-forward layer. gelu: its approximation by tanh, as in GPT-2; gelu_exact: by erf; "
        "swiglu and geglu add a gate of the same width, with SiLU or gelu",
    )
    bias: bool = setting(True, "biases in linear layers and LayerNorm, except for the output head")
    positions: Literal["learned", "rope", "none"] = setting("learned", "position encoding")
    rope_base: float = setting(10_000.0, "base of the wavelengths of positions=rope", allowed=Range(above=0))
    tied_head: bool = setting(True, "use the token embedding as the output head")
    head_bias: bool = setting(False, "add a bias to the output head")
    init: Literal["gpt2", "xavier"] = setting("gpt2", "initialization of the parameters")
    dropout: float = setting(0.0, "dropout rate in training", allowed=Range(at_least=0, below=1))
    dtype: Literal["float32", "bfloat16"] = setting("float32", "compute dtype; parameters and loss stay in float32")
    remat: bool = setting(False, "recompute activations in the backward pass to save memory", machine=True)

    def rules(self) -> Rules:
        """Which of these conflict."""
        yield (
            self.num_layers == 0 or bool(self.head_width) or self.d_model % self.num_heads == 0,
            f"num_heads={self.num_heads} does not divide d_model={self.d_model}; choose one that does, or set "
            "head_width",
        )
        yield (
            self.num_heads % self.kv_heads == 0,
            f"num_kv_heads={self.num_kv_heads} does not divide num_heads={self.num_heads}",
        )
        yield (
            self.positions != "rope" or (self.rotated % 2 == 0 and self.rotated > 0),
            f"positions=rope rotates pairs, so it needs an even width; of each head, it rotates {self.rotated}",
        )

    @property
    def is_general(self) -> bool:
        """Whether only the decoder of `general.py` has what is set."""
        return self.norm in ("branch", "both") or self.norm_kind == "rmsnorm_1"

    @property
    def repeats(self) -> int:
        """How often the same layers follow one another."""
        return self.num_layers

    @property
    def is_gated(self) -> bool:
        """Whether the feed-forward layer has a gate."""
        return self.activation in ("swiglu", "geglu")

    @property
    def per_head(self) -> int:
        """The width of an attention head."""
        return self.head_width or self.d_model // self.num_heads

    @property
    def query_width(self) -> int:
        """The numbers that the layer of queries makes for each head."""
        return self.per_head

    @property
    def rotated(self) -> int:
        """How many of the numbers of a head `positions=rope` rotates."""
        return self.per_head

    @property
    def qkv_bias(self) -> bool:
        """Whether the layers of queries, keys and values have biases."""
        return self.bias

    @property
    def out_bias(self) -> bool:
        """Whether the last layer of attention has a bias."""
        return self.bias

    @property
    def vocab_rows(self) -> int:
        """The rows of the embedding and of the head."""
        return -(-self.vocab_size // self.vocab_multiple) * self.vocab_multiple

    @property
    def kv_heads(self) -> int:
        """The heads of keys and values."""
        return self.num_kv_heads or self.num_heads


# The numbers after the name of each rope scaling, as config.json of transformers calls them
_YARN = ("factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "attention_factor")
ROPE_SCALINGS = {
    "none": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": _YARN,
    "yarn_exact": _YARN,
}
# The mixers that read a setting, where not all do
READ_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "num_kv_heads",
            "qk_norm",
            "attention_bias",
            "rotary_fraction",
            "rope_scaling",
            "full_every",
            "window_rope_base",
            "sinks",
            "attention_gate",
        ),
        ("attention",),
    ),
    **dict.fromkeys(("head_width", "window"), ("attention", "latent_attention")),
    **dict.fromkeys(("d_latent", "d_rope"), ("latent_attention",)),
    "d_state": ("state_space",),
    **dict.fromkeys(("key_heads", "value_heads", "key_width", "value_width", "conv_width"), ("gated_delta",)),
    "attention_every": ("state_space", "gated_delta"),
}
# The settings of experts
OF_EXPERTS = ("experts_per_token", "d_shared", "shared_gate", "router", "clamped_swiglu")

# The mixers that pass on a state, which knows the order of positions
RECURRENT = ("state_space", "gated_delta")

M = TypeVar("M", bound="ModelConfig")


@dataclass(frozen=True)
class ModelConfig(GPTConfig):
    """The settings of a model. A GPT stores them."""

    mixer: Literal["attention", "latent_attention", "state_space", "gated_delta"] = setting(
        "attention",
        "what mixes the positions of a block. latent_attention: attention with a compressed cache (MLA, DeepSeek-V2); "
        "state_space: a recurrence with a state of fixed size (Mamba); gated_delta: one whose state is a matrix that "
        "the delta rule corrects (Gated DeltaNet, Qwen3-Next)",
    )
    attention_every: int = setting(
        0,
        "with mixer=state_space or gated_delta, every so many layers, one has attention in its place (Jamba, "
        "Qwen3-Next); 0: none",
        allowed=NOT_NEGATIVE,
    )
    d_latent: int = setting(
        0, "numbers of each position that mixer=latent_attention makes all keys and values from", allowed=NOT_NEGATIVE
    )
    d_rope: int = setting(
        0, "rotated numbers of a query, and of one key for all heads, with mixer=latent_attention", allowed=NOT_NEGATIVE
    )
    d_state: int = setting(16, "numbers in the state of each feature, with mixer=state_space", allowed=COUNT)
    key_heads: int = setting(
        0, "heads of queries and keys with mixer=gated_delta; 0: value_heads", allowed=NOT_NEGATIVE
    )
    value_heads: int = setting(
        0, "heads of values with mixer=gated_delta, of which groups share keys; 0: num_heads", allowed=NOT_NEGATIVE
    )
    key_width: int = setting(
        0, "numbers of a query and of a key with mixer=gated_delta; 0: d_model / num_heads", allowed=NOT_NEGATIVE
    )
    value_width: int = setting(
        0, "numbers of a value with mixer=gated_delta; 0: d_model / num_heads", allowed=NOT_NEGATIVE
    )
    conv_width: int = setting(
        4, "positions that the short convolution of mixer=gated_delta reads, the own one included", allowed=COUNT
    )
    full_every: int = setting(
        0, "every so many layers, one attends to all tokens in spite of the window; 0: none does", allowed=NOT_NEGATIVE
    )
    qk_norm: Literal["none", "head", "all"] = setting(
        "none", "norm of queries and keys. head: of each head (Qwen 3); all: of all heads together (OLMo 2)"
    )
    sinks: bool = setting(
        False, "a learned score for each head that takes a share of the attention and has no value (gpt-oss)"
    )
    attention_gate: bool = setting(
        False, "multiply the output of attention by the sigmoid of a gate of the same width (Qwen3-Next)"
    )
    experts: int = setting(
        0,
        "feed-forward networks of width d_ff in each layer, of which a token uses some; 0: one that all tokens use",
        allowed=NOT_NEGATIVE,
    )
    experts_per_token: int = setting(2, "experts that a token uses", allowed=COUNT)
    d_shared: int = setting(0, "width of one more expert, which all tokens use; 0: none", allowed=NOT_NEGATIVE)
    shared_gate: bool = setting(
        False, "multiply the output of the shared expert by the sigmoid of one number of the token (Qwen3-Next)"
    )
    router: Literal["sigmoid", "softmax", "softmax_all"] = setting(
        "sigmoid",
        "how experts are chosen and weighed. sigmoid: chosen by score plus a bias that balances their load, weighed "
        "by the scores of those chosen (DeepSeek-V3); softmax: over those chosen (Qwen 3, gpt-oss); softmax_all: over "
        "all experts",
    )
    clamped_swiglu: bool = setting(
        False,
        "the SwiGLU of gpt-oss's experts: both halves have limits, and 1 is added to the half that is gated",
    )
    parallel_residual: bool = setting(
        False, "attention and the feed-forward layer both read the input of the block (GPT-J, Pythia)"
    )
    attention_bias: Literal["same", "none", "qkv", "all"] = setting(
        "same", "biases in the linear layers of attention. same: as bias says; qkv: all but the last layer (Qwen 2)"
    )
    rotary_fraction: float = setting(
        1.0, "fraction of each head that positions=rope rotates", allowed=Range(above=0, at_most=1)
    )
    rope_scaling: str = setting(
        "none",
        "longer wavelengths of positions=rope, for longer contexts: none, linear:FACTOR, "
        "llama3:FACTOR:LOW:HIGH:CONTEXT, or yarn:FACTOR:FAST:SLOW:CONTEXT:SCALE; yarn_exact does not round the ends "
        "of its ramp to pairs (gpt-oss)",
    )
    window_rope_base: float = setting(
        0.0,
        "with full_every, rope_base of the layers with a window, which have no rope_scaling then; 0: as the others",
        allowed=NOT_NEGATIVE,
    )
    scaled_embedding: bool = setting(False, "multiply the token embedding by the square root of its width (Gemma)")
    mtp: int = setting(
        0,
        "modules that predict one token further in training, with the same embedding and head (DeepSeek-V3): 0 or 1",
        allowed=Range(at_least=0, at_most=1),
    )

    def rules(self) -> Rules:
        """Which settings of the model conflict."""
        yield from self._mixer_rules()
        yield from self._position_rules()
        yield from self._layer_rules()
        yield from self._expert_rules()

    def _mixer_rules(self) -> Rules:
        """Yields what a mixer does not read, and what it needs."""
        defaults = {entry.name: entry.default for entry in fields(ModelConfig)}
        mixers_here = {self.mixer, "attention"} if self.attention_every else {self.mixer}
        for name, mixers in READ_BY.items():
            yield (
                bool(mixers_here & {*mixers}) or getattr(self, name) == defaults[name],
                f"mixer={self.mixer} has no {name}; mixer={' or '.join(mixers)} has it",
            )
        yield (
            not self.attention_gate or self.num_kv_heads > 0,
            "attention_gate needs num_kv_heads, the heads of keys and values",
        )
        keys, values = self.delta_heads
        yield (
            self.mixer != "gated_delta" or values % keys == 0,
            f"key_heads={keys} does not divide value_heads={values}",
        )
        yield (
            self.mixer != "latent_attention" or bool(self.d_latent and self.d_rope and self.positions == "rope"),
            "mixer=latent_attention needs positions=rope, and widths of what it caches, such as d_latent=32 and "
            "d_rope=16",
        )
        yield (
            self.mixer not in RECURRENT or self.positions != "rope" or self.attention_every > 0,
            f"mixer={self.mixer} has no heads that positions=rope could rotate; its state knows the order, so use "
            "positions=none",
        )

    def _position_rules(self) -> Rules:
        """Yields what a position encoding does not read, and what it needs."""
        yield (
            self.positions == "rope" or (self.rotary_fraction == 1 and self.rope_scaling == "none"),
            f"positions={self.positions} has no rotary_fraction and no rope_scaling; positions=rope has them",
        )
        yield (
            self._scaling_is_valid(),
            f"rope_scaling={self.rope_scaling} is not valid; write none, linear:FACTOR, "
            "llama3:FACTOR:LOW:HIGH:CONTEXT with LOW below HIGH, or yarn:FACTOR:FAST:SLOW:CONTEXT:SCALE with FAST "
            "above SLOW; all numbers must be positive",
        )

    def _expert_rules(self) -> Rules:
        """Yields what experts need."""
        if self.experts:
            yield (
                self.experts_per_token <= self.experts,
                f"experts_per_token={self.experts_per_token} is not valid; there are only experts={self.experts}",
            )
            yield (
                self.activation == "swiglu",
                f"activation={self.activation} is not valid with experts; use activation=swiglu",
            )
            yield not self.shared_gate or self.d_shared > 0, "shared_gate needs a shared expert; set d_shared"
            return
        defaults = {entry.name: entry.default for entry in fields(ModelConfig)}
        for name in OF_EXPERTS:
            yield getattr(self, name) == defaults[name], f"{name} is a setting of experts; set experts, too"

    def _layer_rules(self) -> Rules:
        """Yields which layers may differ from others, and how the parts of a layer may be connected."""
        yield (
            not self.full_every or self.window > 0,
            f"full_every={self.full_every} needs a window; with window=0, all layers attend to all tokens",
        )
        yield (
            self.attention_every != 1,
            f"attention_every=1 leaves no layer to mixer={self.mixer}; use mixer=attention",
        )
        yield (
            not self.attention_every or self.num_layers % self.attention_every == 0,
            f"num_layers={self.num_layers} is no multiple of attention_every={self.attention_every}",
        )
        yield (
            not (self.attention_every and self.full_every),
            "full_every is not valid with attention_every, where all layers with attention are alike",
        )
        yield (
            not self.window_rope_base or (self.full_every > 0 and self.positions == "rope"),
            f"window_rope_base={self.window_rope_base:g} needs positions=rope and full_every: layers of two kinds",
        )
        yield (
            not self.window_rope_base or not self.rope_scaling.startswith("yarn"),
            f"rope_scaling={self.rope_scaling} is not valid with window_rope_base; use another scaling",
        )
        yield not self.mtp or self.num_layers > 0, "mtp=1 needs layers; num_layers=0 has none"
        yield (
            not self.parallel_residual or self.norm == "pre",
            f"parallel_residual needs norm=pre; norm={self.norm} is something else",
        )

    def _scaling_is_valid(self) -> bool:
        try:
            kind, numbers = self.scaling
        except ValueError:
            return False
        if kind not in ROPE_SCALINGS or len(numbers) != len(ROPE_SCALINGS[kind]):
            return False
        positive = all(number > 0 and math.isfinite(number) for number in numbers)
        if kind == "llama3":
            return positive and numbers[1] < numbers[2]
        return positive and (ROPE_SCALINGS[kind] != _YARN or numbers[1] > numbers[2])

    @property
    def scaling(self) -> tuple[str, tuple[float, ...]]:
        """The kind of `rope_scaling` and its numbers, in the order of `ROPE_SCALINGS`."""
        kind, *numbers = self.rope_scaling.split(":")
        return kind, tuple(map(float, numbers))

    @property
    def is_general(self) -> bool:
        """Whether the model needs the decoder of `general.py`: a setting that `GPTConfig` lacks is not its default."""
        own = {entry.name for entry in fields(GPTConfig)}
        others = [entry for entry in fields(ModelConfig) if entry.name not in own]
        return super().is_general or any(getattr(self, entry.name) != entry.default for entry in others)

    @property
    def repeats(self) -> int:
        """How often the same layers follow one another: as often as there are layers, or groups of them with two
        kinds."""
        return self.num_layers // (self.attention_every or 1)

    def of_attention(self: M) -> M:
        """The settings of the layers with attention, where the others have another mixer."""
        of_others = [name for name, mixers in READ_BY.items() if "attention" not in mixers]
        return replace(self, mixer="attention", **{name: getattr(ModelConfig, name) for name in of_others})

    def of_mtp(self: M) -> M:
        """The settings of the layer that `mtp` adds: those of a layer with attention, where there are some."""
        return self.of_attention() if self.attention_every else self

    @property
    def delta_heads(self) -> tuple[int, int]:
        """The heads of keys and of values with `mixer=gated_delta`."""
        values = self.value_heads or self.num_heads
        return self.key_heads or values, values

    @property
    def delta_widths(self) -> tuple[int, int]:
        """The numbers of a key and of a value with `mixer=gated_delta`."""
        default = self.d_model // self.num_heads
        return self.key_width or default, self.value_width or default

    @property
    def active_d_ff(self) -> int:
        """The width of all feed-forward networks that a token uses."""
        return self.experts_per_token * self.d_ff + self.d_shared if self.experts else self.d_ff

    @property
    def has_router_bias(self) -> bool:
        """Whether a bias balances the load of the experts. It has an update of its own."""
        return self.experts > 0 and self.router == "sigmoid"

    def is_full(self, layer: Any) -> Any:
        """Whether a layer, which may be traced, attends to all tokens."""
        return (layer + 1) % self.full_every == 0 if self.full_every else self.window == 0

    @property
    def query_width(self) -> int:
        """The numbers that the layer of queries makes for each head: a gate as well with `attention_gate`."""
        return 2 * self.per_head if self.attention_gate else self.per_head

    @property
    def rotated(self) -> int:
        """How many of the numbers of a head `positions=rope` rotates: the first ones, or those beside the latent
        part."""
        return self.d_rope or int(self.per_head * self.rotary_fraction)

    @property
    def qkv_bias(self) -> bool:
        """Whether the layers of queries, keys and values have biases."""
        return self.bias if self.attention_bias == "same" else self.attention_bias != "none"

    @property
    def out_bias(self) -> bool:
        """Whether the last layer of attention has a bias."""
        return self.bias if self.attention_bias == "same" else self.attention_bias == "all"
