"""Windows and batches: every token is a target once per epoch, in an order independent of resumes and process
counts."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.config import Config
from harness.data import batches as batches_module
from harness.data.batches import (
    FIRST,
    PADDING,
    UNLEARNED,
    Mixture,
    SegmentRows,
    Windows,
    check_data,
    first_fit,
    make_windows,
    train_batches,
    validation_batches,
)
from harness.data.token_files import CONTEXT, Prepared, Tokens
from harness.errors import UsageError
from tests.harness.conftest import TINY

pytestmark = pytest.mark.fast


def tokens_of(lengths: list[int]) -> Tokens:
    """Stories of these lengths, with distinct ids."""
    return Tokens((np.arange(sum(lengths), dtype=np.uint16),), np.cumsum(lengths, dtype=np.int64))


def prepared_of(lengths: list[int]) -> Prepared:
    tokens = tokens_of(lengths)
    return Prepared("x.txt", "key", Path("x"), tokens, tokens, len(tokens) - 1, (8 * len(tokens), 0), "Once", ())


lengths = st.lists(st.integers(2, 40), min_size=1, max_size=12)


@given(lengths, st.integers(1, 20))
def test_packed_windows_have_each_token_but_the_first_as_a_target_once(lengths: list[int], context: int) -> None:
    rows = [Windows.packed(tokens_of(lengths), context, 10**6)[i] for i in range(-(-(sum(lengths) - 1) // context))]
    targets = [token for row in rows for token in row[1:] if token != PADDING]
    assert targets == list(range(1, sum(lengths)))
    assert all(row[0] == 0 or row[0] in targets for row in rows)


@given(lengths, st.integers(1, 20))
def test_padded_rows_hold_one_story_each_and_lose_no_token(lengths: list[int], context: int) -> None:
    tokens = tokens_of(lengths)
    rows = Windows.padded(tokens, context, 10**6)
    story_starts = {0, *tokens.ends[:-1].tolist()}
    targets = [token for i in range(len(rows)) for token in rows[i][1:] if token != PADDING]
    assert targets == [token for token in range(len(tokens)) if token not in story_starts]
    for i in range(len(rows)):
        real = rows[i][rows[i] != PADDING]
        assert len({int(np.searchsorted(tokens.ends, token, side="right")) for token in real}) == 1
        assert len(real) > 1, "every row has a target"
        assert (rows[i][len(real) :] == PADDING).all()


@given(lengths, st.integers(1, 20))
def test_rows_of_segments_hold_whole_stories_and_have_the_targets_of_padded_rows(
    lengths: list[int], context: int
) -> None:
    padded = Windows.padded(tokens_of(lengths), context, 10**6)
    rows = SegmentRows.of(padded)
    stories = []
    for row in (rows[index] for index in range(len(rows))):
        filled = int((row != PADDING).sum())
        assert (row[filled:] == PADDING).all()
        starts = np.flatnonzero(row <= FIRST)
        assert starts[0] == 0
        stories += [[FIRST - part[0], *part[1:]] for part in np.split(row[:filled], starts[1:])]
    assert sorted(stories) == sorted(padded.ids(index).tolist() for index in range(len(padded)))
    assert rows.padding == pytest.approx(1 - sum(map(len, stories)) / (len(rows) * (context + 1)))


def test_each_story_is_in_the_first_row_with_room_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert first_fit(np.array([5, 6, 3, 2]), 8).tolist() == [0, 1, 0, 1]  # as on the page of problem 54
    some = np.random.default_rng(0).integers(2, 30, 300)
    rows = first_fit(some, 33)
    for story, row in enumerate(rows.tolist()):
        before = np.bincount(rows[:story], some[:story], minlength=row + 1)
        assert before[row] + some[story] <= 33
        assert (before[:row] + some[story] > 33).all()
    monkeypatch.setattr(batches_module, "STORIES_AT_ONCE", 100)
    parts = [first_fit(part, 33) for part in np.split(some, 3)]
    opened = np.cumsum([0, *(part.max() + 1 for part in parts)])
    np.testing.assert_array_equal(
        first_fit(some, 33), np.concatenate([part + n for part, n in zip(parts, opened, strict=False)])
    )


def test_tokens_that_are_only_read_stay_so_in_rows_of_segments() -> None:
    stored = np.array([7, 8, 9, 3, 4], np.uint32) | np.array([CONTEXT, CONTEXT, 0, 0, CONTEXT], np.uint32)
    rows = SegmentRows.of(Windows.padded(Tokens((stored,), np.array([3, 5])), 5, 10))
    assert rows[0].tolist() == [FIRST - 7, UNLEARNED - 8, 9, FIRST - 3, UNLEARNED - 4, PADDING]


@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=30), min_size=1, max_size=8), st.integers(1, 8),
       st.integers(1, 40))  # fmt: skip
def test_rows_of_dialogues_without_a_target_are_left_out(dialogues: list[list[bool]], context: int, cut: int) -> None:
    """The rows that are left have each target that there was, in the same order."""
    learned = np.concatenate([*map(np.array, dialogues)])
    stored = np.arange(len(learned), dtype=np.uint32) | np.where(learned, 0, CONTEXT).astype(np.uint32)
    tokens = Tokens((stored[:cut], stored[cut:]), np.cumsum([*map(len, dialogues)]))
    config = replace(TINY, context=context, vocab_size=1000, packing="padded", chat="plain", field="messages")
    every = [row.tolist() for row in map(Windows.padded(tokens, context, 1000).__getitem__, range(sum(
        -(-(len(each) - 1) // context) for each in dialogues)))]  # fmt: skip
    left = make_windows(config, tokens)
    assert [left[index].tolist() for index in range(len(left))] == [row for row in every if max(row[1:]) >= 0]


def test_rows_without_a_target_are_counted() -> None:
    read = np.arange(60, dtype=np.uint32) | CONTEXT
    stored = np.where(np.isin(np.arange(60), [19, 25, 49]), read & ~CONTEXT, read)
    split = Tokens((stored,), np.array([20, 30, 50, 60]))
    prepared = replace(prepared_of([60]), train=split, validation=split, dialogues=True)
    config = config_of(packing="padded", chat="plain", field="messages")
    config = replace(config, batch_size=2)
    said = [sentence for sentence in check_data(config, prepared) if "left out" in sentence]
    assert said == [
        f"x.txt: 9 of 12 rows for {purpose} have no part of an answer and are left out. A context of 19 holds each "
        "dialogue as a whole."
        for purpose in ("training", "validation")
    ]
    nothing = replace(split, files=(read,))
    for changes, purpose in (({"train": nothing}, "training"), ({"validation": nothing}, "validation")):
        with pytest.raises(UsageError, match=f"no row for {purpose} has a part of an answer. Use a context of more"):
            check_data(config, replace(prepared, **changes))


def config_of(**changes) -> Config:
    return replace(TINY, **{"context": 5, "batch_size": 4, "vocab_size": 1000, **changes})


@pytest.mark.parametrize("packing", ["packed", "padded", "segments"])
def test_each_epoch_has_every_window_once_in_a_new_order(packing: str) -> None:
    config = config_of(packing=packing)
    tokens = tokens_of([23, 7, 30, 61])
    count = len(make_windows(config, tokens))
    batches = train_batches(config, make_windows(config, tokens))
    rows = [
        tuple(row) for _ in range(count) for row in next(batches).tolist()
    ]  # four epochs, whose ends are inside batches
    epochs = [rows[i * count : (i + 1) * count] for i in range(4)]
    assert all(Counter(epoch) == Counter(epochs[0]) and len(set(epoch)) == count for epoch in epochs)
    assert epochs[0] != epochs[1]


def test_a_batch_may_have_one_row() -> None:
    config = replace(config_of(), batch_size=1)
    windows = make_windows(config, tokens_of([23, 7]))
    batches = train_batches(config, windows)
    first = Counter(tuple(row) for _ in range(len(windows)) for row in next(batches).tolist())
    assert set(first.values()) == {1}


@settings(max_examples=10)
@given(st.integers(0, 40), st.integers(0, 5))
def test_a_restored_state_continues_the_same_sequence(taken: int, seed: int) -> None:
    config, tokens = config_of(seed=seed), tokens_of([23, 7, 30, 61])
    uninterrupted = train_batches(config, make_windows(config, tokens))
    for _ in range(taken):
        next(uninterrupted)
    resumed = train_batches(config, make_windows(config, tokens))
    resumed.set_state(uninterrupted.get_state())
    for _ in range(12):
        np.testing.assert_array_equal(next(uninterrupted), next(resumed))


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_split_each_batch(processes: int) -> None:
    config, tokens = config_of(), tokens_of([23, 7, 30, 61])
    whole = train_batches(config, make_windows(config, tokens))
    parts = [train_batches(config, make_windows(config, tokens), process, processes) for process in range(processes)]
    for _ in range(20):
        together = np.concatenate([next(part) for part in parts])
        assert sorted(map(tuple, together.tolist())) == sorted(map(tuple, next(whole).tolist()))
    with pytest.raises(UsageError, match="A batch of 4 rows cannot be split evenly over 3 processes"):
        train_batches(config, make_windows(config, tokens), 0, 3)


def test_validation_batches_have_each_window_once_in_order() -> None:
    config, tokens = config_of(eval_batches=0), tokens_of([23, 7, 30, 61])
    rows = np.concatenate(list(validation_batches(config, make_windows(config, tokens))))
    count = len(make_windows(config, tokens))
    np.testing.assert_array_equal(rows[:count], [make_windows(config, tokens)[i] for i in range(count)])
    assert (rows[count:] == PADDING).all()
    assert len(rows) % config.batch_size == 0
    assert len(list(validation_batches(replace(config, eval_batches=2), make_windows(config, tokens)))) == 2


def test_data_that_does_not_fit_the_config_is_a_usage_error() -> None:
    needed = (
        r"3 windows of 5 tokens, and a step takes 4 windows. Use a text of at least about 21 tokens, or .*batch_size=3"
    )
    with pytest.raises(UsageError, match=needed):
        check_data(config_of(), prepared_of([14]))
    with pytest.raises(
        UsageError, match=r"has 3 tokens for training: less than one window of 5 tokens.* about 21 tokens.$"
    ):
        check_data(config_of(), prepared_of([3]))
    shorter = "Use a text of at least about 1,023 tokens, or a shorter context with --set context=25"
    for changes in ({}, {"base": "hf:x", "positions": "rope"}):
        config = replace(config_of(batch_size=2, context=501), **changes)
        with pytest.raises(UsageError, match=shorter):
            check_data(config, prepared_of([52]))
    for changes in ({"base": "hf:x"}, {"base": "mine", "positions": "rope"}):  # which have their contexts
        config = replace(config_of(batch_size=2, context=501), **changes)
        with pytest.raises(UsageError, match=r"Use a text of at least about [\d,]+ tokens.$"):
            check_data(config, prepared_of([52]))
    with pytest.raises(UsageError, match="token id 120, outside the vocabulary of 100"):
        check_data(replace(config_of(), vocab_size=100), prepared_of([121]))
    with pytest.raises(UsageError, match="outside the vocabulary"):
        Windows.packed(tokens_of([50]), 5, 40)[9]


def test_what_is_said_of_the_data() -> None:
    prepared = replace(prepared_of([6, 7, 30, 2]), notes=("One NUL.",))
    summary = "x.txt: 45 tokens for training, 45 for validation, 4.39 bytes per token."
    assert check_data(config_of(), prepared) == ["One NUL.", summary]
    padded = check_data(config_of(packing="padded"), prepared)
    assert padded[2:] == ["2 of 4 stories exceed the context of 5 and are split across rows."]
    # Pieces of 6; 6, 2; five of 6 and one of 5; 2: the two of 2 share a row.
    segments = check_data(config_of(packing="segments"), prepared)
    assert segments[2:] == ["x.txt: 9 rows for training, of which 5.6% is padding.", *padded[2:]]


def test_a_tokenizer_that_does_not_fit_is_named_with_the_remedy() -> None:
    prepared = replace(prepared_of([30, 30]), bytes=(100, 20))
    *_, said = check_data(config_of(), prepared)
    assert said.startswith("The tokenizer pocket-2k does not fit x.txt: 1.03 bytes per token, below 2.")
    assert "--tokenizer train:512" in said
    assert "`harness tokenizer train x.txt --vocab 512`" in said
    assert "comes from the base" in check_data(replace(config_of(), base="pocket"), prepared)[-1]
    assert len(check_data(replace(config_of(), objective="copy"), prepared)) == 1


def mixed(*weights: float | None) -> Mixture:
    """Rows of ids 0, 1, ... and 1000, 1001, ..., of which there are 60 and 20."""
    sources = (np.arange(60)[:, None], 1000 + np.arange(20)[:, None])
    return Mixture.of(tuple(source.astype(np.int32) for source in sources), weights)


@pytest.mark.parametrize(
    ("weights", "counts"), [((None, None), (60, 20)), ((1.0, 3.0), (7, 20)), ((3.0, 1.0), (60, 20))]
)
def test_a_mixture_is_interleaved_up_to_the_end_of_the_first_source_that_ends(
    weights: tuple[float | None, ...], counts: tuple[int, int]
) -> None:
    rows = [int(mixed(*weights)[index][0]) for index in range(len(mixed(*weights)))]
    first, second = ([row for row in rows if (row >= 1000) == later] for later in (False, True))
    assert (len(first), len(second)) == counts
    assert (first, second) == (sorted(first), sorted(second))
    share = counts[1] / sum(counts)
    assert all(abs(sum(row >= 1000 for row in rows[:n]) - n * share) <= 1 for n in range(len(rows)))


def test_batches_of_a_mixture_have_the_weights_and_resume_exactly() -> None:
    config, rows = config_of(), mixed(1.0, 3.0)
    batches = train_batches(config, rows)
    taken = [next(batches) for _ in range(50)]
    assert np.mean(np.concatenate(taken) >= 1000) == pytest.approx(0.75, abs=0.01)
    assert len(np.unique(np.concatenate(taken)[: 4 * 40])) > 50
    again = train_batches(config, rows)
    for _ in range(20):
        next(again)
    resumed = train_batches(config, rows)
    resumed.set_state(again.get_state())
    np.testing.assert_array_equal(next(resumed), taken[20])
    halves = [train_batches(config, rows, process, 2) for process in range(2)]
    both = [next(half) for half in halves]
    np.testing.assert_array_equal(np.stack(both, 1).reshape(4, 1), taken[0])
