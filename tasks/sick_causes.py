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
