"""What a submission to the cheapest decoder offers: one program, which takes the weights of the model as inputs.

The process that traces it has neither weights nor stories. So what the program knows of them stands in the text of the
submission.
"""

from typing import Any

import jax
import jax.numpy as jnp

from grader.authoring import BadOutputError, Given, Offer, Subject, UntraceableError, trace

V, D, F, L, CONTEXT = 2048, 96, 384, 3, 192  # of the tokenizer, and of the model
PROMPT, WRITTEN = 32, 128  # tokens
WEIGHT = "weight."


def shapes() -> dict[str, tuple[int, ...]]:
    """The shapes of the weights, by name."""
    block: dict[str, tuple[int, ...]] = {"ln1.scale": (D,), "ln1.bias": (D,), "ln2.scale": (D,), "ln2.bias": (D,)}
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        block |= {f"attn.{name}.kernel": (D, D), f"attn.{name}.bias": (D,)}
    block |= {"ff1.kernel": (D, F), "ff1.bias": (F,), "ff2.kernel": (F, D), "ff2.bias": (D,)}
    blocks = {f"blocks.{i}.{name}": shape for i in range(L) for name, shape in block.items()}
    around: dict[str, tuple[int, ...]] = {
        "embed.embedding": (V, D),
        "pos_embed": (CONTEXT, D),
        "ln_f.scale": (D,),
        "ln_f.bias": (D,),
    }
    return around | blocks


def offer(subject: Subject) -> Offer:
    """The program `decode`. Raises BadOutputError."""

    def decode(weights: Any, prompt: Any, key: Any, greedy: Any) -> dict[str, Any]:
        found = subject.call("decode", weights, prompt, jax.random.wrap_key_data(key), greedy)
        if jnp.shape(found) != (WRITTEN,) or not jnp.issubdtype(jnp.result_type(found), jnp.integer):
            raise BadOutputError(
                f"`decode` returned {jnp.result_type(found)}{list(jnp.shape(found))}; it must be int32[{WRITTEN}]"
            )
        return {"tokens": jnp.int32(found)}

    weights = {name: Given("case", WEIGHT + name, shape, jnp.float32) for name, shape in shapes().items()}
    prompt, key = Given("case", "prompt", (PROMPT,), jnp.int32), Given("case", "key", (2,), jnp.uint32)
    try:
        return Offer({"decode": trace(decode, weights, prompt, key, Given("case", "greedy", (), jnp.bool_))}, {})
    except UntraceableError as error:
        raise BadOutputError(f"`decode` must be traceable by jax.jit ({error})") from error
