"""Export and import without transformers: nothing is lost on the way, and what does not fit is one sentence."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from flax import nnx
from safetensors.flax import save_file
from safetensors.numpy import load_file

from harness.cli.main import main
from harness.config import Config
from harness.errors import UsageError
from harness.hugging_face.export import find_layout
from harness.hugging_face.load import Parameters, read_config
from harness.hugging_face.parameters import by_path
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import initial_state, load_state
from tests.harness.conftest import TINY
from tests.harness.hugging_face.models import LAYOUTS, exported, filled


def _kinds(letters: str) -> list[str]:
    return [{"s": "sliding_attention", "f": "full_attention"}[letter] for letter in letters]


layouts = pytest.mark.parametrize("name", LAYOUTS)


@layouts
def test_a_round_trip_changes_no_bit(name: str, tmp_path: Path) -> None:
    config = LAYOUTS[name]
    model = exported(config, tmp_path / "out")
    settings = read_config(tmp_path / "out")
    assert replace(config, **settings) == config
    assert find_layout(config).title == name.partition(",")[0]
    parameters, read = by_path(model), dict(Parameters(tmp_path / "out"))
    assert set(read) == set(parameters)
    for path, parameter in parameters.items():
        np.testing.assert_array_equal(read[path], parameter, err_msg=path)
    stored = load_file(tmp_path / "out" / "model.safetensors")
    # A tied head is stored once.
    assert sum(array.size for array in stored.values()) == sum(leaf.size for leaf in parameters.values())


TIED = [name for name, config in LAYOUTS.items() if config.tied_head]


@pytest.mark.parametrize("name", TIED)
def test_a_head_that_only_the_config_calls_tied_is_not_lost(name: str, tmp_path: Path) -> None:
    """Programs that merge adapters have written such files. transformers takes the head of the file, too."""
    config, folder = LAYOUTS[name], tmp_path / "out"
    exported(config, folder)
    tensors = dict(load_file(folder / "model.safetensors"))
    embedding = Parameters(folder)["embed"]
    head = "embed_out.weight" if name.startswith("GPT-NeoX") else "lm_head.weight"
    for rows, tied in ((slice(0, 0), True), (slice(-1, None), False)):
        changed = embedding.copy()
        changed[rows] += 1.0
        save_file({**tensors, head: jnp.asarray(changed)}, folder / "model.safetensors")
        assert read_config(folder)["tied_head"] is tied
        read = dict(Parameters(folder))
        assert ("head" in read) is not tied
        if not tied:
            np.testing.assert_array_equal(read["head"], changed)
            np.testing.assert_array_equal(read["embed"], embedding)


def test_files_in_several_parts_in_bfloat16_and_without_the_prefix_are_read(tmp_path: Path) -> None:
    exported(LAYOUTS["GPT-2"], tmp_path / "out")
    file = tmp_path / "out" / "model.safetensors"
    expected = dict(Parameters(tmp_path / "out"))
    tensors = {name.removeprefix("transformer."): jnp.asarray(array) for name, array in load_file(file).items()}
    names, index = sorted(tensors), {}
    file.unlink()
    for part, chosen in (("a.safetensors", names[::2]), ("b.safetensors", names[1::2])):
        save_file({name: tensors[name].astype(jnp.bfloat16) for name in chosen}, tmp_path / "out" / part)
        index |= dict.fromkeys(chosen, part)
    mask = {"h.0.attn.bias": jnp.ones((1, 1, 4, 4))}  # as old versions saved it
    save_file(mask, tmp_path / "out" / "c.safetensors")
    (tmp_path / "out" / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {**index, "h.0.attn.bias": "c.safetensors"}})
    )
    for path, parameter in Parameters(tmp_path / "out").items():
        np.testing.assert_allclose(parameter, expected[path], rtol=2**-8, err_msg=path)  # bfloat16 has 8 bits


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm": "post"}, "norm=post cannot be exported. The nearest layout, GPT-2, has norm=pre"),
        ({"norm": "none", "positions": "rope"}, "norm=none cannot be exported. The nearest layout, GPT-NeoX"),
        (
            {"mixer": "latent_attention", "d_latent": 8, "d_rope": 4, "positions": "rope"},
            "mixer=latent_attention cannot be exported. The nearest layout, GPT-NeoX, has mixer=attention",
        ),
        (
            {"mixer": "state_space"},
            "mixer=state_space cannot be exported. The nearest layout, GPT-2, has mixer=attention",
        ),
        ({"positions": "none"}, "positions=none cannot be exported"),
        ({"head_bias": True}, "head_bias=True cannot be exported"),
        ({"bias": False}, "bias=False cannot be exported. The nearest layout, GPT-2, has bias=True"),
        ({"num_kv_heads": 1}, "num_kv_heads=1 cannot be exported"),
        (
            {"positions": "rope", "norm_kind": "rmsnorm", "num_kv_heads": 1},
            "activation=gelu cannot be exported. The nearest layout, Llama",
        ),
        ({"num_layers": 0}, "num_layers=0 cannot be exported"),
        ({"objective": "copy"}, "objective=copy cannot be exported"),
    ],
)
def test_settings_that_no_layout_has_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        find_layout(replace(TINY, **changes))


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        (
            "Llama",
            {"model_type": "gemma3"},
            "model_type=gemma3 is not supported; only gpt2, gpt_neox, llama, mistral, ",
        ),
        ("Llama", {"rope_parameters": {"rope_type": "dynamic"}}, r"Rope scaling \(dynamic\) is not supported"),
        ("Llama", {"rope_parameters": {"rope_type": "llama3", "factor": 8}}, "has no field 'low_freq_factor'"),
        (
            "Llama",
            {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": -2}},
            "rope_scaling=linear:-2 is not valid",
        ),
        ("Llama", {"partial_rotary_factor": 0.5}, "a Llama model has only rotary_fraction=1.0"),
        ("Llama", {"head_dim": 3}, "positions=rope rotates pairs, so it needs an even width"),
        ("Llama", {"head_dim": 8}, r"has shape \(8, 24\); by config.json it is \(16, 24\)"),
        ("Llama", {"hidden_act": "gelu"}, "hidden_act=gelu is not supported; only silu, swish are"),
        ("Llama", {"sliding_window": 64}, "sliding_window=64 is not supported"),
        ("Llama", {"layer_types": ["full_attention", "sliding_attention"]}, "Layers of the type sliding_attention are"),
        ("Llama", {"quantization_config": {"bits": 4}}, r"the weights are quantized \(.*4.*\), which is not supported"),
        ("Qwen 2", {"use_sliding_window": True}, "use_sliding_window=True is not supported"),
        ("Qwen 2", {"mlp_bias": True}, "a Qwen 2 model has only bias=False"),
        ("Llama", {"intermediate_size": 41}, r"does not fit its config.json. The tensor .* has shape \(40, 24\)"),
        ("Llama", {"num_hidden_layers": 3}, "The tensor model.layers.2.* is missing"),
        (
            "Llama",
            {"num_hidden_layers": 1},
            r"has the tensor model.layers.1.*, which the harness's Llama does not have",
        ),
        ("Llama", {"hidden_size": "wide"}, "is not the config of a model"),
        ("GPT-2", {"activation_function": "silu"}, "activation_function=silu is not supported; only gelu_new"),
        ("GPT-2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True is not supported"),
        ("Gemma 3", {"query_pre_attn_scalar": 9}, "query_pre_attn_scalar is not supported unless it is head_dim"),
        ("Gemma 3", {"final_logit_softcapping": 30.0}, "final_logit_softcapping=30.0 is not supported"),
        ("Gemma 3", {"layer_types": _kinds("sfsff")}, "layer_types is not supported; every n-th layer must be"),
        ("Gemma 3", {"layer_types": _kinds("sffff")}, "layer_types is not supported"),
        ("Gemma 3", {"layer_types": ["chunked_attention"] * 5}, "layer_types is not supported"),
        ("Gemma 3", {"hidden_activation": "silu"}, "hidden_activation=silu is not supported; only gelu_pytorch_tanh"),
        (
            "Gemma 3",
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2}}},
            r"Rope scaling \(linear\) of sliding_attention is not supported",
        ),
        ("GPT-NeoX", {"rope_parameters": None, "rotary_pct": 0.25}, "of each head, it rotates 3"),
    ],
)
def test_models_that_the_harness_does_not_have_are_refused(
    name: str, fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    exported(LAYOUTS[name], tmp_path / "out")
    file = tmp_path / "out" / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))
    with pytest.raises(UsageError, match=message):
        dict(Parameters(tmp_path / "out"))


def test_old_files_of_gemma_name_the_pattern_by_its_length(tmp_path: Path) -> None:
    config = LAYOUTS["Gemma 3"]
    exported(config, tmp_path / "out")
    file = tmp_path / "out" / "config.json"
    fields = json.loads(file.read_text())
    del fields["rope_parameters"], fields["layer_types"]
    file.write_text(json.dumps({**fields, "sliding_window_pattern": 2}))
    assert replace(config, **read_config(tmp_path / "out")) == config


@pytest.mark.parametrize(
    "changes", [{"full_every": 0, "window_rope_base": 0.0, "rope_scaling": "none"}, {"full_every": 1}]
)
def test_gemma_with_layers_of_one_kind(changes: dict[str, Any], tmp_path: Path) -> None:
    model = exported(replace(LAYOUTS["Gemma 3"], **changes), tmp_path / "out")
    plain = {"window": 0, "full_every": 0, "window_rope_base": 0.0}
    config = replace(LAYOUTS["Gemma 3"], **{**plain, **read_config(tmp_path / "out")})
    assert (config.full_every, config.window) == (0, 0 if changes["full_every"] else 20)
    other, parameters = filled(config), dict(Parameters(tmp_path / "out", config.vocab_rows))
    take = lambda path, leaf: leaf.replace(jnp.asarray(parameters[".".join(map(str, path))]))  # noqa: E731
    nnx.update(other, nnx.map_state(take, nnx.state(other)))
    ids = jnp.arange(40)
    np.testing.assert_allclose(other(ids), model(ids), atol=1e-5)


def test_folders_that_hold_no_such_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"config.json cannot be read: No such file"):
        read_config(tmp_path)
    exported(LAYOUTS["GPT-2"], tmp_path / "out")
    weights = tmp_path / "out" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(UsageError, match=r"model.safetensors cannot be read"):
        dict(Parameters(tmp_path / "out"))
    weights.rename(tmp_path / "out" / "pytorch_model.bin")
    with pytest.raises(
        UsageError, match=r"has no model.safetensors. Other formats, such as pytorch_model.bin, are not"
    ):
        dict(Parameters(tmp_path / "out"))
    (tmp_path / "out" / "config.json").write_text("{")
    with pytest.raises(UsageError, match=r"config.json is not valid JSON"):
        read_config(tmp_path / "out")


def session_of(folder: Path, config: Config) -> Session:
    return open_session(Run(folder), config, None, log=ignore, quiet=True)


def command(*args: object) -> tuple[int, str]:
    """The exit code and the output of `harness ARGS`."""
    result = CliRunner().invoke(main, list(map(str, args)))
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.thorough
def test_training_continues_from_an_exported_run(tiny: Config, tmp_path: Path) -> None:
    """The command exports a run; full and LoRA fine-tuning start with its loss; the tuned run is exported in turn."""
    config = replace(tiny, num_kv_heads=1, norm_kind="rmsnorm", activation="swiglu", positions="rope", bias=False)
    run = session_of(tmp_path / "runs" / "first", config)
    assert train(run, log=ignore, quiet=True)
    out, runs = tmp_path / "out", ("--runs", tmp_path / "runs")
    step = load_state(run)[0]
    assert command("export", "first", "--to", out, *runs) == (
        0,
        f"Exported run first, step {step}, to {out} in Llama layout.",
    )
    assert oct(out.stat().st_mode)[-3:] == "755"
    code, output = command("export", "first", out, *runs)
    assert (code, output) == (2, f"harness: {out} is not empty; choose a new folder.")
    code, output = command("export", "first", *runs)
    assert (code, output.partition(", ")[0]) == (2, "harness: Name one folder to export to")

    with jax.set_mesh(run.mesh):
        loss = run.validate(load_state(run)[1])
    tuned = replace(config, base=f"hf:{out}", tokenizer=f"hf:{out}", learning_rate=1e-2)
    full = session_of(tmp_path / "runs" / "full", replace(tuned, mesh="2x2"))
    lora = session_of(tmp_path / "runs" / "lora", replace(tuned, lora_rank=2))
    for session in (full, lora):
        with jax.set_mesh(session.mesh):
            start = session.validate(initial_state(session)[0])
        np.testing.assert_allclose(start, loss, rtol=1e-6 if session is full else 0)  # a mesh sums in another order
    assert train(lora, log=ignore, quiet=True)
    assert command("export", "lora", "--to", tmp_path / "merged", *runs)[0] == 0
    model = lora.functions.model(load_state(lora)[1])
    merged, before = (dict(Parameters(tmp_path / name)) for name in ("merged", "out"))
    change = model.blocks.gate.change
    expected = before["blocks.gate.kernel"] + change.lora_a[...] @ change.lora_b[...]
    np.testing.assert_allclose(merged["blocks.gate.kernel"], expected, rtol=1e-5, atol=1e-7)  # float32 sums
    assert (merged["blocks.gate.kernel"] != before["blocks.gate.kernel"]).any()


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("GPT-NeoX", {"num_heads": 4, "rope_base": 10.0}, "Add --set num_heads=2 --set rope_base=500.0"),
        ("GPT-NeoX", {"context": 64}, ""),  # learned positions alone have a length
        ("GPT-2", {"context": 64}, "has other settings. Add --set context=256"),
        ("GPT-2", {"activation": "relu"}, "Add --set activation=gelu"),
    ],
)
def test_a_base_with_other_settings_says_which(
    name: str, changes: dict[str, Any], message: str, tiny: Config, tmp_path: Path
) -> None:
    exported(LAYOUTS[name], tmp_path / "out")
    config = replace(LAYOUTS[name], data=tiny.data, base=f"hf:{tmp_path / 'out'}", **changes)
    session = session_of(tmp_path / "runs" / "tuned", config)
    with jax.set_mesh(session.mesh):
        if not message:
            initial_state(session)
            return
        with pytest.raises(UsageError, match=message):
            initial_state(session)
