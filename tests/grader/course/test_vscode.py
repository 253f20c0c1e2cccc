"""The files for VS Code in a workspace."""

import json

from grader.course import vscode
from tests.conftest import Grade


def test_what_is_missing_is_written_and_nothing_twice(tmp_path):
    created, lacking = vscode.add(tmp_path)
    assert [path.name for path in created] == ["tasks.json", "settings.json", "extensions.json"]
    assert lacking == {}
    tasks, settings, extensions = (json.loads(path.read_text()) for path in created)
    (task,) = tasks["tasks"]
    assert task["isBackground"]
    assert task["command"] == "${config:python.defaultInterpreterPath}"
    assert settings["python.testing.pytestArgs"] == ["--workspace", "."]
    assert settings["editor.inlineSuggest.enabled"] is False
    assert settings["github.copilot.enable"] == {"python": False}
    assert extensions["recommendations"] == ["ms-python.python"]
    assert vscode.add(tmp_path) == ([], {})


def test_a_file_of_the_learner_stays_and_what_it_lacks_is_named(tmp_path, grade: Grade):
    home = tmp_path / "attempts" / ".vscode"
    home.mkdir(parents=True)
    mine = '{\n  // mine\n  "python.testing.pytestEnabled": true,\n  "python.defaultInterpreterPath": "python",\n}\n'
    (home / "settings.json").write_text(mine)
    (home / "extensions.json").write_text('{"recommendations": ["ms-python.python", "vim"]}')
    (home / "tasks.json").symlink_to(home / "elsewhere.json")
    said = grade("start").out
    assert "kept  attempts/.vscode/settings.json: it lacks 'python.testing.pytestArgs'. `grade start` in a new" in said
    assert "inlineSuggest" not in said, "their completion is their choice"
    assert "kept  attempts/.vscode/tasks.json: it lacks 'grade watch'. " in said
    assert "extensions.json" not in said
    assert (home / "settings.json").read_text() == mine
    assert not (home / "elsewhere.json").exists()
