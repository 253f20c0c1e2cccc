"""The commands of `grade` for authors: scaffold a problem, and verify that problems are sound."""

import json
import sys

import click

from grader.course import catalog


@click.command()
@click.argument("problems", metavar="[NN ...]", nargs=-1)
@click.option("--jobs", type=click.IntRange(1, 64), help="Problems verified at a time [default: one a core].")
@click.option("--seeds", type=click.IntRange(0, 1000), default=20, show_default=True, help="Other seeds to try.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, and nothing else, on stdout.")
def verify(problems: tuple[str, ...], jobs: int | None, seeds: int, as_json: bool) -> None:
    """For authors: is every problem sound?

    The stub must be NOT ATTEMPTED, the reference must pass, every misconception must be rejected and named as itself, the
    page must have its sections and true examples. With other seeds, the reference must pass and every misconception be
    rejected, too. Tolerances must have room on both sides. Exits 1 if anything falls short.
    """
    from grader import verify as verify_

    chosen = [catalog.find(word) for word in problems] or catalog.problems()
    rows = []
    for row in verify_.verify(chosen, jobs, seeds):
        rows.append(row)
        if not as_json:
            if len(rows) == 1:
                click.echo(verify_.HEADER)
            click.echo(row.line())
            for complaint in row.complaints:
                click.echo(f"      {complaint}")
    sound = all(not row.complaints for row in rows)
    if as_json:
        click.echo(json.dumps({"schema": 1, "sound": sound, "problems": [row.encode() for row in rows]}))
    else:
        click.echo(verify_.margins_table(rows))
        short = sum(bool(row.complaints) for row in rows)
        click.echo(f"\n{len(rows)} problems, {'all sound' if sound else f'{short} fall short'}.")
    sys.exit(0 if sound else 1)


COMMANDS = (verify,)
