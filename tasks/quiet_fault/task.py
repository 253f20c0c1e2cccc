"""Why is a run worse, or better, than it should be, when no curve jumps? Runs on the pocket stories, of which a process
trains one when it is asked for."""

from grader.task import Diagnosis, Standard
from tasks.sick_causes import ATTENTION_LOGITS, CAUSES, CHANGES, DEAD_LAYER, LOW_PRECISION_SUM, VALIDATION_LEAK

TASK = Diagnosis(
    title="The run that went wrong quietly",
    unit="points",
    standards=(Standard("bronze", 150), Standard("silver", 80), Standard("gold", 30)),
    module="tasks.sick_runs",
    drawn=(DEAD_LAYER, ATTENTION_LOGITS, VALIDATION_LEAK, LOW_PRECISION_SUM),
    causes=CAUSES,
    changes=CHANGES,
    steps=150,
)
