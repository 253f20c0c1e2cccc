"""Plants each fault of faults.toml in a copy of the tree and records the test that finds it, here and in
docs/reliability.md.

    python -m tests.faults [NAME ...]
    python -m tests.faults --smoke

Takes about an hour. With the names of some faults, or --smoke for the first two, only these are planted, and the
results of the others stay. Exit code 1: no test finds some fault.
"""

import argparse
import json
import sys
import time

from tests.faults.plant import FOUND, UnusableError, faults, found_by, write


def main() -> int:
    """Plants faults, and prints what found each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--smoke", action="store_true", help="the first two faults; records nothing")
    chosen = parser.parse_args()
    known = {fault.name: fault for fault in faults()}
    if unknown := sorted(set(chosen.names) - set(known)):
        parser.error(f"no fault is named {', '.join(unknown)}")
    names = chosen.names or [*known][: 2 if chosen.smoke else None]
    lost = []
    for name in names:
        fault, start = known[name], time.monotonic()
        try:
            finder = found_by(fault)
        except UnusableError as error:
            print(f"{name}: not measured: {error}", flush=True)
            lost.append(name)
            continue
        print(f"{name}: {finder or 'NO TEST FINDS IT'} ({time.monotonic() - start:.0f} s)", flush=True)
        lost += [name] * (not finder)
        if not chosen.smoke:
            before = json.loads(FOUND.read_text(encoding="utf-8"))
            if before.get(name, finder) != finder:
                print(f"  before: {before[name] or 'no test'}", flush=True)
            write({**before, name: finder})
    if lost:
        print(f"{len(lost)} of {len(names)} faults are not found: {', '.join(lost)}")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main())
