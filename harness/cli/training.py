"""Commands that train: train, resume, finetune, dpo, rl."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from commandline import terminal
from harness.cli import stories
from harness.cli.options import (
    DATA_HELP,
    TOKENIZER_HELP,
    field_option,
    imported,
    joined,
    machine_options,
    pieces_of,
    pieces_option,
    prepare_jax,
)
from harness.config import HUGGING_FACE, MESSAGES, PLAIN, TASK, TRAIN, Config
from harness.errors import UsageError
from harness.presets import fine_tuning, is_pretrained, preference_tuning, preset, reinforcement
from harness.settings import typed_settings


@click.command()
@click.option("--run", "name", metavar="NAME", help="Name of the run. [default: that of the data, or of the preset]")
@click.option(
    "--preset",
    "preset_name",
    metavar="P",
    help="Settings to start from; see `harness presets`. [default: pocket]",
)
@click.option("--data", metavar="S", help=DATA_HELP)
@field_option
@click.option("--tokenizer", metavar="T", help=TOKENIZER_HELP)
@click.option("--steps", type=int, metavar="N", help="Training steps in total.")
@pieces_option
@machine_options
def train(
    name: str | None,
    preset_name: str | None,
    settings: tuple[str, ...],
    pieces_folder: Path | None,
    root: Path,
    quiet: bool,
    coordinator: str | None,
    processes: str,
    process: int | None,
    **flags: Any,
) -> None:
    """Train a model, or resume a run.

    Resumes from the last checkpoint; the result is identical to an uninterrupted run.
    """
    from harness.run.folder import Run

    start, typed = preset(preset_name or "pocket"), typed_settings(settings, flags)
    run = Run(root / _checked(name or _default_name(start, preset_name, typed)))
    if name is None and run.config_file.exists():
        _check_data(run, start, typed)
    # Without a preset, the options change the settings that an existing run already has.
    resumes = run.config_file.exists() and not preset_name
    config = (run.config() if resumes else start).with_options(typed)
    _start(coordinator, processes, process)
    if session := _train(run, config, pieces_folder, quiet=quiet):
        _report(session)


def _default_name(start: Config, preset_name: str | None, typed: dict[str, str]) -> str:
    """The name of a run without --run: that of its data, with a preset that is typed; of a preset's own data, the
    preset's."""
    from harness.data.sources import short_name

    data = short_name(typed.get("data", start.data))
    if not data or data == short_name(start.data):
        return start.preset
    return f"{data}-{preset_name}" if preset_name else data


def _check_data(run: Any, start: Config, typed: dict[str, str]) -> None:
    """Raises UsageError if a command without --run would continue a run that was trained on other data than it
    names."""
    trained, named = run.config().data, typed.get("data", start.data)
    if trained != named:
        raise UsageError(
            f"The run {run.folder} was trained on {trained}, not on {named}. Resume it with `harness resume "
            f"{run.typed}`, or start another run with --run NAME."
        )


@click.command()
@click.argument("run_name", metavar="RUN")
@click.option(
    "--steps", type=int, metavar="N", help="More training steps in total, at the schedule's last learning rate."
)
@machine_options
def resume(
    run_name: str, steps: int | None, settings: tuple[str, ...], root: Path, quiet: bool, coordinator: str | None,
    processes: str, process: int | None, **flags: Any,
) -> None:  # fmt: skip
    """Resume a run with its own settings.

    Only settings that do not affect the result can change, such as mesh, checkpoint_every and log. A run with
    schedule=plateau can also end its plateau at another step, with --set decay_start=STEP.
    """
    from harness.run.folder import Run

    run, typed = Run.find(root, run_name), typed_settings(settings, flags)
    decay_start = typed.pop("decay_start", None)
    config = run.config().with_machine_settings(typed)
    if decay_start is not None:
        config = config.branched(decay_start, steps, run.last_step)
        run.replace_config(config)
    elif steps is not None and steps != config.steps:
        config = config.extended(steps)
    _start(coordinator, processes, process)
    if session := _train(run, config, None, quiet=quiet):
        _report(session)


@click.command()
@click.argument("base_name", metavar="BASE")
@click.option("--run", "name", metavar="NAME", help="Name of the run. [default: BASE-tuned]")
@click.option("--data", metavar="S", help=DATA_HELP)
@field_option
@click.option("--chat", "dialogues", metavar="FILE.jsonl", help='Dialogues, of which only the answers are learned: '
                                                                'records '
              'with "messages", each with "role" and "content".')  # fmt: skip
@click.option(
    "--template", metavar="T", help="Chat template: plain, a Jinja file, or hf:DIR. [default: that of BASE, or plain]"
)
@click.option("--lora", "lora_rank", type=int, metavar="R", help="Train adapters of rank R instead of all parameters.")
@click.option(
    "--targets",
    "lora_targets",
    metavar="PARTS",
    help="Parts with adapters, of attn, mlp, embed and head. [default: all, or attn,mlp of a pretrained BASE]",
)
@click.option("--steps", type=int, metavar="N", help="Training steps in total.")
@pieces_option
@machine_options
def finetune(
    base_name: str,
    name: str | None,
    data: str | None,
    dialogues: str | None,
    template: str | None,
    settings: tuple[str, ...],
    pieces_folder: Path | None,
    root: Path,
    quiet: bool,
    coordinator: str | None,
    processes: str,
    process: int | None,
    **flags: Any,
) -> None:
    """Fine-tune a trained model, or resume a run of this kind.

    BASE is the name or folder of a run, or a model in Hugging Face's format: hf:DIR, or hf:ORG/NAME on the hub. It
    determines the model, the tokenizer and the packing of texts. With --lora, checkpoints hold only the adapters, so
    keep BASE. If BASE was trained with pieces, they are used again. --pieces gives the weights of a model of Llama's
    kind to your own pieces.
    """
    from harness.run.folder import Run

    if (data is None) == (dialogues is None):
        raise UsageError("Name what is learned: texts with --data, or dialogues with --chat.")
    base, base_config, spelled = _found_base(base_name, root)
    run = Run(root / _checked(name or f"{base.folder.resolve().name}-tuned"))
    if dialogues is not None:
        data = dialogues
        flags |= {"field": MESSAGES, "chat": template or _template_of(base, base_config, spelled, otherwise=PLAIN)}
    elif template is not None:
        raise UsageError("--template needs --chat.")
    flags["data"] = data
    typed = typed_settings(settings, flags)
    _start(coordinator, processes, process)
    config = _tuning(fine_tuning, run, base_config, spelled, typed)
    pieces_folder = pieces_folder or _pieces_of(run, base, base_config)
    if session := _train(run, config, pieces_folder, quiet=quiet):
        _report(session)


@click.command()
@click.argument("base_name", metavar="BASE")
@click.option("--pairs", "pairs_file", metavar="FILE.jsonl", required=True,
              help='Records with the answers "chosen" and "rejected", and their "prompt".')  # fmt: skip
@click.option("--run", "name", metavar="NAME", help="Name of the run. [default: BASE-dpo]")
@click.option("--beta", "dpo_beta", type=float, metavar="X", help="How near to BASE the model stays. [default: 0.1]")
@click.option("--template", metavar="T", help="Chat template, as in finetune. [default: that of BASE, or plain]")
@click.option("--lora", "lora_rank", type=int, metavar="R", help="Train adapters of rank R instead of all parameters.")
@click.option("--targets", "lora_targets", metavar="PARTS", help="Parts with adapters, as in finetune.")
@click.option("--steps", type=int, metavar="N", help="Training steps in total.")
@pieces_option
@machine_options
def dpo(
    base_name: str, pairs_file: str, name: str | None, template: str | None, settings: tuple[str, ...],
    pieces_folder: Path | None, root: Path, quiet: bool, coordinator: str | None, processes: str, process: int | None,
    **flags: Any,
) -> None:  # fmt: skip
    """Make preferred answers likelier (DPO), from pairs of answers.

    Trains a new run from BASE, as finetune does, on pairs of answers to the same prompt. Each answer is a text, or a
    list of messages of which the last is the answer. Repeating the command resumes.
    """
    from harness.run.folder import Run

    base, base_config, spelled = _found_base(base_name, root)
    run = Run(root / _checked(name or f"{base.folder.resolve().name}-dpo"))
    chat = template or _template_of(base, base_config, spelled, otherwise=PLAIN)
    typed = typed_settings(settings, {**flags, "data": pairs_file, "chat": chat})
    _start(coordinator, processes, process)
    config = _tuning(preference_tuning, run, base_config, spelled, typed)
    pieces_folder = pieces_folder or _pieces_of(run, base, base_config)
    if session := _train(run, config, pieces_folder, quiet=quiet):
        _report(session)


def _tuning(tuning: Callable[..., Config], run: Any, base: Config, name: str, typed: dict[str, str]) -> Config:
    """The settings of a kind of tuning of a base. Says those of a new run of a pretrained model, and computes it in
    bfloat16 where there is more than a CPU."""
    import jax

    from harness.hugging_face.parameters import count
    from harness.run.run_session import log_to_stderr

    size = count(base.model)
    if not is_pretrained(base, name, size):
        return tuning(base, name, typed, size)
    exists = run.config_file.exists()
    if name.startswith(HUGGING_FACE) and "dtype" not in typed:
        fast = "bfloat16" if jax.default_backend() in ("gpu", "tpu") else base.dtype
        typed = {**typed, "dtype": run.config().dtype if exists else fast}
    config = tuning(base, name, typed, size)
    if not exists:
        names = ("learning_rate", "context", "dtype", *(["lora_targets"] if config.lora_rank else []))
        chosen = ", ".join(f"{name}={getattr(config, name)}" for name in names)
        log_to_stderr(f"A pretrained model of {size:,} parameters: {chosen}. Other settings: --set KEY=VALUE.")
    return config


def _found_base(base_name: str, root: Path) -> tuple[Any, Config, str]:
    """The folder of a base, its settings, and how the settings of a run name it.

    Raises UsageError if there is no such run, or no such model in Hugging Face's format.
    """
    from harness.run.folder import Run

    if not base_name.startswith(HUGGING_FACE):
        base = Run.find(root, base_name)
        return base, _settings_of(base), _base_name(base, root)
    folder, settings = imported(base_name)
    return Run(folder), settings, f"{HUGGING_FACE}{folder}"  # a folder without pieces


def _pieces_of(run: Any, base: Any, base_config: Config) -> Path | None:
    """The workspace of a run's pieces, or of those of its base if there is no such run yet.

    Raises UsageError if they are not trusted.
    """
    from harness.run.own_code import require_pieces

    source, config = (run, run.config()) if run.config_file.exists() else (base, base_config)
    if not config.pieces:
        return None
    require_pieces(source, "`--pieces DIR` uses the pieces of your workspace instead.")
    return Path(source.pieces)


def _template_of(base: Any, config: Config, spelled: str, otherwise: str) -> str:
    """The chat template of a base, or another one if it has none."""
    from harness.data.dialogues import has_template

    if spelled.startswith(HUGGING_FACE) and has_template(base.folder):
        return spelled
    file = base.template_file
    return str(file.resolve()) if file.exists() else config.chat or otherwise


def _settings_of(base: Any) -> Config:
    """The settings of a base. A tokenizer trained on its data is the base's copy, whatever the new run trains on."""
    config: Config = base.config()
    trained = config.tokenizer.startswith(TRAIN)
    return dataclasses.replace(config, tokenizer=str(base.tokenizer_file.resolve())) if trained else config


def _base_name(base: Any, root: Path) -> str:
    """How the settings of a run name its base: a run beside it by name, another one by its folder."""
    folder = base.folder.resolve()
    return folder.name if folder.parent == root.resolve() else str(folder)


def _checked(name: str) -> str:
    """The name of a run. Raises UsageError if it is not valid."""
    if not name or Path(name).name != name or name.startswith("."):
        raise UsageError(f"--run {name} is not valid; the name of a run must not contain slashes or start with a dot.")
    return name


@click.command()
@click.argument("base_name", metavar="BASE")
@click.option("--reward", metavar="R", help="word:WORD, sentences:N, ends, or FILE.py:FUNCTION.")
@click.option("--task", metavar="T", help="arithmetic, tools, countdown, gsm8k:FILE.jsonl, or FILE.py.")
@click.option("--system", "system_prompt", metavar="TEXT", help="Text before each question of the task.")
@click.option("--template", metavar="T", help="Chat template of the questions: plain, a Jinja file, hf:DIR, or none. "
              "[default: that of BASE, if it has one]")  # fmt: skip
@click.option("--run", "name", metavar="NAME", help="Name of the new run. [default: BASE-rl]")
@click.option("--lora", "lora_rank", type=int, metavar="R", help="Train adapters of rank R instead of all parameters.")
@click.option("--targets", "lora_targets", metavar="PARTS", help="Parts with adapters, of attn, mlp, embed and head. "
              "[default: attn,mlp]")  # fmt: skip
@click.option("--prompts", type=int, help="Prompts per update. [default: 4, unless BASE's preset has others]")
@click.option("--group", type=int, help="Continuations of each prompt. [default: 8, likewise]")
@click.option("--kl", type=float, help="Weight of the KL divergence from BASE; 0: none. [default: 0.1, likewise]")
@click.option("--steps", type=int, default=40, show_default=True, help="Updates in total.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object on stdout.")
@pieces_option
@machine_options
def rl(
    base_name: str,
    reward: str | None,
    task: str | None,
    template: str | None,
    name: str | None,
    prompts: int | None,
    group: int | None,
    kl: float | None,
    steps: int,
    as_json: bool,
    settings: tuple[str, ...],
    pieces_folder: Path | None,
    root: Path,
    quiet: bool,
    coordinator: str | None,
    processes: str,
    process: int | None,
    **flags: Any,
) -> None:
    """Reinforce what a program can verify in what a model writes.

    That is a reward of its stories, or a task whose problems it answers.

    \b
    --reward
    word:WORD         the continuation contains the word
    sentences:N       the story has exactly N sentences, and ends
    ends              the story ends within the context
    FILE.py:FUNCTION  function(prompt, continuation, ended) -> a number

    \b
    --task
    arithmetic        sums of two-digit numbers
    tools             the same sums, for a model that may call a calculator
    countdown         an expression of given numbers that makes another
    gsm8k:FILE.jsonl  lines with "question" and "answer", as in GSM8K
    FILE.py           problem(rng) -> (prompt, answer);
                      reward(prompt, continuation, answer) -> a number

    Trains a new run by group-relative policy optimization. It starts from BASE: the best checkpoint of a run, by its
    name or folder, or a model in Hugging Face's format, hf:DIR or hf:ORG/NAME. Repeating the command resumes.
    """
    from harness.run.folder import Run

    if (reward is None) == (task is None):
        raise UsageError("Name what is reinforced: a reward with --reward, or the problems of a task with --task.")
    base, base_config, spelled = _found_base(base_name, root)
    run = Run(root / _checked(name or f"{base.folder.resolve().name}-rl"))
    rows = (base_config.prompts if prompts is None else prompts) * (base_config.group_size if group is None else group)
    flags |= {"prompts": prompts, "group_size": group, "kl_weight": kl, "steps": steps}
    if task is None and template is not None:
        raise UsageError("--template needs --task.")
    if task is not None:
        chosen = _template_of(base, base_config, spelled, otherwise="") if template is None else template
        flags["chat"] = "" if chosen == "none" else chosen
    own = {"reward": reward or f"{TASK}{task}", "batch_size": str(rows)} | typed_settings(settings, flags)
    config = reinforcement(base_config, spelled, own)
    pieces_folder = pieces_folder or _pieces_of(run, base, base_config)
    _start(coordinator, processes, process)
    session = _train(run, config, pieces_folder, quiet=quiet)
    if session is None:
        return
    _report(session, err=as_json)
    if as_json:
        from harness.run.report import reward_summary
        from harness.run.state import initial_state

        after = [entry["validation_loss"] for entry in session.run.metrics()][-1]
        before = session.validate(initial_state(session)[0])
        click.echo(json.dumps({**reward_summary(session), "validation_before": before, "validation_after": after}))


def _start(coordinator: str | None, processes: str, process: int | None) -> None:
    """Joins the processes that train together, if there are several, and sets up JAX."""
    named = joined(coordinator, processes, process)
    if named.several:
        named.join()
    prepare_jax()


def _train(run: Any, config: Config, pieces_folder: Path | None, *, quiet: bool) -> Any:
    """Trains a run. Returns its session after the last step in the first process, otherwise None."""
    from harness.processes import first_alone, is_first
    from harness.run.hardware import described_devices
    from harness.run.loop import train as run_training
    from harness.run.run_session import log_to_stderr, open_session

    log_to_stderr(described_devices())
    if run.config_file.exists():  # a run ends by the schedule that it began with
        config = dataclasses.replace(config, schedule_start=run.config().schedule_start)
    pieces = pieces_of(run, config, pieces_folder)
    for line in pieces.describe(config) if pieces and is_first() else ():
        terminal.echo(f"  {line}", indent=4, err=True)
    quiet = quiet or not is_first()
    first_alone(lambda: run.tokenizer(config))  # which may have to be trained
    session = open_session(run, config, pieces, log=log_to_stderr, quiet=quiet)
    finished = run_training(session, log=log_to_stderr, quiet=quiet)
    return session if finished and is_first() else None


def _report(session: Any, *, err: bool = False) -> None:
    """Prints the report of a finished run and a sample; of reinforcement learning, one from the base as well."""
    from harness.processes import count
    from harness.run.report import report
    from harness.run.run_session import sample_text
    from harness.run.state import best_sample, initial_state, written_sample

    click.echo(report(session), err=err)
    if found := best_sample(session) if count() == 1 else written_sample(session.run):
        step, sample = found
        samples = {f"A sample from the best checkpoint (step {step})": sample}
        if session.config.reward and count() == 1:
            before = sample_text(session, session.functions.model(initial_state(session)[0]))
            samples = {f"A sample from {session.config.base}, before": before, f"After {step} updates": sample}
        begins = session.prompt
        for title, text in samples.items():
            click.echo(f"\n{title}:\n", err=err)
            prompt = begins if text.startswith(begins) else ""
            stories.tell([text.removeprefix(prompt)], prompt, err=err)
    click.echo(err=err)
    terminal.echo(f"More samples: `harness sample {session.run.typed}`, or the playground of `grade web`.", err=err)
