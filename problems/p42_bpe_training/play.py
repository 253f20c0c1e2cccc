"""Problem 42, played: the learner's tokenizer learns from stories, merge by merge."""

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Story, Table, Token
from harness.data.pocket import stories, story
from problems.stage.weights import END_TEXT

TEXT = "Lily found a tiny xylophone under the old bridge. She was very happy."
STORIES, MERGES, FIRST, PER_ROW = 60, 400, 30, 6
POINTS = (0, 25, 50, 100, 200, 400)


def play(module: LearnerModule, text: str) -> Exhibits:
    """The first merges, a text in tokens after few and after many of them, and the length of a story over their
    number."""
    counts = module.count_words(END_TEXT.join(stories(STORIES)), [END_TEXT])
    merges = list(module.train_bpe(counts, MERGES))
    first = [visible(left + right) for left, right in merges[:FIRST]]
    yield Table(
        f"The first {len(first)} merges that your tokenizer makes of {STORIES} stories",
        ("merges", "the token that each makes"),
        tuple(
            (f"{i + 1} to {i + len(first[i : i + PER_ROW])}", " │ ".join(first[i : i + PER_ROW]))
            for i in range(0, len(first), PER_ROW)
        ),
        "First frequent pairs of letters, and soon whole words, such as ␣the: the pair that is most frequent becomes a "
        "token, again and again.",
    )
    for number in (50, len(merges)):
        encoding = module.make_encoding(merges[:number], [END_TEXT])
        ids = encoding.encode_ordinary(text)
        words = [encoding.decode_single_token_bytes(each).decode("utf-8", "replace") for each in ids]
        back = "" if encoding.decode(ids) == text else " Decoded, they do not give the text."
        yield Story(
            f"A text after {number} merges",
            tuple(Token(word) for word in words[:600]),
            f"{len(text.encode())} bytes, {len(ids)} tokens.{back}",
            separated=True,
        )
    unseen = story(5_000_000)
    lengths = [len(module.make_encoding(merges[:number], [END_TEXT]).encode_ordinary(unseen)) for number in POINTS]
    yield Lines(
        "How many tokens a new story has",
        (Line("yours", POINTS, lengths),),
        f"From {lengths[0]:,} bytes to {lengths[-1]:,} tokens. Each merge makes the vocabulary larger by one and "
        "stories shorter, and a model reads and writes a story token by token.",
        x="merges",
        y="tokens",
    )


def visible(token_bytes: bytes) -> str:
    """A token as it is shown."""
    return token_bytes.decode("utf-8", "replace").replace(" ", "␣").replace("\n", "⏎")
