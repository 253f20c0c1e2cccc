"""Problem 20, played: the trained model on the learner's mesh, by the learner's table."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import gpt_logits
from grader.exhibits import Exhibits, LearnerModule
from problems.stage import devices, runs
from problems.stage.model import gpt, jitted
from problems.stage.weights import encode

DATA, MODEL = 2, 4
STORY = "Lily had a red ball. Tom wanted the ball. He took it"
SHOWN = ("embed.embedding", "pos_embed", "blocks.0.attn.q_proj.kernel", "blocks.0.attn.out_proj.kernel",
    "blocks.0.ff1.kernel",
         "blocks.0.ff1.bias", "blocks.0.ff2.kernel", "blocks.0.ln1.scale")  # fmt: skip


def play(module: LearnerModule) -> Exhibits:
    """Where the parameters of the trained model are, the bytes on each device, and what a forward pass sends."""
    model = runs.trained()
    module.place(model, module.make_mesh(DATA, MODEL))
    arrays = {".".join(map(str, path)): variable[...] for path, variable in nnx.to_flat_state(nnx.state(model))}
    pairs = {"attn.q_proj": 1, "attn.out_proj": 0, "ff1": 1, "ff2": 0}
    wrong = [name for name, axis in pairs.items() if not devices.is_cut(arrays[f"blocks.0.{name}.kernel"], axis, MODEL)]
    yield devices.placed(
        f"The trained model on {DATA} × {MODEL} devices, as your code placed it",
        [(name.removeprefix("blocks.0.").replace(".kernel", ""), arrays[name]) for name in SHOWN],
        "By columns (→), then by rows (↓): the pairs q_proj and out_proj, and ff1 and ff2, need no exchange between "
        f"them. Devices 0 to {MODEL - 1} hold the whole model together, and the others hold it once more, for other "
        "stories."
        if not wrong
        else "The table asks for columns (→) in q_proj and ff1, and then for rows (↓) in out_proj and ff2. In yours, "
        f"{' and '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} placed in another way.",
    )
    held = devices.held("The bytes of the trained model that a device holds", list(arrays.values()))
    yield replace(
        held,
        caption="A model that is too large for one device has room on four. What is not cut, such as norms, is on all "
        "of them."
        if devices.fullest_share(held) < 1 / 2
        else "A device holds most of the model, so a model that is too large for one device has no room on four "
        "either.",
    )
    graph, state = nnx.split(model)
    ids_T = jnp.asarray(encode(STORY))
    program = jax.jit(lambda state, ids: gpt_logits(nnx.merge(graph, state), ids)).lower(state, ids_T).compile()
    apart = float(np.abs(np.asarray(program(state, ids_T)) - np.asarray(jitted(gpt())(ids_T))).max())
    yield devices.sent(
        f"What the devices send while they read a text of {len(ids_T)} tokens",
        program,
        "The compiler adds these. "
        + (
            f"The logits are those of one device (largest difference {apart:.0e})."
            if apart < 1e-2
            else f"The logits differ from those of one device by up to {apart:.2g}."
        ),
    )
