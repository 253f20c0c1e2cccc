"""Problem 65, played: the trained model writes by a rule, with the learner's automaton and masks."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import BadOutputError
from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Story, Table, Token
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, POCKET, TOKENIZER, encode, token

PROMPT = "Once upon a time, there was"
SMALL, CAPITAL = ("byte", bytes(range(97, 123))), ("byte", bytes(range(65, 91)))
DIGIT = ("byte", b"0123456789")
WINDOW, SHOWN = 64, 6


def row(text: str) -> tuple[Any, ...]:
    return ("then", *(("byte", bytes([each])) for each in text.encode()))


def either(*texts: str) -> tuple[Any, ...]:
    return ("or", *map(row, texts))


def up_to(count: int, part: tuple[Any, ...]) -> tuple[Any, ...]:
    return ("or", ("then",), ("then", part, up_to(count - 1, part))) if count else ("then",)


RULE = (
    "then", row(" a "), SMALL, up_to(8, SMALL), either(" fox", " robot", " volcano"), row(" "
        "called "), CAPITAL, up_to(7, SMALL),
    row(", who had "), DIGIT, up_to(2, DIGIT), either(" friends", " red hats", " xylophones"), row("."),
)  # fmt: skip
READ = "a [a-z]+ (fox|robot|volcano) called [A-Z][a-z]*, who had [0-9]+ (friends|red hats|xylophones)."
VOCABULARY = [
    b"<|endoftext|>" if each == END else TOKENIZER.decode_single_token_bytes(each) for each in range(POCKET.vocab_size)
]


def play(module: LearnerModule) -> Exhibits:
    """The table, what the model writes with it and without it, and the odds of one step."""
    transitions, accepting = (np.asarray(each) for each in module.build_automaton(RULE))
    table = np.asarray(module.token_transitions(transitions, accepting, VOCABULARY, END))
    if table.shape != (len(transitions), len(VOCABULARY)):
        raise BadOutputError(
            f"`token_transitions` returned the shape {table.shape}; it must be {(len(transitions), len(VOCABULARY))}"
        )
    model, given = jitted(gpt()), encode(PROMPT).tolist()
    window = np.zeros(WINDOW, np.int32)

    def next_logits(ids: Sequence[int]) -> np.ndarray:
        ids = [*given, *map(int, ids)][:WINDOW]
        window[: len(ids)] = ids
        return np.asarray(model(jnp.asarray(window))[len(ids) - 1])

    ids = list(module.constrained_text(next_logits, table, END, 40))
    written = b"".join(VOCABULARY[each] for each in ids)
    yield Story(
        "What the model writes by the rule",
        _tokens(module, given, ids, next_logits, table),
        f"The rule is “{READ}”. " + _verdict(written, transitions, accepting)
        + " A token is shaded by how little of the model's own probability the rule leaves. What is likelier is what "
        "the model would write there without the rule.",
        given=len(given), meaning="bits that the rule takes", separated=True,
    )  # fmt: skip
    free: list[int] = []
    while len(free) < len(ids) and (not free or free[-1] != END):
        free.append(int(next_logits(free).argmax()))
    yield Story(
        "What it writes without a rule",
        tuple(Token(token(each)) for each in [*given, *free]),
        "A nice beginning, but no program could read a number from it.",
        given=len(given),
    )
    counts = (table >= 0).sum(axis=1)
    state = 0
    rows: list[tuple[str, ...]] = []
    for each in ids[:12]:
        some_allowed = np.flatnonzero(table[state] >= 0)
        likeliest = some_allowed[np.argsort(-next_logits(ids[: len(rows)])[some_allowed])][:4]
        rows.append(
            (
                repr(token(each)),
                str(state),
                f"{counts[state]:,}",
                " │ ".join(token(one).strip() or "␣" for one in likeliest),
            )
        )
        state = int(table[state, each])
    yield Table(
        f"The first steps: {len(transitions)} states, {len(VOCABULARY):,} tokens",
        ("token", "in state", "allowed", "the likeliest of them"),
        tuple(rows),
        "The rule speaks of bytes, the model of tokens. Your table says which tokens each state allows, pieces of "
        "words among them.",
    )
    place = next((n for n in range(len(ids)) if counts[_state(table, ids[:n])] > 3), 0)
    logits, states = next_logits(ids[:place]), table[_state(table, ids[:place])]
    odds = np.asarray(module.constrained_probabilities(jnp.asarray(logits), jnp.asarray(states)))
    plain = np.asarray(jax.nn.softmax(logits))
    best = np.argsort(-np.where(states >= 0, plain, -1))[:SHOWN]
    ratios = odds[best] / np.maximum(plain[best], 1e-30)
    yield Bars(
        f"The odds after “{''.join(map(token, given[-2:] + ids[:place]))}”",
        tuple(Bar(token(each).strip() or "␣", odds[each], plain[each]) for each in best),
        "probability",
        f"Your probabilities sum to {odds.sum():.3g}."
        if not abs(odds.sum() - 1) < 1e-3
        else "The allowed tokens keep their odds relative to each other, and together they have all of the probability."
        if np.ptp(ratios) < 1e-3 * ratios.max() and odds[states < 0].max(initial=0) < 1e-6
        else "Your probabilities sum to 1, but the allowed tokens do not keep their odds, or others have some.",
        names=("by the rule", "the model"),
    )


def _state(table: np.ndarray, ids: Sequence[int]) -> int:
    state = 0
    for each in ids:
        state = int(table[state, each])
    return state


def _tokens(
    module: LearnerModule, given: list[int], ids: list[int], next_logits: Callable[..., np.ndarray], table: np.ndarray
) -> tuple[Token, ...]:
    """The tokens of a text, with the bits of probability that the rule takes from the model at each."""
    tokens, state = [Token(token(each)) for each in given], 0
    for place, each in enumerate(ids):
        odds = np.asarray(jax.nn.softmax(next_logits(ids[:place])))
        left = float(odds[table[state] >= 0].sum())
        best = int(odds.argmax())
        others = ((token(best), float(odds[best])),) if best != each else ()
        tokens.append(Token(token(each), min(-np.log2(max(left, 1e-9)), 20.0), None, others))
        state = int(table[state, each])
    return tuple(tokens)


def _verdict(written: bytes, transitions: np.ndarray, accepting: np.ndarray) -> str:
    """Whether a text follows the rule, by the table of bytes."""
    state = 0
    for byte in written:
        state = int(transitions[state, byte]) if state >= 0 else -1
    if state >= 0 and accepting[state]:
        return "The text follows it to the end."
    return "The text does not follow it to the end: some token broke the rule, or led to a dead end."
