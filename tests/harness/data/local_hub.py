"""A local server in place of the Hugging Face hub."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer

import pytest


@contextlib.contextmanager
def in_place_of_the_hub(server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Serves, and lets huggingface_hub ask this server."""
    threading.Thread(target=server.serve_forever, args=[0.02], daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", address + "/{repo_id}/resolve/{revision}/{filename}"
    )
    yield
    server.shutdown()
    server.server_close()
