"""Which numbers a learner may type in a report: those of the design, and no result, however they are written."""

import pytest

from commandline.errors import UsageError
from grader.experiment.claim import Arm, Claim
from grader.experiment.report_file import check, verdict_in
from grader.task import Factor

pytestmark = pytest.mark.fast
ARM = Arm("none", (0.01, 0.02), 200, ("beta2=0.9",))
CLAIM = Claim(ARM, ARM, 4, (-0.25, 0.0), 0.02, "lower", "an interval above \N{MINUS SIGN}0.07, or above two tenths")
FACTOR = Factor(
    "rope_base",
    {"none": (), "plateau": ("decay_start=70%",)},
    "Is it lower with a base of 15,000 than with 10,000, and does it fall to a hundredth?",
)
SETTINGS = {"weight_decay": 0.1, "vocab_size": 2048, "z_loss": 0.0, "clip_norm": 1.0, "bias": False, "data": "pocket"}
SHOWN = "The difference is {{difference}}, in {{ interval }}."

RESULTS = (
    "-0.35", "0,35", ".35", "0.350", "3e-2", "3 %", "3%", "3 percent", "three per cent", "35‰",
    "a loss of 2,731", "1.73,1.75,1.71", "zero point three five", "five hundredths", "a thousandth", "35 thousandths",
    "half a nat", "a quarter of a nat", "1 nat", "0 nats", "two nats", "½ nat", "1/20 of a nat",
    "$-0.35$", "$0{,}35$", r"$3\%$", r"$3\times10^{-2}$", r"$\frac{7}{20}$ nats", "3·10⁻²", "0.**35**",
    "`0.35`", "0&#46;35", "０．３５", "```\n0.35\n```", "<!-- 0.35 -->", "lower by\nfive\nhundredths", "0.1",
    "weight decay\n\n0.1", "{{difference}}35.1",
)  # fmt: skip
DESIGN = (
    "3 seeds", "200 steps of 16 rows", "three of four seeds", "3/4 of the runs", r"$\frac{3}{4}$ of the runs",
    "seeds 1,2,3", "8 runs", "0.02", "0.020", "0,02", "2e-2", "two hundredths", "-0.25 to 0.0", "0.07", "0.2",
    "beta2=0.9", "weight decay of 0.1", "`weight_decay = 0.1`", "a vocab_size of 2,048", "a base of 15,000", "70 %",
    "0.01 and 0.02", "a half", "an 80% interval", r"a 95\% interval", "$n = 4$", "baseline-0.01-2", "width 64",
    "at this point one", "2026-11-29", "29.11.2026", "29/11/2026", "15:53", "Python 3.11", "JAX 0.12.1", "section 5.1",
    "arXiv 2309.14322", "https://example.org/1.5", "1. First", "naturally", "the loss in nats per token",
)  # fmt: skip


@pytest.mark.parametrize("typed", RESULTS)
def test_a_result_is_refused_however_it_is_written(typed: str) -> None:
    with pytest.raises(UsageError, match="is typed, and your claim does not hold it"):
        check(f"{SHOWN}\n\n{typed}", CLAIM, FACTOR, SETTINGS)


@pytest.mark.parametrize("typed", DESIGN)
def test_a_number_of_the_design_may_be_typed(typed: str) -> None:
    check(f"{SHOWN}\n\nI had {typed}.", CLAIM, FACTOR, SETTINGS)


def test_the_sentence_says_where_a_result_is_and_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"report.md, line 3: 0.03 is typed.*\{\{difference\}\}"):
        check(f"{SHOWN}\n\nthree hundredths", CLAIM, FACTOR, SETTINGS)
    with pytest.raises(UsageError, match=r"1,024 is typed.* If it is a count, write 1024\."):
        check(f"{SHOWN} 1,024 stories", CLAIM, FACTOR, SETTINGS)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("**Verdict**: supports", "supports"),
        ("## Verdict\n\n*undecided*, because", "undecided"),
        ("Verdict:\ncontradicts", "contradicts"),
        ("Verdict:\n\nWhat this cannot show", ""),
        ("the\nverdict follows from the interval", ""),
    ],
)
def test_a_verdict_is_found_where_people_write_it(text: str, word: str) -> None:
    assert verdict_in(text) == word


def test_two_verdicts_are_none() -> None:
    with pytest.raises(UsageError, match="has the verdicts supports and contradicts"):
        verdict_in("Verdict: supports\n\nVerdict: contradicts\n")
