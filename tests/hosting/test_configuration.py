"""The files that put up a hub: what they promise on one page, without a hub. `test_hub.py` starts a real one."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from grader.course import catalog
from grader.handout import pack
from tests.conftest import ROOT

traitlets = pytest.importorskip("traitlets.config")

HOSTING = ROOT / "hosting"
CONFIG = (HOSTING / "jupyterhub_config.py").read_text()
VALUES = yaml.safe_load((HOSTING / "kubernetes.yaml").read_text())
CONTAINERFILE = (HOSTING / "Containerfile").read_text()
ACCESS = "access:services!service=hand-in"
TOKEN = ["users:activity!user", "access:servers!server", ACCESS]


def configured(folder: Path, monkeypatch: pytest.MonkeyPatch, **values: str) -> Any:
    """The configuration as JupyterHub reads it."""
    for name in [name for name in os.environ if name.startswith("HUB_")]:
        monkeypatch.delenv(name)
    for name, value in {"FOLDER": str(folder / "hub"), "SERVICE_USER": "", **values}.items():
        monkeypatch.setenv(f"HUB_{name}", value)
    config = traitlets.Config()
    umask = os.umask(0o022)
    try:
        exec(compile(CONFIG, "jupyterhub_config.py", "exec"), {"get_config": lambda: config})
    finally:
        os.umask(umask)
    return config


def test_it_is_short_enough_to_be_read():
    assert len(CONFIG.splitlines()) <= 80


@pytest.mark.parametrize(
    ("way", "authenticator", "spawner"),
    [
        ("try", "native", "simple"),
        ("users", "pam", "localprocess"),
        ("systemd", "native", "systemd"),
        ("docker", "native", "docker"),
    ],
)
def test_every_way(way: str, authenticator: str, spawner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    c = configured(tmp_path, monkeypatch, WAY=way, LEARNERS="eve mallory", TEACHERS="trent", PROGRAMS="/opt/kata/bin")
    assert (c.JupyterHub.authenticator_class, c.JupyterHub.spawner_class) == (authenticator, spawner)
    assert (c.Authenticator.allowed_users, c.Authenticator.admin_users) == ({"eve", "mallory", "trent"}, {"trent"})
    assert c.Spawner.cmd == ["/opt/kata/bin/python", "-P", "-m", "studio.hub"]
    assert c.Spawner.server_token_scopes == TOKEN
    assert (tmp_path / "hub").stat().st_mode & 0o777 == 0o711
    assert (tmp_path / "hub" / "class").stat().st_mode & 0o777 == 0o700
    service = next(service for service in c.JupyterHub.services if service["name"] == "hand-in")
    assert service["command"] == [sys.executable, "-P", "-m", "hosting", str(tmp_path / "hub" / "class")]
    roles = {role["name"]: role["scopes"] for role in c.JupyterHub.load_roles}
    assert roles["user"] == ["self", ACCESS]


def test_what_a_learners_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shutil.chown", lambda path, user: None)
    here = Path(sys.executable).parent
    assert configured(tmp_path, monkeypatch).Spawner.cmd[0] == str(here / "python")
    assert configured(tmp_path, monkeypatch, SERVER="jupyter").Spawner.cmd == [str(here / "jupyterhub-singleuser")]
    in_image = configured(tmp_path, monkeypatch, WAY="docker").Spawner
    assert in_image.cmd == yaml.safe_load(re.search(r"^CMD (.+)$", CONTAINERFILE, re.MULTILINE)[1])
    assert in_image.cmd == VALUES["singleuser"]["cmd"]
    assert in_image.environment["GPT_KATA_IDLE"] == VALUES["singleuser"]["extraEnv"]["GPT_KATA_IDLE"]


def test_the_service_is_another_user_wherever_servers_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("shutil.chown", lambda path, user: Path(path, "owner").write_text(user))
    c = configured(tmp_path, monkeypatch, WAY="users", SERVICE_USER="marks")
    assert next(one["user"] for one in c.JupyterHub.services if one["name"] == "hand-in") == "marks"
    assert (tmp_path / "hub" / "class" / "owner").read_text() == "marks"


def test_the_page_explains_every_setting():
    page = (ROOT / "docs" / "hosting.md").read_text()
    settings = re.findall(r"^(c\.\w+\.\w+)", CONFIG, re.MULTILINE) + re.findall(r"(HUB_\w+)", CONFIG)
    assert [name for name in settings if f"`{name}`" not in page] == []


@pytest.mark.thorough
def test_the_image_for_learners_holds_no_solution(tmp_path: Path):
    """Everything that the build copies comes from the bundle, and the bundle has nothing from the solutions."""
    assert re.findall(r"^(?:COPY|ADD) (.+)$", CONTAINERFILE, re.MULTILINE) == [". /opt/exercises"]
    problem = catalog.find("01")
    list(pack.pack(tmp_path / "exercises", [problem]))
    core = [line.strip() for line in catalog.solution_text(problem).splitlines() if "embed" in line and "(" in line]
    stub = catalog.stub_text(problem)
    secret = {line for line in core if line not in stub}
    assert secret
    assert not (tmp_path / "exercises" / "solutions").exists()
    for path in (tmp_path / "exercises").rglob("*"):
        if path.suffix in (".py", ".md", ".toml", ".json", ".html"):
            assert not [line for line in secret if line in path.read_text(errors="replace")], path
    project = (tmp_path / "exercises" / "pyproject.toml").read_text()
    assert re.findall(r"/opt/exercises\[(\w+)\]", CONTAINERFILE) == ["jupyter"]
    assert (tmp_path / "exercises" / "studio" / "hub.py").is_file()
    assert "jupyter-server-proxy" in project
    assert "studio.jupyter:setup" in project


def test_the_values_for_kubernetes_say_the_same():
    spawner, user = VALUES["hub"]["config"]["Spawner"], VALUES["hub"]["loadRoles"]["user"]
    assert (spawner["server_token_scopes"], user["scopes"]) == (TOKEN, ["self", ACCESS])
    assert VALUES["singleuser"]["defaultUrl"] == "/gpt-kata/"
    documents = [*yaml.safe_load_all((HOSTING / "kubernetes-service.yaml").read_text())]
    service, _, deployment = documents
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    environment = {row["name"]: row.get("value", "") for row in container["env"]}
    url = VALUES["hub"]["services"]["hand-in"]["url"]
    assert url == f"http://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert VALUES["singleuser"]["extraEnv"]["GPT_KATA_HAND_IN"] == url + environment["JUPYTERHUB_SERVICE_PREFIX"]
    assert container["command"][:4] == ["python", "-P", "-m", "hosting"]
    assert deployment["spec"]["replicas"] == 1
