"""Problem 52, played: a table of counts drafts, the trained model checks, and the learner's rule decides what stays."""

from collections import Counter, defaultdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Story, Token
from harness.data.pocket import stories
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, POCKET, PROMPT, encode, token

DRAFTED, TOKENS, TEMPERATURE = 4, 100, 0.7
TEXT = "Mia liked to play at the"
SHOWN = 6  # tokens of a distribution
KINDS = ("prompt", "drafted and accepted", "drawn after a rejection", "bonus")
COUNTS: dict[Any, Counter[int]] = defaultdict(Counter)  # which tokens follow two tokens, or one
for _ids in (encode(story).tolist() for story in stories(300)):
    for _before, _between, _after in zip(_ids, _ids[1:], [*_ids[2:], END], strict=False):
        COUNTS[_before, _between][_after] += 1
        COUNTS[_between][_after] += 1


def play(module: LearnerModule, text: str) -> Exhibits:
    """A story written this way, then what the rule does to the odds of one token."""
    model, window_T = jitted(gpt()), np.zeros(POCKET.max_T, np.int32)

    def target(ids: list[int]) -> np.ndarray:
        window_T[: len(ids)] = ids
        return np.asarray(jax.nn.softmax(model(jnp.asarray(window_T)) / TEMPERATURE))[: len(ids)]

    rng, ids = np.random.default_rng(1), encode(PROMPT).tolist()
    tokens, runs = [Token(token(each), kind=0) for each in ids], 0
    while len(tokens) < TOKENS and ids[-1] != END:
        rows = []
        for _ in range(DRAFTED):
            rows.append(draft(ids))
            ids.append(int(rng.choice(len(rows[-1]), p=rows[-1] / rows[-1].sum())))
        drafted, known = ids[-DRAFTED:], len(ids) - DRAFTED
        target_NV = target(ids)[known - 1 :]
        uniforms = rng.random(DRAFTED + 1).astype(np.float32)
        emitted, count = module.speculative_step(*map(jnp.asarray, (target_NV, rows, drafted, uniforms)))
        ids, runs = ids[:known], runs + 1
        for place, each in enumerate(np.asarray(emitted)[: int(count)].tolist()):
            last = place == int(count) - 1
            kind = 1 if not last else 2 if place < DRAFTED else 3
            others: tuple[tuple[str, float], ...] = ()
            if kind == 2:
                others = ((f"rejected: {token(drafted[place])}", float(target_NV[place, drafted[place]])),)
            tokens.append(Token(token(each), None, kind, others))
            ids.append(each)
            if each == END:
                break
    written = len(tokens) - len(encode(PROMPT))
    yield Story(
        "A story that a table drafts and the trained model checks, by your rule",
        tuple(tokens),
        f"{written} tokens in {runs} runs of the model: {written / runs:.1f} tokens a run. A table that counts which "
        f"token follows which two drafts {DRAFTED} tokens at a time, for nearly nothing.",
        given=len(encode(PROMPT)),
        kinds=KINDS,
    )

    ids = encode(f"  {text}").tolist()
    p_V, q_V = jnp.asarray(target(ids)[-1]), jnp.asarray(draft(ids))
    drafted = np.flatnonzero(np.asarray(q_V))
    N = len(drafted)
    accepted = module.acceptance_probabilities(jnp.stack([p_V] * (N + 1)), jnp.stack([q_V] * N), jnp.asarray(drafted))
    kept_V = np.asarray(q_V.at[drafted].multiply(accepted))
    emitted_V = kept_V + (1 - kept_V.sum()) * np.asarray(module.residual_distribution(p_V, q_V))
    best = np.argsort(-np.asarray(p_V))[:SHOWN]
    wrong = float(np.abs(emitted_V - p_V).sum() / 2)
    yield Bars(
        f"The odds of the token after “… {text[-26:]}”",
        tuple(Bar(f"{token(each).strip()} (draft {q_V[each]:.0%})", emitted_V[each], p_V[each]) for each in best),
        "probability",
        "With your acceptance probabilities and your residual, every token has exactly the odds of the model, although "
        "the draft believes something else. A step that follows them is faster, and changes nothing in the story."
        if wrong < 1e-3
        else f"Your acceptance probabilities and your residual move {wrong:.1%} of the odds to other tokens: the draft "
        "changes what the model says.",
        names=("by your functions", "the model"),
    )


def draft(ids: list[int]) -> np.ndarray:
    """The odds of the next token by the counts, (V,)."""
    counts = COUNTS.get((ids[-2], ids[-1])) or COUNTS.get(ids[-1]) or {END: 1}
    odds_V = np.zeros(POCKET.vocab_size, np.float32)
    odds_V[list(counts)] = list(counts.values())
    return odds_V / odds_V.sum()
