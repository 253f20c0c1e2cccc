"""The tokenizer of problem 82: bytes, some longer pieces, and three marks that no text gives."""

import re
from collections.abc import Sequence

NAMES = ("<call>", "<result>", "<end>")
PIECES = (
    ' the', "the", " is", "ing", "er", "error: ", '{"name": "', '", "arguments": {"', '": ', ', "', '"}', "}}", '"',
    "add", "look", "12", "00", "000", "call", "end", "result", "<", ">", "é", "語", "[" * 64, "9" * 64,
)  # fmt: skip


class Tokenizer:
    """Tokens of text, and the marks `call`, `result` and `end`, which are tokens, too."""

    def __init__(self) -> None:
        self._pieces = [bytes([byte]) for byte in range(256)] + [piece.encode() for piece in PIECES]
        self._ids = {piece: token for token, piece in reversed([*enumerate(self._pieces)])}
        self._lengths = sorted({len(piece) for piece in self._pieces}, reverse=True)
        self.call, self.result, self.end = range(len(self._pieces), len(self._pieces) + len(NAMES))
        self._names = dict(zip((self.call, self.result, self.end), NAMES, strict=True))

    @property
    def vocab_size(self) -> int:
        """The number of tokens."""
        return self.end + 1

    def encode_ordinary(self, text: str) -> list[int]:
        """The tokens of a text, the longest first. None of them is a mark, whatever the text says."""
        data, ids = text.encode("utf-8", "replace"), []
        place = 0
        while place < len(data):
            piece = next(
                data[place : place + length]
                for length in self._lengths
                if data[place : place + length] in self._ids and place + length <= len(data)
            )
            ids.append(self._ids[piece])
            place += len(piece)
        return ids

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, in which the names of the marks stand for the marks."""
        ids: list[int] = []
        for part in re.split(f"({'|'.join(NAMES)})", text):
            ids += [self.call + NAMES.index(part)] if part in NAMES else self.encode_ordinary(part)
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, with the names of the marks. Bytes that are no text become U+FFFD."""
        data = b"".join(
            self._names[token].encode() if token in self._names else self._pieces[token] for token in token_ids
        )
        return data.decode("utf-8", "replace")
