"""The folder of a run: config, metrics, charts, samples, checkpoints."""

import contextlib
import importlib.util
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import tiktoken
from etils import epath  # type: ignore[import-untyped]

from commandline import files, invocation
from harness.config import Config, DataConfig
from harness.data.dialogues import template_of
from harness.data.tokenizer import get_tokenizer
from harness.data.train_tokenizer import file_of
from harness.errors import UsageError
from harness.run.metrics_file import complete_lines, truncate
from harness.run.rewards import split_file


class DataRecord(NamedTuple):
    """The data that a run is trained on: their name and key, and how a text of theirs begins; empty for the embedded
    stories, which begin alike."""

    name: str
    key: str
    prompt: str = ""


class BaseRecord(NamedTuple):
    """The checkpoint that a run was fine-tuned from: its step, and a digest of its parameters."""

    step: int
    digest: str


R = TypeVar("R", DataRecord, BaseRecord)


class Run:
    """The folder `runs/NAME/`."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.config_file = folder / "config.json"
        self.data_file = folder / "data.json"
        self.base_file = folder / "base.json"
        self.tokenizer_file = folder / "tokenizer.tiktoken"  # a copy, if it is not one of the harness
        self.template_file = folder / "template.jinja"  # likewise
        self.metrics_file = folder / "metrics.jsonl"
        self.baselines_file = folder / "baselines.json"
        self.checkpoints = folder / "checkpoints"
        self.samples = folder / "samples"
        self.pieces = folder / "pieces"

    @property
    def typed(self) -> str:
        """How a command names the run: by its folder unless it is in the folder of runs that commands have."""
        return shlex.quote(self.folder.name if self.folder.parent == Path("runs") else str(self.folder))

    @classmethod
    def find(cls, root: Path, name: str) -> "Run":
        """An existing run, by name or by path. Raises UsageError, listing the runs in `root`, if there is none."""
        for folder in (root / name, Path(name)):
            if (folder / "config.json").exists():
                return cls(folder)
        names = sorted(path.parent.name for path in root.glob("*/config.json"))
        hint = f"Existing runs: {', '.join(names)}." if names else "Train one with `harness train`."
        raise UsageError(f"There is no run {name!r} in {root}. {hint}")

    def config(self) -> Config:
        """The settings that the run was created with."""
        return Config.load(self.config_file)

    def tokenizer(self, config: DataConfig) -> tiktoken.Encoding:
        """The tokenizer of these settings: the run's own copy of a file, if it has one."""
        file = self.tokenizer_file if self.tokenizer_file.exists() else file_of(config)
        return get_tokenizer(str(file) if file else config.tokenizer)

    def copy_of(self, original: Path, copy: Path) -> Path:
        """The original of a file that the run keeps a copy of; the copy if the original is gone.

        Raises UsageError if the original has changed.
        """
        if not original.exists() and copy.exists():
            return copy
        if copy.exists() and original.read_bytes() != copy.read_bytes():
            raise UsageError(
                f"{original} has changed since the run {self.folder} was created. Put the former file back, remove it "
                "to train with the run's copy, or start another run with --run NAME."
            )
        return original

    def reward_file(self, original: Path) -> Path:
        """The copy of the file that the reward or the task reads."""
        return self.folder / f"reward{original.suffix}"

    def data(self) -> DataRecord:
        """The data that the run was trained on; with an empty key if that was not recorded. Raises UsageError for
        another file."""
        return _record(self.data_file, DataRecord, "Remove it if the data are unchanged.") or DataRecord("", "")

    def record_data(self, data: DataRecord) -> None:
        """Records which data the run is trained on."""
        files.write(self.data_file, json.dumps(data._asdict()) + "\n", durable=True)

    def checkpoints_of(self, config: Config) -> Path | epath.Path:
        """The folder of the checkpoints, which may be in a bucket.

        Raises UsageError for a bucket that Orbax cannot write to, or if the package for it is missing.
        """
        where = config.checkpoint_dir
        if not where:
            return self.checkpoints
        if "://" not in where:
            return Path(where) / self.folder.name
        if not where.startswith("gs://"):
            raise UsageError(
                f"checkpoint_dir={where} is not valid; Orbax writes to folders and to gs://. Mount another store as a "
                "folder."
            )
        if importlib.util.find_spec("gcsfs") is None:
            install = invocation.install("gcsfs")
            raise UsageError(f"checkpoint_dir={where} needs a package for Google Cloud Storage: run `{install}`.")
        return epath.Path(where) / self.folder.name

    def base(self) -> BaseRecord | None:
        """The checkpoint that an existing run was fine-tuned from, if it is recorded. Raises UsageError for another
        file."""
        exists = self.config_file.exists()
        return _record(self.base_file, BaseRecord, "Put the former file back.") if exists else None

    def record_base(self, base: BaseRecord) -> None:
        """Records which checkpoint the run is fine-tuned from."""
        files.write(self.base_file, json.dumps(base._asdict()) + "\n", durable=True)

    @property
    def last_step(self) -> int:
        """The last step in the metrics; 0 without any."""
        return max((int(entry["step"]) for entry in self.metrics()), default=0)

    def replace_config(self, config: Config) -> None:
        """Gives an existing run other settings, which must not change what it has done."""
        files.write(self.config_file, config.to_json(), durable=True)

    def create_or_check(self, config: Config) -> bool:
        """Creates the folder, or checks that an existing one has the same settings, or fewer steps. Returns whether it
        existed.

        Raises UsageError, listing the differences, if the settings that change the result differ, and if the
        checkpoints of an existing run are gone: training would start over and overwrite its metrics.
        """
        if self.config_file.exists():
            stored = self.config()
            if config.steps > stored.steps and not stored.extended(config.steps).differences(config):
                stored = stored.extended(config.steps)
                self.replace_config(stored)
            if differences := stored.differences(config):
                only_steps = {each.partition(":")[0] for each in differences} <= {"steps", "warmup_steps"}
                command = f"harness resume {self.typed} --steps {config.steps}"
                more = f" `{command}` adds steps." if only_steps and config.steps > stored.steps else ""
                raise UsageError(
                    f"Run {self.folder} was created with different settings (existing -> requested):\n  "
                    + "\n  ".join(differences)
                    + f"\nUse the same settings to resume it, or start another run with --run NAME.{more}"
                )
            checkpoints = self.checkpoints_of(config)
            if self.metrics() and not checkpoints.is_dir():
                raise UsageError(
                    f"Run {self.folder} has metrics, but {checkpoints} is gone. Put it back to resume the run, or "
                    "start another one with --run NAME."
                )
            return True
        self.checkpoints_of(config).mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        if tokenizer := file_of(config):
            files.write(self.tokenizer_file, tokenizer.read_bytes(), durable=True)
        if template := template_of(config):
            files.write(self.template_file, template.read_bytes(), durable=True)
        if found := split_file(config.reward):
            files.write(self.reward_file(found[1]), found[1].read_bytes(), durable=True)
        files.write(self.config_file, config.to_json(), durable=True)
        return False

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second process from training the same run. Raises UsageError if another process already does."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            unlock = files.lock(self.folder / ".lock")
        except OSError as error:
            raise UsageError(
                f"Run {self.folder} cannot be written: {error.strerror or error}. Choose another directory with --runs."
            ) from error
        if unlock is None:
            raise UsageError(f"Another process is training the run {self.folder}.")
        try:
            yield
        finally:
            unlock()

    def metrics(self) -> list[dict[str, Any]]:
        """The complete lines of metrics.jsonl."""
        return complete_lines(self.metrics_file)

    def sample_file(self, step: int) -> Path:
        """The file of the sample that is written after a step."""
        return self.samples / f"{step:07}.txt"

    def truncate_metrics(self, last_step: int) -> None:
        """Removes the lines after `last_step`, and a line that is incomplete."""
        truncate(self.metrics_file, last_step)


def _record(file: Path, kind: type[R], advice: str) -> R | None:
    """The record in a file; None if there is no file. Raises UsageError, with the advice, for another file."""
    if not file.exists():
        return None
    try:
        return kind(**json.loads(file.read_text("utf-8")))
    except (OSError, ValueError, TypeError) as error:
        what = "data" if kind is DataRecord else "base"
        raise UsageError(f"{file} is not the record of a run's {what} ({type(error).__name__}). {advice}") from error
