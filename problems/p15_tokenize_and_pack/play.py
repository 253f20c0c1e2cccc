"""Problem 15, played: a text in the learner's tokens, and the windows that a model is trained on."""

import numpy as np

from grader.exhibits import Exhibits, LearnerModule, Story, Table, Token
from problems.stage.weights import END, END_TEXT, TOKENIZER, token

TEXT = (
    "Once upon a time, there was a shy hedgehog named Oscar. Oscar lived near the pond.<|endoftext|>"
    "There once was a xylophone that nobody could play."
)
CONTEXT = 12


def play(module: LearnerModule, text: str) -> Exhibits:
    """The tokens of a text, then the windows that hold them."""
    ids = np.asarray(module.tokenize(text, TOKENIZER))
    words = [shown(each) for each in ids if 0 <= each < TOKENIZER.n_vocab]
    back = "".join(word for word in words if word != END_TEXT)
    same = back.split() == text.replace(END_TEXT, " ").split() or back == text.replace(END_TEXT, "")
    yield Story(
        "Your tokens",
        tuple(Token(word) for word in words[:600]),
        f"{len(text)} characters became {len(ids)} tokens, {np.sum(ids == END)} of them end-of-text. Words that are "
        "frequent in stories are one token; the tokenizer spells the others."
        + ("" if same else " Put together, your tokens do not give the text."),
        separated=True,
    )
    windows = np.asarray(module.pack(ids, CONTEXT, END))
    told = windows.reshape(-1)[: len(ids)]
    lost = len(ids) - sum(int(a == b) for a, b in zip(told, ids, strict=False))
    yield Table(
        f"The windows of {CONTEXT} tokens that your `pack` makes of them",
        ("window", "its tokens"),
        tuple(
            (str(number), "│".join(shown(each).replace("\n", "⏎") for each in window))
            for number, window in enumerate(windows[:20], 1)
        ),
        "Read on from one window to the next: every token is there once, in order. The last window is filled up."
        if not lost
        else f"{lost} of {len(ids)} tokens are not where they were in the text, so a model is never trained on them as "
        "they follow each other.",
    )


def shown(token_id: int) -> str:
    """The text of a token, as the stories hold it."""
    return END_TEXT if token_id == END else token(token_id)
