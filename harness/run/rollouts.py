"""Continuations of prompts by the model that is being trained, with their rewards, as batches of the train step."""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from harness.config import Config
from harness.data.batches import PADDING
from harness.data.tools import Marks
from harness.errors import UsageError
from harness.model.sampling import Sampling
from harness.pieces import assemble
from harness.pieces.load import attribute_errors_to
from harness.run.run_session import Session
from harness.run.state import initial_state
from harness.run.tasks import Prompt, Task
from harness.run.tool_loop import Agent, ToolUse, loss_mask, no_results, run_agents
from harness.training.grpo import Rollouts, advantages, kl_estimate, penalized, scorer
from harness.training.sharding import put_batch
from harness.training.train_step import Batch

RARE = 0.05  # the share of rewarded continuations below which training seldom finds any to learn from
SOLVED = 1.0  # the reward of a task from which on a problem counts as solved


TURN = 1 << 24  # between the numbers of the samples of a turn and those of the next one


class Continuation(NamedTuple):
    """What follows a prompt: a text of the model; or its turns and the results of its calls, if the task has tools."""

    ids: list[int]  # with the end, unless it is cut off
    sampled: list[bool]  # for each: whether the model wrote it
    answer: list[int]  # the last turn of the model
    ended: bool
    calls: int
    log_p: list[float]  # of each of the ids to the program that sampled it; empty if nobody asked

    @property
    def length(self) -> int:
        """The number of tokens without the end."""
        return len(self.ids) - self.ended


class Rewarded(NamedTuple):
    """A continuation as the program of a task sees it."""

    reward: float
    solved: bool
    has_form: bool
    ended: bool


class RolloutFeed:
    """Batches of `prompts` groups of `group_size` continuations of the prompts of a task.

    Everything that is random depends on the seed and the number of the update.
    """

    def __init__(self, session: Session, task: Task):
        self._session, self._task = session, task
        self._config: Config = session.config
        self._tokenizer = session.tokenizer
        self._base = base_parameters(session) if session.config.kl_weight else None
        if session.config.max_weight and not session.tells_log_p:
            raise UsageError(
                f"max_weight={session.config.max_weight} needs the log-probabilities of what was sampled, which a "
                "piece that writes texts does not tell. Leave it out, or sample without that piece."
            )
        self._update = 0

    def get_state(self) -> dict[str, Any]:
        """The number of updates."""
        return {"update": self._update}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continues after the updates that led to `state`."""
        self._update = int(state["update"])

    def next(self, state: Any) -> Batch:
        """Samples continuations from the model of `state`, and rewards them."""
        config, session = self._config, self._session
        model = session.functions.model(state)
        rng = np.random.default_rng((config.seed, self._update))
        prompts = [prompt for prompt in self._task.draw(rng, config.prompts) for _ in range(config.group_size)]
        first, scored = self._update * len(prompts), bool(config.max_weight)
        continuations = continued(session, model, self._task, prompts, first, scored=scored)
        rewarded = [rewarded_by(session, self._task, *pair) for pair in zip(prompts, continuations, strict=True)]
        rewards_B = np.array([each.reward for each in rewarded])
        if self._update == 0 and rewards_B.mean() < RARE:
            session.log(
                f"{int((rewards_B > 0).sum())} of the first {len(rewards_B)} continuations are rewarded. "
                f"Below {RARE:.0%}, training seldom finds what it could reinforce; try an easier reward."
            )
        self._update += 1
        return self._batch(model, prompts, continuations, rewarded)

    def _batch(
        self,
        model: Any,
        prompts: list[Prompt],
        continuations: list[Continuation],
        rewarded: list[Rewarded],
    ) -> Batch:
        """The rollouts on the devices, with the means that the line of metrics shows."""
        config, session = self._config, self._session
        W = config.context + 1
        ids_BW = np.full((len(prompts), W), PADDING, np.int32)
        sampled_BW = np.zeros((len(prompts), W), bool)
        sampler_BW = np.zeros((len(prompts), W), np.float32)
        for place, (prompt, each) in enumerate(zip(prompts, continuations, strict=True)):
            P, stop = len(prompt.ids), len(prompt.ids) + len(each.ids)
            ids_BW[place, :stop] = [*prompt.ids, *each.ids]
            sampled_BW[place, P:stop] = each.sampled
            if config.max_weight:
                sampler_BW[place, P:stop] = each.log_p
        sampled_BT = sampled_BW[:, 1:]
        put = functools.partial(put_batch, mesh=session.mesh)
        rows = put(ids_BW)
        graph, policy = nnx.split(model)
        old_BT, base_BT, entropies_BT = attribute_errors_to(
            session.pieces, lambda: scorer(config, graph)(policy, self._base, rows)
        )
        rewards_B, solved_B = np.array([each.reward for each in rewarded]), np.array([each.solved for each in rewarded])
        learned_B = rewards_B
        if base_BT is not None and config.kl_in == "reward":
            learned_B = penalized(rewards_B, np.asarray(old_BT), np.asarray(base_BT), sampled_BT, config.kl_weight)
        groups = (config.prompts, config.group_size)
        solved_GK = solved_B.reshape(groups)
        sample = config.deviation == "sample"
        advantages_GK = advantages(learned_B.reshape(groups), scaled=config.scale_advantages, sample=sample)
        overlong_B = np.array([not each.ended for each in rewarded])
        equal_G = ~advantages_GK.any(axis=1)
        left_out_B = (config.skip_overlong & overlong_B) | np.repeat(config.skip_equal & equal_G, config.group_size)
        counted, advantages_B = (
            put(sampled_BT & ~left_out_B[:, None]),
            put(advantages_GK.reshape(-1).astype(np.float32)),
        )
        means = {"entropy": entropies_BT} | ({} if base_BT is None else {"kl": kl_estimate(old_BT, base_BT)})
        of_problems = {"pass_at_1": solved_GK.mean(), "pass_at_k": solved_GK.any(axis=1).mean()}
        if self._task.has_form:
            of_problems["form"] = np.mean([each.has_form for each in rewarded])
        calls = {"calls": float(np.mean([each.calls for each in continuations]))}
        metrics = {
            "reward": float(rewards_B.mean()),
            **({name: float(value) for name, value in of_problems.items()} if self._task.held_out else {}),
            **{name: float(value) for name, value in _means(put(sampled_BT), means).items()},
            **(calls if self._task.tools else {}),
            "length": float(np.mean([each.length for each in continuations])),
            "overlong": float(overlong_B.mean()),
            "equal_groups": int(equal_G.sum()),
        }
        sampler_BT = put(sampler_BW[:, 1:]) if config.max_weight else None
        in_loss = None if config.kl_in == "reward" else base_BT
        rollouts = Rollouts(rows, counted, old_BT, in_loss, advantages_B, sampler_BT)
        return Batch(rollouts, int(sampled_BT.sum()), metrics)


def base_parameters(session: Session) -> Any:
    """What the base has in place of the parameters that are trained."""
    config, functions = session.config, session.functions
    if config.lora_rank:  # adapters begin at zero, and all else stays as it is
        return nnx.state(functions.model(functions.init(without=functions.frozen)), nnx.LoRAParam)
    return nnx.state(functions.model(initial_state(session)[0]))


def room(config: Config) -> int:
    """The most tokens of a continuation: what the longest prompt leaves of the context."""
    return config.context + 1 - config.prompt_tokens


def continued(
    session: Session,
    model: Any,
    task: Task,
    prompts: Sequence[Prompt],
    first: int,
    temperature: float = 1.0,
    *,
    scored: bool = False,
) -> list[Continuation]:
    """A continuation of each prompt, of which there are at most `batch_size` unless they share a cache. At temperature
    1, from the model's own distribution: the policy that is trained.

    Prompt i is sample `first + i` of the seed. `scored` adds the log-probabilities, if the session `tells_log_p`.
    """
    config, end = session.config, session.end_of_text
    sampling = Sampling(temperature=temperature, top_p=1.0, seed=config.seed, max_tokens=room(config))
    log_p: list[list[float]] = [[] for _ in prompts]

    def generate(agents: list[Agent], turn: int) -> Iterator[list[int]]:
        numbers = [first + agent.number + turn % 100 * TURN for agent in agents]
        width = config.context if turn else config.prompt_tokens
        found: list[Any] | None = [] if scored else None
        ids = [agent.ids for agent in agents]
        texts = session.samples(model, ids, sampling, numbers, width=width, log_p=found)
        for place, (agent, text) in enumerate(zip(agents, texts, strict=True)):
            written = [*text, end][: agent.left]  # the end was sampled, too
            if found is not None:
                known = log_p[agent.number]
                known += [0.0] * (len(agent.ids) - len(prompts[agent.number].ids) - len(known))  # of results
                known += found[place][: len(written)].tolist()
            yield written

    use = _tool_use(session, task)
    answer = use.answer if use else no_results
    agents = run_agents(generate, [prompt.ids for prompt in prompts], room(config), end, answer)
    mask = use.loss_mask if use else loss_mask
    return [_continuation(agent, mask(agent.transcript), log_p[agent.number], end) for agent in agents]


def _continuation(agent: Agent, mask: list[bool], log_p: list[float], end: int) -> Continuation:
    """What an agent wrote and read after its prompt."""
    P, turn = len(agent.transcript[0][1]), agent.last
    ids = agent.ids[P:]
    known = log_p and [*log_p, *[0.0] * (len(ids) - len(log_p))]
    answer = turn[:-1] if turn[-1] == end else turn
    return Continuation(ids, mask[P:], answer, agent.finished, agent.calls, known)


def _tool_use(session: Session, task: Task) -> ToolUse | None:
    """The tools of a task, with the learner's programs for the loop if there are any."""
    if task.tools is None:
        return None
    config, pieces = session.config, session.pieces
    use = ToolUse(task.tools, Marks(session.tokenizer), config.max_calls, config.max_result)
    if pieces is None:
        return use
    return replace(
        use,
        call_tools=assemble.call_tools(pieces) or use.call_tools,
        loss_mask=assemble.loss_mask(pieces) or use.loss_mask,
    )


def rewarded_by(session: Session, task: Task, prompt: Prompt, continuation: Continuation) -> Rewarded:
    """What the program of a task says of a continuation: of its last turn."""
    tokenizer, ended = session.tokenizer, continuation.ended
    text = tokenizer.decode([token for token in continuation.answer if token < tokenizer.n_vocab])
    verified, has_form = task.reward(prompt, text, ended), task.has_form is not None and task.has_form(text)
    return Rewarded(verified + session.config.format_weight * has_form, verified >= SOLVED, has_form, ended)


@jax.jit
def _means(mask_BT: jax.Array, values: dict[str, jax.Array]) -> dict[str, jax.Array]:
    """The mean of each array over the positions of the mask."""
    return {name: jnp.sum(each * mask_BT) / jnp.maximum(jnp.sum(mask_BT), 1) for name, each in values.items()}
