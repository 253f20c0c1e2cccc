"""Dialogues as tokens, by a chat template: which of them a model learns, and where an answer ends.

A dialogue is a list of messages `{"role": "system", "user" or "assistant", "content": text}`, as in most data sets and
APIs. A template is what Hugging Face's models have: a Jinja program that writes `messages` as one text.
"""

import contextlib
import functools
import hashlib
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tiktoken

from harness.config import HUGGING_FACE, PLAIN, DataConfig
from harness.data import model_files, rendering
from harness.data.conversations import problem_of
from harness.data.hub import holder
from harness.data.token_files import CONTEXT, RESTART
from harness.data.tokenizer_json import END_OF_TEXT, tokenizer_config
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

Messages = list[dict[str, Any]]
_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")  # the tag around answers
_TOKENS = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_ALWAYS = ("bos_token", "eos_token")  # empty where a model has none
_PROBES = [{"role": "assistant", "content": content} for content in "bc"]


class Template:
    """A chat template with the tokenizer that reads what it writes. Raises UsageError if it is not a template.

    Templates come from strangers, as models do: they are rendered in another process.
    """

    def __init__(self, name: str, text: str, tokenizer: tiktoken.Encoding, tokens: dict[str, str]):
        """`tokens` are the texts of special tokens by their names, such as `eos_token`."""
        self.text, self._name, self._tokenizer, self._tokens = text, name, tokenizer, tokens
        self.digest = hashlib.sha256(repr((text, sorted(tokens.items()))).encode()).hexdigest()[:12]
        try:
            rendering.render(text, [])
        except rendering.RenderingError as error:
            raise UsageError(f"The chat template of {name} is not valid: it {error}.") from error

    @functools.cached_property
    def end(self) -> int:
        """The token that ends an answer: the last of the special tokens that stand together after it, or end-of-text.

        Raises UsageError if the template does not write what an answer says.
        """
        question = {"role": "user", "content": "a"}
        texts = [text for text, _ in self._render([([question, answer], False) for answer in _PROBES])]
        if texts[0] == texts[1]:
            raise UsageError(
                f"The chat template of {self._name} does not write the text of an answer; those for images want it in "
                "parts. Use another one with --template, such as --template plain."
            )
        special = {self._tokenizer.encode_single_token(text) for text in self._tokenizer.special_tokens_set}
        after = self._encode(texts[0][len(_shared(*texts)) + 1 :])
        from_special = itertools.dropwhile(lambda token: token not in special, after)
        return [self._tokenizer.eot_token, *itertools.takewhile(special.__contains__, from_special)][-1]

    def prompt(self, messages: Messages) -> list[int]:
        """The tokens after which a model answers. Raises UsageError if a question has the text of a special token."""
        self._check([message for message in messages if message["role"] != "assistant"])
        return self._encode(self._render([(messages, True)])[0].text)

    def tokenize(self, text: str, tokenizer: tiktoken.Encoding) -> np.ndarray:
        """The tokens of a dialogue in JSON, (N,) uint32. All but the assistant's, with the end of each answer, have
        `CONTEXT`. Where the template writes earlier messages in another way for a later answer, that answer has a text
        of its own, which begins with `RESTART`.

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
        end, marks = self.end, _GENERATION.search(self.text)
        return np.concatenate(self._marked(messages) if marks else self._told_apart(messages, end))

    def _marked(self, messages: Messages) -> list[np.ndarray]:
        """The tokens of a dialogue whose template marks the answers itself, up to the last one."""
        last = max(number for number, message in enumerate(messages) if message["role"] == "assistant")
        ((text, answers),) = self._render([(messages[: last + 1], False)])
        parts, done = [], 0
        for start, stop in answers:
            parts += [self._read(text[done:start]), np.array(self._encode(text[start:stop]), np.uint32)]
            done = stop
        return [*parts, self._read(text[done:])]

    def _told_apart(self, messages: Messages, end: int) -> list[np.ndarray]:
        """The tokens of a dialogue, up to its last answer: an answer is what follows the prompt for it.

        It continues the text of the answer before unless the template writes that in another way now, or wrote no end
        of it.
        """
        parts, written = list[np.ndarray](), ""
        for before, answer in self._answers(messages):
            continues = bool(written) and before.startswith(written)
            read, ids = self._read(before[len(written) :] if continues else before), self._encode(answer)
            has_end = end in ids
            learned = ids[: len(ids) - ids[::-1].index(end)] if has_end else [*ids, end]
            rest = np.array(ids[len(learned) :], np.uint32) | CONTEXT
            text = np.concatenate([read, np.array(learned, np.uint32), rest])
            text[:1] |= RESTART * np.uint32(bool(parts) and not continues)
            parts.append(text)
            written = before + answer if has_end else ""
        return parts

    def _answers(self, messages: Messages) -> list[tuple[str, str]]:
        """Each answer with the end that the template writes, and all text before it."""
        numbers = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        around = [(messages[: number + is_after], not is_after) for number in numbers for is_after in (False, True)]
        rendered = iter(self._render(around))
        texts = [(prompt.text, whole.text) for prompt, whole in zip(rendered, rendered, strict=True)]
        starts = [
            len(prompt) if whole.startswith(prompt) else self._start(messages[:number], prompt, whole)
            for number, (prompt, whole) in zip(numbers, texts, strict=True)
        ]
        return [(whole[:start], whole[start:]) for start, (_, whole) in zip(starts, texts, strict=True)]

    def _start(self, before: Messages, prompt: str, whole: str) -> int:
        """Where an answer starts if the template asks for it in another way than it writes it, as DeepSeek-R1's does:
        after what both have in common, whatever the answer says.

        Raises UsageError if that is not even what stands before.
        """
        plain, other = (text for text, _ in self._render([(before, False), ([*before, _PROBES[0]], False)]))
        common = _shared(prompt, whole, other)
        if not common.startswith(plain):
            raise UsageError(
                f"The chat template of {self._name} changes what it wrote before when a message follows, so "
                "answers cannot be told apart. Use another one with --template, such as --template plain."
            )
        return len(common)

    def _render(self, each: Sequence[tuple[Messages, bool]]) -> list[rendering.Rendered]:
        """The text of each dialogue, and after it, if so, that which an answer follows."""
        variables = [
            {"messages": _normalized(messages), "tools": None, "documents": None, "add_generation_prompt": asks,
             **self._tokens}
            for messages, asks in each
        ]  # fmt: skip
        try:
            return rendering.render(self.text, variables)
        except rendering.RenderingError as error:
            raise UsageError(f"The chat template of {self._name} {error}.") from error

    def _encode(self, text: str) -> list[int]:
        end = self._tokens.get("eos_token", "")
        # Where a tokenizer is read, the token that ends a text is given this name.
        renamed = bool(end) and end not in self._tokenizer.special_tokens_set
        return self._tokenizer.encode(text.replace(end, END_OF_TEXT) if renamed else text, allowed_special="all")

    def _read(self, text: str) -> np.ndarray:
        return np.array(self._encode(text), np.uint32) | CONTEXT

    @functools.cached_property
    def _marks(self) -> list[str]:
        """What the template writes between messages where it writes no special token, such as a line break and
        `Assistant:`."""
        roles = ("system", "user", "assistant", "user")
        messages = [{"role": role, "content": f"zq{number}"} for number, role in enumerate(roles)]
        for probe in (messages, messages[1:]):  # some templates refuse the message of a system
            with contextlib.suppress(UsageError):
                ((text, _),) = self._render([(probe, False)])
                _, *between = re.split("zq[0-3]", text)
                marks = [each.lstrip(" ").rstrip() for each in between[:-1]]
                return [mark for mark in marks if mark.strip() and not any(name in mark for name in self._names)]
        return []

    @functools.cached_property
    def _names(self) -> set[str]:
        return {*self._tokenizer.special_tokens_set, *filter(None, map(self._tokens.get, _ALWAYS))}

    def _check(self, messages: Messages) -> None:
        """Raises UsageError if a message could pass for a part of the template."""
        for message in messages:
            for text in filter(lambda value: isinstance(value, str), message.values()):
                for name in self._names:
                    if name in text:
                        raise UsageError(
                            f"A message contains {name}, a special token of the tokenizer: {text[:60]!r}. Remove it."
                        )
                for mark in self._marks:
                    if mark in text:
                        raise UsageError(
                            f"A message contains {mark!r}, which the chat template of {self._name} writes between "
                            f"messages: {text[:60]!r}. Remove it, or use a template that marks messages by special "
                            "tokens."
                        )


def _shared(*texts: str) -> str:
    """What texts have in common at their beginning."""
    first, last = min(texts), max(texts)
    return first[
        : next((place for place, pair in enumerate(zip(first, last, strict=False)) if len({*pair}) > 1), len(first))
    ]


def _normalized(messages: Messages) -> Messages:
    """Messages as transformers gives them to a template: without what is null, and with the reasoning under each of
    its names."""
    normalized = []
    for message in messages:
        kept = {name: value for name, value in message.items() if value is not None}
        if names := [name for name in ("reasoning_content", "thinking", "reasoning") if name in kept]:
            kept = {"thinking": kept[names[0]], **kept, "reasoning_content": kept[names[0]]}
        normalized.append(kept)
    return normalized


def open_template(spec: str, tokenizer: tiktoken.Encoding, model: Path | None = None) -> Template:
    """The template `plain`, that of a Jinja file, or that of a model as `hf:DIR`. The first two write the special
    tokens of `model`, the folder that the tokenizer came from, if it has any.

    Raises UsageError if there is none.
    """
    if not spec.startswith(HUGGING_FACE):
        text = PLAIN_TEMPLATE if spec == PLAIN else model_files.read_text(Path(spec).resolve())
        tokens = _of_model(model)[1] if model else {"bos_token": ""}
        return Template(spec, text, tokenizer, {**tokens, "eos_token": tokens.get("eos_token") or END_OF_TEXT})
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
    return template_text(folder) is not None


def template_text(folder: Path) -> str | None:
    """The text of the chat template of the model in a folder; None if it has none."""
    return _of_model(folder)[0]


def _of_model(folder: Path) -> tuple[str | None, dict[str, str]]:
    """The template of a model, if it has one, and the texts of its special tokens."""
    folder = holder(folder, "tokenizer_config.json")
    file, own = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    try:
        config = tokenizer_config(folder)
        text = model_files.read_text(own) if own.exists() else config.get("chat_template")
        if isinstance(text, list):  # several by name
            text = next((each["template"] for each in text if each["name"] == "default"), None)
        tokens = {}
        for name in _TOKENS:
            token = config.get(name) or ""
            tokens[name] = token["content"] if isinstance(token, dict) else token
        tokens = {name: token for name, token in tokens.items() if token or name in _ALWAYS}
    except (TypeError, KeyError) as error:
        raise UsageError(f"{file} is not the config of a tokenizer ({type(error).__name__}: {error}).") from error
    if not all(isinstance(each, str) for each in (text or "", *tokens.values())):
        raise UsageError(f"{file} is not the config of a tokenizer: its template and its tokens must be texts.")
    return text, tokens
