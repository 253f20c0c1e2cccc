"""Problem 59, played: where the trained model decides between “Her” and “His”, read by the learner's lens."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import BadOutputError, ToyGPT
from grader.exhibits import Bar, Bars, Exhibits, HeatMap, LearnerModule, Plane, Table
from problems.stage.model import gpt, jitted
from problems.stage.weights import POCKET, build, encode, held_out, token

TEXT = "One day, a shy girl named Mia woke up early. Mia liked to play at the beach all day."
OTHER = "One day, a shy boy named Tom woke up early. Tom liked to play at the beach all day."
HER, HIS = (int(encode(word)[0]) for word in (" Her", " His"))
COLUMNS, NEURONS, STORIES, LENGTH, PLACES = 6, 6, 24, 96, 5
ROWS = ("embedding", *(f"block {number}" for number in range(1, POCKET.num_layers + 1)))
HEADS = tuple(f"head {number}" for number in range(1, POCKET.num_heads + 1))


def play(module: LearnerModule, text: str) -> Exhibits:
    """The lens on the end of a text, then which heads and neurons speak for one of two words."""
    model = build(lambda: ToyGPT(**POCKET.shape, context=POCKET.max_T), POCKET.arrays, "MiniGPT")
    graph, state = nnx.split(model)
    lens = jax.jit(lambda state, ids: module.logit_lens(nnx.merge(graph, state), ids))
    attribute = jax.jit(lambda state, ids, each: module.logit_parts(nnx.merge(graph, state), ids, each))
    own = jitted(gpt())
    ids_T = encode(text)[-POCKET.max_T :]
    logits_TV = own(ids_T)
    yield _map(lens(state, ids_T), ids_T, logits_TV)

    parts, totals = {}, []
    for name, ids in (("“" + text[-40:].partition(" ")[2] + "”", ids_T), ("the same with a boy, Tom", encode(OTHER))):
        words = [attribute(state, ids, jnp.int32(each)) for each in (HER, HIS)]
        _, heads_LH, neurons_LF, _ = parts[name] = jax.tree.map(jnp.subtract, *map(tuple, words))
        total, (her, his) = sum(map(jnp.sum, parts[name])), own(ids)[-1, jnp.array([HER, HIS])]
        totals.append(Bar(name, total, her - his))
        if np.shape(heads_LH) != (POCKET.num_layers, POCKET.num_heads) or np.ndim(neurons_LF) != 2:
            raise BadOutputError("`logit_parts` returned heads or neurons of another shape than (L, H) and (L, F)")
    off = max(bar.apart for bar in totals)
    yield Bars(
        "All parts together: the logit of “Her” minus that of “His”",
        tuple(totals),
        "logit",
        "The parts sum to what the model says: above 0 it prefers “Her”, below 0 “His”."
        if off < 0.01
        else f"The parts do not sum to what the model says; they are off by up to {off:.1f}. Some part is missing, "
        "counted twice, or goes through another norm.",
        names=("your parts", "the model"),
    )
    maps = [np.asarray(each[1]) for each in parts.values()]
    scale = float(max(np.abs(np.stack(maps)).max(), 0.1))
    layer, head = np.unravel_index(np.abs(maps[0] - maps[1]).argmax(), maps[0].shape)
    yield HeatMap(
        "What each head adds for “Her” against “His”",
        ROWS[1:],
        HEADS,
        tuple(Plane(each, name, tuple(tuple(f"{x:+.2f}" for x in row) for row in each))
              for each, name in zip(maps, parts, strict=True)),
        f"The two texts differ in a word and a name. Head {head + 1} of block {layer + 1} changes most, from "
        f"{maps[0][layer, head]:+.2f} to {maps[1][layer, head]:+.2f}"
        + (": it has read who the story is about." if off < 0.01 else ", by your parts, which do not sum to the "
            "logit."),
        "part of the logit",
        -scale,
        scale,
    )  # fmt: skip
    yield _neurons(np.asarray(next(iter(parts.values()))[2]), graph, state)


def _map(lens_LTV: jax.Array, ids_T: np.ndarray, logits_TV: jax.Array) -> HeatMap:
    """The likeliest words of each row of a lens at the last positions."""
    if np.shape(lens_LTV) != (POCKET.num_layers + 1, *logits_TV.shape):
        raise BadOutputError(
            f"`logit_lens` returned the shape {np.shape(lens_LTV)}; it must be "
            f"{(POCKET.num_layers + 1, *logits_TV.shape)}"
        )
    odds = np.asarray(jax.nn.softmax(lens_LTV[:, -COLUMNS:], axis=-1))
    off = float(np.abs(lens_LTV[-1] - logits_TV).max())
    return HeatMap(
        "What the model would say after each block, at the last words of the text",
        ROWS,
        tuple(token(each) for each in ids_T[-COLUMNS:]),
        (Plane(odds.max(-1), "", tuple(tuple(map(token, row)) for row in odds.argmax(-1))),),
        "From the embedding alone, it repeats the word that it sees. Block by block the guess becomes the answer: the "
        "last row is the model itself."
        if off < 0.01
        else f"The last row should be the model itself, but its logits differ by up to {off:.1f}: this lens reads "
        "something else than the head does.",
        "probability",
    )


def _hidden(model: Any, ids_T: jax.Array) -> jax.Array:
    """The neurons of all blocks on a text, (T, L, F), by the course's own forward pass."""
    x_TD, hidden = model.embed(ids_T) + model.pos_embed[: len(ids_T)], []
    for block in model.blocks:
        attn, normal_TD = block.attn, block.ln1(x_TD)
        q, k, v = (f(normal_TD).reshape(len(x_TD), attn.num_heads, -1) for f in (attn.q_proj, attn.k_proj, attn.v_proj))
        x_TD = x_TD + attn.out_proj(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x_TD.shape))
        hidden.append(jax.nn.relu(block.ff1(block.ln2(x_TD))))
        x_TD = x_TD + block.ff2(hidden[-1])
    return jnp.stack(hidden, axis=1)


def _neurons(neurons_LF: np.ndarray, graph: Any, state: Any) -> Table:
    """The neurons with the largest parts, and after which words of unseen stories each is strongest."""
    ids_NT = np.stack([ids[:LENGTH] for ids in held_out(STORIES)])
    fires = jax.jit(lambda state: jax.vmap(lambda ids: _hidden(nnx.merge(graph, state), ids))(ids_NT))(state)
    fires_TLF = np.concatenate(fires)
    words = [
        token(a) + token(b) for ids in ids_NT for a, b in zip(ids[:1].tolist() + ids[:-1].tolist(), ids, strict=True)
    ]
    table = []
    for place in np.argsort(-np.abs(neurons_LF), axis=None)[:NEURONS]:
        layer, neuron = np.unravel_index(place, neurons_LF.shape)
        best = np.argsort(-fires_TLF[:, layer, neuron])
        seen = list(dict.fromkeys(words[t].strip().replace("\n", "⏎") for t in best[:40]))[:PLACES]
        table.append((f"{neuron} of block {layer + 1}", f"{neurons_LF[layer, neuron]:+.2f}", " │ ".join(seen)))
    return Table(
        "The neurons that add most for “Her” or “His”",
        ("neuron", "its part", "where it is strongest in unseen stories, the last two tokens"),
        tuple(table),
        f"{np.abs(neurons_LF).sum():.1f} in all, over {neurons_LF.size:,} neurons: no single one decides.",
    )
