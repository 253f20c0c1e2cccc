"""Why does a run go wrong after a restart? Runs on the pocket stories, of which a process trains one when it is asked
for."""

from grader.task import Diagnosis, Standard
from tasks.sick_causes import BAD_BATCH, CAUSES, CHANGES, OTHER_TOKENIZER, REPEATED_DATA, RESTART_RATE

TASK = Diagnosis(
    title="The run that went wrong after a restart",
    unit="points",
    standards=(Standard("bronze", 150), Standard("silver", 80), Standard("gold", 30)),
    module="tasks.sick_runs",
    drawn=(OTHER_TOKENIZER, BAD_BATCH, REPEATED_DATA, RESTART_RATE),
    causes=CAUSES,
    changes=CHANGES,
    steps=150,
)
