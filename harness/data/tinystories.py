"""Downloads TinyStories from the Hugging Face hub. Partial downloads resume, and every file's SHA-256 is checked."""

import hashlib
import os
import shutil
from pathlib import Path

from commandline.files import replace
from commandline.folders import cache_folder
from harness.data.hub import is_of_network
from harness.errors import HarnessError

REPOSITORY = "roneneldan/TinyStories"


def fetch_tinystories() -> list[Path]:
    """The Parquet files of TinyStories (Eldan and Li 2023), train before validation, from the cache if it is complete.

    Raises HarnessError if a download is needed and fails.
    """
    folder = cache_folder("HARNESS_CACHE", "harness") / "tinystories"
    complete = folder / "complete"
    if not complete.exists():
        from huggingface_hub import HfApi  # slow to import, and rarely needed

        folder.mkdir(parents=True, exist_ok=True)
        try:
            info = HfApi().dataset_info(REPOSITORY, files_metadata=True)
            names = [
                _fetch(folder, info.sha, file.rfilename, file.size, file.lfs.sha256)
                for file in info.siblings or []
                if file.rfilename.endswith(".parquet") and file.lfs
            ]
        except Exception as error:
            if not is_of_network(error):
                raise
            raise _download_failed(folder, error) from error
        replace(complete, "\n".join(sorted(names)) + "\n")
    return [folder / name for name in complete.read_text().split()]


def _fetch(folder: Path, revision: str | None, path: str, size: int | None, sha256: str) -> str:
    """Downloads one file, or the rest of it, and returns its name in the folder."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get

    target = folder / Path(path).name
    partial = target.with_name(f"{target.name}.{sha256[:8]}.partial")
    if not target.exists():
        downloaded = partial.stat().st_size if partial.exists() else 0
        if size and shutil.disk_usage(folder).free < size - downloaded:
            raise HarnessError(
                f"The disk is too full for {target.name}: it needs {size - downloaded:,} bytes in {folder}."
            )
        with partial.open("ab") as file:
            url = hf_hub_url(REPOSITORY, path, repo_type="dataset", revision=revision)
            http_get(url, file, resume_size=downloaded, expected_size=size)
        with partial.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
                partial.unlink()
                raise HarnessError(
                    f"{target.name} was corrupted in transit (wrong SHA-256) and was removed. Try again."
                )
        os.replace(partial, target)
    return target.name


def _download_failed(folder: Path, error: Exception) -> HarnessError:
    downloaded = sum(file.stat().st_size for file in folder.glob("*.par*"))
    return HarnessError(
        f"TinyStories could not be downloaded ({type(error).__name__}). {downloaded:,} bytes are in {folder}; rerun "
        "the command to resume. Without a network, use --data pocket or a file of your own."
    )
