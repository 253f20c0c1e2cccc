"""The parameters of a base in Hugging Face's format, under the names that the course's pieces have."""

import functools
from collections.abc import Callable, Mapping

import numpy as np

# The parts of a name that say nothing here: how a piece is embedded in the harness's GPT, or its place in a block of
# problem 40. What the harness's GPT has itself is found by its whole name.
_INSIDE = ("piece", "feed_forward_override", "ff")
_NAMES = {
    "embed.embedding": "embed",
    "norm_f.scale": "ln_f.scale",
    "blocks.norm1.scale": "blocks.ln1.scale",
    "blocks.norm2.scale": "blocks.ln2.scale",
    "blocks.gate_proj.kernel": "blocks.gate.kernel",
    "blocks.up_proj.kernel": "blocks.ff1.kernel",
    "blocks.down_proj.kernel": "blocks.ff2.kernel",
    "blocks.attn.q_norm": "blocks.attn.q_norm.scale",
    "blocks.attn.k_norm": "blocks.attn.k_norm.scale",
    "blocks.attn.o_proj.bias": "blocks.attn.out.bias",
}
# The parameter with each of them, and its place there: with grouped heads, queries are on their own.
_HEADS: dict[str, tuple[tuple[str, int | None], ...]] = {
    "blocks.attn.q_proj": (("qkv", 0), ("q", None)),
    "blocks.attn.k_proj": (("qkv", 1), ("kv", 0)),
    "blocks.attn.v_proj": (("qkv", 2), ("kv", 1)),
}
_OUTPUTS = ("blocks.attn.out_proj.kernel", "blocks.attn.o_proj.kernel")


def for_pieces(own: Mapping[str, np.ndarray], vocab_size: int) -> Callable[[str], np.ndarray | None]:
    """Finds a parameter of the harness's GPT by its dotted name in a model with pieces of problems 37 to 40 and 71.

    Returns None where there is none. `own` has them by the harness's names, with the layers stacked. The blocks of
    `ModernGPT` have their number in the name.
    """
    # The blocks of ModernGPT are asked for one by one, and each is a part of a stacked array.
    remembered = functools.cache(own.get)

    def find(name: str) -> np.ndarray | None:
        if (whole := own.get(name)) is not None and name != "embed":
            return whole
        words = [word for word in name.split(".") if word not in _INSIDE]
        layers = [int(word) for word in words if word.isdecimal()]
        path = ".".join(word for word in words if not word.isdecimal())
        found = _stacked(path, remembered if layers else own.get)
        if found is None:
            return None
        if path == "embed.embedding":
            return found[:vocab_size]
        return found[layers[0]] if layers else found

    return find


def _stacked(path: str, read: Callable[[str], np.ndarray | None]) -> np.ndarray | None:
    """The parameter at a path of the pieces, of all layers. The heads of an attention are joined."""
    if path in _OUTPUTS:
        out_LHKD = read("blocks.attn.out.kernel")
        return None if out_LHKD is None else out_LHKD.reshape(len(out_LHKD), -1, out_LHKD.shape[-1])
    layer, _, kind = path.rpartition(".")
    if layer not in _HEADS:
        return read(_NAMES.get(path, path))
    for name, place in _HEADS[layer]:
        found = read(f"blocks.attn.{name}.{kind}")
        if found is not None:
            before = found.ndim - (2 if place is None else 3)  # axes before those of q, k and v, and of the heads
            of_heads = found if place is None else np.take(found, place, axis=before)
            return of_heads.reshape(*of_heads.shape[:before], -1)
    return None
