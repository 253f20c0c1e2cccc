"""What other programs and other web pages can do to a studio: nothing."""

import contextlib
import http.client
import json
import os
import socket
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
    studio: Server, path: str, method: str = "GET", body: object = None, cookie: str | None = None,
    root: str | None = None, **headers: str,
) -> Answer:  # fmt: skip
    """The answer to a request of a page of the studio, unless the other arguments say otherwise; an empty header is
    left out."""
    sent = {
        "Host": f"127.0.0.1:{studio.port}",
        "Origin": studio.origin,
        "Sec-Fetch-Site": "same-origin",
        "Cookie": studio.cookie if cookie is None else cookie,
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {name: value for name, value in sent.items() if value}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)) as connection:
        connection.request(method, (studio.root if root is None else root) + path, None if body is None else data, sent)
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())


def raw(studio: Server, request: str) -> bytes:
    """The first bytes of the answer to these bytes."""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=60) as connection:
        connection.sendall(request.encode())
        return connection.recv(1000)


def save(studio: Server, text: object, base: str = "", **headers: str) -> Answer:
    return ask(studio, FILE, "PUT", {"text": text, "base": base}, **headers)


def test_without_both_secrets_nothing_is_served(studio: Server):
    """The token is a third one: it is not the cookie, and neither the path nor the cookie is worth anything alone."""
    value = studio.cookie.partition("=")[2]
    assert len({value, studio.token, studio.root.lstrip("/")}) == 3
    for path in ("/", FILE, "/static/studio.js", "/nowhere"):
        for cookie in ("", "studio=wrong", f"studio={studio.token}", f"other={value}", "\x01", 'studio="'):
            assert ask(studio, path, cookie=cookie).status == 403
        for root in (
            "",
            f"{studio.root}x",
            studio.root[:-1],
            f"/{studio.token}",
            f"/x{studio.root}",
            f"/{studio.root}",
        ):
            assert ask(studio, path, root=root).status == 403
    for wrong in ("wrong", value, studio.root.lstrip("/")):
        assert ask(studio, f"/?token={wrong}", cookie="", root="").status == 403
    junk = f"studio=junk; {studio.cookie}; studio=junk"  # of a server on another port, which can set cookies, too
    assert ask(studio, "/", cookie=junk).status == 200


def test_the_token_becomes_a_strict_cookie_for_one_path(studio: Server):
    answer = ask(studio, f"//evil.example/?token={studio.token}&a=1", cookie="", root="")
    assert answer.status == 200
    assert f'content="0; url={studio.root}/evil.example/?a=1"' in answer.body.decode()
    assert answer.headers["cache-control"] == "no-store"
    name_and_value, *attributes = answer.headers["set-cookie"].split("; ")
    assert name_and_value == studio.cookie
    assert {text.lower() for text in attributes} == {"httponly", f"path={studio.root}".lower(), "samesite=strict"}


def test_only_one_way_to_say_how_long_a_body_is(studio: Server):
    lengths = "Content-Length: 4\r\nTransfer-Encoding: chunked"
    request = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{studio.port}\r\n{lengths}\r\n\r\n0\r\n\r\n"
    assert raw(studio, request).startswith(b"HTTP/1.1 400 ")
    for cookie in ("", studio.cookie):
        headers = {"Content_Length": "4", "Transfer_Encoding": "chunked", "cookie": cookie}
        assert ask(studio, FILE, "PUT", b"0\r\n\r\n", **headers).status == 400


@pytest.mark.parametrize("digits", [19, 30, 5000])
def test_no_number_is_too_large(studio: Server, digits: int):
    number = "9" * digits
    for path in (f"/problems/07/attempts/{number}", f"/problems/{number}", f"/problems/{number}/file"):
        assert ask(studio, path).status == 404, path


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
    for path in (
        "/static/../guard.py",
        "/static/..%2fguard.py",
        "/static//etc/passwd",
        "/problems/../secret.txt",
        "/problems/07/attempts/../../../secret.txt",
        "/problems/99",
        "/problems/-1",
        "/problems/07/attempts/999999",
        "/problems/p07_next_token_loss",
        "/static/%00",
        "/problems/%2e%2e",
    ):
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


@pytest.mark.parametrize(("parts", "is_too_large"), [(8, False), (33, True)])
def test_a_body_in_parts_is_bounded_as_a_whole(studio: Server, parts: int, is_too_large: bool):
    """It does not say how large it is, and none of its parts is large."""
    spaces = b" " * (1 << 16)
    headers = {"Host": f"127.0.0.1:{studio.port}", "Origin": studio.origin, "Cookie": studio.cookie}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", studio.port, timeout=60)) as connection:
        connection.request("PUT", studio.root + FILE, iter([spaces] * parts + [b"{}"]), headers)
        assert connection.getresponse().status == (413 if is_too_large else 400)


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
        is_static = path.startswith("/static") and cookie is None
        assert answer.headers["cache-control"] == ("no-cache" if is_static else "no-store")


def test_the_reference_is_for_those_who_have_passed(studio: Server):
    assert ask(studio, "/problems/09/reference", "POST", {"text": ""}).status == 403
