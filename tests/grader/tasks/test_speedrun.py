"""The speedrun: stories become rows that cover every byte once, work is counted as the page says, and cheats fail."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from grader.authoring import BadOutputError, Given, Repeated, Witness, trace
from grader.course import catalog, tasks
from grader.isolation.sandbox import ForkServer
from grader.judge.submission import Submission
from grader.tasks import grading, soundness
from tasks.speedrun import evidence, offer, stories
from tasks.speedrun.stories import END, Vocabulary

SPEEDRUN = tasks.find("speedrun")
FORGERIES = tasks.forgeries(SPEEDRUN)
TEXTS = stories.texts(12, 7)
LETTERS = Vocabulary([END, *sorted({letter.encode() for text in TEXTS for letter in text}), b" the", b".\0"])


@pytest.mark.parametrize("packing", ["padded", "packed"])
@pytest.mark.parametrize("T", [5, 64])
def test_each_token_is_a_target_once(packing: str, T: int):
    encoded = LETTERS.stories(TEXTS)
    ids, segments = stories.PACKINGS[packing](encoded, T)
    counted = stories.targets(segments)
    assert ids.shape == segments.shape == (len(ids), T + 1)
    targets = sorted(ids[:, 1:][counted].tolist())
    assert targets == sorted(number for story in encoded for number in story[1:])
    text = b"".join(LETTERS.tokens[number] for number in encoded[0])
    assert text == END + TEXTS[0].encode() + END
    assert stories.number_of_bytes(TEXTS) == sum(len(LETTERS.tokens[number]) for number in targets)


def test_the_longest_token_is_taken_and_a_missing_byte_is_named():
    vocabulary = Vocabulary([END, b"a", b"ab", b"abc", b"c"])
    assert vocabulary.stories(["abcabac"]) == [[0, 3, 2, 1, 4, 0]]
    with pytest.raises(stories.UnwritableError, match="'d'"):
        vocabulary.stories(["ad"])


def test_batches_show_every_row_in_an_order_of_the_seed():
    encoded = LETTERS.stories(TEXTS)
    rows = len(stories.padded(encoded, 64)[0])
    found = stories.batches(encoded, "padded", 64, 1, np.random.default_rng(3))
    epoch = [next(found)[0].tobytes() for _ in range(rows)]
    assert len(set(epoch)) == len({row.tobytes() for row in stories.padded(encoded, 64)[0]})
    again = stories.batches(encoded, "padded", 64, 1, np.random.default_rng(4))
    assert [next(again)[0].tobytes() for _ in range(rows)] != epoch


def cost(function, **shapes) -> tuple[int, dict[str, int]]:
    """The scalar operations of two runs of a function on zeros."""
    given = [Given("case", name, shape, dtype) for name, (shape, dtype) in shapes.items()]
    program = trace(lambda *arrays: {"out": function(*arrays)}, *given)
    repeated = Repeated(Witness().sound(program))
    for _ in range(2):
        repeated({name: np.zeros(shape, dtype) for name, (shape, dtype) in shapes.items()})
    return repeated.total, dict(repeated.work)


def test_a_lookup_costs_as_the_product_with_a_one_hot_vector():
    table, ids = ((10, 4), np.float32), ((6,), np.int32)
    _, by_name = cost(lambda table, ids: table.at[ids].get(mode="promise_in_bounds"), table=table, ids=ids)
    moved = by_name["gather 10×4"]
    assert moved == 2 * (2 * 6 * 10 * 4)
    product, _ = cost(lambda table, ids: jnp.eye(10)[:6] @ table, table=table, ids=ids)
    assert product >= 2 * 2 * 6 * 10 * 4
    _, scattered = cost(lambda table, ids: table.at[ids].add(1.0, mode="promise_in_bounds"), table=table, ids=ids)
    assert scattered["scatter 10×4"] == moved
    _, picked = cost(
        lambda table, ids: jnp.take_along_axis(table, ids[:, None], 1, mode="promise_in_bounds"),
        table=((6, 10), np.float32), ids=ids,
    )  # fmt: skip
    assert picked["gather 6×10"] == 2 * 2 * 6 * 10
    _, cut = cost(
        lambda table, ids: jax.lax.dynamic_slice_in_dim(table, ids[0], 2, allow_negative_indices=False),
        table=table, ids=ids,
    )  # fmt: skip
    assert cut["dynamic slice 10×4"] == 2 * 2 * 40
    _, ordered = cost(lambda ids: jnp.sort(ids), ids=ids)
    assert ordered["sort 6"] == 2 * 2 * 6 * 6


def test_a_step_that_works_only_sometimes_costs_what_it_does():
    def function(number):
        return jax.lax.cond(number > 0, lambda: jnp.ones((8, 8)) @ jnp.full((8, 8), number), lambda: jnp.zeros((8, 8)))

    program = trace(lambda number: {"out": function(number)}, Given("case", "number", (), np.float32))
    repeated = Repeated(Witness().sound(program))
    repeated({"number": np.float32(0)})
    idle = repeated.total
    assert idle < 10
    repeated({"number": np.float32(1)})
    assert repeated.total >= idle + 2 * 8**3
    before = repeated.total
    repeated({"number": np.float32(1)}, counts=False)
    assert repeated.total == before


GOOD = {"steps": 1, "batch": 1, "context": 8, "packing": "padded", "tokens": 9}


@pytest.mark.parametrize(
    ("chosen", "said"),
    [({}, "it must give"), (GOOD | {"width": 3}, "it must give"), (GOOD | {"steps": 0}, "whole number"),
     (GOOD | {"batch": True}, "whole number"), (GOOD | {"packing": "dense"}, "padded or packed")],
)  # fmt: skip
def test_settings_that_are_not_valid(chosen, said):
    with pytest.raises(BadOutputError, match=said):
        offer.checked(chosen)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [("abc", "list of bytes"), (["a"], "list of bytes"), ([b"a", b"a"], "each once"), ([b"a"], "lacks the zero byte"),
     ([b"\0", b""], "empty or longer"), ([b"\0", b"a" * 17], "empty or longer"), ([b"\0", b"a b"], "only at its"),
     ([b"%d" % number for number in range(4097)], "at most 4096")],
)  # fmt: skip
def test_vocabularies_that_are_not_valid(tokens, said):
    with pytest.raises(BadOutputError, match=said):
        evidence._tokens(tokens, 4096)


@pytest.mark.parametrize("path", FORGERIES, ids=lambda path: path.stem)
def test_a_forgery_is_refused(path: Path, fork_server: ForkServer):
    submission = soundness.shipped(SPEEDRUN, path)
    said, complaint = soundness.of_forgery(submission, grading.grade(SPEEDRUN, submission, fork_server, quick=True))
    assert not complaint, said


SMALL = """
from jax import numpy as jnp

def settings():
    return {"steps": 3, "batch": 4, "context": 32, "packing": "packed", "tokens": 59}

def vocabulary(stories, V):
    return [b"\\0", *sorted({letter.encode() for story in stories for letter in story})]

def init(key, V):
    return {"table": jnp.zeros(V)}

def step(state, tokens, segments, number):
    return {**state, "table": state["table"].at[tokens].add(1.0)}, jnp.float32(0)

def logits(state, tokens, segments):
    return jnp.broadcast_to(jnp.log(state["table"] + 1), (*tokens.shape, len(state["table"])))
"""


def graded(fork_server: ForkServer, text: str) -> grading.Score:
    return grading.grade(SPEEDRUN, Submission("speedrun.py", {"speedrun": text}), fork_server, quick=True)


def test_a_honest_small_program_gets_its_loss_and_its_work(fork_server: ForkServer):
    """The frequencies of letters give about 4.2 bits per byte."""
    score = graded(fork_server, SMALL)
    (run,) = score.runs
    assert run.missed == f"it reaches {run.figures['bits per byte']:.3f} bits per byte, and the task asks for 0.95"
    assert 4.0 < run.figures["bits per byte"] < 4.6
    assert run.score == sum(run.pieces.values())
    V = int(run.figures["tokens"])
    assert run.pieces[f"steps: scatter {V}"] == 3 * 2 * 4 * 33 * V
    assert run == graded(fork_server, SMALL).runs[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('{**state, "table": state["table"].at[tokens].add(1.0)}', '[state["table"]]', "a state like that of `init`"),
        ("jnp.broadcast_to(", "(lambda x, shape: x)(", "`logits` returned shape"),
        ("jnp.zeros(V)", "jnp.zeros(V), 'more': jnp.zeros(1 << 21)", "numbers, and the limit is"),
        ('jnp.log(state["table"] + 1)', 'jnp.log(state["table"] - 1e9)', "not finite"),
        ("letter in story}", "letter in 'abc'}", "no token for the byte"),
    ],
)
def test_what_is_refused_with_a_sentence(old: str, new: str, said: str, fork_server: ForkServer):
    assert SMALL.count(old) == 1
    failure = graded(fork_server, SMALL.replace(old, new)).failure
    assert failure
    assert said in failure.sentence()


def test_the_page_shows_the_classes_and_the_entries():
    page = catalog.page_text(SPEEDRUN)
    for standard in SPEEDRUN.standards:
        assert f"| {standard.name} | {standard.most:,.0f} |" in page
    assert f"**{evidence.BAR}**" in page
    assert f"at most {SPEEDRUN.text_bytes:,} bytes" in page
    assert f"at most {evidence.MOST_STATE:,}" in page


@pytest.mark.thorough
def test_it_is_sound(fork_server: ForkServer):
    assert not [complaint for _, complaint in soundness.verify(SPEEDRUN, fork_server) if complaint]
