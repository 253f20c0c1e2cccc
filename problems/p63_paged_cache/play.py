"""Problem 63, played: four answers to one prompt, in the learner's blocks, by the trained model."""

import jax
import jax.numpy as jnp
import numpy as np

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Story, Table, Token
from problems.stage.model import gpt, jitted
from problems.stage.weights import END, POCKET, encode, token

TEXT = "Once upon a time, there was a brave girl named Lily. Lily lived near the"
SIZE, BLOCKS, ANSWERS, TOKENS, LONGEST, TEMPERATURE = 8, 40, 4, 30, POCKET.max_T, 0.9
H, K = POCKET.num_heads, POCKET.d_model // POCKET.num_heads


def play(module: LearnerModule, text: str) -> Exhibits:
    """The tables of the answers, what they cost, and the attention over the blocks beside the plain one."""
    prompt, model, rng = encode(text)[:100].tolist(), jitted(gpt()), np.random.default_rng(3)
    manager = module.BlockManager(BLOCKS, SIZE)
    cache = np.full((BLOCKS, SIZE), -1)  # the tokens whose keys and values a place would hold
    manager.start("0", len(prompt))
    for place, each in enumerate(prompt):
        cache[manager.table("0")[place // SIZE], place % SIZE] = each
    names = [str(number) for number in range(ANSWERS)]
    for name in names[1:]:
        manager.fork("0", name)
    texts, copies = {name: list(prompt) for name in names}, 0
    window = np.zeros(LONGEST, np.int32)
    for _ in range(TOKENS):
        for name in names:
            ids = texts[name]
            if ids[-1] == END:
                continue
            window[: len(ids)] = ids
            logits = np.asarray(model(jnp.asarray(window)))[len(ids) - 1] / TEMPERATURE
            ids.append(int((logits + rng.gumbel(size=len(logits))).argmax()))
            block, offset, source = manager.append(name)
            if source >= 0:
                cache[block] = cache[source]
                copies += 1
            cache[block, offset] = ids[-1]
    rows, wrong = [], []
    for name in names:
        table = manager.table(name)
        held = cache[table].ravel()[: len(texts[name])].tolist()
        if held != texts[name]:
            wrong.append((name, held))
        rows.append(
            (name, " ".join(map(str, table)), "".join(map(token, texts[name][len(prompt) :])).replace("\n", "⏎")[:60])
        )
    shared = sorted(set.intersection(*(set(manager.table(name)) for name in names)))
    yield Table(
        f"{ANSWERS} answers to one prompt of {len(prompt)} tokens, in blocks of {SIZE}",
        ("answer", "its table", "what it says"),
        tuple(rows),
        f"All tables begin with the same blocks, {' '.join(map(str, shared))}: the prompt is there once. {copies} "
        "copies were made, when an answer first wrote into the block that the prompt had left half full."
        if shared
        else "No block belongs to all answers: the prompt is stored again for each.",
    )
    if wrong:
        name, held = wrong[0]
        yield Story(
            f"What the blocks of answer {name} hold",
            tuple(
                Token(token(each) if each >= 0 else " … ", None, int(place >= len(prompt)))
                for place, each in enumerate(held)
            ),
            "This is not what the answer says: another one has written into its blocks.",
            kinds=("prompt", "answer"),
        )
    used, lengths = BLOCKS - manager.free_blocks(), [len(ids) for ids in texts.values()]
    alone = sum(-(-length // SIZE) * SIZE for length in lengths)
    yield Bars(
        "Places for keys and values",
        (Bar("in use", sum(lengths), None), Bar("your blocks", used * SIZE, None), Bar("a prompt each", alone),
         Bar(f"{LONGEST} places each", ANSWERS * LONGEST)),
        "tokens",
        "Shared blocks count once, so less is reserved than the answers have tokens."
        if used * SIZE <= sum(lengths)
        else "The last block of each answer is partly empty, and that is all that is wasted.",
    )  # fmt: skip
    yield _attention(module, cache, manager.table("1"), len(texts["1"]))


def _attention(module: LearnerModule, cache: np.ndarray, table: list[int], length: int) -> Bars:
    """How far attention over the blocks is from attention over the sequence. Places without a token hold NaN."""
    rows = jax.random.normal(jax.random.key(0), (2, *cache.shape, H, K))
    keys, values = (jnp.where((cache >= 0)[..., None, None], x, jnp.nan) for x in rows)
    q = 2 * jax.random.normal(jax.random.key(1), (H, K))
    padded = np.pad(table, (0, 24 - len(table)), constant_values=-1)
    out = module.paged_attention(q, keys, values, jnp.asarray(padded), jnp.int32(length))
    k, v = (x[np.array(table)].reshape(-1, H, K)[:length] for x in (keys, values))
    plain = jax.nn.dot_product_attention(q[None], k, v)[0]
    off = float(jnp.abs(out - plain).max())
    return Bars(
        "Attention over the blocks of answer 1: the size of each head's output",
        tuple(
            Bar(f"head {number + 1}", jnp.linalg.norm(out[number]), jnp.linalg.norm(plain[number]))
            for number in range(H)
        ),
        "size",
        "The same as over one array, although the blocks lie apart and the places behind the last token hold NaN."
        if off < 1e-3
        else "Some numbers are NaN: what is behind the last token, or in another block, gets in."
        if not np.isfinite(off)
        else f"It is not the attention of this sequence; numbers differ by up to {off:.2g}.",
        names=("your blocks", "one array"),
    )
