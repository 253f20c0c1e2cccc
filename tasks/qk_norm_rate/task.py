"""Does a change of the model bear a higher learning rate? An experiment on the pocket stories."""

from grader.task import Experiment, Factor, Standard

TASK = Experiment(
    title="Experiment: a high learning rate",
    unit="points",
    # The pairs of two seeds differ by 0.04 to 0.1 nats, so an honest interval costs 150 to 300.
    standards=(Standard("bronze", 700), Standard("silver", 400), Standard("gold", 250)),
    factors=(
        Factor(
            "qk_norm", {"none": ("qk_norm=none",), "head": ("qk_norm=head",)},
            "At a high learning rate, is the loss lower with QK-norm than without?",
        ),
        # In rows of 64 tokens, both bases turn the slow pairs by next to nothing: there is no difference to find.
        Factor(
            "rope_base", {"10000": ("rope_base=10000",), "15000": ("rope_base=15000",)},
            "At a high learning rate, is the loss lower with a rotary base of 15,000 than with 10,000?",
        ),
    ),
    settings=(
        "context=64", "d_model=64", "num_heads=2", "d_ff=256", "num_layers=2", "batch_size=16", "warmup_steps=20",
        "final_lr_fraction=0", "eval_every=1000", "packing=padded", "positions=rope", "norm_kind=rmsnorm", "bias=false",
    ),
    steps=200,
)  # fmt: skip
