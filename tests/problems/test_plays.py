"""What plays show: with the references, what is true of the trained model; with wrong ideas, their consequences."""

import ast
import functools
import math
import runpy
from collections.abc import Callable

import numpy as np
import pytest

from grader.course import catalog
from grader.exhibits import Exhibit, HeatMap, Progress, Story
from grader.isolation.sandbox import ForkServer
from grader.judge import submission as submission_
from grader.judge.submission import Submission
from grader.play.play_session import Performance
from grader.report.exhibits_page import document
from grader.report.exhibits_terminal import WIDTH, render
from problems.stage import model, telling, weights
from problems.stage.weights import POCKET
from tests.conftest import ROOT

Shown = list[Exhibit]


@pytest.mark.fast
def test_every_play_can_be_imported():
    """Plays use the harness as a model would. Most are played only by thorough tests."""
    for file in sorted((ROOT / "problems").glob("p*/play.py")):
        runpy.run_path(str(file))


@pytest.mark.fast
def test_each_play_opens_and_closes_its_story_with_words_of_its_own():
    senses, openings = [], []
    for file in sorted((ROOT / "problems").glob("p*/play.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "telling.judged":
                senses.append(ast.literal_eval(node.args[1]))
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OPENING":
                openings.append(ast.literal_eval(node.value))
    assert len(senses) > 10
    assert len(set(senses)) == len(senses)
    assert len(set(openings)) == len(openings) > 8


@functools.cache  # tests look at different exhibits of one play
def shown(word: str, fork_server: ForkServer, find: str = "", replace: str = "", beside: str = "") -> Shown:
    """The exhibits of the play of a problem with its reference, in which one text is replaced: in it or in a module
    beside it."""
    problem = catalog.find(word)
    sources = dict(submission_.reference(problem).sources)
    name = next(name for name in sources if name.startswith(f"p{beside or problem.label}_"))
    assert sources[name].count(find) or not find
    sources[name] = sources[name].replace(find, replace)
    performance = Performance(problem, Submission(f"{problem.name}.py", sources), fork_server, compare=False)
    exhibits = [each for each in performance if not isinstance(each, Progress)]
    assert performance.failure is None, performance.told()
    assert exhibits
    for exhibit in exhibits:  # both renderers can draw it
        assert render(exhibit, WIDTH, numbers=True)
    assert document("A play", "The course", exhibits, performance.ending())
    return exhibits


def attention(exhibit: Exhibit) -> np.ndarray:
    """The weights of a map of attention, (H, T, T)."""
    assert isinstance(exhibit, HeatMap)
    return np.array([plane.values for plane in exhibit.planes])


def bits(story: Exhibit) -> float:
    """The mean surprise of a story."""
    assert isinstance(story, Story)
    return float(np.mean([token.value for token in story.tokens[story.given :]]))


def no_sense(story: Exhibit) -> bool:
    """Whether the play says that a story makes no sense."""
    assert isinstance(story, Story)
    return "the words make no story" in story.caption


def opening(story: Exhibit) -> str:
    """The prompt of a story."""
    assert isinstance(story, Story)
    return "".join(token.text for token in story.tokens[: story.given])


def own_story(count: int, opening: str = weights.PROMPT) -> str:
    """The beginning of the story that the harness's model tells with the trained weights."""
    told = telling.tell(model.gpt(), count, prompt=opening)
    return opening + telling.text(told)


def test_neighbors_and_positions(fork_server):
    words, positions = shown("01", fork_server)
    assert dict(words.rows)["mom"].startswith("aunt")
    assert dict(words.rows)["she"].startswith("he")
    alike = np.array(positions.planes[0].values)
    assert np.allclose(np.diag(alike), 1, atol=1e-4)
    assert np.diag(alike, 1).mean() > np.diag(alike, 10).mean() + 0.3


@pytest.mark.parametrize("word", ["02", pytest.param("03", marks=pytest.mark.thorough)])
def test_attention_rows_sum_to_one_and_see_no_future(fork_server, word):
    heads, *others, story = shown(word, fork_server)
    weights_HTT = attention(heads)
    assert weights_HTT.shape == (4, 14, 14)
    assert np.abs(weights_HTT.sum(-1) - 1).max() < 1e-3
    assert np.abs(np.triu(weights_HTT, 1)).max() < 1e-3
    assert weights_HTT.min() > -1e-3
    assert own_story(90, opening(story)) == story.text
    if word == "03":
        looks, bars = others
        assert [row[0] for row in looks.rows] == ["1", "2", "3", "4"]
        assert looks.rows[2][-1] == "took → . 64%"
        whole, *silenced = bars.bars
        assert math.isclose(whole.value, whole.other, rel_tol=1e-3)
        assert min(bar.value for bar in silenced) > 2 * whole.value
        assert "look up several" in bars.caption


@pytest.mark.thorough
def test_norms_have_size_one_and_nothing_works_without_them(fork_server):
    sizes, faint, story, bars = shown("04", fork_server)
    assert all(math.isclose(bar.other, 1, abs_tol=1e-3) for bar in sizes.bars)
    assert [bar.value for bar in sizes.bars] == sorted(bar.value for bar in sizes.bars)
    assert all(math.isclose(bar.value, bar.other, rel_tol=1e-3) for bar in faint.bars)
    assert "the row fades" in faint.caption
    assert own_story(60, opening(story)) == story.text
    assert math.isclose(bars.bars[0].value, bars.bars[0].other, rel_tol=1e-3)
    assert bars.bars[1].value > 10


@pytest.mark.thorough
def test_blocks_and_the_whole_model_tell_the_harnesss_story(fork_server):
    lens, blocks, story = shown("05", fork_server)
    assert lens.planes[0].texts[0] == lens.columns  # the embedding says the token itself
    assert lens.planes[0].texts[-1][-2] == " the"
    assert [bar.value for bar in blocks.bars] == sorted((bar.value for bar in blocks.bars), reverse=True)
    assert "could not know" in blocks.caption
    assert own_story(90, opening(story)) == story.text
    told, babbled, bars = shown("06", fork_server)
    assert all(math.isclose(bar.value, bar.other, rel_tol=1e-3) for bar in bars.bars)
    assert own_story(90) == told.text[: len(own_story(90))]
    assert told.text.endswith("⟨end⟩")
    assert "where it stops by itself" in told.caption
    assert bits(told) < 1
    assert bits(babbled) > 5


@pytest.mark.thorough
def test_the_loss_of_a_story_is_the_mean_of_its_tokens(fork_server):
    story, bars = shown("07", fork_server)
    values = [token.value for token in story.tokens[1:]]
    trained, padded, random = bars.bars
    assert math.isclose(np.mean(values), trained.value, rel_tol=1e-4)
    assert math.isclose(trained.value, padded.value, rel_tol=1e-5)
    assert all(math.isclose(bar.value, bar.other, rel_tol=1e-4) for bar in bars.bars)
    assert random.value > math.log(POCKET.vocab_size)


def test_distributions_and_temperatures(fork_server):
    odds, greedy, *others = shown("29", fork_server)
    rows = dict(zip(odds.rows, np.array(odds.planes[0].values), strict=True))
    assert rows["greedy"].tolist() == [1, 0, 0, 0, 0, 0]
    assert rows["temperature 0.5"][0] > rows["temperature 1"][0] > rows["temperature 2"][0]
    assert np.count_nonzero(rows["top-k 3"]) == 3
    assert len(others) == 3
    told = telling.tell(model.gpt(), 20, telling.Sampling(temperature=0.0))
    assert greedy.text.startswith(weights.PROMPT + telling.text(told))


# Wrong files: the edit to a reference, and what the play must show of it.
def _future_is_seen(exhibits: Shown) -> bool:
    return np.triu(attention(exhibits[0]), 1).sum() > 1 and "later" in exhibits[0].caption and no_sense(exhibits[-1])


def _too_sharp(exhibits: Shown) -> bool:
    return "too sharp" in exhibits[0].caption


CONSEQUENCES: dict[str, tuple[str, str, str, Callable[[Shown], bool]]] = {
    "no mask": ("02", "jnp.where(mask_TS, scores_TS, -1e9)", "scores_TS", _future_is_seen),
    "no mask in any head": ("03", "jnp.where(mask_TS, scores_HTS, -1e9)", "scores_HTS", _future_is_seen),
    "no scale": ("02", " / jnp.sqrt(K)", "", _too_sharp),
    "no scale in any head": ("03", " / jnp.sqrt(K)", "", _too_sharp),
    "positions forgotten": (
        "01", " + self.pos_embed[:T]", "",
        lambda exhibits: "bag of words" in exhibits[1].caption and np.ptp(exhibits[1].planes[0].values) == 0,
    ),
    "vectors of NaN": (
        "01", "self.embed(token_ids) +", "jnp.nan * self.embed(token_ids) +",
        lambda exhibits: all("so no cosine is a number" in each.caption for each in exhibits),
    ),
    "token 0 is padding": (
        "01", "self.embed(token_ids) +", "(token_ids != 0)[:, None] * self.embed(token_ids) +",
        lambda exhibits: "⟨byte 0⟩" in dict(exhibits[0].rows)["she"] and "changes the vectors" in exhibits[0].caption,
    ),
    "no final norm": (
        "06", "self.ln_f(x_TD)", "x_TD",
        lambda exhibits: exhibits[2].bars[0].value > exhibits[2].bars[0].other + 0.2,
    ),
    "logits of NaN": (
        "06", "return self.ln_f(x_TD) @", "return jnp.nan * self.ln_f(x_TD) @",
        lambda exhibits: all("The story ends here" in each.caption for each in exhibits[:2]),
    ),
    "no residual": (
        "05", "x = x + self.attn", "x = self.attn",
        lambda exhibits: no_sense(exhibits[2]) and "differ from those of the trained model" in exhibits[0].caption,
    ),
    "norm over the wrong axis": (
        "04", "axis=-1", "axis=0", lambda exhibits: no_sense(exhibits[2]) and "each must have 1" in exhibits[0].caption,
    ),
    "variance divided by D-1": (
        "04", "jnp.mean(centered**2, axis=-1, keepdims=True)", "jnp.var(x, axis=-1, ddof=1, keepdims=True)",
        lambda exhibits: "each must have 1" in exhibits[0].caption and "apart" in exhibits[1].caption
        and "hands every block" not in exhibits[2].caption,
    ),
    "sum divided by all targets": (
        "07", "jnp.maximum(jnp.sum(counts), 1)", "len(targets)",
        lambda exhibits: "0.347 nats into 0.307" in exhibits[1].caption and "changes "
            "nothing" not in exhibits[1].caption,
    ),
    "targets not shifted": (
        "07", "logits[:-1], token_ids[1:]", "logits[:-1], token_ids[:-1]",
        lambda exhibits: exhibits[1].bars[0].value > 4 and "should be charged" in exhibits[0].caption,
    ),
    "temperature on probabilities": (
        "29", "jax.nn.softmax(logits / temperature)",
        "(lambda p: p / jnp.sum(p))(jax.nn.softmax(logits) / temperature)",
        lambda exhibits: exhibits[0].planes[0].values[0] == exhibits[0].planes[0].values[2],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "idea",
    [next(iter(CONSEQUENCES)), *(pytest.param(idea, marks=pytest.mark.thorough) for idea in [*CONSEQUENCES][1:])],
)
def test_a_wrong_idea_has_a_consequence_that_is_seen(fork_server, idea):
    word, find, replace, is_seen = CONSEQUENCES[idea]
    assert is_seen(shown(word, fork_server, find, replace))


def test_a_missing_parameter_is_named(fork_server):
    problem = catalog.find("06")
    sources = {name: text.replace("ln_f", "final") for name, text in submission_.reference(problem).sources.items()}
    performance = Performance(problem, Submission("mine.py", sources), fork_server, compare=False)
    assert list(performance) == []
    assert "`MiniGPT` has a parameter that the trained model has not: `final.bias`" in performance.told()
