"""A loop of prompts that a trained model continues, with settings that can be changed between them."""

import dataclasses
from collections.abc import Iterator
from itertools import islice
from typing import Any

from commandline.spelling import nearest
from harness.errors import UsageError
from harness.model.sampling import Sampling, encode_prompt, on_length, stream_text
from harness.run.session import Session
from harness.settings import SEEDS

GREETING = "This model continues stories; it does not answer questions. Type how a story begins, or /help."
HELP = """\
  Type how a story begins. An empty line starts one from nothing. Ctrl-C stops a story, Ctrl-D quits.
  /again            another story with the same beginning
  /temperature 0.7  0 is greedy
  /top-p 0.9        sample from the fewest tokens that sum to P; 1 for all
  /top-k 40         sample from the K most likely tokens; 0 for all
  /seed 3           the same seed gives the same story
  /help, /quit"""
_NUMBERS: dict[str, type] = {"temperature": float, "top-p": float, "top-k": int, "seed": int}
_COMMANDS = (*_NUMBERS, "again", "help", "quit")


class Chat:
    """Answers lines: beginnings of stories, and commands that start with a slash. Programs stay compiled between them."""

    def __init__(self, session: Session, model: Any, sampling: Sampling):
        self.session, self.model, self.sampling = session, model, sampling
        self.ended = False
        self._prompt: str | None = None
        self._stories = 0  # with the current beginning

    def warm_up(self) -> None:
        """Compiles the programs for short prompts."""
        ids = encode_prompt(self.session.tokenizer, "Once")
        list(islice(self.session.tokens(self.model, ids, self.sampling), 2))

    def answer(self, line: str) -> Iterator[str]:
        """The parts of the answer to a line, as they are generated. Raises UsageError for a command that is not valid."""
        if not line.startswith("/"):
            self._prompt, self._stories = line, 0
            yield from self._story()
            return
        name, _, value = line[1:].strip().partition(" ")
        if name in _NUMBERS:
            self.sampling = self._changed(name, value.strip())
            yield ", ".join(f"{other} {getattr(self.sampling, other.replace('-', '_'))}" for other in _NUMBERS)
        elif name == "again" and self._prompt is None:
            raise UsageError("There is no story yet. Type how one begins.")
        elif name == "again":
            self._stories += 1
            yield from self._story()
        elif name == "help":
            yield HELP
        elif name == "quit":
            self.ended = True
        else:
            close = nearest(name, _COMMANDS)
            raise UsageError(f"There is no command /{name}. {f'Did you mean /{close[0]}?' if close else 'Try /help.'}")

    def _story(self) -> Iterator[str]:
        assert self._prompt is not None
        ids = encode_prompt(self.session.tokenizer, self._prompt)
        if note := on_length(ids, self.session.config.context):
            yield f"{note}\n"
        yield self._prompt
        yield from stream_text(
            self.session.tokenizer, self.session.tokens(self.model, ids, self.sampling, self._stories)
        )

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
