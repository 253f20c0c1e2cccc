"""The reports on one learner's files, as other systems read them. Each takes the JSON reports and gives the text of a file."""

import base64
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from grader import course

Reports = Sequence[Mapping[str, Any]]


def gradescope(reports: Reports) -> str:
    """results.json of a Gradescope autograder: a test for each check, its score and what to say of it."""
    tests = [
        {
            "score": check["points"] if check["passed"] else 0,
            "max_score": check["points"],
            "status": "passed" if check["passed"] else "failed",
            "name": _title(report, check),
            "number": f"{_number(report)}.{place}",
            "output": _says(report, check),
            "output_format": "text",
            "visibility": "visible",
        }
        for report in reports
        for place, check in enumerate(report["checks"], 1)
    ]
    return _json(
        {
            "score": sum(report["score"] for report in reports),
            "execution_time": round(sum(report["seconds"] for report in reports)),
            "output": "\n".join(_summary(report) for report in reports),
            "output_format": "text",
            "visibility": "visible",
            "stdout_visibility": "hidden",
            "tests": tests,
        }
    )


def prairielearn(reports: Reports) -> str:
    """results.json of a PrairieLearn external grader; the score is a part of 1."""
    points = sum(report["points"] for report in reports)
    return _json(
        {
            "gradable": True,
            "score": sum(report["score"] for report in reports) / points if points else 0.0,
            "message": "; ".join(_summary(report) for report in reports),
            "output": "",
            "tests": [
                {
                    "name": _title(report, check),
                    "description": "",
                    "points": check["points"] if check["passed"] else 0,
                    "max_points": check["points"],
                    "message": _says(report, check),
                    "output": "",
                }
                for report in reports
                for check in report["checks"]
            ],
        }
    )


def github(reports: Reports) -> str:
    """The `result` that a GitHub Classroom grader hands to its reporter: JSON in base64, in one line."""
    result = {
        "version": 1,
        "status": "pass" if all(report["verdict"] == "PASS" for report in reports) else "fail",
        "max_score": sum(report["points"] for report in reports),
        "tests": [
            {
                "name": _title(report, check),
                "status": "pass" if check["passed"] else "fail",
                "message": _says(report, check) or None,
                "test_code": f"grade problem {_number(report)}",
                "filename": "",
                "line_no": 0,
                "duration": 0,
                "score": check["points"] if check["passed"] else 0,
            }
            for report in reports
            for check in report["checks"]
        ],
    }
    return base64.b64encode(json.dumps(result).encode()).decode() + "\n"


def junit(reports: Reports) -> str:
    """JUnit's XML: a suite for each problem, a case for each check."""
    top = ElementTree.Element("testsuites")
    for report in reports:
        failed = [check for check in report["checks"] if not check["passed"]]
        errors = [check for check in failed if check["verdict"] not in ("FAIL", "NOT ATTEMPTED")]
        suite = ElementTree.SubElement(
            top, "testsuite", name=report["problem"], tests=str(len(report["checks"])), errors=str(len(errors)),
            failures=str(len(failed) - len(errors)), skipped="0", time=f"{report['seconds']:.3f}",
        )  # fmt: skip
        for check in report["checks"]:
            case = ElementTree.SubElement(suite, "testcase", classname=report["problem"], name=check["name"], time="0")
            if not check["passed"]:
                kind = "error" if check in errors else "failure"
                says = _says(report, check)
                found = ElementTree.SubElement(case, kind, message=_xml(says.partition("\n")[0]), type=check["verdict"])
                found.text = _xml(says)
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def as_json(reports: Reports) -> str:
    """Our own objects, one a line."""
    return "".join(f"{json.dumps(report, ensure_ascii=False, allow_nan=False)}\n" for report in reports)


def text(reports: Reports) -> str:
    """For a person: the summary, and each check."""
    lines = []
    for report in reports:
        lines += [_summary(report), ""]
        for check in report["checks"]:
            lines.append(f"  {'pass' if check['passed'] else check['verdict']:8} {check['name']}")
            lines += [f"           {check['message']}"] * bool(check["message"])
    return "\n".join(lines) + "\n"


FORMATS: dict[str, tuple[str, Callable[[Reports], str]]] = {
    "gradescope": ("json", gradescope),
    "github": ("txt", github),
    "junit": ("xml", junit),
    "json": ("jsonl", as_json),
    "prairielearn": ("json", prairielearn),
    "text": ("txt", text),
}


def render(reports: Reports, name: str) -> str:
    """The text of a file in that format."""
    return FORMATS[name][1](reports)


def _title(report: Mapping[str, Any], check: Mapping[str, Any]) -> str:
    return f"{_number(report)} {course.load(report['problem']).title}: {check['name']}"


def _number(report: Mapping[str, Any]) -> str:
    return str(report["problem"][1:3])


def _summary(report: Mapping[str, Any]) -> str:
    idea = report["misconception"]
    found = f" This is what comes out of: {idea['name']}. {idea['says']}" if idea else ""
    return f"Problem {_number(report)}: {report['verdict']}, {report['score']} of {report['points']} points.{found}"


def _says(report: Mapping[str, Any], check: Mapping[str, Any]) -> str:
    """What to tell of a check; with the first that fails, the idea behind it."""
    first = next((other for other in report["checks"] if not other["passed"]), None)
    if check is not first or not report["misconception"]:
        return str(check["message"])
    return f"{check['message']}\nThis is what comes out of: {report['misconception']['name']}. {report['misconception']['says']}"


def _xml(text: str) -> str:
    """Without the characters that XML has no way to hold."""
    return re.sub("[^\t\n\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"
