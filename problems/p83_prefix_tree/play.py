"""Problem 83, played: agents send their texts again."""

from grader.exhibits import Bar, Bars, Exhibits, LearnerModule


def play(module: LearnerModule) -> Exhibits:
    cache = module.RadixCache(8, 2)
    blocks, _ = cache.insert("a", [1, 2, 3, 4])
    yield Bars("Blocks", (Bar("in use", len(blocks)),), "blocks", "Blocks.")
