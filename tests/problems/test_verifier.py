"""The reference of problem 81 agrees with the parser of the harness, and a fork judges programs as an interpreter
does."""

import ast
import random
import sys

import pytest

from grader.course import cases, catalog
from harness.run.parse_answers import number_in
from problems.p81_verifier import probes
from problems.p81_verifier.programs import FAMILIES, TASKS, expected
from tests.conftest import ROOT

SECONDS = 0.15


@pytest.fixture(autouse=True)
def references_importable(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])
    monkeypatch.chdir(tmp_path)  # where the folders of the runner are made


def test_numbers_are_those_of_the_harness():
    from p81_verifier import number

    rng, forms = random.Random(0), ("{}", "{:,}", "-{}", "\u2212{:,}.5", "0.{}", "{}/7", r"\frac{{{}}}{{9}}", "{}.")
    texts = [rng.choice(forms).format(rng.randrange(10**9)) for _ in range(400)]
    assert [number(text) for text in texts] == [number_in(text) for text in texts]
    assert None not in map(number, texts)


def test_what_is_right_is_right_for_the_harness():
    """The harness reads more forms, so it may accept an answer that the strict form of the page refuses, but it does
    not refuse one that counts there. It knows no powers of ten and only commas between thousands."""
    from p81_verifier import verify

    for case in cases.draw(catalog.find("81"), "boxes", 0):
        for answer, truth in ast.literal_eval(case.values["pairs"]):
            assert not verify(answer, truth) or number_in(answer) == number_in(truth) is not None, answer


@pytest.mark.parametrize("family", ["honest", "leaving"])
def test_a_fork_judges_as_a_new_interpreter_does(monkeypatch, family):
    from p81_verifier import run_tests

    def judged(platform: str) -> list[bool]:
        monkeypatch.setattr(sys, "platform", platform)
        runner = probes.Runner(SECONDS)
        return [run_tests(code, tests, SECONDS, runner.run) for code, tests in programs]

    programs = []
    for _, make, *fitting in FAMILIES[family][:9:2]:
        task = (fitting or ["squares"])[0]
        tests = [([[a, 2, a * a]], expected(task, [[a, 2, a * a]])) for a in (5, 6)]
        programs.append((make(TASKS[task].source, tests), tests))
    assert judged("linux") == judged("win32") == [family == "honest"] * len(programs)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of a fork")
def test_a_program_without_end_is_ended_and_counts():
    runner = probes.Runner(0.05)
    assert runner.run("print('on its way', flush=True)\nwhile True:\n    pass", 0.05) == (None, "on its way\n")
    assert not runner.late
    assert runner.run("while True: pass", 0.05)[0] is None
    assert runner.late


def test_an_exit_code_and_the_output_are_those_of_the_program():
    runner = probes.Runner(SECONDS)
    programs = {
        "import sys\nsys.exit(3)": 3,
        "raise SystemExit('no')": 1,
        "1 / 0": 1,
        "import os\nos._exit(7)": 7,
        "": 0,
    }
    assert {source: runner.run(source, SECONDS)[0] for source in programs} == programs
    assert runner.run("print('語')", SECONDS) == (0, "語\n")
