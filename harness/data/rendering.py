"""Renders chat templates of strangers in a process of its own, with limits of time, memory and output.

A template is a program. Jinja's sandbox keeps it from reading anything else, but it could run for ever or fill up the
memory. One process serves all templates and ends with this one. This file is its program, too, which imports nothing of
the harness.
"""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

SECONDS = 20  # for one call; templates take less than a millisecond
MOST_CHARACTERS = 1 << 24  # of what a template writes in one call
MOST_MEMORY = 1 << 30  # bytes


class RenderingError(Exception):
    """Why there is no text. The message is the rest of a sentence that begins with the template."""


class Rendered(NamedTuple):
    """What a template wrote, and which parts of it are answers, by its tag `{% generation %}`: where each starts and
    stops."""

    text: str
    answers: list[tuple[int, int]]


class _Renderer:
    """The process, started when it is first needed, and again after a template has exceeded a limit."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, template: str, each: list[dict[str, Any]]) -> list[Rendered]:
        """What the template writes with each of these variables. Raises RenderingError."""
        request = json.dumps({"template": template, "each": each}).encode() + b"\n"
        with self._lock:
            if self._process is None or self._owner != os.getpid():  # a fork must not share it
                self._start()
            assert self._process is not None
            ended = threading.Event()
            timer = threading.Timer(SECONDS, self._end_late, (self._process, ended))
            timer.start()
            line = b""
            try:
                line = self._exchange(self._process, request)
            finally:
                timer.cancel()
                if not line.endswith(b"\n"):
                    self.close()
        if ended.is_set():
            raise RenderingError(f"takes more than {SECONDS} s, perhaps in an infinite loop")
        if not line.endswith(b"\n"):
            raise RenderingError(
                f"needs more than {MOST_MEMORY >> 20} MiB of memory, or ended the process that renders it"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise RenderingError(answer["error"])
        return [Rendered(text, [(start, stop) for start, stop in answers]) for text, answers in answer["texts"]]

    def _start(self) -> None:
        if self._process is not None:
            self._process.returncode = 0  # it belongs to the process that this one was forked from
        # Isolated: neither the current folder nor PYTHONPATH decides what it imports.
        command = [sys.executable, "-I", __file__, str(MOST_CHARACTERS), str(MOST_MEMORY)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        self._owner = os.getpid()

    @staticmethod
    def _exchange(process: subprocess.Popen[bytes], request: bytes) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
        return process.stdout.readline(8 * MOST_CHARACTERS)  # a character of JSON has at most 6 bytes, or 12 for two

    @staticmethod
    def _end_late(process: subprocess.Popen[bytes], ended: threading.Event) -> None:
        ended.set()
        process.kill()

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        with contextlib.suppress(BrokenPipeError):  # what it did not read any more
            process.__exit__(None, None, None)


_renderer = _Renderer()
atexit.register(_renderer.close)


def render(template: str, each: list[dict[str, Any]]) -> list[Rendered]:
    """What a template writes with each of these variables, which JSON can hold. With none of them, it is only compiled.

    Raises RenderingError if the template is not valid, fails, or exceeds a limit.
    """
    return _renderer.ask(template, each)


def _serve(most_characters: int) -> None:
    """Answers the requests on stdin, a line of JSON each, until it ends."""
    written = _Written(most_characters)
    environment = _environment(written)
    compiled: dict[str, Any] = {}

    def answer(request: dict[str, Any]) -> list[tuple[str, list[tuple[int, int]]]]:
        template = compiled.get(request["template"])
        if template is None:
            template = compiled[request["template"]] = environment.from_string(request["template"])
        texts, left = [], most_characters
        for variables in request["each"]:
            written.length, written.most, written.answers = 0, left, []
            texts.append(("".join(written.counted(template.generate(variables))), written.answers))
            left -= written.length
        return texts

    for line in sys.stdin.buffer:
        try:
            said = json.dumps({"texts": answer(json.loads(line))})
        except MemoryError:
            return  # what is left of the memory may not do for an answer
        except RecursionError:
            said = json.dumps({"error": "is nested too deeply"})
        except Exception as error:
            said = json.dumps({"error": f"fails: {str(error)[:1000]}"})
        sys.stdout.write(f"{said}\n")
        sys.stdout.flush()


class _Written:
    """What one text has so far: its characters, of which there may be `most`, and where its answers are."""

    def __init__(self, most: int):
        self.length, self.most = 0, most
        self.answers: list[tuple[int, int]] = []

    def counted(self, parts: Iterator[str]) -> Iterator[str]:
        """The parts of a text. Raises ValueError if they are too long."""
        for part in parts:
            self.length += len(part)
            if self.length > self.most:
                raise ValueError(f"it writes more than {MOST_CHARACTERS:,} characters")
            yield part


def _environment(written: _Written) -> Any:
    """Jinja as transformers sets it up for chat templates (`chat_template_utils.py` there): the same tags, filters and
    functions."""
    from datetime import datetime

    import jinja2
    import jinja2.ext
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """The tag `{% generation %}`, around what an assistant writes."""

        tags = {"generation"}  # noqa: RUF012 - as in the base class

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_noted"), [], [], body).set_lineno(line)

        def _noted(self, caller: Any) -> str:
            text = str(caller())
            written.answers.append((written.length, written.length + len(text)))
            return text

    class Namespace(jinja2.utils.Namespace):
        """A namespace without names that Python uses itself."""

        def __init__(*args: Any, **names: Any):
            self, *others = args
            given = dict(*others, **names)
            for name in given:
                _check_name(name)
            jinja2.utils.Namespace.__init__(self, given)

        def __setitem__(self, name: str, value: Any) -> None:
            _check_name(name)
            super().__setitem__(name, value)

    def _check_name(name: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            refuse(f"a namespace has no attribute {name!r}")

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {
        "raise_exception": refuse, "namespace": Namespace, "strftime_now": lambda form: datetime.now().strftime(form),
    }  # fmt: skip
    return environment


if __name__ == "__main__":
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
    except (ImportError, ValueError, OSError):  # Windows and macOS have no such limit
        pass
    _serve(int(sys.argv[1]))
