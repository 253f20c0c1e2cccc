"""Problem 32, played: the learner's pieces train in the harness, and tell a story."""

from itertools import islice
from pathlib import Path
from typing import Any

from grader.exhibits import Exhibits, LearnerModule, Line, Lines, Story, Table, Token
from harness.config import Config
from harness.model.sampling import PROMPTS, Sampling, encode_prompt
from harness.pieces.load import check_pieces
from harness.pieces.registry import MODULES
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, open_session
from harness.run.state import load_state
from problems.stage.weights import TOKENIZER, token

TRAINS = True
BEST_RUN = True
STEPS, EVERY = 120, 4
SIZES: dict[str, Any] = {
    "data": "pocket:2000", "batch_size": 8, "context": 64, "d_model": 64, "d_ff": 128, "num_heads": 2, "num_layers": 2,
    "packing": "padded", "activation": "relu", "mesh": "1x1", "eval_batches": 1,
}  # fmt: skip
SAMPLING = Sampling(temperature=0.8, max_tokens=90)


def play(module: LearnerModule) -> Exhibits:
    """Which pieces are the learner's, the loss while they train, and a story that they tell."""
    pieces = check_pieces(module.pieces(), Path())
    rates = {**module.settings()}
    rates["warmup_steps"] = min(int(rates.get("warmup_steps", 0)), STEPS // 2)
    config = Config(steps=STEPS, eval_every=STEPS, **SIZES, **rates)
    session = open_session(Run(Path.cwd() / "run"), config, pieces, log=quiet, quiet=True)
    used = [name for name in pieces.by_name if pieces.uses(name, config)]
    yield Table(
        "The pieces of this run",
        ("from", "pieces"),
        (
            ("your files", ", ".join(used)),
            ("the harness", f"{len(MODULES) - len(used)} others"),
        ),
        f"{len(used)} of {len(MODULES)} pieces are yours. The others are not in your files yet, or this run has no use "
        "for them.",
    )
    yours = curve(session)
    yield Lines(
        f"Your pieces train in the harness for {STEPS} steps",
        (yours,),
        f"From {yours.y[0]:.1f} to {yours.y[-1]:.1f} nats per token. At the beginning all 2,048 tokens are equally "
        "likely, which costs ln 2,048 = 7.6."
        if yours.y[-1] < yours.y[0] - 0.5
        else f"The loss went from {yours.y[0]:.1f} to {yours.y[-1]:.1f}: this run has learned nearly nothing.",
        y="nats per token",
    )
    model = session.functions.model(load_state(session)[1])
    prompt = encode_prompt(TOKENIZER, PROMPTS["next_token"])
    told = islice(session.tokens(model, prompt, SAMPLING, 0), SAMPLING.max_tokens)
    yield Story(
        "A story from your run",
        tuple(Token(token(each)) for each in (*prompt, *told)),
        f"After {STEPS} steps of so small a model it has words and hardly any sense. `harness train --run mine "
        "--pieces attempts` trains a larger model of your pieces. With those of problems 01 to 07, it tells whole "
        "stories after 400 steps, which take minutes. This play then ends with the story of your best run.",
        given=len(prompt),
    )


def curve(session: Session) -> Line:
    """Trains to the end. Returns the losses."""
    losses = []
    train(session, log=quiet, on_step=lambda step, metrics: losses.append((step, float(metrics["loss"]))))
    shown = losses[::EVERY] + losses[-1:]
    return Line("yours", tuple(step for step, _ in shown), tuple(loss for _, loss in shown))


def quiet(sentence: str) -> None:
    """Discards a message of the harness."""
