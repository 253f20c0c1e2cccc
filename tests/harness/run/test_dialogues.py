"""Fine-tuning on dialogues: the answers alone are learned, and a chat answers."""

import json
import re
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from harness.data.batches import PADDING, UNLEARNED, check_data
from harness.errors import UsageError
from harness.model.sampling import Sampling
from harness.run.chat import Chat
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import ignore, open_session
from harness.run.state import load_state
from harness.training.train_step import default_loss_sum, default_model
from tests.harness.conftest import TINY, Harness

SOUNDS = {"cat": "Meow.", "dog": "Woof!", "cow": "Moo."}
ASKED = ("Hello.", "Tell me.", "Please.", "I wonder.", "Listen!")


def dialogues(folder: Path) -> Path:
    """200 dialogues about the sounds of animals."""
    path = folder / "sounds.jsonl"
    lines = []
    for number in range(200):
        animal = [*SOUNDS][number % len(SOUNDS)]
        question = f"{ASKED[number // 40]} {number % 40} What does the {animal} say?"
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": SOUNDS[animal]}]
        lines.append(json.dumps({"messages": messages}))
    path.write_text("\n".join(lines))
    return path


def test_no_gradient_comes_from_what_is_only_read():
    """The gradients of a batch are those of the loss of its learned targets, which are computed here by optax from all
    logits."""
    config = replace(TINY, vocab_size=40)
    model = default_model(config, nnx.Rngs(0))
    rng = np.random.default_rng(0)
    ids_BT = rng.integers(0, 40, (3, config.context + 1)).astype(np.int32)
    learned_BT = rng.random(ids_BT.shape) < 0.4
    rows_BT = np.where(learned_BT, ids_BT, UNLEARNED - ids_BT)
    rows_BT[:, -4:] = PADDING

    def ours(model):
        total, count = default_loss_sum(config, None, model, jnp.asarray(rows_BT), None)
        return total / count

    def by_hand(model):
        logits_BTV = jax.vmap(model)(jnp.asarray(ids_BT[:, :-1]))
        losses_BT = optax.softmax_cross_entropy_with_integer_labels(logits_BTV, jnp.asarray(ids_BT[:, 1:]))
        counted_BT = (learned_BT & (np.arange(ids_BT.shape[1]) < ids_BT.shape[1] - 4))[:, 1:]
        return jnp.sum(losses_BT * counted_BT) / counted_BT.sum()

    (loss, gradients), (expected, slopes) = (
        nnx.jit(nnx.value_and_grad(function))(model) for function in (ours, by_hand)
    )
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-6), gradients, slopes)


@pytest.mark.thorough
def test_a_chat_answers_what_it_has_learned(harness_here: Harness, tmp_path: Path):
    base = replace(TINY, data="pocket:200", context=48, d_model=32, steps=3)
    train(open_session(Run(tmp_path / "runs" / "base"), base, None, log=ignore, quiet=True), log=ignore, quiet=True)
    file = dialogues(tmp_path)
    settings = [f"--set={setting}" for setting in ("batch_size=16", "eval_every=150", "learning_rate=1e-2")]
    few = ("--steps", 150, "--mesh", "1x1", *settings)
    result = harness_here("finetune", "base", "--chat", file, "--quiet", *few)
    assert result.code == 0, result.err
    assert re.search(
        r"^sounds.jsonl: \d+ dialogues for training, \d+ dialogues for validation\.$", result.err, re.MULTILINE
    )
    run = Run(tmp_path / "runs" / "base-tuned")
    config = run.config()
    assert (config.chat, config.packing, config.field) == ("plain", "padded", "messages")
    session = open_session(run, config, None, log=ignore, quiet=True)
    chat = Chat(session, session.functions.model(load_state(session)[1]), Sampling(temperature=0.0, max_tokens=12))
    for animal, sound in SOUNDS.items():
        assert "".join(chat.answer(f"Please. 17 What does the {animal} say?")).strip() == sound
        assert "".join(chat.answer("/again")).strip() == sound
        assert "".join(chat.answer("/new")) == "A new conversation."
    with pytest.raises(UsageError, match="a special token of the tokenizer"):
        list(chat.answer("What is <|endoftext|>?"))
    with pytest.raises(UsageError, match="nothing to repeat"):
        list(chat.answer("/again"))
    sampled = harness_here("sample", "base-tuned", "--prompt", "Please. 3 What does the cow say?", "--temperature", 0)
    assert sampled.out == "Please. 3 What does the cow say?\n Moo.\n"


def test_several_dialogues_share_a_row_with_segments(harness_here: Harness, tmp_path: Path):
    base = replace(TINY, data="pocket:200", context=96, steps=3)
    train(open_session(Run(tmp_path / "runs" / "base"), base, None, log=ignore, quiet=True), log=ignore, quiet=True)
    settings = ("--set", "packing=segments", "--set", "eval_every=2", "--steps", 2, "--mesh", "1x1")
    result = harness_here("finetune", "base", "--chat", dialogues(tmp_path), "--quiet", *settings)
    assert result.code == 0, result.err
    dealt = re.search(r"(\d+) dialogues for training", result.err)
    packed = re.search(
        r"^sounds.jsonl: (\d+) rows for training, of which [\d.]+% is padding.$", result.err, re.MULTILINE
    )
    assert dealt is not None
    assert packed is not None
    assert 0 < 2 * int(packed[1]) < int(dealt[1])
    run = Run(tmp_path / "runs" / "base-tuned")
    assert (run.config().packing, run.config().field) == ("segments", "messages")
    session = open_session(run, run.config(), None, log=ignore, quiet=True)
    state = load_state(session)[1]
    alone = open_session(run, replace(run.config(), packing="padded", eval_batches=0), None, log=ignore, quiet=True)
    together = replace(session, config=replace(run.config(), eval_batches=0))
    assert together.validate(state) == pytest.approx(alone.validate(state), rel=1e-5)
    assert "--set packing=segments puts several in a row" in check_data(alone.config, session.prepared)[1]
    assert not [said for said in check_data(session.config, session.prepared) if "in a row" in said]
    free = check_data(replace(alone.config, base="hf:x", positions="rope"), session.prepared)[1]
    longest = int(np.diff(session.prepared.train.ends, prepend=0).max()) - 1
    assert free.endswith(f", or --set context={longest} holds the longest one.")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            '{"messages": [{"role": "human", "content": "Hi."}]}',
            "line 2: the dialogue has a message 1 whose role is not",
        ),
        ('{"messages": [{"role": "user", "content": "Hi."}]}', "line 2: the dialogue has no answer"),
        ('{"text": "Hi."}', "line 2: the record has no field `messages`"),
    ],
)
def test_files_that_are_not_dialogues(line: str, sentence: str, harness_here: Harness, tmp_path: Path):
    Run(tmp_path / "runs" / "base").create_or_check(replace(TINY, data="pocket:200"))
    file = dialogues(tmp_path)
    file.write_text("\n".join([file.read_text().splitlines()[0], line]))
    result = harness_here("finetune", "base", "--chat", file, "--quiet")
    assert result.code == 2
    assert sentence in result.err


def test_usage_errors(harness_here: Harness, tmp_path: Path):
    Run(tmp_path / "runs" / "base").create_or_check(replace(TINY, data="pocket:200"))
    for options, sentence in (
        ((), "texts with --data, or dialogues with --chat"),
        (("--data", "pocket", "--chat", "x.jsonl"), "texts with --data, or dialogues with --chat"),
        (("--data", "pocket", "--template", "plain"), "--template needs --chat"),
        (("--data", "pocket", "--set", "field=messages"), "field=messages needs a chat template"),
        (("--data", "pocket", "--field", "messages"), "fine-tune with --chat FILE.jsonl"),
        (("--chat", dialogues(tmp_path), "--template", "none.jinja"), "none.jinja cannot be read"),
    ):
        result = harness_here("finetune", "base", *options)
        assert (result.code, sentence in result.err) == (2, True), result.err


def test_a_system_message_stands_before_each_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = replace(TINY, data=str(dialogues(tmp_path)), field="messages", chat="plain", packing="padded", context=64)
    session = open_session(Run(tmp_path / "runs" / "r"), config, None, log=ignore, quiet=True)
    prompts = []

    def noted(self, model, ids, sampling, number=0):
        prompts.append(self.tokenizer.decode(ids))
        return iter(self.tokenizer.encode("Moo. STOP Moo."))

    monkeypatch.setattr(type(session), "tokens", noted)
    chat = Chat(session, None, Sampling(), system="Be brief.", stops=("STOP",))
    for line in ("Cow?", "/new", "Dog?", "And then?"):
        said = "".join(chat.answer(line))
    assert said.strip() == "Moo."
    assert prompts == [
        "Be brief.\nUser: Cow?\nAssistant:",
        "Be brief.\nUser: Dog?\nAssistant:",
        "Be brief.\nUser: Dog?\nAssistant: Moo.<|endoftext|>\nUser: And then?\nAssistant:",
    ]
    ids = session.prompt_ids("Cow?", session.system_messages("Be brief."))
    assert session.tokenizer.decode(ids) == prompts[0]
