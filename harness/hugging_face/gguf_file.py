"""A model in Hugging Face's format as one GGUF file, which llama.cpp and Ollama read. Needs the package `gguf`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from commandline import invocation
from harness.data.dialogues import template_text
from harness.data.model_files import read_json
from harness.data.tokenizer_json import END_OF_TEXT, SPLIT_PATTERN, around_texts
from harness.errors import UsageError
from harness.hugging_face.load import Parameters, read_config
from harness.model.general import scaled
from harness.model.rope import wavelengths
from harness.model_config import ModelConfig

# The names of llama.cpp's architectures by model_type
ARCHITECTURES = {"gpt2": "gpt2", "gpt_neox": "gptneox", "llama": "llama", "mistral": "llama", "qwen2": "qwen2",
                 "qwen3": "qwen3"}  # fmt: skip
# How llama.cpp splits texts into words, by the regular expression of tokenizer.json; without one, as GPT-2 does.
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = {
    SPLIT_PATTERN: "gpt-2",
    _WORDS % r"\p{N}": "qwen2",
    _WORDS % r"\p{N}{1,3}": "llama-bpe",
}
_OTHERWISE = "convert_hf_to_gguf.py of llama.cpp may read it: export to a folder first"


def write_gguf(folder: Path, file: Path) -> str:
    """Writes the model of a folder, with its tokenizer and chat template, as a file with matrices of the model's dtype.
    Returns a sentence on what llama.cpp does not compute as the model does; empty if there is nothing.

    Raises UsageError for a model or a tokenizer that is not supported, and without the package `gguf`.
    """
    try:
        import gguf
    except ImportError as error:
        raise UsageError(f"GGUF needs the package gguf: run `{invocation.install('gguf')}`.") from error
    fields = read_json(folder / "config.json")
    architecture = ARCHITECTURES.get(fields["model_type"])
    if architecture is None:
        raise UsageError(f"model_type={fields['model_type']} cannot be written as GGUF. {_OTHERWISE}.")
    settings = read_config(folder)
    settings.pop("tokenizer", None)
    config = ModelConfig(**settings)
    biases = ("same", "all") if architecture == "llama" else ("same", "qkv")
    for name, supported in {"activation": ("gelu", "swiglu"), "attention_bias": biases}.items():
        if (value := getattr(config, name)) not in supported:
            raise UsageError(
                f"{name}={value} cannot be written as GGUF: llama.cpp has no {architecture} with it. Export to a "
                f"folder, or train with --set {name}={supported[0]}{' or --preset modern' * (name == 'activation')}."
            )
    if config.scaling[0] == "yarn":
        raise UsageError(f"rope_scaling={config.rope_scaling} cannot be written as GGUF. {_OTHERWISE}.")
    writer = gguf.GGUFWriter(file, architecture)
    _add_sizes(writer, config, architecture)
    if config.scaling[0] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(config.scaling[1][0])
    _add_tokenizer(gguf, writer, folder, config.vocab_size)
    of_dtype = {"float16": gguf.GGMLQuantizationType.F16, "bfloat16": gguf.GGMLQuantizationType.BF16}
    number_type = of_dtype.get(str(fields.get("dtype") or fields.get("torch_dtype")), gguf.GGMLQuantizationType.F32)
    table = gguf.get_tensor_name_map(gguf.MODEL_ARCH[architecture.upper()], config.num_layers)
    parameters = Parameters(folder)
    for path in parameters:
        for name, array in parameters.layout.tensors({path: parameters[path]}).items():
            kind = number_type if array.ndim > 1 else gguf.GGMLQuantizationType.F32
            found = str(table.get_name(name, try_suffixes=(".weight", ".bias")))
            data = gguf.quants.quantize(np.ascontiguousarray(_arranged(name, array, config, architecture)), kind)
            writer.add_tensor(found, data, raw_dtype=kind)
            if path == "embed" and config.tied_head and architecture == "gptneox":  # which has no tied head
                writer.add_tensor("output.weight", data, raw_dtype=kind)
    if config.scaling[0] == "llama3":  # by how much each wavelength is multiplied
        plain = wavelengths(config.rotated, config.rope_base)
        factors = scaled(plain, *config.scaling, config.rope_base) / plain
        writer.add_tensor("rope_freqs.weight", np.asarray(factors, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    if not _is_cut(config):
        return ""
    return (
        f"llama.cpp has no {architecture} with a window. Within the {config.window:,} tokens of this model's window, "
        f"it computes the same, so the file names these as the longest context, not {config.context:,}."
    )


def _is_cut(config: ModelConfig) -> bool:
    """Whether positions see less than the whole context."""
    return 0 < config.window < config.context


def _add_sizes(writer: Any, config: ModelConfig, architecture: str) -> None:
    """The numbers by which llama.cpp builds the model."""
    # Its architecture of Llama and Mistral has no window. Within one, every position sees all before it anyway. Other
    # programs that read the file may know windows.
    writer.add_context_length(config.window if _is_cut(config) else config.context)
    if _is_cut(config):
        writer.add_sliding_window(config.window)
    writer.add_embedding_length(config.d_model)
    writer.add_block_count(config.num_layers)
    writer.add_feed_forward_length(config.d_ff)
    writer.add_head_count(config.num_heads)
    writer.add_vocab_size(config.vocab_size)
    epsilon = writer.add_layer_norm_eps if config.norm_kind == "layernorm" else writer.add_layer_norm_rms_eps
    epsilon(config.norm_epsilon)
    if architecture == "gptneox":
        writer.add_parallel_residual(config.parallel_residual)
    if config.positions == "rope":
        writer.add_head_count_kv(config.kv_heads)
        writer.add_key_length(config.per_head)
        writer.add_value_length(config.per_head)
        writer.add_rope_dimension_count(config.rotated)
        writer.add_rope_freq_base(config.rope_base)


def _arranged(name: str, array: np.ndarray, config: ModelConfig, architecture: str) -> np.ndarray:
    """A tensor in llama.cpp's order of rows."""
    if architecture == "gpt2" and array.ndim == 2 and ".h." in name:
        return array.T  # stored with a row for each input
    if architecture == "gptneox" and "query_key_value" in name:  # q, k and v of each head become those of all heads
        return array.reshape(config.num_heads, 3, config.per_head, -1).swapaxes(0, 1).reshape(array.shape)
    heads = {"q_proj": config.num_heads, "k_proj": config.kv_heads}
    found = next((part for part in heads if part in name), None)
    if architecture == "llama" and found:  # it rotates neighbors, where others rotate the two halves of a head
        halves = array.reshape(heads[found], 2, config.per_head // 2, -1)
        return halves.swapaxes(1, 2).reshape(array.shape)
    return array


def _add_tokenizer(gguf: Any, writer: Any, folder: Path, vocab_size: int) -> None:
    """The tokens, merges and marks of a byte-level tokenizer.json. Raises UsageError for another kind."""
    file = folder / "tokenizer.json"
    content = read_json(file)
    split = _split_of(content)
    if content.get("model", {}).get("type") != "BPE" or split is None or content["model"].get("byte_fallback"):
        raise UsageError(f"{file} is of a kind that cannot be written as GGUF. {_OTHERWISE}.")
    marks = content.get("added_tokens", ())
    added = {each["content"]: each["id"] for each in marks}
    by_id = {number: token for token, number in {**content["model"]["vocab"], **added}.items()}
    of_mark = {True: gguf.TokenType.CONTROL, False: gguf.TokenType.USER_DEFINED}
    kinds = {each["id"]: of_mark[bool(each.get("special"))] for each in marks}
    tokens = [by_id.get(number, f"[PAD{number}]") for number in range(vocab_size)]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([
        kinds.get(number, gguf.TokenType.NORMAL if number in by_id else gguf.TokenType.UNUSED)
        for number in range(vocab_size)
    ])  # fmt: skip
    merges = content["model"]["merges"]
    writer.add_token_merges([each if isinstance(each, str) else " ".join(each) for each in merges])
    begin, _ = around_texts(content.get("post_processor"))
    _add_ends(writer, folder, begin, added)
    if text := template_text(folder):
        writer.add_chat_template(text)


def _split_of(content: dict[str, Any]) -> str | None:
    """llama.cpp's name for how words are told apart; None for a way that it does not have."""
    pre = content.get("pre_tokenizer") or {}
    parts = pre.get("pretokenizers", [pre])
    if not any(part.get("type") == "ByteLevel" for part in parts):
        return None
    patterns = [part.get("pattern", {}).get("Regex", "") for part in parts if part.get("type") == "Split"]
    if len(patterns) + sum(part.get("type") == "ByteLevel" for part in parts) != len(parts):
        return None  # such as digits of their own
    return "gpt-2" if not patterns else _SPLITS.get(patterns[0]) if len(patterns) == 1 else None


def _add_ends(writer: Any, folder: Path, begin: list[int], added: Mapping[str, int]) -> None:
    """The tokens that begin and end texts and answers. llama.cpp puts one token before a text: the first of `begin`."""
    fields = read_json(folder / "config.json")
    generation = folder / "generation_config.json"
    ends = (read_json(generation) if generation.exists() else fields).get("eos_token_id", fields.get("eos_token_id"))
    ends = [ends] if isinstance(ends, int) else [*(ends or [])]
    writer.add_add_bos_token(bool(begin))
    setters: list[tuple[Callable[[int], None], Any]] = [
        (writer.add_bos_token_id, begin[0] if begin else fields.get("bos_token_id")),
        (writer.add_eos_token_id, ends[0] if ends else added.get(END_OF_TEXT)),
        (writer.add_eot_token_id, ends[1] if len(ends) > 1 else None),
    ]
    for setter, number in setters:
        if isinstance(number, int):
            setter(number)
