"""The causes that a run can go wrong for: their names, what they are, and how one sees them."""

from grader.task import Cause

RESTART_RATE = "restart_rate"
REPEATED_DATA = "repeated_data"
BAD_BATCH = "bad_batch"
OTHER_TOKENIZER = "other_tokenizer"
DEAD_LAYER = "dead_layer"
ATTENTION_LOGITS = "attention_logits"
VALIDATION_LEAK = "validation_leak"
LOW_PRECISION_SUM = "low_precision_sum"

CAUSES = (
    Cause(
        RESTART_RATE,
        "the learning rate is too high after the restart",
        "All `update` norms grow tenfold at the first step after the restart. The loss is still right at that step, "
        "which is computed before the update, and rises in the next ones.",
    ),
    Cause(
        REPEATED_DATA,
        "the restart lost the place in the data, and the same few batches are read again and again",
        "The training loss falls faster than before, and the validation loss stops falling and then rises.",
    ),
    Cause(
        BAD_BATCH,
        "one batch is not text: random tokens, or one token repeated",
        "The loss and the gradient norm jump at a single step. The next step is nearly where the run was.",
    ),
    Cause(
        OTHER_TOKENIZER,
        "the restart reads its text with another tokenizer than that of the checkpoint",
        "The loss jumps above ln(vocabulary) at the first step after the restart, before any update. The `update` "
        "norms are what they were, and samples from before the restart were better than those after it.",
    ),
    Cause(
        DEAD_LAYER,
        "one layer of one block is zero from its initialization on, so that it gets no gradient",
        "The `gradient` and the `weight` of that layer are 0 at every step. The loss hardly shows it.",
    ),
    Cause(
        ATTENTION_LOGITS,
        "the attention logits grow, because queries and keys learn too fast and nothing bounds them",
        "The `logit` of both blocks passes 100 within some tens of steps, and the softmax of attention picks one "
        "token. The loss falls slower than that of other runs.",
    ),
    Cause(
        VALIDATION_LEAK,
        "rows of the validation data are read in training",
        "The validation loss falls below the training loss, and away from it, while the samples are no better.",
    ),
    Cause(
        LOW_PRECISION_SUM,
        "the losses of a batch are summed in bfloat16",
        "The reported loss drops far below the validation loss at once, sticks near 2 and is a multiple of 1/128. "
        "Gradients, updates and validation losses are what they were: beside a sum of 2,048, bfloat16 cannot hold a "
        "loss below 8.",
    ),
)
CHANGES = (
    "clip_norm=0.1", "clip_norm=0.3", "clip_norm=0", "learning_rate=0.0025", "learning_rate=0.01", "warmup_steps=40",
    "beta2=0.99", "weight_decay=0", "qk_norm=head",
)  # fmt: skip
