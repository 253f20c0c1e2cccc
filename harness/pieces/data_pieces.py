"""The pieces that make tokens of texts, and rows of tokens, also rows of several stories."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from harness.config import HUGGING_FACE
from harness.data.tokenizer import get_tokenizer
from harness.data.tokenizer_json import END_OF_TEXT
from harness.pieces import adapt
from harness.pieces.adapt import PAD_ID
from harness.pieces.smoke_tests import IDS, SEGMENTS, D, SmokeTestError, T, X, check_output
from harness.pieces.spec import Setup, Use, has_segments, only, piece, unless_done_by, unless_segments


def _tokenize(run: Setup) -> Use:
    has_marks = run.config.data.partition(":")[0] == "tools"
    return only(not has_marks, "unless the texts have marks, as those of data=tools")


@piece("p15_tokenize_and_pack", use=_tokenize)
def tokenize(tokenize: Any) -> None:
    encoding = get_tokenizer("pocket-2k")
    ids = np.asarray(tokenize(f"One day.{END_OF_TEXT}Two.", encoding))
    if ids.ndim != 1 or list(ids).count(encoding.eot_token) != 2:
        raise SmokeTestError("did not end each of two stories with the end-of-text id.")


@piece("p15_tokenize_and_pack", use=lambda run: unless_segments(run, Use(True)))
def pack(pack: Any) -> None:
    windows = np.asarray(pack(np.arange(7, dtype=np.int32), 3, PAD_ID))
    if windows.shape != (3, 3):
        raise SmokeTestError(f"gave windows of shape {windows.shape} for 7 ids and width 3; (3, 3) was expected.")


@piece("p16_data_pipeline")
def make_loader(make_loader: Any) -> None:
    loader = make_loader(np.arange(24, dtype=np.int32).reshape(8, 3), 2, 0, 0, 2)
    first, state = np.asarray(next(loader)), loader.get_state()
    loader.set_state(state)
    if first.shape != (2, 3):
        raise SmokeTestError(f"gave a batch of shape {first.shape}; two rows of three ids were expected.")


def _encode(run: Setup) -> Use:
    has_own_tokenizer = not run.config.tokenizer.startswith(HUGGING_FACE) and not run.config.chat
    return only(has_own_tokenizer, "for prompts, if the tokenizer is not that of a model")


@piece("p53_encode_decode", use=_encode)
def encode(encode: Any) -> None:
    ids = encode("lower low", {bytes([byte]): byte for byte in range(256)} | {b"lo": 256, b"low": 257}, {})
    if not isinstance(ids, list) or ids != [257, *b"er ", 257]:
        raise SmokeTestError(f"returned {ids!r:.80} for 'lower low' and the tokens `lo` and `low`.")


@piece("p55_near_duplicates", use=lambda run: only(False, "by `harness duplicates`"))
def deduplicate(deduplicate: Any) -> None:
    """Three texts, of which two are equal."""
    texts, hashes = ["a cat sat", "a dog ran", "a cat sat"], np.arange(1, 9)
    kept = deduplicate(texts, 2, hashes, hashes, 4, 0.5)
    if [*kept] != [0, 1]:
        raise SmokeTestError(f"returned {kept!r:.60} for three texts of which the last is the first.")


def _in_segments(run: Setup) -> Use:
    return only(has_segments(run.config), "with packing=segments")


@piece("p54_segment_packing", use=_in_segments)
def pack_stories(pack: Any) -> None:
    stories = [np.full(length, 10 * length, np.int32) for length in (5, 6, 3)]
    shapes = [np.shape(array) for array in pack(stories, 8, PAD_ID)]
    if shapes != [(2, 8)] * 2:
        raise SmokeTestError(
            f"returned arrays of shapes {shapes} for stories of 5, 6 and 3 ids in rows of 8; two of (2, 8) were "
            "expected."
        )


def _check_for_segments(function: Any, shape: tuple[int, ...], kind: Any) -> None:
    """Calls a function of segment ids for two rows, under vmap."""
    value = jax.jit(jax.vmap(function))(jnp.stack([SEGMENTS] * 2))
    if value.shape != shape or not (value.dtype == kind or jnp.issubdtype(value.dtype, kind)):
        got = f"{value.dtype}{list(value.shape)}"
        raise SmokeTestError(f"returned {got} for two rows of {T} segment ids; shape {shape} was expected.")


@piece("p54_segment_packing", adapter=lambda config, positions: jax.vmap(positions), use=_in_segments)
def segment_positions(positions: Any) -> None:
    _check_for_segments(positions, (2, T), jnp.integer)


@piece("p54_segment_packing", adapter=lambda config, targets: jax.vmap(targets), use=_in_segments)
def segment_targets(targets: Any) -> None:
    _check_for_segments(lambda segments: targets(IDS, segments), (2, T), jnp.integer)


def _within_segments(run: Setup) -> Use:
    return only(has_segments(run.config) and not run.config.window, "with packing=segments, if there is no window")


@piece(
    "p54_segment_packing",
    adapter=lambda config, mask: adapt.masked_attention(mask),
    use=lambda run: unless_done_by("segment_attention", run, _within_segments(run)),
)
def segment_mask(mask: Any) -> None:
    _check_for_segments(mask, (2, T, T), jnp.bool_)


@piece(
    "p54_segment_packing", adapter=lambda config, attention: adapt.segment_attention(attention), use=_within_segments
)
def segment_attention(attention: Any) -> None:
    """Calls the attention of one head, and traces its gradient, which takes seconds to compile."""

    def of(x_TD: Any) -> Any:
        out_TD = attention(x_TD, x_TD, x_TD, SEGMENTS, 2)
        return check_output(out_TD, (T, D), f"float32[{T}, {D}]", is_traced=True)

    check_output(jax.jit(of)(X), (T, D), f"float32[{T}, {D}]")
    jax.eval_shape(jax.grad(lambda x_TD: jnp.sum(of(x_TD))), X)
