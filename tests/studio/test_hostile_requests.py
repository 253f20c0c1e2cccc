"""Requests that no browser of the learner sends, byte by byte. Each is refused without a secret, and the owner is
served on."""

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.studio.conftest import Server
from tests.studio.test_guard import ask

SECRET = "the text of a file that is not the studio's"
OWN = "Host: {host}\r\nCookie: {cookie}\r\nConnection: close\r\n"  # what a page of the studio sends, at least
WRITES = OWN + "Origin: {origin}\r\n"


@pytest.fixture(scope="module", autouse=True)
def around(studio: Server) -> Iterator[None]:
    """What paths and links might lead to: files above and beside the workspace. The owner is served to the end."""
    for folder in (studio.folder, studio.folder.parent, studio.workspace):
        (folder / "outside.txt").write_text(SECRET)
    outside = studio.folder / "elsewhere"
    outside.mkdir()
    (outside / "config.json").write_text(SECRET)
    runs = studio.folder / "runs"
    runs.mkdir()
    (runs / "linked").symlink_to(outside)
    (runs / "links").mkdir()
    for name in ("config.json", "metrics.jsonl", "samples"):
        (runs / "links" / name).symlink_to(outside / "config.json")
    (runs / "pipe").mkdir()
    os.mkfifo(runs / "pipe" / "config.json")
    (runs / "deep").mkdir()
    (runs / "deep" / "config.json").write_text("[" * 60_000)
    yield
    assert ask(studio, "/").status == 200


def sent(studio: Server, request: str | bytes, *, ends: bool = False) -> tuple[int, bytes]:
    """The status of the answer to these bytes, 0 if the connection is closed without one, and all of the answer.

    With `ends`, nothing is sent after them, and the studio sees that: a request that is not complete would wait for the
    rest.
    """
    if isinstance(request, str):
        names = {
            "host": f"127.0.0.1:{studio.port}", "port": studio.port, "root": studio.root, "cookie": studio.cookie,
            "origin": studio.origin, "token": studio.token,
        }  # fmt: skip
        for name, value in names.items():
            request = request.replace(f"{{{name}}}", str(value))
        request = request.encode("latin-1")
    answer = b""
    with socket.create_connection(("127.0.0.1", studio.port), timeout=60) as connection, contextlib.suppress(OSError):
        connection.sendall(request)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(1 << 16):
            answer += part
    first = answer.partition(b"\r\n")[0].split()
    return (int(first[1]) if len(first) > 1 else 0), answer


def check(
    studio: Server,
    request: str | bytes,
    statuses: tuple[int, ...],
    secrets: tuple[str, ...] = (),
    *,
    ends: bool = False,
) -> None:
    """Sends these bytes. The answer has one of these statuses, and none of the secrets."""
    status, answer = sent(studio, request, ends=ends)
    assert status in statuses, answer[:300]
    for secret in (SECRET, studio.token, studio.cookie.partition("=")[2], *secrets):
        assert secret.encode() not in answer
    assert status == 200 or b"Traceback" not in answer


HOSTS = [
    "evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.evil.example",
    "127.0.0.1:{port}@evil.example", "evil.example@127.0.0.1:{port}", "localhost.:{port}", "LOCALHOST.evil:{port}",
    "127.1:{port}", "2130706433:{port}", "0x7f.0.0.1:{port}", "0.0.0.0:{port}", "[::1]:{port}",
    "[::ffff:127.0.0.1]:{port}",
    "127.0.0.1:{port}, evil.example", "127.0.0.1:{port}/", "127.0.0.1:{port}#", "127.0.0.1:0{port}",
    "http://127.0.0.1:{port}", "127.0.0.1\\@:{port}", "",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_other_names(studio: Server, host: str):
    headers = OWN.replace("{host}", host)
    check(studio, f"GET {{root}}/ HTTP/1.1\r\n{headers}\r\n", (400, 421), (studio.root,))


@pytest.mark.parametrize(
    ("line", "headers"),
    [
        ("GET {root}/ HTTP/1.1", "Host: evil.example\r\nHost: {host}\r\n"),
        ("GET {root}/ HTTP/1.1", "Cookie: {cookie}\r\n"),
        ("GET {root}/ HTTP/1.0", "Cookie: {cookie}\r\n"),
        ("GET http://evil.example{root}/ HTTP/1.1", "Host: evil.example\r\nCookie: {cookie}\r\n"),
        ("GET {root}/ HTTP/1.1", "Host: evil.example\r\nX-Forwarded-Host: {host}\r\nCookie: {cookie}\r\n"),
        ("GET {root}/ HTTP/1.1", "Host: evil.example\r\nForwarded: host={host}\r\nCookie: {cookie}\r\n"),
        (
            "GET {root}/ HTTP/1.1",
            "Host: evil.example\r\nX-Original-Host: {host}\r\nX-Studio-Proxy: x\r\nCookie: {cookie}\r\n",
        ),
        ("GET {root}/ HTTP/1.1", "Host : {host}\r\nCookie: {cookie}\r\n"),
        ("GET {root}/ HTTP/1.1", "Host: {host}\r\n"),
        ("GET {root}/ HTTP/1.1", "Host: {host}\r\nCookie: studio=\r\n"),
        ("GET {root}/ HTTP/1.1", "Host: {host}\r\nAuthorization: Basic {cookie}\r\nX-Cookie: {cookie}\r\n"),
        ("GET / HTTP/1.1", "Host: {host}\r\nCookie: {cookie}\r\nX-Original-URL: {root}/\r\nX-Rewrite-URL: {root}/\r\n"),
        ("GET /?token= HTTP/1.1", "Host: {host}\r\n"),
        ("GET /?token=a&token={token} HTTP/1.1", "Host: {host}\r\n"),
        ("POST /?token={token} HTTP/1.1", "Host: {host}\r\nOrigin: {origin}\r\nContent-Length: 0\r\n"),
    ],
)
def test_requests_that_come_another_way(studio: Server, line: str, headers: str):
    check(studio, f"{line}\r\n{headers}Connection: close\r\n\r\n", (0, 400, 403, 421))


ORIGINS = [
    "null", "*", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1", "http://127.0.0.1:1",
    "http://127.0.0.1:{port}.evil.example", "http://evil.example:{port}", "http://evil.example#http://127.0.0.1:{port}",
    "http://127.0.0.1:{port}@evil.example", "http://127.0.0.1:{port}/", "HTTP://127.0.0.1:{port}",
    "http://localhost:{port}",
    "file://", "chrome-extension://127.0.0.1:{port}", "http://127.0.0.1:{port} http://evil.example",
]  # fmt: skip


@pytest.mark.parametrize("origin", ORIGINS)
def test_pages_of_other_origins_do_not_write(studio: Server, origin: str):
    file = studio.file("p07_next_token_loss")
    before = file.read_bytes()
    body = '{"text": "changed = 1", "base": ""}'
    for extra in (
        "",
        "Sec-Fetch-Site: same-origin\r\n",
        "Referer: {origin}{root}/\r\n",
        "Content-Type: text/plain\r\n",
    ):
        headers = WRITES.replace("Origin: {origin}", f"Origin: {origin}") + extra
        check(
            studio,
            f"PUT {{root}}/problems/07/file HTTP/1.1\r\n{headers}Content-Length: {len(body)}\r\n\r\n{body}",
            (403,),
        )
    assert file.read_bytes() == before


METHODS = ["TRACE", "CONNECT", "OPTIONS", "DELETE", "PATCH", "POST", "PROPFIND", "get", "PUTT", "GE\tT", "\u00e9"]


@pytest.mark.parametrize("method", METHODS)
def test_other_methods(studio: Server, method: str):
    for path in ("/problems/07/file", "/problems/07"):
        request = f"{method} {{root}}{path} HTTP/1.1\r\n{WRITES}Content-Length: 0\r\n"
        check(studio, f"{request}\r\n", (0, 400, 403, 405, 501))
    request = f"GET {{root}}/problems/07/grade HTTP/1.1\r\n{OWN}X-HTTP-Method-Override: POST\r\n\r\n"
    check(studio, request, (405,))


PATHS = [
    "/static/../guard.py", "/static/..%2fguard.py", "/static/%2e%2e/guard.py", "/static/%2e%2e%2fguard.py",
    "/static/..%5cguard.py", "/static/..\\guard.py", "/static/%252e%252e%252fguard.py", "/static/%c0%ae%c0%ae/guard.py",
    "/static/..%c0%afguard.py", "/static/%u002e%u002e/guard.py", "/static/....//guard.py", "/static/..;/guard.py",
    "/static/.%00./guard.py", "/static/studio.js%00.png", "/static//etc/passwd", "/static/%2fetc%2fpasswd",
    "/static/file:///etc/passwd", "/static/", "/static/%ef%bc%8e%ef%bc%8e/guard.py", "/static/%e2%80%a5/guard.py",
    "/static",
    "/static/~root", "/static/C:/Windows/win.ini", "/outside.txt", "/../outside.txt", "/..%2foutside.txt",
    "/problems/../outside.txt", "/problems/..%2f..%2foutside.txt", "/problems/07/attempts/..%2f..%2f..%2foutside.txt",
    "/problems/07/attempts/../../../outside.txt", "/problems/%2e%2e", "/problems/outside", "/problems/..",
    "/problems/07%00",
    "/problems/p07_next_token_loss", "/problems/-7", "/problems/7e0", "/problems/0x07",
    "/problems/\u0660\u0667", "/problems/%d9%a0%d9%a7", "/runs/..", "/runs/%2e%2e", "/runs/..%2felsewhere", "/runs/.",
    "/runs/%2e", "/runs/linked", "/runs/links", "/runs/linked/live", "/runs/links/playground", "/runs/linked/events",
    "/runs/%00", "/runs/linked%2f..%2fmine", "/runs/\\..\\elsewhere", "/runs/--help", "/runs/-c", "/runs/pipe",
    "/runs/pipe/live", "/runs/pipe/playground", "/.git/config", "/.studio.html", "/secret", "/wp-admin/",
    "/cgi-bin/%2e%2e/%2e%2e/bin/sh", "/%0d%0aX-Injected:%201",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_paths_that_lead_out(studio: Server, path: str):
    path = path.encode().decode("latin-1")  # as its bytes
    check(studio, f"GET {{root}}{path} HTTP/1.1\r\n{OWN}\r\n", (307, 400, 404, 405))


@pytest.mark.parametrize("path", ["/runs/linked/resume", "/runs/links/resume", "/runs/..%2felsewhere/resume",
    "/runs/--help/stop",
                                  "/runs/pipe/resume", "/runs/linked/playground", "/problems/99/grade"])  # fmt: skip
def test_nothing_is_started_there_either(studio: Server, path: str):
    check(studio, f"POST {{root}}{path} HTTP/1.1\r\n{WRITES}Content-Length: 2\r\n\r\n{{}}", (400, 404))


def test_a_run_that_is_nested_without_end_is_one_sentence(studio: Server):
    status, answer = sent(studio, f"GET {{root}}/runs/deep HTTP/1.1\r\n{OWN}\r\n")
    assert status < 500, answer[:300]
    assert b"is not the config of a run" in answer


@pytest.mark.parametrize(
    "request_",
    [
        "GET {root}/?a=%0d%0aX-Injected:%201 HTTP/1.1\r\n" + OWN + "\r\n",
        "GET /?token={token}&a=%0d%0aX-Injected:%201 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        "GET /%0d%0aX-Injected:%201?token={token} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        "GET /?token={token}&%0aX-Injected=1 HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n",
        "GET {root}/problems/07%0d%0aX-Injected:%201 HTTP/1.1\r\n" + OWN + "\r\n",
        "GET {root}/static/studio.js HTTP/1.1\r\n" + OWN + "If-None-Match: a\rX-Injected: 1\r\n\r\n",
        "GET {root}/ HTTP/1.1\r\n" + OWN + "Accept-Language: de%0d%0aX-Injected: 1\r\n\r\n",
    ],
)
def test_no_header_is_injected(studio: Server, request_: str):
    status, answer = sent(studio, request_)
    head = answer.partition(b"\r\n\r\n")[0].lower().replace(b"\r", b"\n")
    assert status in (200, 304, 307, 400, 404), answer[:300]
    assert b"\nx-injected" not in head


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ("Content-Length: -1", ""),
        ("Content-Length: +2", "{}"),
        ("Content-Length: 0x2", "{}"),
        ("Content-Length: 2, 2", "{}"),
        ("Content-Length: 2\r\nContent-Length: 3", "{}"),
        ("Content-Length: \u00b2", "{}"),
        ("Content-Length: 1e1", "{}"),
        ("Content-Length: 99999999999999999999999", "{}"),
        ("Content-Length: 3000000", "{}"),
        ("Content-Length: 2\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: gzip", "{}"),
        ("Transfer-Encoding: xchunked", "2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "zz\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "-2\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", "10000\r\n" + " " * 0x10000 + "\r\n"),
        ("Content-Length: 2\r\nContent-Encoding: gzip", "{}"),
        ("Content-Length: 2", "{}PUT {root}/problems/07/file HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
        ("Content-Length: 100", "{}"),
    ],
)  # fmt: skip
def test_bodies_whose_length_is_a_lie(studio: Server, headers: str, body: str):
    file = studio.file("p07_next_token_loss")
    before = file.read_bytes()
    check(
        studio,
        f"PUT {{root}}/problems/07/file HTTP/1.1\r\n{WRITES}{headers}\r\n\r\n{body}",
        (0, 400, 413, 501),
        ends=True,
    )
    assert file.read_bytes() == before


UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


@pytest.mark.parametrize("path", ["/", "/problems/07/events", "/runs.events"])
@pytest.mark.parametrize("origin", ["http://evil.example", "{origin}"])
def test_there_is_no_web_socket(studio: Server, path: str, origin: str):
    headers = f"Host: {{host}}\r\nCookie: {{cookie}}\r\nOrigin: {origin}\r\n{UPGRADE}"
    with socket.create_connection(("127.0.0.1", studio.port), timeout=60) as connection:
        request = f"GET {{root}}{path} HTTP/1.1\r\n{headers}\r\n"
        for name, value in (("host", f"127.0.0.1:{studio.port}"), ("cookie", studio.cookie), ("root", studio.root),
                            ("origin", studio.origin)):  # fmt: skip
            request = request.replace(f"{{{name}}}", value)
        connection.sendall(request.encode())
        assert not connection.recv(100).startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize(
    "bytes_",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500,  # TLS
        b"\0" * 10_000,
        b"\xff" * 10_000,
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / FTP/1.1\r\n\r\n",
        b"GET " + b"a" * 1_000_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 100_000 + b"\r\n",
        b"GET / HTTP/1.1\r\n" + b" folded: 1\r\n" * 3 + b"\r\n",
        b"GET / HTTP/1.1\r\n: nameless\r\n\r\n",
        b"GET / HTTP/1.1\r\nX\0Y: 1\r\n\r\n",
        b"GET / HTTP/1.1\nHost: evil.example\n\n",
        b"\r\n" * 10_000,
        b"",
    ],
)  # fmt: skip
def test_what_is_no_request(studio: Server, bytes_: bytes):
    check(studio, bytes_, (0, 400, 403, 414, 421, 431, 505), (studio.root,), ends=True)
    assert ask(studio, "/").status == 200


def test_links_in_the_workspace_are_not_followed(studio: Server, tmp_path: Path):
    """Also those of folders and of modules that a file imports. The problem's page is shown without them."""
    outside = tmp_path / "p01_token_embedding.py"
    outside.write_text(f"# {SECRET}\n")
    file = studio.file("p01_token_embedding")
    file.unlink()
    file.symlink_to(outside)
    try:
        for path in ("/problems/01", "/problems/01/file", "/problems/01/attempts"):
            check(studio, f"GET {{root}}{path} HTTP/1.1\r\n{OWN}\r\n", (200, 404, 422))
        body = '{"text": "changed = 1", "base": ""}'
        request = f"PUT {{root}}/problems/01/file HTTP/1.1\r\n{WRITES}Content-Length: {len(body)}\r\n\r\n{body}"
        check(studio, request, (422,))
        assert outside.read_text() == f"# {SECRET}\n"
    finally:
        file.unlink()
