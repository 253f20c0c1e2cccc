"""Runs on text of one's own: its tokenizer, its beginning, its evaluation on other text, and several sources."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.config import Config
from harness.errors import UsageError
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import load_state
from tests.harness.conftest import Harness

POEM = "\n".join(f"第{number}首。床前明月光，疑是地上霜。举头望明月，低头思故乡。" for number in range(120))


@pytest.fixture
def poems(tiny: Config, tmp_path: Path) -> Config:
    """A run on 120 lines of Chinese, as records."""
    path = tmp_path / "poems.jsonl"
    path.write_text(json.dumps({"text": POEM}, ensure_ascii=False), "utf-8")
    return replace(tiny, data=str(path), tokenizer="train:400", vocab_size=0, steps=2, eval_every=2, warmup_steps=1)


def finished(run: Run, config: Config) -> tuple[Session, list[str]]:
    said: list[str] = []
    session = open_session(run, config, None, log=said.append, quiet=True)
    assert train(session, log=said.append, quiet=True)
    return session, said


def test_a_tokenizer_is_trained_on_the_data_and_kept(poems: Config, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    session, said = finished(run, poems)
    assert 256 < session.tokenizer.n_vocab <= 400
    assert session.config.vocab_size == session.tokenizer.n_vocab
    assert session.prepared.bytes_per_token > 4
    assert said[0].startswith("poems.jsonl: ")
    assert not [sentence for sentence in said if "does not fit" in sentence]
    assert run.config().tokenizer == "train:400"
    Path(poems.data).unlink()
    kept = open_session(run, run.config(), None, log=ignore)
    assert kept.tokenizer.encode_ordinary(POEM) == session.tokenizer.encode_ordinary(POEM)


def test_a_tokenizer_that_does_not_fit_is_named(poems: Config, tmp_path: Path) -> None:
    session, said = finished(Run(tmp_path / "run"), replace(poems, tokenizer="pocket-2k"))
    assert session.prepared.bytes_per_token == pytest.approx(1, abs=0.05)
    assert any(
        "does not fit poems.jsonl: 1.0" in sentence and "--tokenizer train:4096" in sentence for sentence in said
    )


@pytest.mark.parametrize("tokenizer", ["train:", "train:many", "train:256"])
def test_the_size_of_a_tokenizer_must_be_a_number(tokenizer: str, poems: Config, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not valid; write train:N, where N, such as 4096, is at least 257"):
        open_session(Run(tmp_path / "run"), replace(poems, tokenizer=tokenizer), None, log=ignore)


@pytest.mark.thorough
@pytest.mark.usefixtures("charts_and_samples")
def test_samples_begin_like_the_text(poems: Config, tiny: Config, tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    session, _ = finished(run, poems)
    assert session.prompt == POEM[:32]
    assert run.sample_file(2).read_text("utf-8").startswith(POEM[:32])
    stories, _ = finished(Run(tmp_path / "stories"), replace(tiny, steps=1, warmup_steps=0))
    assert stories.prompt == "The cat saw a ball 0 times."
    assert open_session(Run(tmp_path / "new"), tiny, None, log=ignore).prompt == "Once upon a time, there was"


def test_a_run_is_evaluated_on_all_of_other_data(poems: Config, tmp_path: Path) -> None:
    session, _ = finished(Run(tmp_path / "run"), replace(poems, eval_batches=0))
    _, state = load_state(session)
    other = tmp_path / "other.csv"
    other.write_text("id,poem\n1,一\n2," + POEM[:100].replace("\n", " ") + "\n", "utf-8")
    on_other = session.evaluated_on(str(other), "poem")
    assert len(on_other.validation.validation.ends) == 2
    assert len(on_other.validation.train) == 0
    assert on_other.ngrams is None
    loss, own = on_other.validate(state), session.validate(state)
    assert loss != own
    assert on_other.bits_per_byte(loss) is not None
    with pytest.raises(UsageError, match=r"There is no file nowhere\.txt"):
        session.evaluated_on("nowhere.txt", "text")


def test_several_sources_are_mixed_and_resumed(poems: Config, tiny: Config, tmp_path: Path) -> None:
    config = replace(poems, data=f"{tiny.data}:3,{poems.data}:1", tokenizer="pocket-2k", steps=4, eval_every=2)
    run = Run(tmp_path / "run")
    session, said = finished(run, config)
    assert session.prepared.name == "stories.txt, poems.jsonl"
    assert [sentence.partition(":")[0] for sentence in said if "bytes per token." in sentence] == [
        "stories.txt",
        "poems.jsonl",
    ]
    assert session.ngrams is None
    chinese = [(session.rows[index] >= 128).mean() > 0.5 for index in range(len(session.rows))]
    assert sum(chinese) / len(chinese) == pytest.approx(0.25, abs=0.05) or len(chinese) > 0
    before = run.metrics()
    run.checkpoints.joinpath("4").rename(tmp_path / "away")
    finished(run, config)
    assert [entry["loss"] for entry in run.metrics()] == [entry["loss"] for entry in before]
    with pytest.raises(UsageError, match=r"(?s)different settings.*data: "):
        finished(run, replace(config, data=f"{tiny.data}:1,{poems.data}:1"))


@pytest.mark.thorough
def test_the_commands_for_own_text(harness_here: Harness, poems: Config, tmp_path: Path) -> None:
    finished(Run(tmp_path / "runs" / "mine"), poems)
    sampled = harness_here("sample", "mine", "--max-tokens", 4)
    assert (sampled.code, sampled.out.startswith(POEM[:32]), sampled.err) == (0, True, "")
    cut = harness_here("sample", "mine", "--max-tokens", 2, "--prompt", POEM[:200])
    assert "tokens and the context of the model 16, so its beginning is cut" in cut.err
    (tmp_path / "other.txt").write_text(POEM[:300], "utf-8")
    evaluated = harness_here("eval", "mine", "--data", "other.txt")
    assert evaluated.code == 0, evaluated.err
    assert evaluated.out.startswith("Run mine, step 2, on other.txt, 1 text of ")
    assert "bits per byte" in evaluated.out
    tuned = harness_here(
        "finetune",
        "mine",
        "--data",
        "other.txt",
        "--steps",
        1,
        "--quiet",
        "--set",
        "batch_size=2",
        "--set",
        "warmup_steps=0",
    )
    assert tuned.code == 0, tuned.err
    assert Run(tmp_path / "runs" / "mine-tuned").tokenizer_file.read_bytes() == (
        Run(tmp_path / "runs" / "mine").tokenizer_file.read_bytes()
    )
