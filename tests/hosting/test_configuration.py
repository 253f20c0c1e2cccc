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
from hosting.lti import claims as names
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


PLATFORMS = (ROOT / "docs" / "lti.md").read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
CANVAS = PLATFORMS.split("[moodle]")[0]


def configured_for_a_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str = CANVAS) -> Any:
    """The configuration of a hub whose learners come from the platforms of a text: by default, the Canvas of
    docs/lti.md."""
    pytest.importorskip("tornado")
    lti = tmp_path / "hub" / "class" / "lti"
    lti.mkdir(parents=True)
    (lti / "platforms.toml").write_text(text)
    config = configured(tmp_path, monkeypatch, PUBLIC="https://hub.example.edu")
    loaded = list[str]()
    source = (HOSTING / "jupyterhub_lti_config.py").read_text()
    umask = os.umask(0o077)  # which the first configuration has set
    try:
        known = {"get_config": lambda: config, "load_subconfig": loaded.append, "__file__": str(HOSTING / "x.py")}
        exec(compile(source, "jupyterhub_lti_config.py", "exec"), known)
    finally:
        os.umask(umask)
    assert loaded == [str(HOSTING / "jupyterhub_config.py")]
    return config


@pytest.fixture
def of_a_course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return configured_for_a_course(tmp_path, monkeypatch)


def test_the_hub_of_a_course_keeps_its_secrets_and_names_users_by_their_id(of_a_course: Any, tmp_path: Path):
    c, folder = of_a_course, tmp_path / "hub"
    assert (c.LTI13Authenticator.username_key, c.LTI13Authenticator.client_id) == ("sub", {"10000000000042"})
    assert c.JupyterHub.public_url == "https://hub.example.edu"
    modes = {"crypt_key": 0o600, "class": 0o700, "class/lti": 0o700, "class/lti/platforms.toml": 0o644}
    assert {name: (folder / name).stat().st_mode & 0o777 for name in modes} == modes
    assert c.CryptKeeper["keys"] == [(folder / "crypt_key").read_text()]
    roles = {role["name"]: role["scopes"] for role in c.JupyterHub.load_roles}
    assert roles.keys() == {"user", "idle-culler", "hand-in"}
    assert roles["hand-in"] == ["admin:auth_state", "read:users"]


def test_a_hub_starts_before_its_registration_and_lets_nobody_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from tornado.web import HTTPError

    c = configured_for_a_course(tmp_path, monkeypatch, text="")
    with pytest.raises(HTTPError, match="The launch is for another tool"):
        c.Authenticator.post_auth_hook(None, None, {"name": "17", "auth_state": {"iss": "", "aud": "", "sub": "17"}})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(PLATFORMS, "has 2 platforms, and a hub signs in from one"), ("[canvas", "are not TOML")],
)
def test_platforms_that_a_hub_cannot_use(text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(SystemExit, match=sentence):
        configured_for_a_course(tmp_path, monkeypatch, text)


def test_a_service_that_wrote_the_platforms_does_not_say_who_signs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SystemExit, match="says who signs in, so it has to belong to the user of the hub"):
        configured_for_a_course(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("changes", "name", "sentence"),
    [
        ({}, "17", ""),
        ({names.DEPLOYMENT: "of another school"}, "17", "The deployment 'of another school' is not known here."),
        ({"aud": "another tool"}, "17", "The launch is for another tool."),
        ({"sub": "aB"}, "ab", "The hub cannot have a user 'aB'"),
        ({"sub": "18"}, "17", "The hub cannot have a user '18'"),
    ],
)
def test_who_the_hub_of_a_course_lets_in(of_a_course: Any, changes: dict[str, str], name: str, sentence: str):
    claims = {
        "iss": "https://canvas.instructure.com", "aud": "10000000000042", "sub": "17",
        names.DEPLOYMENT: "42:8865aa05b4b79b64a91a86042e43af5ea8ae79eb", names.VERSION: "1.3.0",
        names.MESSAGE: names.OPENS_A_LINK, **changes,
    }  # fmt: skip
    authentication = {"name": name, "auth_state": claims}
    hook = of_a_course.Authenticator.post_auth_hook
    if sentence:
        from tornado.web import HTTPError

        with pytest.raises(HTTPError) as error:
            hook(None, None, authentication)
        assert error.value.status_code == 403
        assert sentence in str(error.value)
    else:
        assert hook(None, None, authentication) is authentication


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
