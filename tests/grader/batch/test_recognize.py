"""Which problem a file is for, by the names that people really give, and by what it defines."""

import json
from datetime import UTC, datetime
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.batch import recognize
from grader.batch.archive import File
from grader.batch.exports import Stamp, SubmittedFile
from grader.course import catalog

pytestmark = pytest.mark.fast


NO_STAMP = Stamp()


def submitted(name: str, text: str = "", stamp: Stamp = NO_STAMP) -> SubmittedFile:
    return SubmittedFile(File(PurePosixPath(name), lambda size: text.encode()[:size]), stamp)


def label(name: str) -> str | None:
    candidate = recognize.by_name(submitted(name))
    return catalog.load(candidate.problem).label if candidate else None


@pytest.mark.parametrize(
    "name",
    [
        "p07_next_token_loss.py", "P07_Next_Token_Loss.PY", "7.py", "p7.ipynb", "07.py", "07 "
            "(2).py", "p07_next_token_loss(1).py",
        "p07_next_token_loss_final.py", "p07_next_token_loss-copy.py", "p07_next_token_loss - Copy "
            "(3).py", "p07_final_FINAL2.py",
        "next_token_loss.py", "NextTokenLoss.py", "next-token-loss v2.py", "problem7.py", "Problem 07 Ada "
            "Lovelace.py", "hw-7.py",
        "p07_next_token_loss_ada-2.py",
    ],
)  # fmt: skip
def test_names_that_mean_problem_07(name: str):
    assert label(name) == "07"


@pytest.mark.parametrize(
    "name",
    [
        "loss.py", "3d_plot.py", "2026-11-02.py", "99.py", "p07_adamw.py", "next_token_loss_test.py", "p07_old.py",
        "test_07.py",
        "sampling_utils.py", "070.py", ".py",
    ],
)  # fmt: skip
def test_names_that_mean_no_problem_or_two(name: str):
    assert label(name) is None


@pytest.mark.parametrize("problem", catalog.names())
def test_every_problem_is_known_by_its_names(problem: str):
    own = catalog.load(problem)
    for name in (problem, own.label, str(own.number), problem.upper(), own.name.slug, own.name.slug.replace("_", " ")):
        assert label(f"{name}.py") == own.label


def test_what_a_file_defines():
    for text in (
        "def causal_attention(q, k, v):\n",
        "causal_attention = jax.jit(f)\n",
        "async  def causal_attention():\n",
    ):
        assert recognize.by_definitions(submitted("attention.py", f"import jax\n{text}")) == {"p02_causal_attention"}
    notebook = {"cells": [{"cell_type": "code", "source": ["import jax\n", "class CausalMHA(nnx.Module):\n"]}]}
    assert recognize.by_definitions(submitted("homework.ipynb", json.dumps(notebook))) == {"p03_causal_mha"}
    others = ("causal_attention(q)\n", "  def causal_attention(): ...\n", "def causal_attention_2(): "
        "...\n", "layer_norm == 3\n",
              "def save(): ...\n")  # fmt: skip
    for text in others:  # called, inside another, another name, compared, an entry of three problems
        assert recognize.by_definitions(submitted("attention.py", text)) == set()


@given(st.text(max_size=60), st.binary(max_size=200))
def test_no_name_and_no_text_raises(name: str, data: bytes):
    for suffix in recognize.SUFFIXES:
        path = PurePosixPath(f"{name.replace('/', '')}{suffix}")
        file = SubmittedFile(File(path, lambda size: data))
        recognize.by_name(file)
        recognize.by_definitions(file)


def chosen(*files: SubmittedFile) -> recognize.Choice:
    return recognize.choose(
        [recognize.by_name(file) or recognize.Candidate(file, "p07_next_token_loss") for file in files]
    )


def test_the_newest_counts_and_it_says_by_what():
    latest = "the latest of 2 versions by"
    monday, friday = datetime(2026, 11, 2, tzinfo=UTC), datetime(2026, 11, 6, tzinfo=UTC)
    exact = "p07_next_token_loss.py"
    for older, newer, how in [
        (
            submitted(exact, stamp=Stamp(monday)),
            submitted("7.py", stamp=Stamp(friday)),
            f"{latest} the export's time stamps",
        ),
        (
            submitted(exact, stamp=Stamp(upload=1)),
            submitted("7.py", stamp=Stamp(upload=2)),
            f"{latest} the order of uploads",
        ),
        (
            submitted("07 (3).py"),
            submitted(exact),
            "the one of 2 files with the problem's exact name",
        ),
        (submitted("07 (9).py"), submitted("07 (10).py"), f"{latest} the number in its name"),
    ]:
        choice = chosen(older, newer)
        assert choice.file == newer
        assert choice.notes[-1] == f"{newer.file.path} was graded, {how}"
        assert chosen(newer, older).file == newer
    assert (
        chosen(submitted("a/7.py"), submitted("b/7.py")).refused
        == "there are two files for it: a/7.py and b/7.py; submit one"
    )
