"""`python -m hosting.forget FOLDER LEARNER`: deletes a learner from the folder of a class while its service is stopped.

The service would grade again what is left in `hand-ins/`, and remembers what it has received. So all goes at once.
"""

import shutil
from contextlib import closing
from pathlib import Path

import click

from commandline.errors import CommandError, UsageError
from commandline.text import printable
from grader.batch import hand_ins, privacy
from grader.batch.records import folded
from hosting import decisions
from hosting.class_folder import ClassFolder
from hosting.lti.database import Database
from hosting.lti.enrollments import Enrollments
from hosting.lti.tool import DATABASE


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("learner")
def main(folder: Path, learner: str) -> None:
    """Delete LEARNER, a user of the hub, from the FOLDER of a class. Stop the hub first."""
    try:
        click.echo(printable(forget(ClassFolder(folder.resolve()), learner)))
    except CommandError as error:
        raise click.ClickException(str(error)) from None


def forget(of: ClassFolder, learner: str) -> str:
    """Deletes a learner's attempts, results, extensions, regrades, and marks on their way. Returns what is left for a
    person to delete. Raises UsageError, also while the service of a class with marks runs."""
    person, own = of.person(learner), of.hand_ins / hand_ins.of_learner(learner)
    with of.stored() as stored:
        is_in_results = stored is not None and person.learner in stored.people()
    is_at_platform = False
    if (of.lti / DATABASE).is_file():  # first, because it is locked while the service runs
        with closing(Database(of.lti / DATABASE)) as database:
            is_at_platform = Enrollments(database).forget(learner)
    if not (is_in_results or is_at_platform or own.is_dir()):
        raise UsageError(f"{of.folder} has no learner {learner!r}; name one as in {of.hand_ins.name}/.")
    if own.is_dir():
        shutil.rmtree(own)
    if is_in_results:
        privacy.forget(of.results, learner)
    names = {learner, person.learner, *person.ids}
    decisions.forget(of, {folded(name) for name in names})
    if of.log.is_file() and any(name in of.log.read_text(encoding="utf-8", errors="replace") for name in names):
        of.log.unlink()
    return (
        f"{learner!r} is deleted from {of.folder}. Yours to delete: lines that name {learner} in deadlines.yml and "
        "roster.csv, backups, and the user at the hub with the files of their server."
    )


if __name__ == "__main__":
    main()
