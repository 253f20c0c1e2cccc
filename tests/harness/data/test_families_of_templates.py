"""The chat templates that the package `trl` ships, of all families: what is read, learned and asked is what
`transformers` writes. Skipped without them; neither needs torch for this."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiktoken

from harness.data.dialogues import Template
from harness.data.token_files import CONTEXT, RESTART
from harness.data.tokenizer_json import END_OF_TEXT
from harness.errors import UsageError
from tests.harness.conftest import byte_tokenizer

pytestmark = pytest.mark.oracle
templates = pytest.importorskip("transformers.utils.chat_template_utils")
trl = importlib.util.find_spec("trl")
FOLDER = Path(trl.origin).parent / "chat_templates" if trl and trl.origin else None
FILES = sorted(FOLDER.glob("*.jinja")) if FOLDER else []
if not FILES:
    pytest.skip("trl is not installed", allow_module_level=True)

# The texts that families mark messages with: special tokens of their tokenizers
SPECIAL = re.compile(r"<[|｜][^<>'|｜\s]+[|｜]>|<[a-z]+_of_[a-z]+>|\[/?[A-Z]+\]|</?s>|<turn\|>")
TOKENS = {"bos_token": "<s>", "eos_token": END_OF_TEXT, "pad_token": "<pad>", "unk_token": "<unk>"}
QUESTIONS = [{"role": "user", "content": text} for text in ('Who saw "the moon" & <why>?', "And the ball? ☃")]
ANSWERS = [{"role": "assistant", "content": "The cat did."}, {"role": "assistant", "content": "The dog.\n\nTwice."}]
SYSTEM = {"role": "system", "content": "Be kind."}
ONE, TWO = [QUESTIONS[0], ANSWERS[0]], [QUESTIONS[0], ANSWERS[0], QUESTIONS[1], ANSWERS[1]]
DIALOGUES = {
    "one": ONE,
    "two": TWO,
    "system": [SYSTEM, *TWO],
    "reasoned": [*TWO[:3], ANSWERS[1] | {"reasoning_content": "A dog barked."}],
    "in the answer": [*TWO[:3], ANSWERS[1] | {"content": "<think>\nA dog barked.\n</think>\n\nThe dog."}],
    "null": [QUESTIONS[0], ANSWERS[0] | {"tool_calls": None}],
}


def tokenizer_of(text: str) -> tiktoken.Encoding:
    """Bytes, and the special tokens that a template writes."""
    return byte_tokenizer([END_OF_TEXT, *sorted({*TOKENS.values(), *SPECIAL.findall(text)} - {END_OF_TEXT})])


def written(template: str, messages: list[dict[str, Any]], *, asks: bool = False) -> tuple[str, list[str]] | None:
    """What transformers writes, and what it marks as answers; None if the template refuses."""
    try:
        normal = templates._normalize_chat_messages(messages)
        marked = {"return_assistant_tokens_mask": True, "add_generation_prompt": asks}
        (text,), (spans,) = templates.render_jinja_template([normal], chat_template=template, **marked, **TOKENS)
    except Exception:  # of Jinja, by the template or by what it calls
        return None
    return text, [text[start:stop] for start, stop in spans]


@pytest.mark.parametrize("name", DIALOGUES)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_prompts_and_answers(file: Path, name: str) -> None:
    text, messages = file.read_text(), DIALOGUES[name]
    tokenizer = tokenizer_of(text)
    template = Template(file.stem, text, tokenizer, TOKENS)
    numbers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    for number in numbers:
        expected = written(text, messages[:number], asks=True)
        if expected is None:
            with pytest.raises(UsageError, match="The chat template of"):
                template.prompt(messages[:number])
            return
        assert tokenizer.decode(template.prompt(messages[:number])) == expected[0]

    whole, marked = written(text, messages) or ("", [])
    if not all(part in whole for number in numbers for part in messages[number]["content"].split("\n")[-1:]):
        with pytest.raises(UsageError, match=r"does not write the text of an answer|fails"):
            template.tokenize(json.dumps(messages), tokenizer)
        return
    ids = template.tokenize(json.dumps(messages), tokenizer)
    plain, learned = ids & ~(CONTEXT | RESTART), ids < CONTEXT
    if "endgeneration" in text:
        assert tokenizer.decode(plain.tolist()) == whole
        assert tokenizer.decode(plain[learned].tolist()) == "".join(marked)
        return
    rows = np.split(np.arange(len(ids)), np.flatnonzero(ids & RESTART))
    answered = []
    for row in rows:
        of_row = plain[row].tolist()
        for last in np.flatnonzero(learned[row] & ~np.append(learned[row][1:], False)):
            first = last - int(np.argmin(learned[row][: last + 1][::-1])) + 1
            answered.append((tokenizer.decode(of_row[:first]), tokenizer.decode(of_row[first : last + 1])))
            assert of_row[last] == template.end
    assert len(answered) == len(numbers)
    for number, (before, answer) in zip(numbers, answered, strict=True):
        alone, _ = written(text, messages[: number + 1]) or ("", [])
        ended = answer if (before + answer) in alone else answer.removesuffix(END_OF_TEXT)
        assert alone.startswith(before + ended)
        assert alone[len(before + ended) :].strip() in ("", END_OF_TEXT)
        content = messages[number]["content"].rpartition("</think>")[2].strip()
        assert content in ended
        prompt, _ = written(text, messages[:number], asks=True) or ("", [])
        assert prompt.startswith(before)
        assert file.stem.startswith(("deepseek", "nemotron", "qwen3_5_nothink")) or before == prompt
