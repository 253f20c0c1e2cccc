"""What other programs and other web pages can do to a studio: nothing."""

import contextlib
import http.client
import json
import os
import stat
from dataclasses import dataclass

import pytest

from tests.studio.conftest import Server

FILE = "/problems/07/file"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def ask(
    studio: Server, path: str, method: str = "GET", body: object = None, cookie: str | None = None, **headers: str
) -> Answer:
    """The answer to a request of a page of the studio, unless `headers` say otherwise; one that is empty is left out."""
    sent = {
        "Host": f"127.0.0.1:{studio.port}",
        "Origin": studio.base,
        "Sec-Fetch-Site": "same-origin",
        "Cookie": f"studio_{studio.port}={studio.token}" if cookie is None else cookie,
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {name: value for name, value in sent.items() if value}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)) as connection:
        connection.request(method, path, None if body is None else data, sent)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())


def save(studio: Server, text: object, base: str = "", **headers: str) -> Answer:
    return ask(studio, FILE, "PUT", {"text": text, "base": base}, **headers)


def test_without_the_token_nothing_is_served(studio: Server):
    for path in ("/", FILE, "/static/studio.js", "/nowhere"):
        for cookie in ("", f"studio_{studio.port}=wrong", "studio_1=" + studio.token, "\x01", 'studio_1="'):
            assert ask(studio, path, cookie=cookie).status == 403
    assert ask(studio, "/?token=wrong", cookie="").status == 403


def test_the_token_becomes_a_strict_cookie(studio: Server):
    answer = ask(studio, f"//evil.example/?token={studio.token}&a=1", cookie="")
    assert answer.status == 303
    assert answer.headers["location"] == "/evil.example/?a=1"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    token = studio.folder / "secret" / "token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def test_only_its_own_names_are_answered(studio: Server):
    assert ask(studio, "/", Host=f"localhost:{studio.port}").status == 200
    for host in ("evil.example", f"evil.example:{studio.port}", "127.0.0.1", f"127.0.0.1:{studio.port}.evil.example"):
        assert ask(studio, "/", Host=host).status == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": ""},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_only_its_own_pages_can_write(studio: Server, headers: dict[str, str]):
    before = studio.file("p07_next_token_loss").read_text()
    assert save(studio, "changed = True", **headers).status == 403
    assert ask(studio, "/problems/07/hint", "POST", {}, **headers).status == 403
    assert studio.file("p07_next_token_loss").read_text() == before


def test_no_path_leads_out(studio: Server):
    (studio.folder / "secret.txt").write_text("secret")
    for path in ("/static/../guard.py", "/static/..%2fguard.py", "/static//etc/passwd", "/problems/../secret.txt",
                 "/problems/07/attempts/../../../secret.txt", "/problems/99", "/problems/-1", "/problems/07/attempts/999999",
                 "/problems/p07_next_token_loss", "/static/%00", "/problems/%2e%2e"):  # fmt: skip
        assert ask(studio, path).status == 404, path


def test_links_are_neither_read_nor_written(studio: Server):
    file, secret = studio.file("p02_causal_attention"), studio.folder / "outside.py"
    secret.write_text("secret = 1")
    file.unlink()
    file.symlink_to(secret)
    try:
        read = ask(studio, "/problems/02/file")
        assert (read.status, "symbolic link" in read.body.decode()) == (422, True)
        assert b"secret = 1" not in ask(studio, "/problems/02").body
        assert ask(studio, "/problems/02/file", "PUT", {"text": "x", "base": ""}).status == 422
        assert secret.read_text() == "secret = 1"
        assert file.is_symlink()
    finally:
        file.unlink()
    os.mkfifo(file)
    try:
        assert ask(studio, "/problems/02/file").status == 422
    finally:
        file.unlink()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"text": 1, "base": ""}', b'{"text": "x"}', b"[" * 100_000, b"\xff"])
def test_other_bodies_are_refused(studio: Server, body: bytes):
    assert ask(studio, FILE, "PUT", body).status == 400


def test_texts_are_bounded(studio: Server):
    assert save(studio, "x" * (3 << 20)).status == 413
    assert ask(studio, FILE, "PUT", b"x" * (3 << 20), Transfer_Encoding="chunked").status in (400, 413)
    assert save(studio, "x" * (1 << 20) + "y").status == 422
    assert save(studio, "\ud800").status == 422


def test_a_text_is_written_only_over_the_one_that_it_is_based_on(studio: Server):
    file = studio.file("p04_layer_norm")
    file.write_bytes(b"one = 1\r\n")
    at = "/problems/04/file"
    first = json.loads(ask(studio, at).body)
    assert first["text"] == "one = 1\n"
    conflict = ask(studio, at, "PUT", {"text": "two = 2\n", "base": "0123456789abcdef"})
    assert (conflict.status, json.loads(conflict.body)) == (409, first)
    assert ask(studio, at, "PUT", {"text": "two = 2\n", "base": first["digest"]}).status == 200
    assert file.read_bytes() == b"two = 2\r\n"


def test_every_answer_tells_the_browser_to_be_strict(studio: Server):
    for path, cookie in (("/", None), ("/", ""), ("/nowhere", None), ("/static/studio.js", None), (FILE, None)):
        answer = ask(studio, path, cookie=cookie)
        assert (
            "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-"
            in answer.headers["content-security-policy"]
        )
        assert "script-src 'self' 'unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["server"] is None


def test_the_reference_is_for_those_who_have_passed(studio: Server):
    assert ask(studio, "/problems/09/reference").status == 403
