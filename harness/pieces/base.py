"""The parameters of a base in Hugging Face's format, under the names that the course's pieces have."""

import functools
from collections.abc import Callable, Iterator, Mapping

import numpy as np

# The parts of a name that say nothing here: how a piece is embedded in the harness's GPT, or its place in a block of problem 40.
_INSIDE = ("piece", "feed_forward_override", "ff")
_NAMES = {
    "embed.embedding": "embed",
    "norm_f.scale": "ln_f.scale",
    "blocks.norm1.scale": "blocks.ln1.scale",
    "blocks.norm2.scale": "blocks.ln2.scale",
    "blocks.gate_proj.kernel": "blocks.gate.kernel",
    "blocks.up_proj.kernel": "blocks.ff1.kernel",
    "blocks.down_proj.kernel": "blocks.ff2.kernel",
}
_HEADS = {f"blocks.attn.{name}_proj.kernel": place for place, name in enumerate("qkv")}


class ForPieces(Mapping[str, np.ndarray]):
    """The parameters of the harness's GPT, by their dotted names in a model with pieces of problems 37 to 40.

    `own` has them by the harness's names, with the layers stacked. The blocks of `ModernGPT` have their number in the name.
    """

    def __init__(self, own: Mapping[str, np.ndarray], vocab_size: int):
        self._own, self._names, self._vocab_size = own, set(own), vocab_size
        # The blocks of ModernGPT are asked for one by one, and each is a part of a stacked array.
        self._read = functools.lru_cache(maxsize=None)(own.__getitem__)

    def __getitem__(self, name: str) -> np.ndarray:
        words = [word for word in name.split(".") if word not in _INSIDE]
        layers = [int(word) for word in words if word.isdecimal()]
        path = ".".join(word for word in words if not word.isdecimal())
        if layers:
            return self._stacked(path, self._read)[layers[0]]
        return self._stacked(path, self._own.__getitem__)

    def _stacked(self, path: str, read: Callable[[str], np.ndarray]) -> np.ndarray:
        if path == "blocks.attn.out_proj.kernel":
            out_LHKD = read("blocks.attn.out.kernel")
            return out_LHKD.reshape(len(out_LHKD), -1, out_LHKD.shape[-1])
        if path not in _HEADS:
            array = read(_NAMES.get(path, path))
            return array[: self._vocab_size] if path == "embed.embedding" else array
        place = _HEADS[path]
        if "blocks.attn.qkv.kernel" in self._names:
            kernel_LDHK = read("blocks.attn.qkv.kernel")[:, :, place]
        elif place == 0:
            kernel_LDHK = read("blocks.attn.q.kernel")
        else:
            kernel_LDHK = read("blocks.attn.kv.kernel")[:, :, place - 1]
        return kernel_LDHK.reshape(*kernel_LDHK.shape[:2], -1)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
