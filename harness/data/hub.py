"""Models on the Hugging Face hub, in the cache that all programs of this kind share."""

import functools
import re
from pathlib import Path

from harness.config import HUGGING_FACE
from harness.data.model_files import read_json
from harness.errors import HarnessError, UsageError

ADAPTERS = "adapter_config.json"  # in a folder that holds changes of a model, in the format of PEFT
MODEL = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")  # ORG/NAME
FILES = ["*.json", "*.safetensors", "*.jinja", "merges.txt", "tokenizer.model"]


def model_folder(name: str) -> Path:
    """The folder of a model: DIR of `hf:DIR`, or for `hf:ORG/NAME` its snapshot in the cache, downloaded if it is not
    there.

    A download shows a progress bar, and continues where it was interrupted. Raises UsageError if there is no such
    model, HarnessError if a download is needed and fails.
    """
    name = name.removeprefix(HUGGING_FACE)
    if Path(name).exists() or not MODEL.fullmatch(name):
        return Path(name)
    return _snapshot(name)


def name_of(name: str) -> str:
    """How other programs name a model: ORG/NAME if its folder is a snapshot of the hub, else its folder."""
    folder = model_folder(name)
    model = folder.parent.parent.name.removeprefix("models--").replace("--", "/", 1)
    return model if folder.parent.name == "snapshots" and MODEL.fullmatch(model) else str(folder)


def base_of(folder: Path) -> Path:
    """The folder of the model that the adapters in a folder change; the folder itself if it holds none.

    Raises UsageError if the adapters do not say which model that is, and as `model_folder` does.
    """
    if not (file := folder / ADAPTERS).exists():
        return folder
    name = read_json(file).get("base_model_name_or_path")
    if not isinstance(name, str) or not name:
        raise UsageError(f"{file} does not name the model that it changes; write it as base_model_name_or_path.")
    base = model_folder(name)
    if (base / ADAPTERS).exists():
        raise UsageError(f"{file} changes {name}, which is itself adapters; merge those first with `harness export`.")
    return base


def holder(folder: Path, name: str) -> Path:
    """The folder of a model that holds a file: that of adapters may leave it to their base."""
    return folder if (folder / name).exists() else base_of(folder)


@functools.cache  # a run asks for its tokenizer several times, and each download asks the hub what is new
def _snapshot(name: str) -> Path:
    from huggingface_hub import errors, snapshot_download  # slow to import, and rarely needed

    try:
        return Path(snapshot_download(name, allow_patterns=FILES))
    except errors.GatedRepoError as error:
        raise UsageError(
            f"The model {name} is only for those who accept its license. Accept it on its page on the hub, then set "
            "HF_TOKEN."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise UsageError(f"There is no folder {name}, and no public model of this name on the hub.") from error
    except Exception as error:
        if not is_of_network(error):
            raise
        raise HarnessError(
            f"The model {name} could not be downloaded ({type(error).__name__}). Rerun the command to resume, or name "
            f"a folder that holds it: {HUGGING_FACE}DIR."
        ) from error


def is_of_network(error: Exception) -> bool:
    """Whether an error comes from the connection, the server or the disk: those of the hub have no common base."""
    modules = ("httpx", "httpx2", "httpcore", "huggingface_hub")
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0] in modules
