"""One pass over the word for each rank that occurs, a search for special tokens, and a stream of bytes cut at white
space."""

import regex

PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""


def encode_word(word, ranks):
    tokens = [bytes([byte]) for byte in word]
    while True:
        found = {ranks[a + b] for a, b in zip(tokens, tokens[1:], strict=False) if a + b in ranks}
        if not found:
            return [ranks[token] for token in tokens]
        lowest, merged, place = min(found), [], 0
        while place < len(tokens):
            joined = b"".join(tokens[place : place + 2])
            if place + 1 < len(tokens) and ranks.get(joined) == lowest:
                merged.append(joined)
                place += 2
            else:
                merged.append(tokens[place])
                place += 1
        tokens = merged


def encode(text, ranks, special_tokens):
    ids = []
    while text:
        places = [(text.find(token), -len(token), token) for token in special_tokens if token in text]
        place, _, token = min(places, default=(len(text), 0, None))
        for match in regex.finditer(PATTERN, text[:place]):
            ids.extend(encode_word(match[0].encode("utf-8"), ranks))
        if token is None:
            break
        ids.append(special_tokens[token])
        text = text[place + len(token) :]
    return ids


def decode(token_ids, ranks, special_tokens):
    table = dict(zip(ranks.values(), ranks, strict=True))
    data = bytearray()
    names = {number: token for token, number in special_tokens.items()}
    for number in token_ids:
        data += names[number].encode() if number in names else table[number]
    return str(data, "utf-8", "replace")


def encode_stream(chunks, ranks, special_tokens):
    spaces = b" \n\t\r\x0b\x0c"
    waiting = b""
    for chunk in chunks:
        waiting += chunk
        end = len(waiting)
        while end and waiting[end - 1] not in spaces:
            end -= 1
        while end and waiting[end - 1] in spaces:
            end -= 1
        yield from encode(waiting[:end].decode("utf-8", "replace"), ranks, special_tokens)
        waiting = waiting[end:]
    yield from encode(waiting.decode("utf-8", "replace"), ranks, special_tokens)
