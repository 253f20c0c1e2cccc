"""Problem 31, played: the learner's adapters teach the trained model another kind of story, and leave its weights
alone."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from grader.authoring import ToyGPT, gpt_logits
from grader.exhibits import Bar, Bars, Exhibits, LearnerModule, Line, Lines, Progress
from harness.data.pocket import stories
from problems.stage import telling
from problems.stage.model import gpt
from problems.stage.training import EVERY
from problems.stage.tuning import target_log_probabilities
from problems.stage.weights import POCKET, build, encode

MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")  # in which MODEL_COMMAND shows the same
MODEL_COMMAND = "harness finetune {model} --pieces {workspace} --lora 8 --data pocket:500 --steps 20 --set context=64"
TRAINS = True
OPENING = "Once there was a gentle"
STEPS, ROWS, LENGTH, RANK, RATE = 80, 4, 48, 8, 5e-3
ROBOTS = {
    r"\b(girl|boy)\b": "robot",
    r"\b(mom|dad|grandma|grandpa|aunt|uncle|sister|brother)\b": "dinosaur",
    r"\bthe (park|garden|forest|beach|farm|hill|meadow|pond|village|market|lake|valley)\b": "the castle",
}
LAYERS = ("q_proj", "k_proj", "v_proj", "out_proj")


class Adapted(nnx.Module):
    """The trained model, whose linear layers are a learner's adapters around its own."""

    def __init__(self, adapter: Callable[..., nnx.Module]) -> None:
        self.gpt = build(lambda: ToyGPT(**POCKET.shape, context=POCKET.max_T), POCKET.arrays, "MiniGPT")
        rngs = nnx.Rngs(0)
        for block in self.gpt.blocks:
            for owner, names in ((block.attn, LAYERS), (block, ("ff1", "ff2"))):
                for name in names:
                    setattr(owner, name, adapter(getattr(owner, name), RANK, float(RANK), rngs))

    def __call__(self, ids: jax.Array) -> jax.Array:
        return jax.vmap(lambda ids_T: gpt_logits(self.gpt, ids_T))(ids) if ids.ndim == 2 else gpt_logits(self.gpt, ids)


def play(module: LearnerModule) -> Exhibits:
    """The loss while the adapters learn, a story before and after, and how many numbers were trained."""
    model = Adapted(module.LoRALinear)
    optimizer = module.lora_optimizer(model, RATE)
    before = telling.tell(model, tokens=50, prompt=OPENING)
    frozen = base(model)
    yield telling.story(
        before,
        "The model with your adapters, before they learn anything",
        "Your adapters begin as nothing: this is its old story."
        if own(before)
        else "Not its old story: the adapters change the model before they have learned anything.",
    )

    @nnx.jit
    def step(model: Any, optimizer: Any, ids_BT: jax.Array) -> jax.Array:
        def loss(model: Any) -> jax.Array:
            return -jnp.mean(target_log_probabilities(model, ids_BT))

        value, gradients = nnx.value_and_grad(loss, argnums=nnx.DiffState(0, nnx.LoRAParam))(model)
        optimizer.update(model, gradients)
        return value

    losses = []
    for number, ids_BT in enumerate(robot_stories(), 1):
        losses.append(float(step(model, optimizer, ids_BT)))
        if number % EVERY == 0:
            yield Progress(number, STEPS, losses[-1])
    yield Lines(
        "The loss on stories of robots",
        (Line("your adapters", np.arange(EVERY, STEPS + 1, EVERY), np.reshape(losses, (-1, EVERY)).mean(axis=1)),),
        f"From {np.mean(losses[:EVERY]):.3g} to {np.mean(losses[-EVERY:]):.3g} nats a token in {STEPS} steps (means of "
        f"{EVERY}): in these stories children are robots, and play at the castle."
        + (
            ""
            if same(frozen, base(model))
            else " But the weights of the model itself have changed, which adapters must not."
        ),
        y="nats per token",
    )
    told = telling.tell(model, tokens=50, prompt=OPENING)
    robots = [word for word in ("robot", "dinosaur", "castle") if word in telling.text(told)]
    yield telling.story(
        told,
        "The same model, afterwards",
        f"It has kept what it knew of stories, and has learned new words for them: {', '.join(robots)}."
        if robots
        else "No robot, no castle: this story has no word of those that the adapters should have learned.",
    )
    sizes = [sum(x.size for x in jax.tree.leaves(nnx.state(model, kind))) for kind in (nnx.LoRAParam, nnx.Param)]
    yield Bars(
        "How many numbers were trained",
        (Bar("your adapters", sizes[0] / 1000), Bar("the model", POCKET.parameters / 1000)),
        "thousand numbers",
        "Only the adapters have gradients and moments, and only they need to be kept for each kind of text."
        if same(frozen, base(model))
        else "The model itself has been trained as well, so a copy of all of it must be kept for each kind of text.",
    )


def robot_stories() -> Iterator[jax.Array]:
    """Batches of windows of the embedded stories, told of robots, (ROWS, LENGTH)."""
    for start in range(0, STEPS * ROWS, ROWS):
        rows = []
        for text in stories(ROWS, start=2_000_000 + start):
            for pattern, word in ROBOTS.items():
                text = re.sub(pattern, word, text)
            rows.append(encode(text)[:LENGTH])
        yield jnp.asarray(np.stack(rows))


def base(model: nnx.Module) -> list[np.ndarray]:
    """The model's own parameters."""
    return [np.asarray(x) for x in jax.tree.leaves(nnx.state(model, nnx.Not(nnx.LoRAParam)))]


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    """Whether two lists of arrays are equal."""
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def own(told: telling.Told) -> bool:
    """Whether this is the story that the model tells without adapters."""
    return np.array_equal(told.ids, telling.tell(gpt(), tokens=50, prompt=OPENING).ids)
