"""The files for containers name what exists, and their commands grade a class. Building the image needs a network."""

import json
import os
import re
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from studio.command import web
from tests.conftest import ROOT, Grade

CONTAINERFILE = (ROOT / "Containerfile").read_text()
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_image_has_what_its_installation_needs():
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (.+)$", CONTAINERFILE, re.MULTILINE)]
    names = {name for words in copied for name in words}
    assert not [name for name in names if not (ROOT / name).exists()]
    assert names >= set(PROJECT["tool"]["uv"]["build-backend"]["module-name"])
    data = {ROOT / folder for folder in PROJECT["tool"]["uv"]["build-backend"]["data"].values()}
    needed = {path.resolve() for folder in data for path in (folder, *folder.iterdir())}  # some are links
    assert {str(path.relative_to(ROOT)) for path in needed} <= names
    assert names >= {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}
    extras = [name for names in re.findall(r"\.\[([\w,]+)\]", CONTAINERFILE) for name in names.split(",")]
    assert extras
    assert set(extras) <= set(PROJECT["project"]["optional-dependencies"])


def test_the_image_runs_as_a_plain_user():
    assert re.findall(r"^USER (.+)$", CONTAINERFILE, re.MULTILINE) == ["1000"]


@pytest.mark.thorough
def test_the_services_of_compose_grade_a_class(grade: Grade, tmp_path: Path):
    pytest.importorskip("distributed")
    for learner in ("ada", "bob"):
        (tmp_path / "class" / learner).mkdir(parents=True)
        (tmp_path / "class" / learner / "p01_token_embedding.py").write_text(
            (ROOT / "solutions" / "p01_token_embedding.py").read_text() + f"\nNAME = {learner!r}\n"
        )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    services, address = COMPOSE["services"], f"tcp://127.0.0.1:{port}"
    named = {"8786": port, "tcp://scheduler:8786": address, "dask": "-m dask"}
    processes = []
    with (tmp_path / "log").open("w") as log:
        try:
            for name in ("scheduler", "worker"):
                words = " ".join(named.get(word, word) for word in services[name]["entrypoint"]).split()
                processes.append(
                    subprocess.Popen(
                        [sys.executable, "-W", "ignore", *words],
                        cwd=tmp_path,
                        env={**os.environ, "PYTHONPATH": str(ROOT)},
                        stdout=log,
                        stderr=log,
                    )
                )
            run = grade("batch", "class", "--out", "results", "--scheduler", address)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()
    assert run.code == 0, run.err + (tmp_path / "log").read_text()
    assert run.out.splitlines()[-1] == "2 PASS."


def test_compose_uses_one_image_and_no_network_outside():
    assert {service["image"] for service in COMPOSE["services"].values()} == {"gpt-kata"}
    assert COMPOSE["services"]["scheduler"]["build"]["dockerfile"] == "Containerfile"
    assert COMPOSE["networks"] == {"cluster": {"internal": True}}
    assert {tuple(service["networks"]) for service in COMPOSE["services"].values()} == {("cluster",)}


def test_the_devcontainer_installs_the_course_and_forwards_the_studio():
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    (extra,) = re.findall(r"\.\[(\w+)\]", container["postCreateCommand"])
    assert extra in PROJECT["project"]["optional-dependencies"]
    port = next(option for option in web.params if option.name == "port")
    assert container["forwardPorts"] == [port.default]
