"""Reports in the formats of other systems. Each function takes the reports on one learner's files and returns a file's
text."""

import json
import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from commandline.errors import UsageError
from commandline.text import sentence
from grader.course import catalog
from grader.judge.verdict import Verdict
from grader.report.json_report import CheckRow, MisconceptionRow, PublicReport, dumps

Reports = Sequence[PublicReport]

# The variables in which Classroom 50's runner describes a submission.
_CLASSROOM50 = ("CLASSROOM", "ASSIGNMENT", "OWNER", "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")


def gradescope(reports: Reports, later: Reports = ()) -> str:
    """Returns the results.json of a Gradescope autograder, with a test for each check.

    `later` are the same reports as learners may read them after the due date in Gradescope. The additional text on a
    check becomes a test without points, which Gradescope shows then.
    """
    tests: list[dict[str, Any]] = [
        {
            "score": check.points if check.passed else 0,
            "max_score": check.points,
            "status": "passed" if check.passed else "failed",
            "name": _title(report, check),
            "number": f"{_label(report)}.{place}",
            "output": _explanation(report, check),
            "output_format": "text",
            "visibility": "visible",
        }
        for report in reports
        for place, check in enumerate(report.checks, 1)
    ]
    tests += [
        {
            "name": f"{_title(report, check)}: more",
            "number": f"{_label(report)}.{place}",
            "output": said,
            "output_format": "text",
            "visibility": "after_due_date",
        }
        for now, report in zip(reports, later, strict=False)
        for place, (before, check) in enumerate(zip(now.checks, report.checks, strict=True), 1)
        if (said := _explanation(report, check)) != _explanation(now, before)
    ]
    return _json(
        {
            "score": sum(report.score for report in reports),
            "execution_time": round(sum(report.seconds for report in reports)),
            "output": "\n".join(_summary(report) for report in reports),
            "output_format": "text",
            "visibility": "visible",
            "stdout_visibility": "hidden",
            "tests": tests,
        }
    )


def prairielearn(reports: Reports) -> str:
    """Returns the results.json of a PrairieLearn external grader. Its score is a fraction of 1."""
    points = sum(report.points for report in reports)
    return _json(
        {
            "gradable": True,
            "score": sum(report.score for report in reports) / points if points else 0.0,
            "message": "; ".join(_summary(report) for report in reports),
            "output": "",
            "tests": [
                {
                    "name": _title(report, check),
                    "description": "",
                    "points": check.points if check.passed else 0,
                    "max_points": check.points,
                    "message": _explanation(report, check),
                    "output": "",
                }
                for report in reports
                for check in report.checks
            ],
        }
    )


def classroom50(reports: Reports) -> str:
    """Returns the result.json of a Classroom 50 autograder, as its wiki page Advanced-Autograding defines it
    (`classroom50/result/v1`).

    Takes the submission's identity from the environment of its runner, which replaces `owner`, `assignment_type` and
    `datetime` by its own. Raises UsageError outside of it.
    """
    missing = [name for name in _CLASSROOM50 if not os.environ.get(name)]
    if missing:
        raise UsageError(f"--format classroom50 runs in Classroom 50's runner, which sets {' and '.join(missing)}.")
    commit = os.environ["COMMIT_URL"]
    tests = [
        {
            "test-name": _title(report, check),
            "passed": check.passed,
            "score": check.points if check.passed else 0,
            "max-score": check.points,
            "output": _explanation(report, check),  # a field of our own, which it keeps
        }
        for report in reports
        for check in report.checks
    ]
    return _json(
        {
            "schema": "classroom50/result/v1",
            "classroom": os.environ["CLASSROOM"],
            "assignment": os.environ["ASSIGNMENT"],
            "assignment_type": os.environ.get("ASSIGNMENT_TYPE") or "individual",
            "owner": os.environ["OWNER"],
            "submission": os.environ["SUBMISSION_TAG"],
            "commit": commit,
            "release": os.environ["RELEASE_URL"],
            "review": os.environ.get("REVIEW_URL") or commit,
            "datetime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "score": sum(report.score for report in reports),
            "max-score": sum(report.points for report in reports),
            "tests": tests,
        }
    )


def junit(reports: Reports) -> str:
    """Returns JUnit XML, with a suite for each problem and a case for each check."""
    top = ElementTree.Element("testsuites")
    for report in reports:
        failed = [check for check in report.checks if not check.passed]
        errors = [check for check in failed if check.verdict not in (Verdict.FAIL, Verdict.NOT_ATTEMPTED)]
        suite = ElementTree.SubElement(
            top, "testsuite", name=str(report.problem), tests=str(len(report.checks)), errors=str(len(errors)),
            failures=str(len(failed) - len(errors)), skipped="0", time=f"{report.seconds:.3f}",
        )  # fmt: skip
        for check in report.checks:
            case = ElementTree.SubElement(suite, "testcase", classname=str(report.problem), name=check.name, time="0")
            if not check.passed:
                kind = "error" if check in errors else "failure"
                explanation = _explanation(report, check)
                element = ElementTree.SubElement(
                    case, kind, message=_xml(explanation.partition("\n")[0]), type=str(check.verdict)
                )
                element.text = _xml(explanation)
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def as_json(reports: Reports) -> str:
    """Returns the course's own JSON objects, one on each line."""
    return "".join(f"{dumps(report)}\n" for report in reports)


def text(reports: Reports) -> str:
    """Returns plain text, with a summary and a line for each check."""
    lines = []
    for report in reports:
        lines += [_summary(report), ""]
        said: set[str] = set()
        for check in report.checks:
            lines.append(f"  {'pass' if check.passed else check.verdict:8} {check.name}")
            message = "same cause as above" if "\n" in check.message and check.message in said else check.message
            lines += [f"           {line}" for line in message.splitlines()]
            said.add(check.message)
    return "\n".join(lines) + "\n"


FORMATS: dict[str, tuple[str, Callable[[Reports], str]]] = {
    "classroom50": ("json", classroom50),
    "gradescope": ("json", gradescope),
    "junit": ("xml", junit),
    "json": ("jsonl", as_json),
    "prairielearn": ("json", prairielearn),
    "text": ("txt", text),
}


def render(reports: Reports, name: str, later: Reports = ()) -> str:
    """Returns the reports in the format of that name. `later` are those after the due date, for a system that shows
    them then itself."""
    return gradescope(reports, later) if name == "gradescope" else FORMATS[name][1](reports)


def _title(report: PublicReport, check: CheckRow) -> str:
    return f"{_label(report)} {catalog.load(report.problem).title if report.problem else ''}: {check.name}"


def _label(report: PublicReport) -> str:
    return report.problem.label if report.problem else "?"


def _summary(report: PublicReport) -> str:
    cause = f" {_cause(report.misconception)}" if report.misconception else ""
    remarks = "".join(f" {sentence(remark)}" for remark in report.remarks)
    return f"Problem {_label(report)}: {report.verdict}, {report.score} of {report.points} points.{cause}{remarks}"


def _explanation(report: PublicReport, check: CheckRow) -> str:
    """Returns the message of a check. For the first check that fails, also the misconception."""
    if check is not report.first_failure or not report.misconception:
        return check.message
    return f"{check.message}\n{_cause(report.misconception)}".strip()


def _cause(misconception: MisconceptionRow) -> str:
    return f"Likely cause: {misconception.name}. {misconception.says} {misconception.fix}".strip()


def _xml(text: str) -> str:
    """Returns the text without the characters that XML does not allow."""
    return re.sub("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
