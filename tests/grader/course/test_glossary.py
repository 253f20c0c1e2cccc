"""The glossary: true of the pages, in order, linked where a page first uses a word, and read in a terminal."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli.learner import main
from grader.course import catalog, glossary, page, selection
from grader.course.glossary import Entry

pytestmark = pytest.mark.fast

# The words of the field that the pages once avoided.
FIELD = (
    "all-reduce", "reduce-scatter", "all-gather", "prefill", "decode phase", "preemption", "roofline", "memory-bound",
    "activation checkpointing", "policy gradient", "rollout", "ablation", "logits", "perplexity", "KV cache",
    "teacher forcing", "residual stream", "memory bandwidth", "HBM", "on-policy", "overfitting", "hyperparameter",
)  # fmt: skip


def links(markdown: str) -> list[str]:
    """The anchors of the glossary that a page links, in order."""
    return re.findall(r'<a class="term" href="glossary#([^"]+)">', glossary.linked(markdown, "glossary"))


@pytest.fixture(params=glossary.entries(), ids=lambda entry: entry.anchor)
def entry(request: pytest.FixtureRequest) -> Entry:
    assert isinstance(request.param, Entry)
    return request.param


def test_the_page_of_its_problem_uses_the_word(entry: Entry):
    assert entry.anchor in links(page.for_browser(catalog.find(entry.problem)))


def test_it_is_a_sentence_or_two(entry: Entry):
    assert entry.meaning[0].isupper() or entry.meaning[0].isdigit() or entry.meaning.startswith("e to the power")
    assert entry.meaning.endswith(".")
    assert len(entry.meaning.split()) <= 45


def test_it_is_in_alphabetical_order_and_explains_no_word_twice():
    words = [entry.words[0].casefold() for entry in glossary.entries()]
    assert words == sorted(words)
    everything = [word.casefold() for entry in glossary.entries() for word in entry.words]
    assert len(everything) == len({*everything})


def test_every_paragraph_is_an_entry():
    paragraphs = glossary.path().read_text(encoding="utf-8").strip().split("\n\n")
    assert len(paragraphs) == len(glossary.entries()) + 2  # the title and what it is


@pytest.mark.parametrize("word", FIELD)
def test_the_words_of_the_field_are_explained(word: str):
    assert glossary.find(word)


def test_a_page_links_the_first_use_of_the_longest_word():
    text = "A mesh of\ndevices. Ring\nattention has attention in it; meshes, too. No vocabulary-like zero.\n"
    shown = glossary.linked(text, "glossary")
    assert links(text) == ["mesh", "ring-attention", "attention"]
    assert re.sub(r"</?a.*?>", "", shown) == text
    assert ">Ring\nattention</a> has <a" in shown


@pytest.mark.parametrize(
    "text",
    [
        "## A mesh\n",
        "```text\na mesh\n```\n",
        "Call `mesh` and [a mesh](mesh.md).\n",
        "## Sources\n\n- Somebody 2020, *A mesh*: the mesh.\n",
        '<div class="predict" markdown="1">\n\nA mesh?\n\n<details><summary>The answer</summary>\n\nNo mesh.\n\n'
        "</details>\n\n</div>\n",
    ],
)
def test_code_headings_works_and_questions_have_no_links(text: str):
    assert links(text) == []
    assert links(f"{text}\nA mesh.\n") == ["mesh"] or "## Sources" in text


def test_a_course_may_have_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(selection.VARIABLE, str(Path(__file__).parents[3] / "docs" / "examples" / "smoothing"))
    assert glossary.linked("A mesh.\n", "glossary") == "A mesh.\n"
    assert "This course has no glossary." in CliRunner().invoke(main, ["glossary"]).output


def test_a_course_without_the_problem_has_no_link_to_it():
    assert Entry(("mesh",), "99", "A grid.").taught_by is None
    assert glossary.find("mesh").taught_by == "p20_mesh_and_partitioning"


def test_a_terminal_explains_a_word_and_names_its_problem():
    def said(*words: str) -> str:
        return " ".join(CliRunner().invoke(main, ["glossary", *words]).output.split())

    assert said("kv", "cache").startswith("key-value cache, KV cache: The keys and values of all earlier positions,")
    assert said("kv cache").endswith("grade show 30` teaches it.")
    assert "Did you mean 'all-reduce'?" in said("allreduce")
    assert "ablation, activation," in said()
