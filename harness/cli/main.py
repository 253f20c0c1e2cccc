"""The `harness` command. Each subcommand calls the other modules and prints the result."""

import re
from typing import Any, ClassVar

import click

from commandline.commands import Commands
from harness.cli import data, export, measure, models, training


class Harness(Commands):
    """The commands of `harness`."""

    program = "harness"
    sections: ClassVar = {
        "Train": ("train", "resume", "finetune", "dpo", "rl", "find-lr"),
        "Use": ("sample", "chat", "export", "trust"),
        "Measure": ("eval", "compare", "profile"),
        "Prepare": ("data", "duplicates", "tokenizer", "presets", "settings"),
    }

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            extra = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)", error.message)
            options = {name for option in error.ctx.command.params for name in option.opts} if error.ctx else set()
            words = extra[1].split() if extra else []
            if "--set" in options and (settings := [word for word in words if "=" in word]):
                hint = f"A setting needs --set before it: {' '.join(f'--set {word}' for word in settings)}"
            elif "--data" in options and words:
                hint = f"A text needs --data before it: --data {words[0]}"
            else:
                raise
            raise click.UsageError(f"{error.message}. {hint}", error.ctx) from error


@click.group(cls=Harness, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(package_name="gpt-kata", prog_name="harness")
def main() -> None:
    """Train a small GPT on simple stories, and generate stories with it.

    \b
    Train             harness train                  (a few minutes on 2 cores)
    Generate a story  harness sample pocket
    Chat              harness chat pocket
    Evaluate          harness eval pocket
    Fine-tune         harness finetune pocket --data mine.txt --lora 8
    Compare runs      harness compare pocket mine
    Profile           harness profile pocket
    Use your code     harness train --run mine --pieces attempts

    Exit codes: 0 finished, or stopped with a checkpoint; 1 a piece is broken; 2 usage error; 3 internal error;
    130 after a second Ctrl-C.
    """


for module in (training, measure, models, export, data):
    for name, command in vars(module).items():
        if isinstance(command, click.Command) and not name.startswith("_"):  # a private one belongs to a group
            main.add_command(command)
