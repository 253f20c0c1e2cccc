"""Which of three schedules would you take? An experiment on the pocket stories."""

from grader.task import Experiment, Factor, Standard

QUESTION = "Which schedule would you take: the half cosine, or one of the others? Compare it with one of them."

TASK = Experiment(
    title="Experiment: a schedule",
    unit="points",
    # The pairs of two seeds differ by 0.02 to 0.06 nats, so an honest interval costs 80 to 250.
    standards=(Standard("bronze", 600), Standard("silver", 350), Standard("gold", 200)),
    factors=(
        Factor(
            "schedule",
            {
                "cosine": ("schedule=cosine", "final_lr_fraction=0"),
                "plateau": ("schedule=plateau", "final_lr_fraction=0", "decay_start=70%"),
                "constant": ("schedule=plateau", "decay_start=0"),
            },
            QUESTION,
        ),
        # The plateau ends in both ways at nearly the same rate: there is no difference to find.
        Factor(
            "last_rate",
            {
                "zero": ("schedule=cosine", "final_lr_fraction=0"),
                "hundredth": ("schedule=cosine", "final_lr_fraction=0.01"),
                "fiftieth": ("schedule=cosine", "final_lr_fraction=0.02"),
            },
            "How low should the learning rate fall: to zero, to a hundredth or to a fiftieth of its peak? Compare zero "
            "with one of the others.",
        ),
    ),
    settings=(
        "context=64", "d_model=64", "num_heads=2", "d_ff=256", "num_layers=2", "batch_size=16", "warmup_steps=20",
        "eval_every=1000", "packing=padded", "positions=rope", "norm_kind=rmsnorm", "bias=false",
    ),
    steps=200,
)  # fmt: skip
