"""Problem 53, played: what the trained model reads when the learner's functions encode its stories."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Story, Table, Token
from harness.data.pocket import story
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, END_TEXT, POCKET, TOKENIZER, token

TEXT = "Once upon a time, there was a little dragon named Zoë. She couldn't find her wonderful umbrella."
RANKS = {TOKENIZER.decode_single_token_bytes(i): i for i in range(TOKENIZER.n_vocab) if i != END}
SPECIAL = {END_TEXT: END}
VOCABULARIES = (256, 320, 512, 1024, len(RANKS))
WORD = " wonderful"
CHUNKS = (1, 3, 16, 64)  # bytes
HELD_OUT = 1_000_003  # a story that no run trains on


def play(module: LearnerModule, text: str) -> Exhibits:
    """A text in tokens, a word under larger and larger vocabularies, and a story as the model reads it."""
    ids = list(map(int, module.encode(text, RANKS, SPECIAL)))
    expected = TOKENIZER.encode(text, allowed_special="all")
    back = (
        "Decoded, they give the text again."
        if module.decode(ids, RANKS, SPECIAL) == text
        else "Decoded, they do not give the text."
    )
    alike = "tiktoken gives the same." if ids == expected else f"tiktoken gives {len(expected)} other ones."
    yield Story(
        "A text in the tokens of the trained model, by your functions",
        tuple(Token(token(each)) for each in ids[:600]),
        f"{len(text.encode())} bytes, {len(ids)} tokens. {alike} {back} A letter that is no token of its own, such "
        "as ë, is two tokens, shown as �.",
        separated=True,
    )
    rows = []
    for size in VOCABULARIES:
        ranks = {each: rank for each, rank in RANKS.items() if rank < size}
        pieces = [token(int(each)) for each in module.encode_word(WORD.encode(), ranks)]
        rows.append((f"{size:,}", f"{len(pieces)}", " │ ".join(pieces).replace(" ", "␣", 1)))
    yield Table(
        f"The word “{WORD.strip()}” with the first ranks only",
        ("tokens in the vocabulary", "tokens of the word", "the word"),
        tuple(rows),
        "Low ranks were merged first in training: frequent pairs of letters. Higher ranks join them to syllables, and "
        "at last to the whole word, in the same order.",
    )
    unseen = story(HELD_OUT) + END_TEXT
    data = unseen.encode()
    right = bits_per_byte(TOKENIZER.encode(unseen, allowed_special="all"), data)
    bars = []
    for size in CHUNKS:
        chunks = [data[i : i + size] for i in range(0, len(data), size)]
        streamed = list(module.encode_stream(iter(chunks), RANKS, SPECIAL))
        apart = [each for chunk in chunks for each in module.encode(chunk.decode(errors="replace"), RANKS, SPECIAL)]
        bars.append(Bar(f"chunks of {size} B", bits_per_byte(streamed, data), bits_per_byte(apart, data)))
    worst = max((bar.value for bar in bars), key=lambda value: abs(value - right))
    yield Bars(
        "How much a story surprises the trained model, as your functions encode it",
        tuple(bars),
        "bits per byte",
        f"With the tokens that the model was trained on, it is {right:.3f}. "
        + (
            "Your stream gives these, however it is cut. Chunks that are encoded on their own give others, which the "
            "model never saw in training."
            if abs(worst - right) < 1e-3
            else f"With yours, it is {worst:.3f} where the stream is cut in one of these ways: the model never saw "
            "words in these pieces."
        ),
        names=("your stream", "your `encode` of each chunk on its own"),
    )


def bits_per_byte(ids: Sequence[int], data: bytes) -> float:
    """How many bits the trained model needs for a text of these bytes in these ids, after the first, per byte."""
    ids_T = np.array([int(each) for each in ids], np.int32)[: POCKET.max_T]
    if len(ids_T) < 2:
        return 0.0
    window_T = np.zeros(POCKET.max_T, np.int32)
    window_T[: len(ids_T)] = ids_T
    log_p_TV = jax.nn.log_softmax(jitted(gpt())(jnp.asarray(window_T)))
    log_p = np.take_along_axis(np.asarray(log_p_TV)[: len(ids_T) - 1], ids_T[1:, None], axis=1)
    read = len(TOKENIZER.decode_bytes(ids_T[1:].tolist())) if len(ids) > POCKET.max_T else len(data)
    return float(-log_p.sum() / np.log(2)) / read
