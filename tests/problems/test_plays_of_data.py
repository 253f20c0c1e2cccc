"""What the plays of problems 53 to 58 show of the references, and of wrong ideas."""

import numpy as np
import pytest

from tests.problems.test_plays import shown

pytestmark = pytest.mark.thorough  # seconds of compiling each; `grade verify` plays each reference, too


def test_a_stream_in_chunks_is_read_like_the_whole_text(fork_server):
    text, word, bits = shown("53", fork_server)
    assert "tiktoken gives the same" in text.caption
    assert "they give the text again" in text.caption
    lengths = [int(row[1]) for row in word.rows]
    assert lengths == sorted(lengths, reverse=True)
    assert max(bar.value for bar in bits.bars) < min(bar.value for bar in bits.bars) + 1e-6 < 0.5
    assert all(bar.other > 1 for bar in bits.bars)
    assert "Your stream gives these" in bits.caption


def test_chunks_encoded_on_their_own_surprise_the_model(fork_server):
    bits = shown(
        "53", fork_server, "yield from encode(text[:cut], ranks", "cut = len(text); yield from encode(text[:cut], ranks"
    )[-1]
    assert bits.bars[0].value > bits.bars[-1].value + 0.5
    assert "the model never saw words in these pieces" in bits.caption


def test_stories_in_a_row_are_read_as_if_alone(fork_server):
    row, mask, bits = shown("54", fork_server)
    assert {token.kind for token in row.tokens} == {0, 1, 2}
    shares = np.array(mask.planes[0].values)
    assert np.abs(np.triu(shares, 1)).max() == 0
    assert shares.mean() < 0.2
    assert len(bits.bars) > 3
    assert all(abs(bar.value - bar.other) < 1e-3 for bar in bits.bars)


def test_positions_that_go_on_confuse_the_model(fork_server):
    wrong = "jnp.append(True, jnp.zeros(len(segment_ids) - 1, bool))"
    bits = shown("54", fork_server, "jnp.append(True, segment_ids[1:] != segment_ids[:-1])", wrong)[-1]
    assert max(bar.value - bar.other for bar in bits.bars) > 0.3
    assert "in the way" in bits.caption


def test_copies_are_found_and_the_loss_is_that_without_them(fork_server):
    table, curve, losses = shown("55", fork_server)
    assert all(int(row[0]) > 2 for row in table.rows)
    assert "meet in some band" in curve.caption
    with_copies, cleaned = losses.bars
    assert with_copies.value < cleaned.value - 0.1
    assert abs(cleaned.value - cleaned.other) < 0.05


def test_one_hash_function_for_all_rows_compares_too_many_pairs(fork_server):
    wrong = "(a[:1, None] * x_S + b[:1, None] + 0 * a[:, None]) % PRIME"
    curve = shown("55", fork_server, "(a[:, None] * x_S + b[:, None]) % PRIME", wrong)[1]
    assert "The two should be close" in curve.caption


def test_the_recall_of_held_out_sites_is_the_wanted_one(fork_server):
    examples, word, curves, shares = shown("56", fork_server)
    assert {row[1] for row in examples.rows} == {"kept", "dropped"}
    assert {token.kind for token in word.tokens} == {0, 1}
    assert len(curves.lines) == 3
    assert "as wanted" in shares.caption
    assert abs(shares.bars[1].value - 0.8) < 0.02


def test_a_threshold_of_all_texts_keeps_another_share(fork_server):
    wrong = "good = np.sort(scores[labels == 0])[::-1]"
    shares = shown("56", fork_server, "good = np.sort(scores[labels == 1])[::-1]", wrong)[-1]
    assert "It was not chosen there" in shares.caption


def test_less_overlap_makes_a_model_look_worse(fork_server):
    story, strides, questions = shown("57", fork_server)
    values = np.array([token.value for token in story.tokens[1:]], float)
    assert np.isfinite(values).all()
    (line,) = strides.lines
    assert line.y[-1] > line.y[0] + 0.1
    assert len(questions.rows) == 3


def test_a_law_is_close_to_the_runs(fork_server):
    curves, budgets, valley = shown("58", fork_server)
    measured, said = (np.array(line.y) for line in curves.lines[-2:])
    assert np.abs(np.log(measured / said)).max() < 0.2
    best = [[float(cell.replace(",", "")) for cell in row] for row in budgets.rows]
    assert [row[3] for row in best] == sorted((row[3] for row in best), reverse=True)
    assert all(abs(6 * N * D / flops - 1) < 0.1 for flops, N, D, _ in best)
    assert min(valley.lines[0].x) < valley.lines[1].x[0] < max(valley.lines[0].x)
