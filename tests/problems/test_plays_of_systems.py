"""What the plays of systems, kernels, serving and the inside of a model show: what is true, and what wrong files do."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.problems.test_plays import Shown, attention, bits, opening, own_story, shown

pytestmark = pytest.mark.thorough  # minutes of compiling; `grade verify` plays each reference, too


def lines(exhibit) -> dict[str, np.ndarray]:
    """The curves of a chart by name."""
    return {line.name: np.array(line.y) for line in exhibit.lines}


def bars(exhibit) -> list[float]:
    return [bar.value for bar in exhibit.bars]


def equal_bars(exhibit, tolerance: float = 1e-3) -> bool:
    """Whether what is the learner's equals what it is compared with."""
    return all(abs(bar.value - bar.other) < tolerance for bar in exhibit.bars)


def _whole_and_resumed_are_one(exhibits: Shown) -> bool:
    whole, resumed = lines(exhibits[0]).values()
    return whole[-len(resumed) :].tolist() == resumed.tolist() and whole[-1] < whole[0]


def _unseen_keys_are_used_by_nobody(exhibits: Shown) -> bool:
    turns, weights, memory = exhibits
    held = [[int(text.removeprefix("of ")) for text in row] for row in turns.planes[0].texts]
    ring, plain = lines(memory).values()
    return (
        all(sorted(column) == list(range(8)) for column in zip(*held, strict=True))
        and np.allclose(attention(weights).sum(-1), 1, atol=1e-3)
        and not np.triu(attention(weights)[0], 1).any()
        and ring[-1] < plain[-1] / 8
    )


def _stack_does_not_grow(exhibits: Shown) -> bool:
    counts = lines(exhibits[0])["your stack"]
    return counts[-1] < 1.1 * counts[0] and own_story(60, opening(exhibits[1])) == exhibits[1].text


PROPERTIES: dict[str, Callable[[Shown], bool]] = {
    "17": _stack_does_not_grow,
    "18": lambda shown: equal_bars(shown[0]) and lines(shown[1])["your chunks of 32"][-1] < 1e7,
    "20": lambda shown: (
        "largest difference" in shown[2].caption and shown[1].bars[0].value < shown[1].bars[0].other / 3
    ),
    "21": lambda shown: (
        lines(shown[2])["eight devices"][-1] < 2
        and "lie on each other" in shown[2].caption
        and shown[0].planes[0].values[-1] == (0.25,) * 8
    ),
    "22": lambda shown: (
        7.9 < shown[1].bars[0].other / shown[1].bars[0].value < 8.1
        and any("gather" in bar.label for bar in shown[2].bars)
    ),
    "23": lambda shown: (
        [row[3] for row in shown[0].rows][::2] == ["1.000", "1.000"] and 0.9 < float(shown[0].rows[1][3]) < 1.1
    ),
    "25": lambda shown: (
        _whole_and_resumed_are_one(shown) and {row[1] for row in shown[2].rows} == {"raises ValueError"}
    ),
    "26": lambda shown: _whole_and_resumed_are_one(shown) and all(row[1] == row[2] for row in shown[1].rows),
    "27": lambda shown: (
        bars(shown[3])[2] == pytest.approx(2 * bars(shown[3])[0], rel=1e-3) and "bit for bit" in shown[3].caption
    ),
    "28": lambda shown: shown[1].text.startswith(own_story(60, opening(shown[1]))),
    "33": lambda shown: {row[0] for row in shown[0].rows if not row[2]} == {"mean"} and "a tenth" in shown[1].caption,
    "34": lambda shown: bars(shown[0])[2] == bars(shown[0])[3] < 1 and "too." in shown[1].caption,
    "35": lambda shown: (
        ["traced" in bar.label for bar in shown[0].bars] == [True, *[False] * 3, True, False, False]
        and len(set(shown[3].planes[0].values)) == 4
    ),
    "36": lambda shown: equal_bars(shown[1], 0.02) and shown[0].planes[0] != shown[0].planes[1],
    "43": lambda shown: (
        np.divide(*(y[-1] for y in lines(shown[0]).values())) < 0.1
        and shown[2].text == own_story(45, "Once there was a clever")
    ),
    "44": lambda shown: shown[0].rows[0][1] == "5" and "Every row" in shown[1].caption and bits(shown[2]) < 1,
    "45": lambda shown: 3.5 < shown[0].bars[0].other / shown[0].bars[0].value < 4 and "far below" in shown[2].caption,
    "76": lambda shown: (
        equal_bars(shown[0], 0.05)
        and lines(shown[1])["at random"][-1] < lines(shown[1])["to nearest"][-1] / 5
        and "off by about as much" in shown[2].caption
    ),
    "47": lambda shown: max(bars(shown[4])) < 1e-4 and [len(each.bars) for each in shown[1:4]] == [1, 2, 1],
    "49": _unseen_keys_are_used_by_nobody,
    "52": lambda shown: equal_bars(shown[1]) and sum(token.kind == 1 for token in shown[0].tokens) > 20,
    "59": lambda shown: (
        equal_bars(shown[1], 0.01)
        and shown[0].planes[0].texts[-1][-1] == " Her"
        and shown[2].planes[0].values[2][3] > 1 > -1 > shown[2].planes[1].values[2][3]
    ),
    "60": lambda shown: (
        equal_bars(shown[0], 0.01)
        and max(shown[1].planes[0].values[0]) > 0.7 < shown[1].planes[0].values[1][-1]
        and "The name itself no longer matters" in shown[1].caption
    ),
    "63": lambda shown: (
        len(shown) == 3
        and "the prompt is there once" in shown[0].caption
        and "The same" in shown[2].caption
        and bars(shown[1])[1] < bars(shown[1])[2]
    ),
    "64": lambda shown: (
        len(shown) == 4
        and "0 of 8" not in shown[0].caption
        and "Nobody's answer" in shown[1].caption
        and bars(shown[2])[0] < bars(shown[2])[1] < bars(shown[2])[2]
        and equal_bars(shown[3])
    ),
    "65": lambda shown: (
        "follows it to the end" in shown[0].caption
        and shown[0].text.endswith(".")
        and "keep their odds" in shown[3].caption
    ),
    "79": lambda shown: (
        len(shown) == 4
        and "weigh from" in shown[0].caption
        and "Both reach it" in shown[1].caption
        and all(equal_bars(exhibit, 1e-2) for exhibit in shown[2:])
        and lines(shown[1])["without knowing the server"][-1] < lines(shown[1])["KL in the loss"][-1] - 0.1
    ),
    "81": lambda shown: (
        all("for nothing else" in shown[place].caption for place in (0, 2))
        and all(lines(shown[place])["truly right"][-1] > 0.95 for place in (1, 3))
        and bars(shown[4])[2] < 0.05
    ),
    "74": lambda shown: (
        "32 of 33" in shown[0].caption
        and lines(shown[1])["your rule"][-1] < 25
        and "stays as large" in shown[1].caption
        and "the same but for rounding" in shown[2].caption
        and {row[2] for row in shown[2].rows} == {"rounding"}
    ),
    # These train.
    "19": lambda shown: (
        shown[0].rows[0][2] == "" and lines(shown[2])["float32, as yours are"][-1] < lines(shown[2])["bfloat16"][-1] < 3
    ),
    "61": lambda shown: (
        "all 6 names" in shown[0].caption
        and "all 6 names" in shown[2].caption
        and lines(shown[1])["induction score of layer 1"][-1] > 0.6
    ),
    "62": lambda shown: lines(shown[0])["share of the variance"][-1] < 0.25 and len(shown[2].rows) >= 6,
    "46": lambda shown: lines(shown[0])["after 5 steps"][48] > 0.5 and lines(shown[1])["your Muon"][-1] < 2,
    "48": lambda shown: bars(shown[0]) == [pytest.approx(1, abs=1e-3)] and lines(shown[1])["error"][-1] < 0.3,
    "77": lambda shown: (
        all(bar.value < 0.8 * bar.other for bar in shown[0].bars)
        and "an eighth" in shown[0].caption
        and all(lines(shown[1])["your codes"] < lines(shown[1])["plain rounding"])
        and bars(shown[2])[0] < bars(shown[2])[1] - 0.2
    ),
    "72": lambda shown: (
        bars(shown[1])[0] == 16 > bars(shown[1])[1] > 0 == bars(shown[1])[3]
        and lines(shown[2])["yours"].min() > 0.98
        and "24 fast pairs are left as they are, 24 slow ones" in shown[0].caption
    ),
    "73": lambda shown: (
        lines(shown[0])["with your updates"][0] > 2
        and max(bars(shown[1])) < 1.2
        and "Yours computes all" in shown[2].caption
    ),
}

# These train for up to a minute.
LONG: dict[str, Callable[[Shown], bool]] = {
    "32": lambda shown: "MiniGPT" in shown[0].rows[0][1] and lines(shown[1])["yours"][-1] < 5,
    "24": lambda shown: "holds for a large one" in shown[1].caption,
    "50": lambda shown: (
        shown[1].bars[0].value > 2 * shown[1].bars[0].other and "nothing but a margin" in shown[0].caption
    ),
    "66": lambda shown: (
        "times fewer bytes" in shown[0].caption
        and "nats less" in shown[1].caption
        and "but for rounding" in shown[2].caption
    ),
    "67": lambda shown: len(set(lines(shown[0])["your layer"])) == 1 and "nats less" in shown[1].caption,
    "68": lambda shown: "11 ticks" in shown[0].caption and equal_bars(shown[3]) and lines(shown[4])["loss"][-1] < 0.9,
    "69": lambda shown: (
        "Eight copies" in shown[0].caption
        and len(shown[1].bars) == 2
        and "lie on each other" in shown[2].caption
        and "no device has all" in shown[3].caption
    ),
    "70": lambda shown: (
        np.subtract(*(y[-1] for y in lines(shown[1]).values())) < -0.05 and "the rest belongs" in shown[0].caption
    ),
    "71": lambda shown: (
        "takes 77% of row 0" in shown[0].caption
        and "does not matter" in shown[1].caption
        and [row[1] for row in shown[2].rows] == ["0 of 28", "22 of 26", "52 of 62", "12 of 24", "36 of 48", "36 of 48"]
    ),
    "51": lambda shown: np.mean(lines(shown[1])["reward"][-3:]) > 0.6 and lines(shown[2])["KL divergence"][-1] > 0.01,
}


@pytest.mark.parametrize("word", LONG)
def test_what_a_minute_of_training_shows_is_true(fork_server, word):
    assert LONG[word](shown(word, fork_server))


@pytest.mark.parametrize("word", PROPERTIES)
def test_what_is_shown_is_true(fork_server, word):
    assert PROPERTIES[word](shown(word, fork_server))


# Wrong files: the edits to a reference, and what the play must show of them.
CONSEQUENCES: dict[str, tuple[str, str, str, Callable[[Shown], bool]]] = {
    "position 0 is found, too": (
        "61", "k[1, position[0], places[0]] = -1", "k[1, position[0], places[0]] = 0.1",
        lambda shown: "5 of 6" in shown[0].caption,
    ),
    "the patch stays": (
        "60", "corrupted[layer].at[t].set(clean[layer][t])",
        "jnp.where((jnp.arange(len(clean_ids)) <= t)[:, None], clean[layer], corrupted[layer])",
        lambda shown: "a patch stays" in shown[1].caption,
    ),
    "missing results are not compared": (
        "81", "results == expected", "all(one == other for one, other in zip(results, expected))",
        lambda shown: "found the gap" in shown[3].caption and "found the gap" not in shown[1].caption,
    ),
    "a truth in the answer": (
        "81", "{number(each) for each in list(boxes(answer)) or [answer]} == {expected}", "truth in answer",
        lambda shown: "found the gap" in shown[1].caption and "found the gap" not in shown[3].caption,
    ),
    "keys of any length": ("74", "normalized(k)", "k", lambda shown: "grows without end" in shown[1].caption),
    "a state of NaN": (
        "74", "written = new - read @ state", "written = new * jnp.nan",
        lambda shown: "is not a number" in shown[1].caption and "where the text is cut" in shown[2].caption,
    ),
    "a sum instead of a correction": (
        "74", "written = new - read @ state", "written = new", lambda shown: "no better" in shown[0].caption,
    ),
    "a border without its decay": (
        "74", "return decay * state", "return state", lambda shown: "where the text is cut" in shown[2].caption,
    ),
    "no mask": (
        "65", "jnp.where(row >= 0, logits, -jnp.inf)", "logits", lambda shown: "does not follow" in shown[0].caption,
    ),
    "columns of the decoder": (
        "62", "jnp.linalg.norm(decoder, axis=1, keepdims=True)", "jnp.linalg.norm(decoder, axis=0, keepdims=True)",
        lambda shown: "They must be 1" in shown[0].caption,
    ),
    "a token sees all rows": (
        "64", "jnp.arange(L) <= positions[:, None]", "jnp.arange(L) < L + 0 * positions[:, None]",
        lambda shown: "not its own" in shown[3].caption,
    ),
    "a shared block is written": (
        "63", "self.users[table[-1]] > 1", "self.users[table[-1]] > 9",
        lambda shown: "another one has written" in shown[1].caption,
    ),
    "parts that are not centered": (
        "59", "scaled_D - jnp.mean(scaled_D)", "scaled_D", lambda shown: "do not sum" in shown[1].caption,
    ),
    "a draw from the target after a rejection": (
        "52", "missing = jnp.maximum(target_row - draft_row, 0.0)", "missing = target_row",
        lambda shown: not equal_bars(shown[1]) and "changes what the model says" in shown[1].caption,
    ),
    "no moments in the checkpoint": (
        "25", "model, optimizer = nnx.merge(graphdef, state)",
        "model, _ = nnx.merge(graphdef, state); optimizer = nnx.merge(graphdef, state)[1]; "
        "import jax; nnx.update(optimizer, jax.tree.map(lambda x: x * 0, nnx.state(optimizer)))",
        lambda shown: "another run" in shown[0].caption,
    ),
    "shapes that nothing compares": (
        "25", "        state = checkpointer.restore(path, target)",
        "        state = ocp.PyTreeCheckpointer().restore(path, item=target)",
        lambda shown: "do not fit" in shown[2].caption,
    ),
    "the loader begins again": (
        "26", "    loader.set_state(json.loads(Path(path, \"loader.json\").read_text()))\n", "",
        lambda shown: "another run" in shown[0].caption and "not the same" in shown[1].caption,
    ),
    "a scan that saves the logits": (
        "18", "    @jax.checkpoint\n", "", lambda shown: "something still holds many chunks" in shown[1].caption,
    ),
    "every kernel by columns": (
        "20", '(layer in BY_ROWS and name == "kernel") or name == "embedding"', 'name == "embedding"',
        lambda shown: "out_proj and ff2 are placed in another way" in shown[0].caption,
    ),
    "every device has the whole batch": (
        "21", 'PartitionSpec("data", None)', "PartitionSpec()", lambda shown: "not in quarters" in shown[0].caption,
    ),
    "every device has the whole state": (
        "22", "NamedSharding(mesh, fsdp_spec(leaf.shape, mesh.shape[\"data\"]))", "NamedSharding(mesh, "
            "PartitionSpec())",
        lambda shown: "Not cut into eighths" in shown[0].caption and "holds 100%" in shown[1].caption,
    ),
    "biases that are not counted": (
        "23", "4 * (d_model * d_model + d_model)", "4 * d_model * d_model",
        lambda shown: "yours are not" in shown[0].caption,
    ),
    "a softmax in bfloat16": (
        "19", "jnp.where(visible_TT, scores_TT, -1e9)", "jnp.where(visible_TT, scores_TT, -1e9).astype(HALF)",
        lambda shown: "exponentials in bfloat16 (1)" in shown[0].caption,
    ),
    "not scaled by one over the rate that is kept": (
        "36", "x / (1 - self.rate)", "x", lambda shown: "0.70 times" in shown[1].caption,
    ),
    "the ring turns the other way": (
        "49", "(device + 1) % devices", "(device - 1) % devices",
        lambda shown: "not those of plain attention" in shown[1].caption,
    ),
    "a sink that takes nothing": (
        "71", "jax.nn.softmax(scores_HTS, axis=-1)[:, :, :T]", "jax.nn.softmax(scores_HTS[:, :, :T], axis=-1)",
        lambda shown: "takes nothing" in shown[0].caption,
    ),
    "a window of one position more": (
        "71", "distance_TS < self.window", "distance_TS <= self.window",
        lambda shown: "shows row 11 5 positions" in shown[0].caption,
    ),
    "a norm that only halves": (
        "71", "jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + self.norm_epsilon)", "0.5",
        lambda shown: "still depend" in shown[1].caption,
    ),
    "no_rope_layers read as it is called": (
        "71", 'if config["no_rope_layers"][i]:', 'if not config["no_rope_layers"][i]:',
        lambda shown: "not as many" in shown[2].caption,
    ),
    "router not normalized": (
        "48", "        weights_Tk = weights_Tk / weights_Tk.sum(axis=1, keepdims=True)\n", "",
        lambda shown: "do not sum to 1" in shown[0].caption,
    ),
    "all pairs interpolated": (
        "72", "(1 - slow_P) * frequencies_P + slow_P * frequencies_P / factor", "frequencies_P / factor",
        lambda shown: "misses 16 keys" in shown[1].caption and "should be divided" in shown[0].caption,
    ),
    "temperature missing": (
        "72", "0.1 * math.log(factor) + 1", "1.0", lambda shown: 0 < bars(shown[1])[0] < 16,
    ),
    "rows dropped": (
        "73", "counts_E = jnp.bincount(expert_N, length=E)",
        "counts_E = jnp.bincount(expert_N, length=E)\n    chosen_NE = jax.nn.one_hot(expert_N, E, dtype=int)\n    "
            "rank_N = jnp.sum((jnp.cumsum(chosen_NE, axis=0) - 1) * chosen_NE, axis=1)\n    "
            "weight_N = jnp.where(rank_N < 5 * T * k // (4 * E), weight_N, 0)",
        lambda shown: "Your layer loses" in shown[2].caption,
    ),
    "sign of the update": (
        "73", "jnp.mean(counts) - counts", "counts - jnp.mean(counts)",
        lambda shown: "still has" in shown[0].caption and max(bars(shown[1])) > 3,
    ),
    "plain rounding": (
        "77", "np.linalg.cholesky(np.linalg.inv(H_DD)).T", "np.eye(D)",
        lambda shown: "changes nothing" in shown[0].caption and "should add less" in shown[2].caption,
    ),
    "sign of half a byte forgotten": (
        "77", "(nibbles_DF.astype(np.int8) ^ 8) - 8", "nibbles_DF.astype(np.int8)",
        lambda shown: "on their way through your `pack`" in shown[0].caption,
    ),
    "the norm of one part": (
        "69", 'jnp.sqrt(jax.lax.psum(jnp.sum(jnp.square(gradient_n)), '
            '"data"))', "jnp.sqrt(jnp.sum(jnp.square(gradient_n)))",
        lambda shown: "not that of the whole" in shown[3].caption,
    ),
    "the gradient cut between stages": (
        "68", 'jax.lax.ppermute(y_BD, "stage", onward)', 'jax.lax.stop_gradient(jax.lax.ppermute(y_BD, "stage", '
            'onward))',
        lambda shown: "does not reach every stage" in shown[3].caption,
    ),
    "kept tokens renormalized": (
        "70", "jax.lax.top_k(jax.nn.log_softmax(teacher_logits / temperature), k)",
        "(lambda x: (jax.nn.log_softmax(x[0] / temperature), x[1]))(jax.lax.top_k(teacher_logits, k))",
        lambda shown: "as if no other token" in shown[0].caption,
    ),
    "k3 without the ratio": (
        "79", "kl = ratio * (jnp", "kl = (jnp",
        lambda shown: "Not both reach it" in shown[1].caption
        and not equal_bars(shown[2], 1e-2)
        and equal_bars(shown[3], 1e-2),
    ),
    "a key that is not used": (
        "76", "jnp.floor(steps + jax.random.uniform(key, steps.shape))", "jnp.round(steps)",
        lambda shown: "no better after many draws" in shown[1].caption,
    ),
    "gradients of floats": (
        "76", "product(dy, kernel, kind), product(x.T, dy.T, kind)", "dy @ kernel.T, x.T @ dy",
        lambda shown: "multiplies floats" in shown[2].caption and bars(shown[2])[1] < 1e-3,
    ),
    "a bound that is far too small": (
        "45", "return from_kernel_TF + from_x_TF", "return from_kernel_TF / "
            "50", lambda shown: "not one" in shown[2].caption,
    ),
}  # fmt: skip


@pytest.mark.parametrize("idea", CONSEQUENCES)
def test_a_wrong_idea_has_a_consequence_that_is_seen(fork_server, idea):
    word, find, replace, is_seen = CONSEQUENCES[idea]
    assert is_seen(shown(word, fork_server, find, replace))
