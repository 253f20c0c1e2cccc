"""The pieces that training is made of: loss, steps, optimizer, shardings and checkpoints."""

import tempfile
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array

from harness.config import TASK
from harness.data.tokenizer import get_tokenizer
from harness.data.tools import Marks
from harness.pieces import adapt
from harness.pieces.adapt import PAD_ID, LoaderPosition
from harness.pieces.smoke_tests import IDS, D, F, SmokeTestError, T, V, check_output
from harness.pieces.spec import Setup, Use, only, piece, unless_done_by, unless_segments
from harness.pieces.zero1 import BETA2, is_plain_adam

PARAMETERS = {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float32)}


@piece("p07_next_token_loss", adapter=adapt.batch_loss)
def next_token_loss(loss: Any) -> None:
    logits, ids = jnp.ones((T, V)), jnp.array([3, 1, 4, PAD_ID, PAD_ID])
    check_output(jax.jit(loss, static_argnums=2)(logits, ids, PAD_ID), (), f"logits of shape ({T}, {V})")


@piece(
    "p75_multi_token",
    adapter=adapt.two_losses,
    use=lambda run: unless_segments(run, only(run.config.mtp > 0, "with mtp=1")),
)
def mtp_loss(loss: Any) -> None:
    """Logits that are all equal give the logarithm of their number, for both tokens."""
    given = jnp.ones((T, V)), jnp.ones((T - 1, V)), jnp.asarray(IDS), jnp.arange(T) < T - 1
    out = check_output(
        jax.jit(loss, static_argnums=4)(*given, 0.5), (), f"logits of shapes ({T}, {V}) and ({T - 1}, {V})"
    )
    if not np.allclose(out, 1.5 * np.log(V), rtol=1e-3):
        raise SmokeTestError(f"returned {out} for equal logits of {V} tokens and a weight of 0.5.")


def _train_step(run: Setup) -> Use:
    accumulates = run.config.grad_accumulation_steps > 1
    if accumulates and "accumulated_gradients" not in run.there:
        return Use(False, "train_step takes a whole batch; --set grad_accumulation_steps=1", is_conflict=True)
    is_whole = not accumulates and not run.config.has_dialogues and not run.config.mtp
    use = only(is_whole, "if grad_accumulation_steps is 1, mtp is 0, and texts are learned as a whole")
    return unless_segments(run, unless_done_by("zero_step", run, use))


@piece("p08_train_step", adapter=adapt.train_step, use=_train_step)
def train_step(step: Any) -> None:
    """One step must change a parameter. The model is a table of the next token's logits, which compiles quickly."""
    model = nnx.Embed(V, V, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
    before = np.asarray(model.embedding[...])
    check_output(step(model, optimizer, jnp.ones((2, T), int), PAD_ID), (), f"ids of shape (2, {T})")
    if np.array_equal(before, model.embedding[...]):
        raise SmokeTestError("did not change any parameter.")


def _unless_zero_step(run: Setup) -> Use:
    return unless_done_by("zero_step", run, Use(True))


def _run_optimizer(transformation: Any) -> None:
    """An optax transformation must give an update under jit."""
    if not isinstance(transformation, optax.GradientTransformation):
        raise SmokeTestError(f"returned a {type(transformation).__name__}, not an optax.GradientTransformation.")
    state = transformation.init(PARAMETERS)
    updates, _ = jax.jit(transformation.update)(PARAMETERS, state, PARAMETERS)
    for key, leaf in PARAMETERS.items():
        check_output(updates[key], leaf.shape, "the update of a gradient")


@piece("p09_adamw", adapter=adapt.adamw, use=_unless_zero_step)
def adamw(adamw: Any) -> None:
    _run_optimizer(adamw(1e-3, 0.9, 0.99, 1e-8, 0.1))


@piece("p10_lr_schedule", use=lambda run: only(run.config.schedule == "cosine", "with schedule=cosine"))
def warmup_cosine(schedule: Any) -> None:
    check_output(jax.jit(jax.vmap(schedule(1e-3, 2, 6)))(jnp.arange(8)), (8,), "eight steps")


@piece(
    "p10_lr_schedule",
    use=lambda run: only(run.config.decay_start > 0, "with schedule=plateau and decay_start"),
)
def warmup_stable_decay(schedule: Any) -> None:
    check_output(jax.jit(jax.vmap(schedule(1e-3, 2, 4, 6)))(jnp.arange(8)), (8,), "eight steps")


@piece("p11_gradient_clipping", use=_unless_zero_step)
def clip_by_global_norm(clip: Any) -> None:
    clipped, norm = jax.jit(lambda gradients: clip(gradients, 0.5))(PARAMETERS)
    check_output(norm, (), "its norm")
    check_output(clipped["kernel"], (2, 3), "a kernel's gradient")


@piece(
    "p12_gradient_accumulation",
    adapter=adapt.accumulation,
    use=lambda run: only(run.config.grad_accumulation_steps > 1, "if grad_accumulation_steps is more than 1"),
)
def accumulated_gradients(accumulate: Any) -> None:
    def loss_sum(parameters: Any, ids: Any) -> Any:
        return jnp.sum(parameters["kernel"]) * jnp.sum(ids), jnp.int32(ids.size)

    results = jax.jit(lambda parameters, ids: accumulate(loss_sum, parameters, ids, 2, 1.0))
    loss, gradients, norm = results(PARAMETERS, np.stack([IDS] * 4))
    check_output(loss, (), "its loss")
    check_output(norm, (), "its norm")
    check_output(gradients["kernel"], (2, 3), "a kernel's gradient")


@piece("p13_finite_guard", use=_unless_zero_step)
def finite_guard(guard: Any) -> None:
    transformation = guard(optax.sgd(0.1))
    _run_optimizer(transformation)
    if optax.tree_utils.tree_get(transformation.init(PARAMETERS), "skipped") is None:
        raise SmokeTestError("has a state without the field `skipped`.")


def _on_two_axes(run: Setup) -> Use:
    return only(run.config.mesh.count("x") < 2, "on a mesh of two axes")


@piece("p20_mesh_and_partitioning", use=_on_two_axes)
def make_mesh(make_mesh: Any) -> None:
    mesh = make_mesh(1, 1)
    if not isinstance(mesh, Mesh) or tuple(mesh.axis_names) != ("data", "model"):
        raise SmokeTestError("did not return a Mesh with the axes `data` and `model`.")


def _check_spec(spec: Any) -> None:
    if not isinstance(spec, PartitionSpec) or len(spec) > 2:
        raise SmokeTestError(
            f"returned {spec!r:.60} for a kernel; it must return a PartitionSpec with at most two axes."
        )


def _partition_spec(run: Setup) -> Use:
    return unless_done_by("zero_step", run, only(not run.config.fsdp, "without --fsdp"))


@piece("p20_mesh_and_partitioning", needs=("MiniGPT",), use=_partition_spec)
def partition_spec(partition_spec: Any, mini_gpt: Any) -> None:
    """The specification of one kernel of MiniGPT, whose parameter names it matches, and which is not made for it."""
    _check_spec(partition_spec("blocks.0.ff1.kernel", (D, F), _one_device()))


@piece("p21_sharded_train_step", use=_on_two_axes)
def shard_batch(shard_batch: Any) -> None:
    given = np.stack([IDS, IDS])
    placed = shard_batch(given, _one_device())
    if not isinstance(placed, jax.Array) or placed.shape != given.shape:
        raise SmokeTestError("did not return the batch as one array.")


@piece("p22_fsdp", adapter=adapt.fsdp_rule, use=lambda run: only(run.config.fsdp, "with --fsdp"))
def fsdp_spec(fsdp_spec: Any) -> None:
    _check_spec(fsdp_spec((D, F), 2))


@piece("p26_exact_resume", needs=("save",))
def resume(resume: Any, save: Any) -> None:
    def make() -> Any:
        model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
        return model, nnx.Optimizer(model, optax.adam(0.1), wrt=nnx.Param), nnx.Rngs(0)

    model, optimizer, rngs = make()
    model.kernel[...] = model.kernel[...] + 1
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder).resolve() / "checkpoint")
        save(path, model, optimizer, rngs, LoaderPosition({"next_index": 7}))
        restored = resume(path, make, LoaderPosition)
    if len(restored) != 4 or not np.array_equal(restored[0].kernel[...], model.kernel[...]):
        raise SmokeTestError("did not restore the saved model.")
    if restored[3].get_state() != {"next_index": 7}:
        raise SmokeTestError("did not restore the state of the loader.")


def _muon(run: Setup) -> Use:
    # The harness's GPT stacks the kernels of all layers: they have more than two axes.
    has_matrices = any(run.uses(model) for model in ("MiniGPT", "ModernGPT", "MultiTokenGPT"))
    fits = run.config.optimizer == "muon" and has_matrices
    if fits and run.config.muon_nesterov:
        return Use(False, "muon is that of problem 46; --set muon_nesterov=false", is_conflict=True)
    return only(fits, "with optimizer=muon and your MiniGPT, ModernGPT or MultiTokenGPT")


@piece("p46_muon", use=_muon)
def muon(muon: Any) -> None:
    _run_optimizer(muon(1e-3, 0.95, 0.1, optax.adamw(1e-3)))


def _dpo_loss(run: Setup) -> Use:
    config = run.config
    if config.has_pairs and (config.dpo_label_smoothing or config.dpo_length_normalized):
        why = "dpo_loss has no label smoothing and sums over tokens"
        settings = "--set dpo_label_smoothing=0 and dpo_length_normalized=false"
        return Use(False, f"{why}; {settings}", is_conflict=True)
    return only(config.has_pairs, "by `harness dpo`")


@piece("p50_preference_losses", adapter=adapt.preference_loss, use=_dpo_loss)
def dpo_loss(loss: Any) -> None:
    """A pair whose second answer is shorter, under jit."""
    logits, ids = jnp.ones((2, T, V)), jnp.stack([IDS, IDS])
    is_answer = (jnp.arange(T)[None] > 0) & (jnp.arange(T)[None] < jnp.array([[T], [T - 1]]))
    value = jax.jit(loss, static_argnums=4)(logits, 2 * logits, ids, is_answer, 0.1)
    check_output(value, (), f"logits of shape (2, {T}, {V})")


def _grpo_loss(run: Setup) -> Use:
    config = run.config
    if not config.reward or run.uses("policy_loss"):
        return unless_done_by("policy_loss", run, only(bool(config.reward), "by `harness rl`"))
    if config.loss_mean != "token":
        return Use(False, "grpo_loss is a mean over tokens; --set loss_mean=token", is_conflict=True)
    if config.ratio != "token" or config.clip_high or config.max_weight or (config.has_kl_loss and config.is_exact_kl):
        what = "ratio=sequence, clip_high, max_weight and kl_estimate=ratio_k3"
        return Use(False, f"{what} are not among its arguments: problem 79 has them", is_conflict=True)
    return Use(True, "by `harness rl`")


def _policy_loss(run: Setup) -> Use:
    config = run.config
    has_its_kl = not config.has_kl_loss or (config.is_exact_kl and config.ratio == "token")
    when = (
        "by `harness rl` with loss_mean as `ratio`, and without a KL divergence in the loss, or with ratio=token and "
        "kl_estimate=ratio_k3"
    )
    return only(bool(config.reward) and config.ratio == config.loss_mean and has_its_kl, when)


@piece("p79_policy_with_lag", needs=("kl_loss",), use=_policy_loss)
def policy_loss(loss: Any, kl_loss: Any) -> None:
    """Two rows, of which one ends early, under jit, with both kinds of ratio."""
    log_p = jnp.full((2, T), -1.0)
    sampled = jnp.arange(T)[None] < jnp.array([[T], [T - 2]])
    for kind in ("token", "sequence"):
        value = jax.jit(loss, static_argnums=(5, 6, 7, 8))(
            log_p, log_p - 0.1, log_p, sampled, jnp.array([1.0, -1.0]), kind, 0.2, 0.3, 2.0
        )
        check_output(value, (), f"log-probabilities of shape (2, {T}) and the kind {kind!r}")
    value = jax.jit(kl_loss, static_argnums=5)(log_p, log_p - 0.1, log_p, log_p, sampled, 2.0)
    check_output(value, (), f"log-probabilities of shape (2, {T})", "kl_loss")


def _verify(run: Setup) -> Use:
    is_number = run.config.reward.startswith((f"{TASK}arithmetic", f"{TASK}tools", f"{TASK}gsm8k:"))
    return only(is_number, "by `harness rl` and `harness eval` with the task arithmetic, tools or gsm8k")


@piece("p81_verifier", use=_verify)
def verify(verify: Any) -> None:
    """A right and a wrong number."""
    for answer, expected in (("42", True), ("42 or 43", False)):
        if verify(answer, "42") is not expected:
            raise SmokeTestError(f"did not return {expected} for the answer {answer!r} and the truth '42'.")


def _with_tools(run: Setup) -> Use:
    return only(run.config.reward == f"{TASK}tools", "by `harness rl` and `harness eval` with the task tools")


@piece("p82_tool_loop", use=_with_tools)
def call_tools(call_tools: Any) -> None:
    """A turn with a call that works and one that does not."""
    marks = Marks(get_tokenizer("bytes"))
    turn = marks.encode('<call>{"name": "add", "arguments": {"a": 1, "b": 2}}<call>add<end>')
    results = call_tools(turn, {"add": lambda a, b: a + b}, marks, 2, 32)
    expected = [marks.encode("<result>3<end>"), marks.encode("<result>error: not a call<end>")]
    if results != expected:
        raise SmokeTestError(f"returned {results!r:.80} for a call of `add` and a broken one; expected {expected!r}.")


@piece("p82_tool_loop", use=_with_tools)
def loss_mask(loss_mask: Any) -> None:
    mask = loss_mask([("prompt", [1]), ("model", [2, 3]), ("tool", [4])])
    if mask != [False, True, True, False]:
        raise SmokeTestError(f"returned {mask!r:.80}; only the two tokens of the model were expected to learn.")


@piece("p51_grpo", adapter=adapt.rollout_loss, use=_grpo_loss)
def grpo_loss(loss: Any) -> None:
    """Two rows, of which one ends early, under jit."""
    log_p = jnp.full((2, T), -1.0)
    sampled = jnp.arange(T)[None] < jnp.array([[T], [T - 2]])
    value = jax.jit(loss, static_argnums=(5, 6))(log_p, log_p - 0.1, log_p, sampled, jnp.array([1.0, -1.0]), 0.2, 0.1)
    check_output(value, (), f"log-probabilities of shape (2, {T})")


def _zero_step(run: Setup) -> Use:
    when = f"with zero1=true, weight_decay=0, beta2={BETA2} and whole batches, on a mesh Dx1"
    return only(is_plain_adam(run.config), when)


@piece("p69_zero_optimizer", needs=("zero_state",), use=_zero_step)
def zero_step(zero_step: Any, zero_state: Any) -> None:
    """One step on one device must change a parameter. The loss of a row is the square of the distance from its
    number."""
    mesh = _one_device()

    def loss_sum(parameters: Any, rows: Array) -> tuple[Array, Array]:
        return jnp.sum((parameters["kernel"].sum() - rows) ** 2), jnp.asarray(rows.size)

    def step(parameters: Any, state: Any, rows: Array, rate: Array) -> Any:
        return zero_step(loss_sum, parameters, state, rows, mesh, rate, 1.0)

    def kinds(tree: Any) -> Any:
        return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), tree)

    state = zero_state(PARAMETERS, mesh)
    new, after, loss, norm = jax.jit(step)(PARAMETERS, state, jnp.ones((2, T)), jnp.float32(0.1))
    for name, given, returned in (("parameters", PARAMETERS, new), ("state", state, after)):
        if kinds(given) != kinds(returned):
            raise SmokeTestError(f"returned {name} of another structure, shape or dtype than it was given.")
    for name, value in (("loss", loss), ("norm", norm)):
        check_output(value, (), f"two rows, as the {name}")
    if np.array_equal(new["kernel"], PARAMETERS["kernel"]):
        raise SmokeTestError("did not change any parameter.")


def _one_device() -> Mesh:
    return jax.make_mesh(
        (1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2, devices=jax.devices()[:1]
    )
