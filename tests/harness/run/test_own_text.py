"""Runs on text of one's own: its tokenizer, its beginning, its evaluation on other text, and several sources."""

import json
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from harness.config import Config
from harness.data.tokenizer import get_tokenizer
from harness.errors import UsageError
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import load_state
from tests.harness.conftest import STORIES, Harness
from tests.harness.hugging_face.models import LAYOUTS, exported

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
    assert any("does not fit poems.jsonl: 1.0" in sentence and "--tokenizer train:512" in sentence for sentence in said)


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
    assert "does not fit other.txt: " in evaluated.err
    assert "Train one" not in evaluated.err, "a run that is evaluated has its tokenizer"
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


SMALL = ("--steps", 2, "--quiet", "--set", "context=16", "--set", "d_model=16", "--set", "d_ff=16", "--set", "mesh=1x1")


@pytest.mark.thorough
def test_a_run_is_named_after_its_data_and_continues_no_other_text(harness_here: Harness, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text(POEM, "utf-8")
    (tmp_path / "pocket.txt").write_text(POEM, "utf-8")
    train_mine = ("train", "--data", "mine.txt", *SMALL)
    done = harness_here(*train_mine)
    assert done.code == 0, done.err
    assert done.err.startswith("JAX has 8 devices: cpu.\n")
    assert Run(tmp_path / "runs" / "mine").config().data == "mine.txt"
    again = harness_here(*train_mine)
    assert "runs/mine: resuming at step 2 of 2. `harness resume mine --steps 4` adds steps." in again.err
    chosen = harness_here("train", "--data", "mine.txt", "--preset", "modern", *SMALL)
    assert (chosen.code, Run(tmp_path / "runs" / "mine-modern").config().preset) == (0, "modern"), chosen.err
    assert harness_here("train", "--run", "pocket", "--data", "mine.txt", *SMALL).code == 0  # as it was called before
    for arguments, named in (((), "pocket"), (("--data", "pocket.txt"), "pocket.txt")):
        refused = harness_here("train", *arguments, *SMALL)
        assert refused.code == 2
        said = " ".join(refused.err.split())
        assert f"The run runs/pocket was trained on mine.txt, not on {named}." in said
        assert "harness resume pocket" in said


def test_an_imported_model_is_evaluated_on_a_text(harness_here: Harness, tmp_path: Path) -> None:
    config = replace(LAYOUTS["Qwen 2"], context=32)
    model = exported(config, tmp_path / "qwen")
    text = STORIES[:900].replace("<|endoftext|>", " ")
    (tmp_path / "mine.txt").write_text(text)
    done = harness_here("eval", "hf:qwen", "--data", "mine.txt")
    assert done.code == 0, done.err
    ids = np.array([*get_tokenizer("pocket-2k").encode_ordinary(text.strip()), 2047])
    losses = []
    for start in range(0, len(ids) - 1, 32):  # windows that share one token
        window = ids[start : start + 33]
        logits = np.asarray(model(jnp.asarray(window[None, :-1])), np.float64)[0, :, :2048]
        losses += [np.log(np.exp(row).sum()) - row[target] for row, target in zip(logits, window[1:], strict=True)]
    assert done.out.startswith(f"hf:qwen, on mine.txt, 1 text of {len(ids)} tokens\n")
    assert float(done.out.split("loss")[1].split()[0]) == pytest.approx(np.mean(losses), abs=2e-4)
    refused = harness_here("eval", "hf:qwen")
    assert (refused.code, "name a text with --data, or a task with --task" in refused.err) == (2, True)
    refused = harness_here("eval", "hf:qwen", "--data", "mine.txt", "--step", 3)
    assert (refused.code, "--step and --no-pieces need a run" in refused.err) == (2, True)
