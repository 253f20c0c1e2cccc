"""The commands about progress, on a workspace that remembers verdicts without grading."""

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from grader.course import catalog, log, tasks
from grader.course.workspace import Workspace
from tests.conftest import ROOT, Grade

pytestmark = pytest.mark.fast

HEADS, LOSS = catalog.find("03"), catalog.find("07")


@pytest.fixture
def space(tmp_path: Path) -> Workspace:
    """A workspace in which 03 broke after it had passed, and 07 passed with a hint."""
    space = Workspace(tmp_path / "attempts")
    for problem, text in ((HEADS, "heads = 1"), (LOSS, "loss = 1")):
        space.add(problem)
        space.file(problem).write_text(text)
        space.remember(problem, verdict="PASS", score=problem.points)
    space.file(HEADS).write_text("heads = 2")
    space.remember(HEADS, verdict="FAIL", score=2)
    space.remember(LOSS, hints=1)
    return space


def test_list_shows_points_now_and_best(grade: Grade, space: Workspace):
    out = grade("list").out
    assert f" 2 of  {HEADS.points}  broken (best {HEADS.points})" in out
    assert "07  Next-token loss                           6 of  6  passed" in out
    assert f"8 of {sum(p.points for p in catalog.problems())} points, {6 + HEADS.points} at best." in out
    assert "attempts, 1 passed" in grade("doctor").out


@pytest.mark.parametrize(
    ("words", "labels"), [(["ADAM"], ["09"]), (["broken"], ["03"]), (["feeding", "16"], ["16"]), (["p07"], ["07"])]
)
def test_list_searches(words: list[str], labels: list[str], grade: Grade, space: Workspace):
    out = grade("list", *words).out
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  ")] == labels


def test_list_finds_nothing(grade: Grade):
    run = grade("list", "no", "such")
    assert (run.code, run.out) == (2, "")
    assert run.err == "grade: No problem matches 'no such'. `grade list` shows all of them.\n"


def test_next_names_what_broke(grade: Grade, space: Workspace):
    for number in ("01", "02"):
        problem = catalog.find(number)
        space.add(problem)
        space.remember(problem, verdict="PASS", score=problem.points)
    out = grade("next").out
    assert "Next: problem 03" in out
    assert f"You passed it before, and it is broken now: 2 of {HEADS.points} points." in out
    assert "It builds on 02 " in out


def test_next_names_the_problem_that_teaches_what_is_missing(grade: Grade, space: Workspace):
    embedding = catalog.find("01")
    space.remember(embedding, verdict="FAIL", score=2, mistake="position table in a plain array")
    assert "Problem 33, Modules and parameters, teaches what your mistakes there have in common." in grade("next").out
    modules = catalog.find("33")
    space.put(modules, catalog.solution_text(modules))
    space.remember(modules, verdict="PASS", score=modules.points)
    assert "Problem 33" not in grade("next").out


def test_every_problem_that_a_misconception_names_exists():
    named = {each.see for problem in catalog.problems() for each in catalog.misconceptions(problem) if each.see}
    assert named
    assert named <= {name.slug for name in catalog.names()}


def test_a_cold_page_has_a_way_to_the_whole_and_a_whole_one_to_the_cold(grade: Grade, space: Workspace):
    drafts = catalog.find("62")
    cold = grade("show", "62").out
    assert "## Formulas" in cold
    assert "`grade show 62 --whole` shows all of it" in cold
    assert not any(words in cold for words in ("## Pitfalls", "Predict", "hints"))
    assert "## Pitfalls" in grade("show", "62", "--whole").out
    assert "## Pitfalls" not in grade("show", "07", "--cold").out
    space.remember(drafts, verdict="PASS", score=drafts.points)
    assert "## Pitfalls" in grade("show", "62").out, "it has passed"


def test_reset(grade: Grade, space: Workspace):
    run = grade("reset", "03")
    assert run.out == "kept  attempts/p03_causal_mha.1.py\nnew   attempts/p03_causal_mha.py\n"
    assert (space.folder / "p03_causal_mha.1.py").read_text() == "heads = 2"
    assert grade("reset", "03").out == "attempts/p03_causal_mha.py is the stub.\n"


def test_a_certificate_says_what_it_is_and_when_a_problem_passed(grade: Grade, space: Workspace):
    run = grade("certificate", "--name", "Ada <script>")
    assert (run.code, run.out) == (0, "new   attempts/certificate.html\n")
    text = (space.folder / "certificate.html").read_text()
    row = space.progress()[LOSS.name]
    for part in (
        "<h1>GPT Kata: Ada &lt;script&gt;</h1>",
        f"2 problems of {len(catalog.problems())} passed, {6 + HEADS.points} of",
        row.passed_at[:10],
        row.versions,
        row.digest,
        "with 1 hint",
        "broken",
        "proves nothing to others",
    ):
        assert part in text
    assert not any(word in text for word in ("<script", "src=", "href=", "url("))
    opened: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attrs: opened.append(tag)  # type: ignore[method-assign]
    parser.handle_endtag = lambda tag: opened.remove(tag)  # type: ignore[method-assign]
    parser.feed(text)
    assert set(opened) <= {"meta", "br"}, "everything else is closed"


def _write_run(runs: Path, name: str, validation: list[float], *, pieces: bool = True) -> None:
    """Writes the files of a run with a validation and a sample after each second step."""
    folder = runs / name
    (folder / "samples").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"pieces": [["MiniGPT", "0" * 8]] if pieces else []}))
    (folder / "baselines.json").write_text(json.dumps({"unigram": 5.5, "bigram": 2.25}))
    lines = []
    for index, loss in enumerate(validation):
        lines.append({"step": 2 * index + 1, "loss": loss + 0.3, "validation_loss": None})
        lines.append({"step": 2 * index + 2, "loss": loss + 0.1, "validation_loss": loss})
        (folder / f"samples/{2 * index + 2:07}.txt").write_text(f"{name} <{loss}> was happy.<|endoftext|>\n")
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 99, "lo')


def test_a_certificate_begins_with_what_was_built_and_a_story(grade: Grade, space: Workspace, tmp_path: Path):
    runs = tmp_path / "runs"
    _write_run(runs, "weak", [3.0, 2.5])
    _write_run(runs, "mine", [3.0, 1.25, 1.75])
    _write_run(runs, "harness", [0.5], pieces=False)
    (runs / "broken").mkdir()
    (runs / "broken/config.json").write_text('{"pieces": 1')
    for problem in catalog.problems()[:7]:
        space.put(problem, f"{problem.name} = 1")
        space.remember(problem, verdict="PASS", score=problem.points)
    speedrun = tasks.tasks()[0]
    space.note(log.entry(tasks.SCORED, speedrun.label, score=int(speedrun.standards[-1].most)))
    assert grade("certificate", "--name", "Ada").code == 0
    text = (space.folder / "certificate.html").read_text()
    order = [
        "A GPT: embeddings, causal attention, blocks, and its loss",
        "Trained: mine",
        "mine &lt;1.25&gt; was happy.</blockquote>",
        "After 4 steps its validation loss is 1.25 nats a token, below the 2.25 of a bigram model",
        "<svg",
        f"<h2>Records</h2>\n<ul>\n<li>{speedrun.title}: {speedrun.standards[-1].name}",
        "digest",
    ]
    places = [text.find(part) for part in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
    assert "The trainer" not in text, "its part is not whole"


def test_a_certificate_without_a_run_has_no_picture(grade: Grade, space: Workspace):
    assert grade("certificate").code == 0
    text = (space.folder / "certificate.html").read_text()
    assert not any(part in text for part in ("Trained", "<svg", "Records", "Built from scratch"))


def test_a_certificate_replaces_only_a_certificate(grade: Grade, space: Workspace, tmp_path: Path):
    (tmp_path / "page.html").write_text("mine")
    refused = grade("certificate", "--out", "page.html")
    assert (refused.code, (tmp_path / "page.html").read_text()) == (2, "mine")
    assert "page.html exists and is not a certificate; name another file with --out." in refused.err
    for _ in range(2):
        assert grade("certificate", "--out", "record.html").code == 0


def test_quick_commands_import_no_numpy(space: Workspace):
    """Nor anything else that takes longer than the command: they answer while you type the next one."""
    words = ["--help"], ["list"], ["next"], ["hint", "02"], ["show", "02"]
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
        "from grader.cli.learner import main\n"
        f"for words in {words!r}:\n    main.main(words, standalone_mode=False)\n"
        "print('imported', {'jax', 'numpy', 'psutil', 'rich'} & set(sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=space.folder, capture_output=True, text=True, check=False
    )
    assert "07  Next-token loss" in done.stdout
    assert done.stdout.endswith("imported set()\n"), done.stdout[-200:] + done.stderr


def test_a_list_for_other_programs(grade: Grade, tmp_path):
    Workspace(tmp_path / "attempts").add(LOSS)
    Workspace(tmp_path / "attempts").remember(LOSS, verdict="FAIL", score=1)
    run = grade("list", "--json", "07")
    assert run.json == {
        "schema": 1,
        "problems": [
            {
                "name": "p07_next_token_loss",
                "label": "07",
                "title": "Next-token loss",
                "part": "I. A GPT, piece by piece",
                "points": 1,
                "possible": 6,
                "state": "fail",
                "passed": False,
                "file": str(tmp_path / "attempts" / "p07_next_token_loss.py"),
            }
        ],
        "tasks": [],
    }
    assert len(grade("list", "--json").json["problems"]) == len(catalog.problems())
    refused = grade("list", "--json", "nothing-like-that")
    assert (refused.code, refused.out) == (2, "")
