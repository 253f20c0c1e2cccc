"""Dialogues as tokens, by a chat template: which of them a model learns, and where an answer ends.

A dialogue is a list of messages `{"role": "system", "user" or "assistant", "content": text}`, as in most data sets and
APIs. A template is what Hugging Face's models have: a Jinja program that writes `messages` as one text.
"""

import functools
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tiktoken

from harness.config import HUGGING_FACE, PLAIN, DataConfig
from harness.data import model_files, rendering
from harness.data.conversations import problem_of
from harness.data.hub import holder
from harness.data.token_files import CONTEXT
from harness.data.tokenizer_json import END_OF_TEXT
from harness.errors import UsageError

# For any tokenizer: it needs no special token but end-of-text, after each answer.
PLAIN_TEMPLATE = """\
{%- for message in messages -%}
{%- if message.role == 'assistant' -%}
{{ 'Assistant: ' + message.content + eos_token + '\n' }}
{%- elif message.role == 'user' -%}
{{ 'User: ' + message.content + '\n' }}
{%- else -%}
{{ message.content + '\n' }}
{%- endif -%}
{%- endfor -%}
{{- 'Assistant:' if add_generation_prompt -}}
"""

Messages = list[dict[str, str]]


class Template:
    """A chat template with the tokenizer that reads what it writes. Raises UsageError if it is not a template.

    Templates come from strangers, as models do: they are rendered in another process.
    """

    def __init__(self, name: str, text: str, tokenizer: tiktoken.Encoding, tokens: dict[str, str]):
        """`tokens` are the texts of `bos_token` and `eos_token`, by these names."""
        self.text, self._name, self._tokenizer, self._tokens = text, name, tokenizer, tokens
        self.digest = hashlib.sha256(repr((text, sorted(tokens.items()))).encode()).hexdigest()[:12]
        try:
            rendering.render(text, [])
        except rendering.RenderingError as error:
            raise UsageError(f"The chat template of {name} is not valid: it {error}.") from error

    @functools.cached_property
    def end(self) -> int:
        """The token that ends an answer: the last special token after it, or end-of-text."""
        _, answer = self._spans([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])[-1]
        ids = self._encode(answer)
        special = {self._tokenizer.encode_single_token(text) for text in self._tokenizer.special_tokens_set}
        return next((token for token in reversed(ids) if token in special), self._tokenizer.eot_token)

    def prompt(self, messages: Messages) -> list[int]:
        """The tokens after which a model answers. Raises UsageError if a question has the text of a special token."""
        self._check([message for message in messages if message["role"] != "assistant"])
        return self._encode(*self._render([(messages, True)]))

    def tokenize(self, text: str, tokenizer: tiktoken.Encoding) -> np.ndarray:
        """The tokens of a dialogue in JSON, (N,) uint32. All but the assistant's, with the end of each answer, have
        `CONTEXT`.

        Raises UsageError for a dialogue that the template refuses, or that has the text of a special token in a
        message.
        """
        try:
            messages = json.loads(text)
        except ValueError:
            messages = None
        if problem := problem_of(messages):
            raise UsageError(f"The dialogue {text[:60]!r} {problem}.")
        self._check(messages)
        parts = []
        for before, answer in self._spans(messages):
            ids = self._encode(answer)
            learned = ids[: len(ids) - ids[::-1].index(self.end)] if self.end in ids else [*ids, self.end]
            parts.append(np.array(self._encode(before), np.uint32) | CONTEXT)
            parts.append(np.array(learned, np.uint32))
            parts.append(np.array(ids[len(learned) :], np.uint32) | CONTEXT)
        return np.concatenate(parts)

    def _spans(self, messages: Messages) -> list[tuple[str, str]]:
        """Each answer, and the text before it that follows the answer before."""
        spans, written = [], ""
        answers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        around = [(messages[: number + is_after], not is_after) for number in answers for is_after in (False, True)]
        rendered = iter(self._render(around))
        for before, after in zip(rendered, rendered, strict=True):
            if not (before.startswith(written) and after.startswith(before)):
                raise UsageError(
                    f"The chat template of {self._name} changes what it wrote before when a message follows, so "
                    "answers cannot be told apart. Use another one with --template, such as --template plain."
                )
            spans.append((before[len(written) :], after[len(before) :]))
            written = after
        return spans

    def _render(self, each: Sequence[tuple[Messages, bool]]) -> list[str]:
        """The text of each dialogue, and after it, if so, that which an answer follows."""
        variables = [{"messages": messages, "add_generation_prompt": asks, **self._tokens} for messages, asks in each]
        try:
            texts = rendering.render(self.text, variables)
        except rendering.RenderingError as error:
            raise UsageError(f"The chat template of {self._name} {error}.") from error
        end = self._tokens.get("eos_token", "")
        # Where a tokenizer is read, the token that ends a text is given this name.
        renamed = bool(end) and end not in self._tokenizer.special_tokens_set
        return [text.replace(end, END_OF_TEXT) for text in texts] if renamed else texts

    def _encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, allowed_special="all")

    def _check(self, messages: Messages) -> None:
        """Raises UsageError if a message could pass for a part of the template."""
        names = {*self._tokenizer.special_tokens_set, *filter(None, self._tokens.values())}
        for message in messages:
            for name in names:
                if name in message["content"]:
                    raise UsageError(
                        f"A message contains {name}, a special token of the tokenizer: {message['content'][:60]!r}. "
                        "Remove it."
                    )


def open_template(spec: str, tokenizer: tiktoken.Encoding) -> Template:
    """The template `plain`, that of a Jinja file, or that of a model as `hf:DIR`. Raises UsageError if there is
    none."""
    if not spec.startswith(HUGGING_FACE):
        text = PLAIN_TEMPLATE if spec == PLAIN else model_files.read_text(Path(spec).resolve())
        return Template(spec, text, tokenizer, {"bos_token": "", "eos_token": END_OF_TEXT})
    folder = Path(spec.removeprefix(HUGGING_FACE))
    own, tokens = _of_model(folder)
    if own is None:
        raise UsageError(f"{folder} has no chat template. Use another one with --template, such as --template plain.")
    return Template(str(folder), own, tokenizer, tokens)


def template_of(config: DataConfig) -> Path | None:
    """The file of the chat template, if it is one."""
    named = config.chat in ("", PLAIN) or config.chat.startswith(HUGGING_FACE)
    return None if named else Path(config.chat)


def has_template(folder: Path) -> bool:
    """Whether the model in a folder, in the format of Hugging Face, has a chat template."""
    return _of_model(folder)[0] is not None


def template_text(folder: Path) -> str | None:
    """The text of the chat template of the model in a folder; None if it has none."""
    return _of_model(folder)[0]


def _of_model(folder: Path) -> tuple[str | None, dict[str, str]]:
    """The template of a model, if it has one, and the texts of its special tokens."""
    folder = holder(folder, "tokenizer_config.json")
    file, own = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    try:
        config = model_files.read_json(file) if file.exists() else {}
        text = model_files.read_text(own) if own.exists() else config.get("chat_template")
        if isinstance(text, list):  # several by name
            text = next((each["template"] for each in text if each["name"] == "default"), None)
        tokens = {}
        for name in ("bos_token", "eos_token"):
            token = config.get(name) or ""
            tokens[name] = token["content"] if isinstance(token, dict) else token
    except (TypeError, KeyError) as error:
        raise UsageError(f"{file} is not the config of a tokenizer ({type(error).__name__}: {error}).") from error
    if not all(isinstance(each, str) for each in (text or "", *tokens.values())):
        raise UsageError(f"{file} is not the config of a tokenizer: its template and its tokens must be texts.")
    return text, tokens
