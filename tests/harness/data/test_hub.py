"""Models from a local server that imitates the hub."""

import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from harness.data import hub as hub_module
from harness.data.hub import model_folder
from harness.errors import HarnessError, UsageError
from tests.harness.data.local_hub import in_place_of_the_hub

pytestmark = pytest.mark.fast

FILES = {
    "config.json": b'{"model_type": "llama"}',
    "model.safetensors": bytes(range(256)) * 40,
    "model.bin": b"never read",
}


class Hub(ThreadingHTTPServer):
    """Has one model, tiny/llama. `status` answers all requests, if it is not 0."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.status, self.code = 0, ""
        self.sent: list[str] = []


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        if self.server.status or "/tiny/llama/" not in self.path:
            self._send(self.server.status or 404, b"{}", {"X-Error-Code": self.server.code})
        elif "/tree/" in self.path:
            files = [{"type": "file", "path": name, "size": len(data), "oid": "0" * 40} for name, data in FILES.items()]
            self._send(200, json.dumps(files).encode(), {})
        elif self.path.startswith("/api/"):
            siblings = [{"rfilename": name, "size": len(data), "blobId": "0" * 40} for name, data in FILES.items()]
            body = {"id": "tiny/llama", "sha": "a" * 40, "siblings": siblings, "private": False, "tags": []}
            self._send(200, json.dumps(body).encode(), {})
        else:
            data = FILES[name]
            self.server.sent += [name] if self.command == "GET" else []
            self._send(200, data, {"ETag": hashlib.sha256(data).hexdigest(), "X-Repo-Commit": "a" * 40})

    do_HEAD = do_GET

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    server = Hub()
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    hub_module._snapshot.cache_clear()
    with in_place_of_the_hub(server, monkeypatch):
        yield server


def test_a_model_is_downloaded_once_and_then_needs_no_network(hub: Hub, tmp_path: Path, monkeypatch) -> None:
    folder = model_folder("hf:tiny/llama")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {
        name: data for name, data in FILES.items() if name != "model.bin"
    }
    assert sorted(hub.sent) == ["config.json", "model.safetensors"]
    hub_module._snapshot.cache_clear()  # as in another process
    assert model_folder("hf:tiny/llama") == folder
    assert len(hub.sent) == 2
    hub_module._snapshot.cache_clear()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert model_folder("hf:tiny/llama") == folder


def test_a_folder_is_not_looked_for_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny" / "llama").mkdir(parents=True)
    assert model_folder("hf:tiny/llama") == Path("tiny/llama")
    assert model_folder("hf:/no/such/folder") == Path("/no/such/folder")
    assert hub.sent == []


@pytest.mark.parametrize(
    ("status", "code", "error", "sentence"),
    [
        (
            404,
            "RepoNotFound",
            UsageError,
            "There is no folder tiny/llama, and no public model of this name on the hub.",
        ),
        (403, "GatedRepo", UsageError, "is only for those who accept its license"),
        (500, "", HarnessError, r"The model tiny/llama could not be downloaded \(.*\). Rerun the command to resume"),
    ],
)
def test_what_fails_is_one_sentence(status: int, code: str, error: type, sentence: str, hub: Hub, monkeypatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.status, hub.code = status, code
    with pytest.raises(error, match=sentence):
        model_folder("hf:tiny/llama")
