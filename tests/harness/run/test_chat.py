"""The prompt loop."""

import os
import pty
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness.config import Config
from harness.errors import UsageError
from harness.model.sampling import Sampling, encode_prompt, stream_text
from harness.run.chat import GREETING_OF_TEXT, Chat
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import load_state
from harness.run.stop_strings import until
from tests.harness.conftest import TINY, command

GREEDY = Sampling(temperature=0.0, max_tokens=5)


@pytest.fixture
def session(tiny: Config, tmp_path: Path) -> Session:
    """A finished run."""
    session = open_session(Run(tmp_path / "runs" / "r"), tiny, None, log=ignore, quiet=True)
    assert train(session, log=ignore, quiet=True)
    return session


@pytest.mark.thorough
def test_a_chat_continues_prompts_and_changes_settings(session: Session) -> None:
    state = load_state(session)[1]
    chat = Chat(session, session.functions.model(state), GREEDY)

    def expected(prompt: str, sampling: Sampling, number: int = 0) -> str:
        tokens = session.tokens(
            session.functions.model(state), encode_prompt(session.tokenizer, prompt), sampling, number
        )
        return prompt + "".join(stream_text(session.tokenizer, tokens))

    with pytest.raises(UsageError, match="nothing to repeat yet"):
        list(chat.answer("/again"))
    assert "".join(chat.answer("The cat")) == expected("The cat", GREEDY)
    assert chat.tokens == 5
    assert "temperature 1.5" in "".join(chat.answer("/temperature 1.5"))
    assert chat.tokens == 0
    warm = Sampling(temperature=1.5, max_tokens=5)
    assert "".join(chat.answer("The dog")) == expected("The dog", warm)
    again = "".join(chat.answer("/again"))
    assert again == expected("The dog", warm, 1)
    assert again != expected("The dog", warm)
    assert "".join(chat.answer("/help")).count("\n") > 5
    assert not chat.ended
    assert list(chat.answer("/quit")) == []
    assert chat.ended


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/temperature hot", "/temperature hot is not valid; write a number, such as /temperature 0.0"),
        ("/temperature -1", "/temperature -1.0 is not valid"),
        ("/top-p 2", "/top-p 2.0 is not valid"),
        ("/top-k 1.5", "/top-k 1.5 is not valid"),
        ("/seed -1", "/seed -1 is not valid"),
        ("/temprature 1", "Did you mean /temperature"),
    ],
)
def test_a_command_that_is_not_valid_changes_nothing(line: str, sentence: str, tmp_path: Path) -> None:
    session = open_session(Run(tmp_path / "r"), TINY, None, log=ignore, quiet=True)
    chat = Chat(session, None, GREEDY)
    with pytest.raises(UsageError, match=sentence):
        list(chat.answer(line))
    assert chat.sampling == GREEDY


@pytest.mark.thorough
def test_lines_from_a_pipe(session: Session, tmp_path: Path) -> None:
    lines = "The cat\n/nonsense\n/temperature 0\nThe dog\n"
    done = subprocess.run(
        command("chat", "r", "--max-tokens", 3), input=lines, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{GREETING_OF_TEXT}\nThe cat")
    assert "\ntemperature 0.0" in done.stdout
    assert "\nThe dog" in done.stdout
    assert "There is no command /nonsense" in done.stderr


def test_on_a_terminal_ctrl_c_stops_the_story_and_ctrl_d_quits(session: Session, tmp_path: Path) -> None:
    terminal, other_end = pty.openpty()
    # Greedy, this model repeats itself, and does not end a story.
    process = subprocess.Popen(
        command("chat", "r", "--max-tokens", 1_000_000, "--temperature", 0),
        stdin=other_end, stdout=other_end, stderr=other_end, cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}, start_new_session=True,
    )  # fmt: skip
    os.close(other_end)
    shown = b""

    def wait_for(text: bytes) -> None:
        nonlocal shown
        deadline = time.monotonic() + 60
        while text not in shown:
            assert time.monotonic() < deadline, shown
            if select.select([terminal], [], [], 1)[0]:
                shown += os.read(terminal, 65536)
        shown = shown.partition(text)[2]

    prompt, typed = (
        b"\x1b[?2004h",
        b"\x1b[?2004l",
    )  # prompt_toolkit receives pasted text as such only while it reads a line
    try:
        wait_for(prompt)
        os.write(terminal, b"The cat\r")
        wait_for(typed)
        wait_for(b"The cat")
        process.send_signal(signal.SIGINT)
        wait_for(prompt)
        os.write(terminal, b"\x04")
        assert process.wait(60) == 0
    finally:
        process.kill()
        os.close(terminal)


def test_a_line_may_begin_with_a_slash(session: Session) -> None:
    chat = Chat(session, session.functions.model(load_state(session)[1]), GREEDY)
    assert "".join(chat.answer("//etc/passwd")).startswith("/etc/passwd")
    with pytest.raises(UsageError, match=r"There is no command /etc/passwd\. Try /help\. To say such a line, begin it"):
        list(chat.answer("/etc/passwd"))


def test_stop_strings_end_an_answer(session: Session) -> None:
    model = session.functions.model(load_state(session)[1])
    whole = "".join(Chat(session, model, GREEDY).answer("The cat")).removeprefix("The cat")
    stop = whole[2:4]
    stopped = "".join(Chat(session, model, GREEDY, stops=[stop]).answer("The cat")).removeprefix("The cat")
    assert stopped == whole[: whole.index(stop)]


def test_a_system_message_needs_a_model_that_answers(session: Session) -> None:
    with pytest.raises(UsageError, match="--system needs a model that answers"):
        Chat(session, None, GREEDY, system="Be brief.")


@pytest.mark.parametrize(
    ("parts", "stops", "expected"),
    [
        (["Hi", " there", "."], [], "Hi there."),
        (["Hi", " the", "re."], ["there"], "Hi "),
        (["a", "b", "a", "b", "c"], ["abc"], "ab"),
        (["abab"], ["abc"], "abab"),
        (["one two three"], ["three", "two"], "one "),
        (["END"], ["END"], ""),
    ],
)
def test_a_text_ends_before_the_first_stop_string(parts: list[str], stops: list[str], expected: str) -> None:
    assert "".join(until(parts, stops)) == expected
    assert "".join(until([*"".join(parts)], stops)) == expected


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    parts = until(["one E", "N", "d"], ["END"])
    assert next(parts) == "one "
    assert list(parts) == ["ENd"]
