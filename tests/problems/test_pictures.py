"""Problem 85: the play shows what is true of the learner's file. Where torch and transformers are installed, the
reference is compared with the classes of Qwen2.5-VL, Qwen3-VL and Gemma 3."""

import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from problems.p85_pictures.problem import QWEN2_5, SECTIONS, axes_of
from tests.conftest import ROOT
from tests.problems.test_plays import shown


@pytest.fixture(autouse=True)
def references_importable(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "solutions"), *sys.path])


@pytest.mark.fast
def test_a_picture_that_is_turned_is_another_sequence_of_the_same_tokens():
    """The picture turned over its diagonal has the same tokens in another order, if patches are turned, too. Each has
    its row and column exchanged, and a layer cannot tell the orders apart."""
    from p85_pictures import layout, patchify

    rng = np.random.default_rng(0)
    picture = rng.standard_normal((4, 6, 1)).astype("float32")
    tokens, turned = (
        {row.tobytes(): place for place, row in enumerate(patchify(each, 1, 2).reshape(-1, 4))}
        for each in (picture, picture.swapaxes(0, 1))
    )
    placed, lying = (layout(np.full(6, 1, np.int32), 1, np.array([grid], np.int32))[0] for grid in ((2, 3), (3, 2)))
    for square, place in tokens.items():
        across = np.frombuffer(square, np.float32).reshape(2, 2).T.tobytes()
        assert placed[[0, 2, 1], place].tolist() == lying[:, turned[across]].tolist()


@pytest.mark.thorough
def test_the_play_shows_squares_positions_blocks_neighbors_and_text(fork_server):
    squares, positions, mask, looks, loss = shown("85", fork_server)
    assert "sees a square of 4 x 4 pixels" in squares.caption
    assert "the last token stands at 15" in positions.caption
    assert "Nothing else sees what comes later" in mask.caption
    assert "in all directions" in looks.caption
    assert "All text counts" in loss.caption


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("find", "replace", "exhibit", "says"),
    [
        ("split.transpose(0, 3, 1, 4, 6, 2, 5)", "split", 0, "pixels in 1 rows and 16 columns"),
        ("split.transpose(0, 3, 1, 4, 6, 2, 5)", "split.transpose(3, 0, 1, 4, 6, 2, 5)", 0, "not see the one to the"),
        ("position += max(rows, columns)", "position += rows * columns", 1, "stands at 22"),
        ("jnp.tri(len(pictures), dtype=bool) | same", "jnp.tri(len(pictures), dtype=bool)", 2, "do not all see"),
        ("(pictures[:, None] == pictures)", "(pictures[:, None] > 0)", 2, "see later tokens"),
        ("positions[axes].T", "positions[0 * axes].T", 3, "hardly tells them apart"),
        ("row, column])\n", "row, row])\n", 3, "should have about the same"),
        ("pictures[1:] == 0", "pictures[1:] >= 0", 4, "about placeholders"),
        ("pictures[1:] == 0", "(pictures[1:] == 0) & (pictures[:-1] == 0)", 4, "leaves out a text token"),
    ],
)
def test_a_wrong_file_is_seen_in_the_play(fork_server, find: str, replace: str, exhibit: int, says: str):
    assert says in shown("85", fork_server, find, replace)[exhibit].caption


@pytest.fixture(scope="module")
def transformers() -> Any:
    pytest.importorskip("torch")
    return pytest.importorskip("transformers")


def sequence(text: list[int], grids: list[tuple[int, int]], placeholder: int) -> np.ndarray:
    """Texts with pictures in between."""
    tokens: list[int] = []
    for place, length in enumerate(text):
        tokens += [1 + token % 7 for token in range(length)]
        if place < len(grids):
            tokens += [placeholder] * (grids[place][0] * grids[place][1])
    return np.array(tokens, np.int32)


@pytest.mark.oracle
def test_patches_are_those_of_qwen(transformers):
    from p85_pictures import patchify

    processor = transformers.Qwen2VLImageProcessor(
        do_resize=False, do_rescale=False, do_normalize=False, patch_size=3, temporal_patch_size=1, merge_size=2
    )
    picture = np.random.default_rng(0).random((12, 18, 3)).astype("float32")
    found = processor(images=picture, input_data_format="channels_last", return_tensors="np")
    np.testing.assert_array_equal(found["image_grid_thw"], [[1, 4, 6]])
    np.testing.assert_array_equal(patchify(picture, 3, 2), found["pixel_values"])


@pytest.mark.oracle
def test_the_projector_is_the_merger_of_qwen3(transformers):
    import torch
    from p85_pictures import Projector
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionPatchMerger

    torch.manual_seed(0)
    config = transformers.Qwen3VLConfig(vision_config={"hidden_size": 5, "out_hidden_size": 7}).vision_config
    merger = Qwen3VLVisionPatchMerger(config)
    projector = Projector(5, 7, 2, nnx.Rngs(0))
    for name, tensor in merger.state_dict().items():
        torch.nn.init.normal_(tensor)
        part, kind = name.split(".")
        of_flax = kind if kind == "bias" else "scale" if part == "norm" else "kernel"
        getattr(getattr(projector, part), of_flax)[...] = jnp.asarray(tensor.numpy().T)
    patches = torch.randn(12, 5)
    with torch.no_grad():
        expected = merger(patches).numpy()
    np.testing.assert_allclose(projector(jnp.asarray(patches.numpy())), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.oracle
def test_positions_are_those_of_qwen2_5(transformers):
    import torch
    from p85_pictures import layout

    config = transformers.Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 1, "vocab_size": 20, "pad_token_id": None, "bos_token_id": 1, "eos_token_id": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 100.0, "mrope_section": [1, 1, 0]},
        },
        vision_config={"depth": 1, "hidden_size": 8, "out_hidden_size": 8, "num_heads": 2, "intermediate_size": 8},
        image_token_id=11, vision_start_token_id=12, vision_end_token_id=13, video_token_id=14,
    )  # fmt: skip
    model = transformers.Qwen2_5_VLModel(config)
    grids = [(2, 5), (4, 3), (1, 1)]
    token_ids = sequence([3, 2, 1, 4], grids, 11)
    ids = torch.from_numpy(token_ids.astype(np.int64))[None]
    expected, deltas = model.get_rope_index(
        ids, mm_token_type_ids=(ids == 11).int(), image_grid_thw=torch.tensor([[1, 2 * r, 2 * c] for r, c in grids])
    )
    positions, pictures = layout(token_ids, 11, np.array(grids))
    np.testing.assert_array_equal(positions, expected[:, 0].numpy())
    assert positions.max() + 1 - len(token_ids) == deltas.item()
    assert np.bincount(pictures).tolist() == [10, 10, 12, 1]


@pytest.mark.oracle
@pytest.mark.parametrize("model", SECTIONS)
def test_the_rotation_is_that_of_qwen(transformers, model: str):
    import torch
    from p85_pictures import rotate
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5
    from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3

    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": list(SECTIONS[model])}
    sizes = {"hidden_size": 256, "num_attention_heads": 2, "rope_parameters": rope}
    rotary: Any
    if model == QWEN2_5:
        rotary = qwen2_5.Qwen2_5_VLRotaryEmbedding(transformers.Qwen2_5_VLConfig(text_config=sizes).text_config)
        apply = qwen2_5.apply_rotary_pos_emb
    else:
        rotary = qwen3.Qwen3VLTextRotaryEmbedding(
            transformers.Qwen3VLConfig(text_config={**sizes, "head_dim": 128}).text_config
        )
        apply = qwen3.apply_rotary_pos_emb
    torch.manual_seed(0)
    x, positions = torch.randn(1, 2, 9, 128), torch.randint(0, 40, (3, 1, 9))
    expected = apply(x, x, *rotary(x, positions))[0][0].transpose(0, 1).numpy()
    axes = jnp.asarray(axes_of(model))
    found = rotate(jnp.asarray(x[0].transpose(0, 1).numpy()), jnp.asarray(positions[:, 0].numpy()), axes, 1e6)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.oracle
def test_the_mask_and_the_embeddings_are_those_of_gemma_3(transformers):
    """A Gemma 3 of one layer, whose mask shows in which outputs change with which input."""
    import torch
    from p85_pictures import layout, mixed_embeddings, picture_mask

    torch.manual_seed(0)
    config = transformers.Gemma3Config(
        text_config={
            "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 1, "head_dim": 4, "vocab_size": 20, "pad_token_id": 0,
            "layer_types": ["full_attention"],
        },
        vision_config={
            "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
            "image_size": 8, "patch_size": 2,
        },
        mm_tokens_per_image=4, image_token_index=11, attn_implementation="eager",
    )  # fmt: skip
    model = transformers.Gemma3Model(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 0.3, 0.3)
    token_ids = sequence([2, 1, 2], [(2, 2), (2, 2)], 11)
    _, pictures = layout(token_ids, 11, np.array([[2, 2], [2, 2]]))
    ids = torch.from_numpy(token_ids.astype(np.int64))[None]
    seen: list[Any] = []

    def remember(module: Any, args: Any, kwargs: Any) -> None:
        seen.append(kwargs["inputs_embeds"].detach().numpy()[0])

    model.language_model.register_forward_pre_hook(remember, with_kwargs=True)
    with torch.no_grad():
        pixels = torch.randn(2, 3, 8, 8)
        features = model.get_image_features(pixels).pooler_output.reshape(8, 8).numpy()
        model(input_ids=ids, pixel_values=pixels, token_type_ids=(ids == 11).int())
        table = model.get_input_embeddings()(torch.arange(20)).numpy()  # as the model scales it
        mine = mixed_embeddings(table, jnp.asarray(token_ids), jnp.asarray(pictures), jnp.asarray(features))
        np.testing.assert_allclose(mine, seen[0], rtol=1e-5, atol=1e-5)

        def output(embedded: Any) -> Any:
            types = (ids == 11).int()
            return model(inputs_embeds=embedded, token_type_ids=types).last_hidden_state[0].numpy()

        embedded = torch.from_numpy(seen[0])[None]
        before, depends = output(embedded), np.zeros((len(token_ids),) * 2, bool)
        for s in range(len(token_ids)):
            moved = embedded.clone()
            moved[0, s] += torch.randn(8)
            depends[:, s] = np.abs(output(moved) - before).max(axis=1) > 1e-6
    np.testing.assert_array_equal(picture_mask(jnp.asarray(pictures)), depends)


@pytest.mark.oracle
def test_the_loss_is_that_of_labels_without_placeholders(transformers):
    import torch
    from p85_pictures import layout, text_loss

    token_ids = sequence([2, 1, 3], [(2, 2), (1, 3)], 11)
    _, pictures = layout(token_ids, 11, np.array([[2, 2], [1, 3]]))
    logits = np.random.default_rng(0).standard_normal((len(token_ids), 20)).astype("float32")
    ids = torch.from_numpy(token_ids.astype(np.int64))
    labels = torch.where(ids == 11, -100, ids)
    expected = transformers.loss.loss_utils.ForCausalLMLoss(torch.from_numpy(logits)[None], labels[None], 20)
    np.testing.assert_allclose(text_loss(*map(jnp.asarray, (logits, token_ids, pictures))), expected, rtol=1e-5)
