"""How long a learner of problem 06 waits for the first exhibit, from the save that passes, in the studio.

    python benchmarks/play.py [ROUNDS] [--smoke]

Talks to `grade web` as a page does: the page of problem 06 is open, its text is saved, graded, and played after the
verdict. The import floor is `python -c "import jax, flax.nnx"`, measured in the same run, in turn with the saves.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from timing import ROOT, seconds, smoke

from studio import Client, solution

BAR = 3.0  # times the import floor
EARLIER, PLAYED = range(1, 6), 6
PAUSE = 5.0  # seconds between two saves, as long as it takes to read a verdict


def save_to_exhibit(client: Client, edit: int) -> tuple[float, float]:
    """Seconds from a save to its verdict, and to the first exhibit of the play that begins then."""
    with client.events(PLAYED) as events:
        next(events)  # the page is connected
        start = time.perf_counter()
        client.save(PLAYED, f"{solution(PLAYED)}\nEDIT = {edit}\n", client.digest(PLAYED))
        next(kind for kind in events if kind == "grading")  # the events before it are the present state
        next(kind for kind in events if kind == "verdict")
        graded = time.perf_counter() - start
        client.ask(f"/problems/{PLAYED:02}/play", "POST", {"text": ""})
        next(kind for kind in events if kind == "exhibit")
        shown = time.perf_counter() - start
        next(kind for kind in events if kind == "played")
    return graded, shown


def main() -> None:
    only_smoke = smoke()
    rounds = 1 if only_smoke else int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        for number in EARLIER:
            path = next((ROOT / "solutions").glob(f"p{number:02}_*.py"))
            (Path(folder) / path.name).write_text(path.read_text())
        command = [sys.executable, "-m", "grader", "--workspace", folder, "web", "--no-browser"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        floors, times = [], []
        try:
            assert process.stdout is not None
            client = Client(process.stdout.readline().strip())
            client.ask(f"/problems/{PLAYED:02}")
            for edit in range(rounds + 1):
                time.sleep(0 if only_smoke else PAUSE)
                times.append(save_to_exhibit(client, edit))
                floors.append(seconds([sys.executable, "-c", "import jax, flax.nnx"]))
        finally:
            process.terminate()
            process.wait()
    floor = statistics.median(floors)
    graded, shown = (
        statistics.median(column) for column in zip(*times[1:], strict=True)
    )  # the first round fills caches
    print(f"import jax, flax.nnx             {floor:6.2f} s")
    print(f"from the first save to an exhibit {times[0][1]:5.2f} s")
    print(f"from a save to the verdict       {graded:6.2f} s")
    print(f"from a save to the first exhibit {shown:6.2f} s")
    print(f"save to first exhibit / import: {shown / floor:.2f} (bar {BAR:.2f})")


if __name__ == "__main__":
    main()
