"""Stories on a terminal: wrapped at words, the prompt set off, one closing line."""

import itertools
from collections.abc import Callable

import pytest

from harness.cli import stories
from tests.conftest import Run

pytestmark = pytest.mark.fast
Terminal = Callable[..., Run]
STORY = "Once upon a time, there was a little cat that saw the moon and the sun and a ball."


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """Runs a function where stdout and stderr are terminals of 20 columns, and returns what they show."""

    def show(print_it: Callable[[], None], *, is_terminal: bool = True) -> Run:
        with monkeypatch.context() as patch:
            for stream in ("stdout", "stderr"):
                patch.setattr(f"sys.{stream}.isatty", lambda: is_terminal)
            patch.setattr("commandline.terminal.width", lambda stream=None: 20)
            patch.setenv("TERM", "xterm")
            patch.delenv("NO_COLOR", raising=False)
            print_it()
        return Run(0, *capsys.readouterr())

    return show


@pytest.mark.parametrize("size", [1, 3, 100])
def test_no_word_is_broken_however_the_text_comes(size: int, terminal: Terminal) -> None:
    parts = [STORY[start : start + size] for start in range(0, len(STORY), size)]
    shown = terminal(lambda: stories.tell(parts)).out
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 20
    assert " ".join(shown.split()) == STORY
    assert all(len(line) + 1 + len(after.split()[0]) > 20 for line, after in itertools.pairwise(lines))


def test_lines_of_the_text_stay_and_long_words_and_scripts_without_spaces_are_shown(
    terminal: Terminal,
) -> None:
    parts = ["def f(x):\n    ", "return x\n\n", "w" * 45, " ", "床前明月光疑是地上霜举头望明月低头思故乡"]
    code, text = terminal(lambda: stories.tell(parts)).out.split("\n    return x\n")
    assert code == "def f(x):"
    assert text.count("w") == 45
    assert "床前明月光疑是地上霜举头望明月低头思故乡" in text.replace("\n", "")
    assert max(2 * sum("一" <= c for c in line) for line in text.splitlines()) <= 20


def test_the_prompt_is_underlined_and_one_line_closes_the_story(terminal: Terminal) -> None:
    def told() -> None:
        stories.tell([" a cat."], "There was")
        stories.close(stories.ending(3, 9, "story"))

    shown = terminal(told)
    assert shown.out == "\x1b[4mThere was\x1b[0m a cat.\n"
    assert "The story ends here," in shown.err
    assert terminal(told, is_terminal=False) == Run(0, "There was a cat.\n", "")


def test_a_text_that_was_cut_says_so() -> None:
    assert stories.ending(9, 9, "story") == "Cut after 9 tokens; --max-tokens N allows more."
