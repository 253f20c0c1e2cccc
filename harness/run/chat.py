"""A loop of prompts that a trained model continues or answers, with settings that can be changed between them."""

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from commandline.spelling import nearest
from harness.data.dialogues import Messages
from harness.errors import UsageError
from harness.model.sampling import Sampling, on_length, stream_text
from harness.run.run_session import Session
from harness.run.stop_strings import until
from harness.settings import SEEDS

GREETING = "This model continues stories; it does not answer questions. Type how a story begins, or /help."
GREETING_OF_TEXT = (
    "This model continues text like that which it was trained on; it does not answer questions. Type a beginning, or "
    "/help."
)
GREETING_OF_DIALOGUES = "This model has learned from dialogues. Type a message, or /help."
_OF_DIALOGUES = """\
  Type a message. Ctrl-C stops an answer, Ctrl-D quits.
  //...             says a line that begins with one slash
  /new              a new conversation
  /again            another answer to the last message"""
_OF_STORIES = """\
  Type how a story begins. An empty line starts one from nothing. Ctrl-C stops a story, Ctrl-D quits.
  /again            another story with the same beginning"""
_SETTINGS = """\
  /temperature 0.7  0 is greedy
  /top-p 0.9        sample from the fewest tokens that sum to P; 1 for all
  /top-k 40         sample from the K most likely tokens; 0 for all
  /min-p 0.05       leave out tokens less than P times as likely as the likeliest; 0 for none
  /seed 3           the same seed gives the same story
  /help, /quit"""
_NUMBERS: dict[str, type] = {"temperature": float, "top-p": float, "top-k": int, "min-p": float, "seed": int}
_COMMANDS = (*_NUMBERS, "again", "help", "new", "quit")


class Prompt(str):
    """The beginning of a story, as it was typed."""


def greeting(session: Session) -> str:
    """What a chat begins with: what the model does with a line."""
    if session.template:
        return GREETING_OF_DIALOGUES
    return GREETING_OF_TEXT if session.run.data().prompt else GREETING


class Chat:
    """Answers lines: beginnings of stories, or messages to a model that learned from dialogues; and commands with a
    slash.

    Programs stay compiled between them.
    """

    def __init__(
        self, session: Session, model: Any, sampling: Sampling, system: str | None = None, stops: Sequence[str] = ()
    ):
        """`system` stands before each conversation. An answer ends before any of `stops`."""
        self.session, self.model, self.sampling, self._stops = session, model, sampling, stops
        self._before = session.system_messages(system)
        self.ended = False
        self.tokens = 0  # of the last answer; 0 after a command
        self._said: Messages = []  # the conversation so far, or the beginning of a story
        self._answers = 0  # to the last line

    def warm_up(self) -> None:
        """Compiles the programs for short prompts."""
        ids = self.session.prompt_ids("Once")
        list(islice(self.session.tokens(self.model, ids, self.sampling), 2))

    def answer(self, line: str) -> Iterator[str]:
        """The parts of the answer to a line, as they are generated. Raises UsageError for a command that is not
        valid."""
        self.tokens = 0
        if line.startswith("/") and not line.startswith("//"):
            yield from self._obeyed(line)
            return
        if not self.session.template:
            self._said.clear()
        self._said.append({"role": "user", "content": line[1:] if line.startswith("//") else line})
        self._answers = 0
        yield from self._answer()

    def _obeyed(self, line: str) -> Iterator[str]:
        """What a command says."""
        name, _, value = line[1:].strip().partition(" ")
        if name in _NUMBERS:
            self.sampling = self._changed(name, value.strip())
            yield ", ".join(f"{other} {getattr(self.sampling, other.replace('-', '_'))}" for other in _NUMBERS)
        elif name == "again" and not self._said:
            raise UsageError("There is nothing to repeat yet. Type a line first.")
        elif name == "again":
            if self._said[-1]["role"] == "assistant":
                self._said.pop()
            self._answers += 1
            yield from self._answer()
        elif name == "new":
            self._said.clear()
            yield "A new conversation."
        elif name == "help":
            yield f"{_OF_DIALOGUES if self.session.template else _OF_STORIES}\n{_SETTINGS}"
        elif name == "quit":
            self.ended = True
        else:
            close = nearest(name, _COMMANDS)
            hint = f"Did you mean /{close[0]}?" if close else "Try /help."
            raise UsageError(f"There is no command /{name}. {hint} To say such a line, begin it with //.")

    def _answer(self) -> Iterator[str]:
        """The answer to the last message, which becomes a part of the conversation; or the story with its beginning."""
        session, template, line = self.session, self.session.template, self._said[-1]["content"]
        try:
            ids = template.prompt([*self._before, *self._said]) if template else session.prompt_ids(line)
        except UsageError:
            self._said.pop()
            raise
        if note := on_length(ids, session.config.context):
            yield f"{note}\n"
        if not template:
            yield Prompt(line)
        words: list[str] = []
        try:
            for text in until(stream_text(session.tokenizer, self._counted(ids)), self._stops):
                words.append(text)
                yield text
        finally:  # what was said before Ctrl-C counts
            if template:
                self._said.append({"role": "assistant", "content": "".join(words).strip()})

    def _counted(self, ids: list[int]) -> Iterator[int]:
        """The tokens after `ids`, which are counted."""
        for token in self.session.tokens(self.model, ids, self.sampling, self._answers):
            self.tokens += 1
            yield token

    def _changed(self, name: str, value: str) -> Sampling:
        """The sampling with another number."""
        kind = _NUMBERS[name]
        try:
            number = kind(value)
        except ValueError:
            example = f"/{name} {getattr(self.sampling, name.replace('-', '_'))}"
            raise UsageError(f"/{name} {value} is not valid; write a number, such as {example}.") from None
        if name == "seed" and number not in SEEDS:
            raise UsageError(f"/seed {value} is not valid; it must be {SEEDS}.")
        try:
            return dataclasses.replace(self.sampling, **{name.replace("-", "_"): number})
        except UsageError as error:
            raise UsageError(str(error).replace("--", "/", 1)) from None
