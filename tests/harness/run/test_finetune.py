"""Fine-tuning: settings from the base, checkpoints that hold adapters alone, and what happens when the base is gone."""

import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from harness.cli.main import main
from harness.config import Config
from harness.errors import UsageError
from harness.model.sampling import Sampling
from harness.presets import fine_tuning
from harness.run.baselines import read_baselines
from harness.run.folder import Run
from harness.run.loop import train
from harness.run.run_session import Session, ignore, open_session
from harness.run.state import initial_state, load_state
from harness.training.sharding import by_dotted_name
from tests.conftest import made_once
from tests.harness.conftest import STORIES, TINY, Harness

GREEDY = Sampling(temperature=0.0, max_tokens=8)
FEW_STEPS = {"steps": "6", "batch_size": "8", "eval_every": "3", "eval_batches": "2", "mesh": "1x1"}


def session_of(run: Run, config: Config | None = None) -> Session:
    return open_session(run, config or run.config(), None, log=ignore, quiet=True)


def finished(run: Run, config: Config | None = None) -> Session:
    """The session of a run that is trained to its end."""
    session = session_of(run, config)
    assert train(session, log=ignore, quiet=True)
    return session


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `base`, whose model is not that of any preset, and `tuned`, with adapters on it."""

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "stories.txt").write_text(STORIES)
        data = str(folder / "stories.txt")
        base = Run(folder / "runs" / "base")
        finished(base, replace(TINY, data=data, num_layers=1, packing="padded", seed=3))
        config = fine_tuning(base.config(), "base", {"data": data, "lora_rank": "2", **FEW_STEPS})
        finished(Run(folder / "runs" / "tuned"), config)

    return made_once(tmp_path_factory, "base-and-tuned", make)


@pytest.fixture
def base(trained: Path, tmp_path: Path) -> Run:
    """The finished run `base`, in a copy of all runs."""
    shutil.copytree(trained / "runs", tmp_path / "runs")
    return Run(tmp_path / "runs" / "base")


@pytest.fixture
def tuned(base: Run) -> Run:
    """The finished run with adapters beside it."""
    return Run(base.folder.parent / "tuned")


def parameters(run: Run, step: int | None = None) -> dict[str, np.ndarray]:
    """The parameters of a run's model by dotted name."""
    _, state = load_state(session_of(run), step)
    return {name: np.asarray(leaf) for name, leaf in by_dotted_name(state).items() if name.startswith("0.")}


def assert_equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def losses(run: Run) -> list[float]:
    return [entry["loss"] for entry in run.metrics()]


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def can_sample(run: Run) -> bool:
    session = session_of(run)
    model = session.functions.model(load_state(session)[1])
    return len(list(session.tokens(model, [5, 6], GREEDY))) <= GREEDY.max_tokens


@pytest.mark.thorough
def test_the_base_determines_model_tokens_and_packing(base: Run) -> None:
    settings = base.config()
    config = fine_tuning(settings, "base", {"data": "mine.txt", "lora_rank": "4", "remat": "true"})
    assert config.model == replace(settings.model, remat=True)
    assert (config.tokenizer, config.packing, config.base) == ("pocket-2k", "padded", "base")


@pytest.mark.thorough
def test_checkpoints_hold_adapters_and_moments_alone(base: Run, tuned: Run) -> None:
    with ocp.PyTreeCheckpointer() as checkpointer, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without shardings, arrays are read onto the device that wrote them
        names = set(checkpointer.restore(tuned.checkpoints / "6" / "sums"))
    arrays = [name for name in names if name.startswith("0.")]
    assert len(arrays) == 10  # 4 layers and the table, 2 factors each
    assert all(".change.lora_" in name for name in arrays)
    assert not any(name.endswith(("kernel", "bias", "scale", "base")) for name in names)
    assert size(tuned.checkpoints / "6" / "state") < size(base.checkpoints / "6" / "state") / 2
    before, after = parameters(base), parameters(tuned)
    assert_equal({name.replace(".base", ""): leaf for name, leaf in after.items() if ".change." not in name}, before)
    assert all(leaf.any() for name, leaf in after.items() if name.endswith(".lora_b"))
    assert can_sample(tuned)


@pytest.mark.parametrize("mesh", ["1x1", pytest.param("2x2", marks=pytest.mark.thorough)])
def test_a_run_with_adapters_resumes_exactly_and_on_another_mesh(tuned: Run, mesh: str) -> None:
    whole, after = losses(tuned), parameters(tuned, 6)
    shutil.rmtree(tuned.checkpoints / "6")  # as if it had been killed after step 4
    session = finished(tuned, replace(tuned.config(), mesh=mesh, fsdp=mesh != "1x1"))
    if mesh == "1x1":
        assert losses(tuned) == whole
        assert_equal(parameters(tuned, 6), after)
    else:
        np.testing.assert_allclose(losses(tuned), whole, rtol=1e-4)  # float32 sums in another order
        specs = {name: leaf.sharding.spec for name, leaf in by_dotted_name(load_state(session)[1]).items()}
        assert specs["0.embed.base"] == jax.P("model", "data")
        assert "data" in specs["0.embed.change.lora_a"]


@pytest.mark.parametrize("change", ["missing", "changed", "step gone"])
def test_a_base_that_is_gone_or_changed_is_refused(base: Run, tuned: Run, change: str) -> None:
    record, config = tuned.base(), base.config()
    assert record is not None
    if change == "step gone":
        shutil.rmtree(base.checkpoints / str(record.step))
        message = f"tuned needs its base base. Run .* has no checkpoint of step {record.step}. Existing steps"
    else:
        shutil.rmtree(base.folder)
        message = "tuned needs its base base. There is no run 'base'"
    if change == "changed":
        finished(base, replace(config, seed=4))
        message = "The base base of run .*tuned has changed. Put the former one back"
    for use in (lambda: load_state(session_of(tuned)), lambda: finished(tuned)):
        with pytest.raises(UsageError, match=message):
            use()
    assert sorted(session_of(tuned).checkpointer(read_only=True).losses()) == [3, 6]


def test_more_steps_of_the_base_change_nothing(base: Run, tuned: Run) -> None:
    before = parameters(tuned)
    finished(base, base.config().extended(7))
    assert_equal(parameters(tuned), before)


@pytest.mark.thorough
def test_a_run_of_an_older_version_holds_the_base_itself(base: Run, tuned: Run) -> None:
    session, (_, state) = session_of(tuned), load_state(session_of(tuned))
    tuned.base_file.unlink()
    shutil.rmtree(tuned.checkpoints)
    former = session.checkpointer()  # without the record, checkpoints hold everything
    former.save(3, (state[0], session.functions.init()[1]), {}, 1.0)
    former.wait()
    former.close()
    shutil.rmtree(base.folder)
    assert load_state(session)[0] == 3
    assert can_sample(tuned)


def test_a_fine_tuned_run_is_a_base_with_its_adapters_merged(tuned: Run) -> None:
    config = fine_tuning(tuned.config(), "tuned", {"data": tuned.config().data, **FEW_STEPS})
    second = session_of(Run(tuned.folder.parent / "second"), config)
    state, record = initial_state(second)
    step, adapted = load_state(session_of(tuned))
    assert record is not None
    assert record.step == step
    logits = [
        session.functions.model(tree)(jnp.arange(8)[None])  # type: ignore[operator]
        for session, tree in ((second, state), (session_of(tuned), adapted))
    ]
    np.testing.assert_allclose(*logits, rtol=1e-4, atol=1e-5)  # float32 sums in another order


def test_the_command_trains_and_resumes(base: Run, harness_here: Harness) -> None:
    few = [part for key, value in FEW_STEPS.items() for part in ("--set", f"{key}={value}")]
    data = ("--data", base.config().data)
    # The folder of a run in --runs is as good as its name.
    command = ("finetune", "runs/base", *data, "--lora", 2, *few, "--quiet")
    result = harness_here(*command)
    assert result.code == 0, result.err
    assert "parameters trained, 6 steps" in result.err
    run = Run(base.folder.parent / "base-tuned")
    # The loss of the base is there from the beginning, so that it shows whether a run improved on it.
    session = session_of(run)
    loss = session.validate(initial_state(session)[0])
    assert read_baselines(run)["base"] == pytest.approx(loss)
    assert f"step 0: validation {loss:.4f}, which is that of the base" in result.err
    assert f"of the base, at step 0    {loss:.4f}" in result.out
    assert "The base is better" not in result.out
    assert run.config().base == "base"
    assert run.config().adapted == {"attn", "mlp", "embed", "head"}
    again = harness_here(*command)
    assert again.code == 0
    assert "resuming at step 6 of 6" in again.err
    assert harness_here("sample", "base-tuned", "--max-tokens", 4).code == 0


def test_a_run_that_is_worse_than_its_base_is_told(base: Run, harness_here: Harness) -> None:
    few = [part for key, value in {**FEW_STEPS, "learning_rate": 10}.items() for part in ("--set", f"{key}={value}")]
    result = harness_here("finetune", "base", "--data", base.config().data, "--run", "worse", *few, "--quiet")
    assert result.code == 0, result.err
    assert "The base is better on these validation data than each checkpoint of this run" in result.out
    assert "--set learning_rate=1, or" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base", "--set", "d_model=8"), "d_model comes from the base base (d_model=16) and cannot be set."),
        (("base", "--set", "packing=packed"), "packing comes from the base base (packing=padded)"),
        (("base", "--targets", "attn"), "--targets needs --lora R"),
        (("base", "--lora", "2", "--targets", "bias"), "lora_targets=bias is not valid"),
        (("base", "--lora", "-2"), "lora_rank=-2 is not valid"),
        (("base", "--run", "a/b"), "--run a/b is not valid"),
        (("nobody",), "There is no run 'nobody'"),
    ],
)
def test_what_the_command_refuses(
    base: Run, arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(["finetune", *arguments, "--data", "mine.txt", "--runs", str(base.folder.parent)])
    assert exited.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())
