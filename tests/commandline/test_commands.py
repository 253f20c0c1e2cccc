"""The command group: every exception becomes one sentence and an exit code."""

import click
import pytest
from click.testing import CliRunner

from commandline.commands import Commands
from commandline.errors import CommandError, UsageError
from grader.cli.learner import main as grade
from harness.cli.main import main as harness

pytestmark = pytest.mark.fast


class Grade(Commands):
    program = "grade"


def run(error: BaseException | None = None, command: str = "work"):
    @click.group(cls=Grade)
    def main() -> None:
        pass

    @main.command()
    def work() -> None:
        if error:
            raise error

    return CliRunner().invoke(main, [command])


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (None, 0, ""),
        (CommandError("the reference fails"), 3, "grade: the reference fails\n"),
        (UsageError("there is no file x.py"), 2, "grade: there is no file x.py\n"),
        (OSError(28, "No space left on device", "x.py"), 3, "grade: x.py: No space left on device\n"),
        (OSError("no sockets"), 3, "grade: no sockets\n"),
        (
            KeyError(8), 3, "grade: internal error (not your fault): KeyError: 8\n"
            "Please report it with its traceback, which GRADE_DEBUG=1 shows.\n",
        ),
    ],
)  # fmt: skip
def test_errors(error: BaseException | None, code: int, message: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GRADE_DEBUG", raising=False)
    result = run(error)
    assert (result.exit_code, result.output) == (code, message)


def test_a_traceback_for_an_internal_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADE_DEBUG", "1")
    assert isinstance(run(KeyError(8)).exception, KeyError)


def test_a_mistyped_command():
    result = run(command="wrok")
    assert result.exit_code == 2
    assert "There is no command 'wrok'. Did you mean `grade work`?" in result.output


def test_a_command_that_is_called_otherwise():
    result = CliRunner().invoke(grade, ["studio"])
    assert result.exit_code == 2
    assert "There is no command 'studio'. Did you mean `grade web`?" in " ".join(result.output.split())
    unknown = CliRunner().invoke(grade, ["the"])
    assert "Did you mean" not in unknown.output, "too many commands have this word"


@pytest.mark.parametrize("program", [grade, harness], ids=["grade", "harness"])
def test_the_help_shows_each_command_whole_on_one_line_of_its_section(program: click.Group):
    context = click.Context(program)
    output = CliRunner().invoke(program, ["--help"], terminal_width=80).output
    lines = output.partition("-h, --help")[2].splitlines()[1:]
    assert "..." not in "".join(lines)
    assert "More:" not in lines, "a command of ours belongs to a section"
    named = {line.split()[0] for line in lines if line.startswith("  ")}
    commands = {name: program.get_command(context, name) for name in program.list_commands(context)}
    assert named == {name for name, command in commands.items() if command and not command.hidden}


def test_commands_of_packages_come_last():
    @click.group(cls=Grade)
    def main() -> None:
        pass

    main.add_command(click.Command("work", help="Work."))
    assert CliRunner().invoke(main, ["--help"]).output.endswith("More:\n  work  Work.\n")
