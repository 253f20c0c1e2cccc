"""How fast the studio is: to the first page, from a save to a verdict, and under fifty saves in a minute.

    python benchmarks/studio.py [--smoke]

Talks to `grade web` as a page does, in a new workspace. The import floor is `python -c "import jax, flax.nnx"`,
measured in the same run. The last line says what is lost of fifty saves, and how much the memory of the server grows
over them.
"""

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from typing import Any

import psutil
from timing import ROOT, seconds, smoke

FIRST_PAGE_BAR, VERDICT_BAR = 2.0, 0.6  # times the import floor
PROBLEMS = range(1, 15)
SAVES, MINUTE = 50, 60.0


class Client:
    """A page of the studio, without a browser."""

    def __init__(self, address: str) -> None:
        origin = address.split("/?token=")[0]
        self.port = int(origin.rsplit(":", 1)[1])
        jar = CookieJar()
        urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar)).open(address).close()
        (cookie,) = jar
        self.root, self.headers = cookie.path, {"Cookie": f"{cookie.name}={cookie.value}", "Origin": origin}

    def ask(self, path: str, method: str = "GET", body: Any = None) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = None if body is None else json.dumps(body)
        connection.request(method, self.root + path, data, self.headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status < 300, (path, answer.status, text)
        return text

    def save(self, number: int, text: str, base: str) -> str:
        """Saves the file of a problem. Returns the hash to base the next text on."""
        answer = json.loads(self.ask(f"/problems/{number:02}/file", "PUT", {"text": text, "base": base}))
        return str(answer["digest"])

    def digest(self, number: int) -> str:
        return str(json.loads(self.ask(f"/problems/{number:02}/file"))["digest"])

    @contextmanager
    def events(self, number: int) -> Iterator[Iterator[str]]:
        """The kinds of events of a problem, as they come."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET", f"{self.root}/problems/{number:02}/events", headers=self.headers)
        lines = iter(connection.getresponse().readline, b"")
        yield (line.split()[1].decode() for line in lines if line.startswith(b"event:"))
        connection.close()


def solution(number: int) -> str:
    return next((ROOT / "solutions").glob(f"p{number:02}_*.py")).read_text()


def save_to_verdict(client: Client, number: int) -> float:
    """Seconds from a save to its verdict, for a text that was not graded before, after one that was."""
    digest = client.digest(number)
    for edit in range(2):
        with client.events(number) as events:
            next(events)  # the page is connected
            start = time.perf_counter()
            digest = client.save(number, f"{solution(number)}\nEDIT = {edit}\n", digest)
            next(kind for kind in events if kind == "grading")  # the events before it are the present state
            next(kind for kind in events if kind == "verdict")
            elapsed = time.perf_counter() - start
    return elapsed


def many_saves(client: Client, server: psutil.Process, count: int) -> tuple[int, float]:
    """How many of `count` texts, saved at an even pace, are not in the history, and by how many MiB the server
    grows."""
    digest, kept = client.digest(7), len(json.loads(client.ask("/problems/07/attempts")))
    memory = server.memory_info().rss
    for edit in range(count):
        start = time.perf_counter()
        digest = client.save(7, f"{solution(7)}\nSAVE = {edit}\n", digest)
        time.sleep(max(0.0, MINUTE / SAVES - (time.perf_counter() - start)))
    found = len(json.loads(client.ask("/problems/07/attempts"))) - kept
    return count - found, (server.memory_info().rss - memory) / 2**20


def main() -> None:
    only_smoke = smoke()
    problems, saves = (range(1, 2), 2) if only_smoke else (PROBLEMS, SAVES)
    floor = statistics.median(
        seconds([sys.executable, "-c", "import jax, flax.nnx"]) for _ in range(1 if only_smoke else 5)
    )
    print(f"import jax, flax.nnx                {floor:6.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        command = [sys.executable, "-m", "grader", "--workspace", folder, "web", "--no-browser"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            client = Client(process.stdout.readline().strip())
            client.ask("/")
            first = time.perf_counter() - start
            print(f"from the command to the first page  {first:6.2f} s")
            times = [save_to_verdict(client, number) for number in problems]
            for number, elapsed in zip(problems, times, strict=True):
                print(f"  save to verdict, problem {number:02}       {elapsed:6.2f} s")
            lost, growth = many_saves(client, psutil.Process(process.pid), saves)
        finally:
            process.terminate()
            process.wait()
    print(f"first page / import: {first / floor:.2f} (bar {FIRST_PAGE_BAR:.2f})")
    print(f"save to verdict / import: {statistics.median(times) / floor:.2f} (bar {VERDICT_BAR:.2f})")
    print(f"{saves} saves: {lost} lost, memory {growth:+.1f} MiB")


if __name__ == "__main__":
    main()
