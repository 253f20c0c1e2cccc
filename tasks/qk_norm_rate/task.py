"""Does a change of the model bear a higher learning rate? An experiment on the pocket stories."""

from grader.task import Experiment, Factor, Standard

TASK = Experiment(
    title="Experiment: a high learning rate",
    unit="points",
    standards=(Standard("bronze", 200), Standard("silver", 120), Standard("gold", 60)),
    factors=(
        Factor("qk_norm", "none", "head", "At a high learning rate, is the loss lower with QK-norm than without?"),
        # In rows of 64 tokens, both bases turn the slow pairs by next to nothing: there is no difference to find.
        Factor(
            "rope_base", "10000", "15000",
            "At a high learning rate, is the loss lower with a rotary base of 15,000 than with 10,000?",
        ),
    ),
    settings=(
        "context=64", "d_model=64", "num_heads=2", "d_ff=256", "num_layers=2", "batch_size=8", "warmup_steps=10",
        "eval_every=1000", "packing=padded", "positions=rope", "norm_kind=rmsnorm", "bias=false",
    ),
    steps=200,
)  # fmt: skip
