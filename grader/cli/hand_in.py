"""`grade hand-in`: hands in to the service of a hub."""

import sys

import click

from commandline import terminal
from commandline.errors import UsageError
from grader.course import catalog, workspace


@click.command(name="hand-in")
@click.argument("number", metavar="NN")
@click.pass_obj
def hand_in(folder: str | None, number: str) -> None:
    """Hand in your file for a problem, on a hub.

    The service of your class says when it arrived, by its own clock, which attempt it is, and when it is due. Hand in
    as often as your teacher allows. If the service does not answer, the file as it is now is kept in your workspace,
    and sent by the studio or by the next `grade hand-in`. Exits 0 if it was received, and 1 if it was kept or refused.
    """
    from grader import hand_in as hand_in_

    to = hand_in_.service()
    if to is None:
        raise UsageError("This is no server of a hub, so there is nowhere to hand in. Hand in as your teacher says.")
    outbox = hand_in_.Outbox(workspace.find(folder), to)
    outbox.put(catalog.find(number))
    all_received = True
    try:
        for sent in outbox.send():
            terminal.echo(sent.said, err=not sent.is_received)
            all_received &= sent.is_received
    except hand_in_.NotArrivedError as error:
        raise hand_in_.NotArrivedError(f"{error} {hand_in_.KEPT}") from None
    sys.exit(0 if all_received else 1)


COMMANDS = (hand_in,)
