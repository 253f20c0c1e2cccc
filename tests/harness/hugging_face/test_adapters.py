"""Adapters in the format of PEFT: read, merged and written. What needs PEFT itself is skipped without it."""

import json
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from safetensors.numpy import load_file, save_file

from commandline.errors import UsageError as CommandUsageError
from commandline.files import new_folder
from harness.config import Config
from harness.data.hub import name_of
from harness.errors import UsageError
from harness.hugging_face.adapters import write_adapters
from harness.hugging_face.export import find_layout
from harness.hugging_face.load import Parameters, read_config
from harness.hugging_face.parameters import save
from harness.model.general import make_gpt
from harness.model.gpt import GPT
from harness.model.lora import add_adapters, merge_adapters
from harness.model_config import ModelConfig
from harness.run.folder import Run
from tests.harness.conftest import TINY, Harness
from tests.harness.hugging_face.models import LAYOUTS, exported
from tests.harness.hugging_face.saved import logits_of, saved

EVERY = frozenset(("attn", "mlp", "embed", "head"))
layouts = pytest.mark.parametrize(
    "name", ["GPT-2", "GPT-2, untied, relu", "GPT-NeoX", "Llama, untied, biases", "Qwen 3"]
)


def adapted(model: GPT, rank: int = 3) -> nnx.Module:
    """The model with adapters of which none is zero."""
    targets = EVERY if model.config.tied_head is False else EVERY - {"head"}
    adapted = add_adapters(model, rank, targets, nnx.Rngs(0))
    keys = iter(jax.random.split(jax.random.key(1), 100))
    filled = jax.tree.map(
        lambda leaf: 0.2 * jax.random.normal(next(keys), leaf.shape), nnx.state(adapted, nnx.LoRAParam)
    )
    nnx.update(adapted, filled)
    return adapted


def write(config: Config, model: nnx.Module, base: Path, folder: Path) -> None:
    folder.mkdir()
    write_adapters(
        find_layout(config),
        model,
        3,
        vocab_size=config.vocab_size,
        tied=config.tied_head,
        base=str(base),
        folder=folder,
    )


def read(folder: Path) -> GPT:
    """The model of a folder."""
    settings = {k: v for k, v in read_config(folder).items() if k != "tokenizer"}
    model = make_gpt(replace(ModelConfig(), **settings), nnx.Rngs(0))
    parameters = Parameters(folder)
    nnx.update(model, nnx.map_state(lambda path, leaf: leaf.replace(jnp.asarray(parameters[".".join(map(str, path))])),
                                    nnx.state(model)))  # fmt: skip
    return model


@layouts
def test_adapters_that_are_written_and_read_are_merged_as_those_of_the_run(name: str, tmp_path: Path) -> None:
    config = LAYOUTS[name]
    model = adapted(exported(config, tmp_path / "base"))
    write(config, model, tmp_path / "base", tmp_path / "adapters")
    ids = jax.random.randint(jax.random.key(0), (20,), 0, config.vocab_size)
    np.testing.assert_allclose(read(tmp_path / "adapters")(ids), model(ids)[:, : config.vocab_size], atol=1e-4, rtol=0)
    merged = merge_adapters(model)
    np.testing.assert_allclose(read(tmp_path / "adapters")(ids), merged(ids), atol=1e-4, rtol=0)


def test_q_k_and_v_have_adapters_of_their_own(tmp_path: Path) -> None:
    config = LAYOUTS["Qwen 3"]
    write(config, adapted(exported(config, tmp_path / "base")), tmp_path / "base", tmp_path / "adapters")
    tensors = load_file(tmp_path / "adapters" / "adapter_model.safetensors")
    prefix = "base_model.model.model.layers.1.self_attn."
    shapes = {name.removeprefix(prefix): array.shape for name, array in tensors.items() if name.startswith(prefix)}
    assert shapes == {
        "q_proj.lora_A.weight": (3, 24), "q_proj.lora_B.weight": (36, 3),
        "k_proj.lora_A.weight": (3, 24), "k_proj.lora_B.weight": (12, 3),
        "v_proj.lora_A.weight": (3, 24), "v_proj.lora_B.weight": (12, 3),
        "o_proj.lora_A.weight": (3, 36), "o_proj.lora_B.weight": (24, 3),
    }  # fmt: skip
    settings = json.loads((tmp_path / "adapters" / "adapter_config.json").read_text())
    assert settings["r"] == settings["lora_alpha"] == 3
    assert {"self_attn.q_proj", "self_attn.k_proj", "mlp.up_proj"} <= set(settings["target_modules"])


def handmade(tmp_path: Path, **fields: Any) -> tuple[Path, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A Llama, and adapters of q, of one layer's feed-forward network and a replaced head, as PEFT stores them."""
    config = LAYOUTS["Llama, untied, biases"]
    exported(config, tmp_path / "base")
    rng, folder = np.random.default_rng(0), tmp_path / "adapters"
    folder.mkdir()
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    prefix = "base_model.model.model.layers.0"
    tensors = {
        f"{prefix}.self_attn.q_proj.lora_A.weight": draw(2, 24),
        f"{prefix}.self_attn.q_proj.lora_B.weight": draw(24, 2),
        f"{prefix}.mlp.up_proj.lora_A.weight": draw(4, 24), f"{prefix}.mlp.up_proj.lora_B.weight": draw(40, 4),
        "base_model.model.lm_head.weight": draw(config.vocab_size, 24),
    }  # fmt: skip
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "base_model_name_or_path": str(tmp_path / "base"), "r": 2, "lora_alpha": 6,
                "rank_pattern": {"up_proj": 4}, "alpha_pattern": {r"layers\.0\.mlp\.up_proj": 1}, **fields}  # fmt: skip
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    base = load_file(tmp_path / "base" / "model.safetensors")
    return folder, base, {name.removeprefix("base_model.model."): array for name, array in tensors.items()}


@pytest.mark.parametrize(("rslora", "of_q", "of_up"), [(False, 3.0, 0.25), (True, 6 / 2**0.5, 0.5)])
def test_scales_of_patterns_and_replaced_tensors(rslora: bool, of_q: float, of_up: float, tmp_path: Path) -> None:
    folder, base, changes = handmade(tmp_path, use_rslora=rslora)
    read = Parameters(folder).tensors()
    for module, scale in (("self_attn.q_proj", of_q), ("mlp.up_proj", of_up)):
        name = f"model.layers.0.{module}"
        change = scale * changes[f"{name}.lora_B.weight"] @ changes[f"{name}.lora_A.weight"]
        np.testing.assert_allclose(read[f"{name}.weight"], base[f"{name}.weight"] + change, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(read["lm_head.weight"], changes["lm_head.weight"])
    name = "model.layers.1.self_attn.q_proj.weight"
    np.testing.assert_array_equal(read[name], base[name])


def test_the_command_merges_adapters_and_keeps_the_other_files(harness_here: Harness, tmp_path: Path) -> None:
    folder, _, _ = handmade(tmp_path)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    run = harness_here("export", f"hf:{folder}", "--to", "merged", "--dtype", "bfloat16")
    assert (run.code, run.err) == (0, ""), run.err
    merged = Parameters(tmp_path / "merged").tensors()
    for name, array in Parameters(folder).tensors().items():
        np.testing.assert_array_equal(merged[name], array.astype(jnp.bfloat16).astype(np.float32))
    stored = json.loads((tmp_path / "merged" / "config.json").read_text())
    assert stored == json.loads((tmp_path / "base" / "config.json").read_text()) | {"dtype": "bfloat16"}
    assert {path.name for path in (tmp_path / "merged").iterdir()} == {
        *(path.name for path in (tmp_path / "base").iterdir()), "chat_template.jinja"
    }  # fmt: skip
    sampled = [harness_here("sample", model, "--prompt", "Once", "--max-tokens", 8, "--temperature", 0)
               for model in (f"hf:{folder}", f"hf:{tmp_path / 'base'}")]  # fmt: skip
    assert [each.code for each in sampled] == [0, 0]
    assert sampled[0].out != sampled[1].out


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"peft_type": "IA3"}, "peft_type=IA3 is not supported; only LORA is"),
        ({"use_dora": True}, "use_dora=True is not supported"),
        ({"bias": "all"}, "bias=all is not supported"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights=pissa is not supported"),
        ({"base_model_name_or_path": None}, "does not name the model that it changes"),
        ({"layer_replication": [[0, 2]]}, r"does not know the field layer_replication=\[\[0, 2\]\]"),
        ({"use_qalora": True}, "does not know the field use_qalora=True"),
    ],
)
def test_other_adapters_are_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    folder, _, _ = handmade(tmp_path, **fields)
    with pytest.raises(UsageError, match=message):
        Parameters(folder)


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        (
            "model.layers.7.mlp.up_proj",
            ((2, 24), (40, 2)),
            "changes model.layers.7.mlp.up_proj.weight, which the model",
        ),
        (
            "model.layers.0.mlp.down_proj",
            ((2, 24), (40, 2)),
            r"of shape \(40, 24\); in the model it has shape \(24, 40\)",
        ),
        ("model.layers.0.mlp.down_proj", ((2, 24), (40, 3)), "has no two factors that fit each other for model"),
    ],
)
def test_adapters_of_another_model_are_refused(name: str, shapes: Any, message: str, tmp_path: Path) -> None:
    folder, _, _ = handmade(tmp_path)
    factors = {f"base_model.model.{name}.lora_{letter}.weight": np.ones(shape, np.float32)
               for letter, shape in zip("AB", shapes, strict=True)}  # fmt: skip
    save_file(factors, folder / "adapter_model.safetensors")
    with pytest.raises(UsageError, match=message):
        Parameters(folder).tensors()


def test_a_tied_model_whose_head_is_changed_otherwise_is_refused(tmp_path: Path) -> None:
    config = LAYOUTS["GPT-2"]
    write(config, adapted(exported(config, tmp_path / "base")), tmp_path / "base", tmp_path / "adapters")
    file = tmp_path / "adapters" / "adapter_model.safetensors"
    tensors = load_file(file)
    tensors["base_model.model.lm_head.lora_B.weight"] += 1
    save_file(tensors, file)
    with pytest.raises(UsageError, match="change the embedding and the head differently"):
        Parameters(tmp_path / "adapters")


def test_a_run_exports_its_adapters(harness_here: Harness, tmp_path: Path, stories_file: Path) -> None:
    exported(replace(LAYOUTS["Llama"], context=32), tmp_path / "base")
    tuned = harness_here("finetune", f"hf:{tmp_path / 'base'}", "--data", stories_file, "--lora", 2, "--run", "tuned",
                         "--steps", 2, "--mesh", "1x1", "--set", "batch_size=2", "--quiet")  # fmt: skip
    assert tuned.code == 0, tuned.err
    first = harness_here("export", "tuned", "--adapters", "--to", "adapters")
    assert (first.code, first.out) == (0, "Exported the adapters of run tuned, step 2, to adapters.\n")
    assert harness_here("export", "tuned", "--to", "merged").code == 0
    adapters, merged = Parameters(tmp_path / "adapters"), Parameters(tmp_path / "merged")
    for path, parameter in merged.items():
        np.testing.assert_allclose(adapters[path], parameter, atol=1e-5, err_msg=path)
    refused = harness_here("export", f"hf:{tmp_path / 'base'}", "--adapters", "--to", "other")
    assert (refused.code, "need a run" in refused.err) == (2, True)
    unnamed = harness_here("export", "tuned", "--adapters")
    assert (unnamed.code, "`harness export tuned --adapters --to DIR`" in unnamed.err) == (2, True)
    more = harness_here("finetune", "tuned", "--data", stories_file, "--lora", 2, "--run", "more", "--steps", 1,
                        "--mesh", "1x1", "--set", "batch_size=2", "--quiet")  # fmt: skip
    assert more.code == 0, more.err
    told = harness_here("export", "more", "--adapters", "--to", "more-adapters")
    assert "They change the run tuned: `harness export tuned --to DIR` writes it" in told.out, told.err


def test_adapters_that_there_are_not_are_refused_before_a_folder_is_asked_for(
    harness_here: Harness, tmp_path: Path
) -> None:
    Run(tmp_path / "runs" / "plain").create_or_check(TINY)
    refused = harness_here("export", "plain", "--adapters")
    assert (refused.code, "Export the whole model, without --adapters" in refused.err) == (2, True), refused.err


def test_a_disk_that_is_full_is_one_sentence(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    refused = pytest.raises(CommandUsageError, match=r"out cannot be written: File too large\.")
    with refused, new_folder(tmp_path / "out") as out:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
        try:
            save({"a": np.zeros(1 << 14, np.float32)}, out / "model.safetensors")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not (tmp_path / "out").exists()


def test_a_model_of_the_hub_is_named_as_there(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--org--some-model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    assert name_of(f"hf:{snapshot}") == "org/some-model"
    assert name_of(f"hf:{tmp_path}") == str(tmp_path)


def test_adapters_of_adapters_are_merged_first(harness_here: Harness, tmp_path: Path, stories_file: Path) -> None:
    folder, _, _ = handmade(tmp_path)
    on_top = tmp_path / "top"
    on_top.mkdir()
    (on_top / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(folder)}))
    with pytest.raises(UsageError, match="which is itself adapters; merge those first"):
        read_config(on_top)
    tuned = harness_here("finetune", f"hf:{folder}", "--data", stories_file, "--lora", 2, "--run", "tuned",
                         "--steps", 1, "--mesh", "1x1", "--set", "batch_size=2", "--set", "context=32",
                         "--quiet")  # fmt: skip
    assert tuned.code == 0, tuned.err
    refused = harness_here("export", "tuned", "--adapters", "--to", "other")
    assert (refused.code, "is adapters, too" in refused.err) == (2, True), refused.err


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # of PEFT itself
@pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to True:UserWarning")
@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`:UserWarning")
@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`:UserWarning")  # it knows no table of GPT-2
@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "llama", "qwen 2.5", "qwen 3", "gemma 3"])
def test_adapters_of_peft_give_its_logits_and_those_written_give_ours(name: str, tmp_path: Path) -> None:
    torch, peft = pytest.importorskip("torch"), pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    theirs = saved(name, tmp_path / "base", vocab_size=97, end=96)
    tied = theirs.config.tie_word_embeddings
    embed = {"gpt2": "wte", "gpt_neox": "embed_in"}.get(name, "embed_tokens")
    head = [] if tied else ["lm_head"]
    linear = {"gpt2": ["c_attn", "c_proj"], "gpt_neox": ["query_key_value", "dense", "dense_h_to_4h"]}
    targets = [
        *linear.get(name, ["q_proj", "v_proj", "o_proj", "up_proj"]),
        *([] if name == "gpt2" else [embed, *head]),
    ]
    config = peft.LoraConfig(
        r=3, lora_alpha=5, target_modules=targets, alpha_pattern={targets[0]: 2}, task_type="CAUSAL_LM",
        ensure_weight_tying=tied and embed == "embed_tokens", fan_in_fan_out=name == "gpt2",
    )  # fmt: skip
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    tuned = peft.get_peft_model(loaded, config)
    for parameter in (each for each in tuned.parameters() if each.requires_grad):
        torch.nn.init.normal_(parameter, std=0.3)
    tuned.save_pretrained(tmp_path / "adapters")
    ids = list(range(3, 35))
    own = read(tmp_path / "adapters")
    np.testing.assert_allclose(own(jnp.array(ids)), logits_of(tuned, ids), atol=2e-4, rtol=0)

    settings = Config(**read_config(tmp_path / "base"))
    model = adapted(read(tmp_path / "base"))
    write(settings, model, tmp_path / "base", tmp_path / "ours")
    fresh = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    given = peft.PeftModel.from_pretrained(fresh, tmp_path / "ours")
    np.testing.assert_allclose(logits_of(given, ids), model(jnp.array(ids)), atol=2e-4, rtol=0)
