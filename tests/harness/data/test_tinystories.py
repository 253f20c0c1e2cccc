"""TinyStories from a local server that imitates the hub: interrupted, resumed and verified downloads."""

import hashlib
import io
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from harness.data import tinystories
from harness.data.formats import Seen
from harness.data.sources import open_source
from harness.errors import HarnessError
from tests.harness.data.local_hub import in_place_of_the_hub

pytestmark = pytest.mark.fast


def table(*texts: str) -> bytes:
    buffer = io.BytesIO()
    parquet.write_table(pa.table({"text": list(texts)}), buffer)
    return buffer.getvalue()


class Hub(ThreadingHTTPServer):
    """Serves two Parquet files. `cut` interrupts a response after that many bytes and refuses all later ones; `wrong`
    sends bytes that do not match the checksum."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = {
            "data/train-00000-of-00001.parquet": table(*(f"The cat saw {n} dogs." for n in range(2000))),
            "data/validation-00000-of-00001.parquet": table("A dog.", "A cat."),
        }
        self.cut: int | None = None
        self.wrong = self.down = False
        self.ranges: list[str | None] = []


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/api/datasets/roneneldan/TinyStories"):
            siblings = [
                {"rfilename": name, "size": len(data), "blobId": "0" * 40,
                 "lfs": {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 100}}
                for name, data in self.server.files.items()
            ]  # fmt: skip
            body = json.dumps({"id": "roneneldan/TinyStories", "sha": "a" * 40, "siblings": siblings, "private": False,
                "tags": [],
                               "downloads": 0, "likes": 0}).encode()  # fmt: skip
            self._send(200, body)
            return
        if self.server.down:
            self.connection.close()
            return
        data = next(data for name, data in self.server.files.items() if self.path.endswith(name))
        if self.server.wrong:
            data = bytes(len(data))
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        self._send(
            206 if wanted else 200, data[start:], f"bytes {start}-{len(data) - 1}/{len(data)}" if wanted else None
        )

    do_HEAD = do_GET

    def _send(self, status: int, body: bytes, content_range: str | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        cut = self.server.cut if status in (200, 206) and not self.path.startswith("/api") else None
        self.wfile.write(body[:cut])
        if cut is not None and cut < len(body):
            self.server.down = True
            self.connection.close()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    server = Hub()
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    with in_place_of_the_hub(server, monkeypatch):
        yield server


def test_files_are_downloaded_once(hub: Hub) -> None:
    source = open_source("tinystories", 0.1)
    labeled = [(part.in_validation, part.text) for part in source.read(Seen())]
    assert [text for in_split, text in labeled if in_split] == ["A dog.", "A cat."], "its own validation split"
    assert sum(not in_split for in_split, _ in labeled) == 2000
    requests = len(hub.ranges)
    assert open_source("tinystories", 0.1).key == source.key
    assert len(hub.ranges) == requests


def test_an_interrupted_download_is_resumed(hub: Hub, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(
        "huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000
    )  # the default of 10 MB is more than the file
    hub.cut = 3000
    with pytest.raises(
        HarnessError, match=r"TinyStories could not be downloaded.*bytes are in.*rerun the command to resume"
    ):
        tinystories.fetch_tinystories()
    partial = next((tmp_path / "cache" / "tinystories").glob("*.partial"))
    downloaded = partial.stat().st_size
    assert downloaded >= 3000
    hub.cut, hub.down = None, False
    files = tinystories.fetch_tinystories()
    assert f"bytes={downloaded}-" in hub.ranges
    assert [file.read_bytes() for file in files] == list(hub.files.values())


def test_a_corrupted_file_is_removed(hub: Hub, tmp_path: Path) -> None:
    hub.wrong = True
    with pytest.raises(HarnessError, match="wrong SHA-256"):
        tinystories.fetch_tinystories()
    assert not list((tmp_path / "cache" / "tinystories").iterdir())


def test_without_a_network_the_error_names_alternatives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HarnessError, match="use --data pocket"):
        tinystories.fetch_tinystories()
