"""Problem 28, played: the trained model as the learner exports it, opened again by its files alone."""

import jax.numpy as jnp
from flax import nnx
from safetensors.numpy import load_file

from grader.authoring import BadOutputError, new_folder
from grader.exhibits import Exhibits, LearnerModule, Table
from harness.errors import UsageError
from harness.hugging_face.load import Parameters, read_config
from harness.model.general import make_gpt
from harness.model_config import ModelConfig
from problems.stage import runs, telling
from problems.stage.weights import POCKET

SHOWN = 9
OPENING = "There once was a polite"
NAMES = ("wte.weight", "wpe.weight", "h.0.ln_1.weight", "h.0.attn.c_attn.weight", "h.0.mlp.c_proj.bias", "ln_f.weight")
LOOKED_UP = tuple(f"transformer.{name}" for name in NAMES)


def play(module: LearnerModule) -> Exhibits:
    """The files of the folder, and a story by the model that the harness opens from it."""
    folder = new_folder() / "exported"
    module.export_gpt2(runs.trained(), POCKET.num_heads, str(folder))
    tensors = load_file(folder / "model.safetensors")
    rows = [(name, " × ".join(map(str, array.shape)), f"{array.size:,}") for name, array in tensors.items()]
    hidden = sum(array.size for array in list(tensors.values())[SHOWN:])
    if hidden:
        rows = [*rows[:SHOWN], (f"and {len(rows) - SHOWN} more", "", f"{hidden:,}")]
    missing = [name for name in LOOKED_UP if name not in tensors]
    yield Table(
        f"Your folder: {len(tensors)} arrays",
        ("array", "shape", "numbers"),
        tuple(rows),
        f"A program that opens GPT-2 looks for `{missing[0]}`, which is not in your file."
        if missing
        else "A program that opens GPT-2 looks up such names, and the sizes in `config.json`.",
    )
    try:
        config, parameters = ModelConfig(**read_config(folder)), Parameters(folder)
    except UsageError as error:
        raise BadOutputError(f"the exported folder cannot be opened: {error}") from None
    model = nnx.eval_shape(lambda: make_gpt(config, nnx.Rngs(0)))
    state = nnx.state(model, nnx.Param)
    for path, variable in nnx.to_flat_state(state):
        variable.set_value(jnp.asarray(parameters[".".join(map(str, path))]))
    nnx.update(model, state)
    told = telling.tell(model, 90, prompt=OPENING)
    yield telling.story(
        told,
        "A story by the model in your folder",
        telling.judged(told, "Your folder holds what it needs to tell a story."),
    )
