"""Problem 75: the reference's module is that of transformers, its texts have the model's distribution, and the play
shows what a wrong module costs."""

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from grader.exhibits import Bars, Lines, Story
from grader.problem import Case
from problems.p75_multi_token import probes
from problems.p75_multi_token.problem import PARTS, PROBLEM, likely
from tests.conftest import ROOT
from tests.problems.test_plays import shown

D, H, G, F, L, V = 12, 2, 1, 10, 2, 15
IDS = (np.arange(9) * 7 % V).astype(np.int32)


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


class Asked:
    """What a probe calls: the reference, and the model of a case in the same process."""

    def __init__(self, case: Case):
        self.model = probes.Model(case)
        self.ask = self.model.answer

    def call(self, name: str, *arguments: Any) -> Any:
        import p75_multi_token

        return getattr(p75_multi_token, name)(*arguments)


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(3))
def test_a_text_has_the_distribution_of_the_model(seed: int):
    """Over all uniform numbers, whatever the module drafts."""
    case = Case(dict(PROBLEM.cases["every way"].make({"P": 2}, np.random.default_rng(seed))))
    found = probes.law(Asked(case), case).arrays["law.shares"]
    salt, prompt = int(case.values["salt"][0]), list(map(int, case.values["prompt"].strip("[]").split(",")))
    first = int(likely(salt, 2, prompt)[0] < PARTS / 8)  # drawn with 1/8
    p = likely(salt, 2, [*prompt, first]) / PARTS
    after = np.array([likely(salt, 2, [*prompt, first, second]) for second in range(2)]) / PARTS
    np.testing.assert_allclose(found, p[:, None] * after)


class Counter:
    """A model that counts, and a module that counts as well, or one that never does."""

    def __init__(self, step: int):
        self.step, self.runs = step, 0

    def run(self, token_ids: Any) -> Any:
        self.runs += 1
        return 99 * np.eye(5, dtype="float32")[(token_ids + 1) % 5], np.float32(token_ids)[:, None]

    def ahead(self, hidden: Any, next_ids: Any) -> Any:
        assert ((hidden[:, 0] + 1) % 5 == next_ids).all()
        return 99 * np.eye(5, dtype="float32")[(next_ids + self.step) % 5]


@pytest.mark.fast
@pytest.mark.parametrize(("step", "runs"), [(1, 6), (2, 11)])
def test_a_perfect_module_halves_the_runs_and_a_useless_one_costs_none(step: int, runs: int):
    from p75_multi_token import write

    model = Counter(step)
    assert write(model, [3], 11, np.full((11, 3), 0.5, np.float32)) == [4, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4]
    assert model.runs == runs


def rates(fork_server, *replaced: str) -> list[float]:
    """How many tokens a run the play shows: as the module was trained, with the other hidden state, with none."""
    learned, story, bars = shown("75", fork_server, *replaced)
    assert isinstance(learned, Lines)
    assert isinstance(story, Story)
    assert isinstance(bars, Bars)
    assert ("hardly ever" in story.caption) == (bars.bars[0].value < 1.4)
    return [bar.value for bar in bars.bars]


@pytest.mark.thorough  # `grade verify` plays the reference, too
def test_the_play_writes_most_tokens_two_at_a_time(fork_server):
    learned, story, _ = shown("75", fork_server)
    assert learned.lines[0].y[-1] < 1.5 < 6 < learned.lines[0].y[0]
    assert rates(fork_server)[0] > 1.6
    kinds = [each.kind for each in story.tokens]
    assert kinds.count(3) in (kinds.count(1), kinds.count(1) - 1), "a token follows each accepted draft"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "replaced",
    [
        ("weight * mean_loss(ahead[:-1], 2)", "weight * mean_loss(ahead, 1)"),
        ("return logits_TV, self.ahead(hidden_TD[:-1], token_ids[1:])",
         "return logits_TV, self.ahead(hidden_TD[:-1], jnp.roll(token_ids, -2)[:-1])"),
    ],
)  # fmt: skip
def test_the_play_shows_that_a_wrong_module_drafts_in_vain(fork_server, replaced):
    assert rates(fork_server, *replaced)[0] < 1.3


def reference(after: bool) -> Any:
    from p75_multi_token import MultiTokenGPT

    return MultiTokenGPT(V, D, H, G, F, L, 50.0, 1e-5, after, rngs=nnx.Rngs(0))


def into(module: Any, names: dict[str, str], tensors: dict[str, Any]) -> None:
    """Puts tensors into the parameters of a module, which have other names and transposed kernels."""
    for path, variable in nnx.to_flat_state(nnx.state(module, nnx.Param)):
        name = ".".join(map(str, path))
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        array = tensors.pop(name).detach().numpy()
        variable.set_value(jnp.asarray(array.T if path[-1] == "kernel" else array))
    assert not tensors


LLAMA = {
    "blocks": "layers", "norm1": "input_layernorm", "norm2": "post_attention_layernorm", "attn": "self_attn",
    "out_proj": "o_proj", "ff": "mlp", "norm_f": "norm", "embed.embedding": "embed_tokens.weight", ".kernel": ".weight",
    ".scale": ".weight",
}  # fmt: skip


@pytest.mark.oracle
def test_the_module_is_that_of_transformers_around_a_block_of_llama():
    """The logits of both predictions, and the hidden states after the final norm."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    layers = pytest.importorskip("transformers.modeling_layers")
    if not hasattr(layers, "MtpLayer"):
        pytest.skip("this version of transformers has no MtpLayer")
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=V, hidden_size=D, num_attention_heads=H, num_key_value_heads=G, intermediate_size=F,
        num_hidden_layers=L, rope_parameters={"rope_type": "default", "rope_theta": 50.0}, rms_norm_eps=1e-5,
        tie_word_embeddings=True, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    module = layers.MtpLayer(config, LlamaDecoderLayer, LlamaRMSNorm, 0).eval()
    for parameter in (*model.parameters(), *module.parameters()):
        torch.nn.init.normal_(parameter, 0.4, 0.4)
    ours = reference(after=True)
    theirs = {name.removeprefix("model."): tensor for name, tensor in model.named_parameters()}
    own = {f"mtp.{name}": tensor for name, tensor in module.named_parameters()}
    into(ours, {"mtp.norm.": "mtp.post_norm.", "mtp.block": "mtp.mtp_block", **LLAMA}, {**theirs, **own})
    ids = torch.tensor(IDS.astype(int))[None]
    with torch.no_grad():
        out = model(ids, output_hidden_states=True)
        positions = torch.arange(1, len(IDS))[None]  # transformers counts those of the next tokens
        embedded, states = model.get_input_embeddings()(ids[:, 1:]), out.hidden_states[-1][:, :-1]
        mask = torch.full((len(IDS) - 1,) * 2, -torch.inf).triu(1)[None, None]
        second = module(embedded, states, model.model.rotary_emb(embedded, positions), mask, positions, None)
        expected = model.lm_head(second)[0].numpy()
    logits, hidden = ours.run(jnp.asarray(IDS))
    for found, known in ((logits, out.logits[0]), (hidden, out.hidden_states[-1][0]), (ours(IDS)[1], expected)):
        known = np.asarray(known)
        np.testing.assert_allclose(found, known, rtol=1e-4, atol=1e-4 * np.abs(known).max())


@pytest.mark.oracle
def test_deepseek_v3_in_transformers_reads_the_state_after_the_final_norm_and_puts_the_embedding_first():
    """What its module is given in `generate(use_mtp=True)`, and what goes into its block and comes out of it."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    layers = pytest.importorskip("transformers.modeling_layers")
    if not hasattr(layers, "MtpModel"):
        pytest.skip("this version of transformers has no MtpModel")
    from p75_multi_token import MTP

    torch.manual_seed(0)
    config = transformers.DeepseekV3Config(
        vocab_size=V, hidden_size=D, intermediate_size=F, moe_intermediate_size=4, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, n_routed_experts=4, num_experts_per_tok=2, n_group=1,
        topk_group=1, kv_lora_rank=4, q_lora_rank=4, qk_rope_head_dim=4, v_head_dim=4, qk_nope_head_dim=4,
        attn_implementation="eager",
    )  # fmt: skip
    model = transformers.DeepseekV3ForCausalLM(config).eval()
    theirs = layers.MtpModel(model, 1).eval()
    for parameter in {*model.parameters(), *theirs.parameters()}:
        torch.nn.init.normal_(parameter, 0.4, 0.4)
    ids, seen = torch.tensor(IDS.astype(int))[None], {}
    model.model.norm.register_forward_hook(lambda *call: seen.update(normed=call[2]))
    theirs.layers[0].mtp_block.register_forward_hook(lambda *call: seen.update(into=call[1][0], out=call[2]))
    with torch.no_grad():
        states = model(ids, output_hidden_states=-1).hidden_states[-1]
        positions = torch.arange(1, len(IDS))[None]
        cache = transformers.cache_utils.MtpCache(config=config.get_mtp_config())
        last = theirs.forward_layer(0, states[:, :-1], positions, cache, input_ids=ids[:, 1:])
    assert torch.equal(states, seen["normed"])

    found: dict[str, Any] = {}

    def block(x_TD: Any) -> Any:
        found["into"] = x_TD
        return jnp.asarray(seen["out"][0].numpy())

    ours = MTP(D, config.rms_norm_eps, block, rngs=nnx.Rngs(0))
    one = theirs.layers[0]
    parts = {
        "enorm.scale": one.enorm,
        "hnorm.scale": one.hnorm,
        "eh_proj.kernel": one.eh_proj,
        "norm.scale": one.post_norm,
    }
    into(ours, {}, {name: part.weight for name, part in parts.items()})
    embedded = model.get_input_embeddings()(ids[0, 1:]).detach().numpy()
    out = ours(jnp.asarray(states[0, :-1].numpy()), jnp.asarray(embedded))
    for mine, known in ((found["into"], seen["into"][0]), (out, last[0])):
        known = known.numpy()
        np.testing.assert_allclose(mine, known, rtol=1e-4, atol=1e-4 * np.abs(known).max())
