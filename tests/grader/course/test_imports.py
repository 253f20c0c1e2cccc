"""The syntax tree of a source."""

import ast
import gc
import time
from concurrent.futures import ThreadPoolExecutor

from grader.course import imports

SOURCE = "\n".join(f"x{number} = [{number}, (lambda a: a + {number})]" for number in range(300))


def test_threads_parse_at_the_same_time() -> None:
    """With 3.11.7, `ast.parse` in place of `syntax_tree` raises a SystemError here."""
    before = gc.get_threshold()
    yields = [lambda phase, info: time.sleep(0)]  # lets another thread in, in the middle of a tree
    gc.callbacks.extend(yields)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(4) as threads:
            trees = list(threads.map(imports.syntax_tree, [SOURCE] * 20))
    finally:
        gc.set_threshold(*before)
        for callback in yields:
            gc.callbacks.remove(callback)
    assert {ast.dump(tree) for tree in trees} == {ast.dump(ast.parse(SOURCE))}
