"""What a submission to the smallest model offers: the parameters that it restores from its file, and the program that
computes logits with them.

The process that opens the file can neither import the weights nor the stories. So what its program knows of them stands
in the file, or in the text of the submission.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from grader.authoring import BadOutputError, Given, Offer, Subject, UntraceableError, named, sent, trace

ROWS, T, V = 16, 191, 2048  # of a batch of held-out stories, of the longest story, and of the tokenizer


def offer(subject: Subject, file: bytes) -> Offer:
    """The program `logits`, which takes the restored parameters. Raises BadOutputError."""
    parameters = subject.call("restore", file)
    named(parameters, "parameters")  # raises for what holds no numbers
    leaves, tree = jax.tree.flatten(parameters)
    given = jax.tree.unflatten(tree, [sent(str(number), np.asarray(x)) for number, x in enumerate(leaves)])

    def logits(parameters: Any, tokens: Any) -> dict[str, Any]:
        found = subject.call("logits", parameters, tokens)
        if jnp.shape(found) != (ROWS, T, V):
            raise BadOutputError(
                f"`logits` returned shape {jnp.shape(found)} for {ROWS} rows; it must be {(ROWS, T, V)}"
            )
        return {"logits": jnp.float32(found)}

    try:
        return Offer({"logits": trace(logits, given, Given("case", "tokens", (ROWS, T), jnp.int32))}, {})
    except UntraceableError as error:
        raise BadOutputError(f"`logits` must be traceable by jax.jit ({error})") from error
