"""What `python -m tests.thorough` says of a run, and that docs/reliability.md shows the last one."""

import re
from pathlib import Path

import pytest

from tests import thorough

RUN = """<testsuites><testsuite name="pytest" tests="4" time="150.0" timestamp="2026-05-01T23:30:00.1+00:00">
<testcase classname="tests.harness.run.test_loop" name="test_a" time="60"/>
<testcase classname="tests.harness.test_config" name="test_b[x]" time="30">{}</testcase>
<testcase classname="" name="tests.test_site" time="6"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


def test_a_run_is_told_by_folder(tmp_path: Path):
    file = tmp_path / "run.xml"
    file.write_text(RUN.format(""))
    assert thorough.section(file).splitlines() == [
        "The last whole run was on 2026-05-01 and took 2 minutes.",
        "",
        "| tests | passed | skipped | failed | minutes |",
        "|---|---|---|---|---|",
        "| `tests/` | 0 | 1 | 0 | 0.1 |",
        "| `tests/harness/` | 2 | 0 | 0 | 1.5 |",
    ]


@pytest.mark.parametrize("how", ["failure", "error"])
def test_a_failed_test_is_named(tmp_path: Path, how: str):
    file = tmp_path / "run.xml"
    file.write_text(RUN.format(f'<{how} message="no"/>'))
    assert thorough.section(file).endswith("Failed:\n\n- `tests.harness.test_config`: test_b[x]")
    assert thorough.main([str(file), "--print-only"]) == 1


def test_a_test_that_ran_again_counts_as_it_ended_then(tmp_path: Path):
    file, again = tmp_path / "run.xml", tmp_path / "again.xml"
    file.write_text(RUN.format('<failure message="no"/>'))
    case = '<testcase classname="tests.harness.test_config" name="test_b[x]" time="12"/>'
    again.write_text(f'<testsuites><testsuite name="pytest" time="12">{case}</testsuite></testsuites>')
    text = thorough.section(file, again)
    assert "took 2 minutes. 1 of its tests ran again after a repair." in text
    assert "| `tests/harness/` | 2 | 0 | 0 | 1.2 |" in text
    assert "Failed" not in text


@pytest.mark.parametrize("text", ["", "<testsuites/>", None])
def test_a_file_without_tests_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None):
    file = tmp_path / "run.xml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(SystemExit) as error:
        thorough.main([str(file)])
    assert error.value.code == 2
    assert "cannot read" in capsys.readouterr().err


def test_the_page_shows_the_last_run():
    shown = thorough.PAGE.read_text().split(thorough.BEGIN)[1].split(thorough.END)[0]
    assert re.search(r"The last whole run was on \d{4}-\d\d-\d\d and took \d+ minutes\.", shown)
    rows = re.findall(r"^\| `tests/.*` \| (\d+) \| (\d+) \| (\d+) \|", shown, re.M)
    assert sum(int(passed) for passed, _, _ in rows) > 250
    assert {failed for _, _, failed in rows} == {"0"}
