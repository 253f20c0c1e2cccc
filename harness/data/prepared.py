"""The tokens that a run trains on: those of one source, or of several with weights."""

from collections.abc import Callable
from dataclasses import replace

from harness.config import DataConfig
from harness.data.sources import OWN_BEGINNINGS, Source, joint_key, open_source, split_spec
from harness.data.token_files import Prepared, Tokens

PROMPT_CHARACTERS = 32  # of a text's beginning


def open_sources(config: DataConfig, *, whole: bool = False) -> tuple[Source, ...]:
    """The sources that `data` names. `whole` holds all of them out. Raises UsageError if there is none of some name."""
    fraction = 1.0 if whole else config.validation_fraction
    return tuple(open_source(spec, fraction, config.field) for spec, _ in split_spec(config.data))


def key_of(config: DataConfig, sources: tuple[Source, ...]) -> str:
    """A digest of the data with the weights."""
    return joint_key([source.key for source in sources], [weight for _, weight in split_spec(config.data)])


def prepare_all(config: DataConfig, sources: tuple[Source, ...], prepare_one: Callable[[Source], Prepared]) -> Prepared:
    """The tokens of all sources: one stream of each split, which remembers its parts if there are several."""
    parts = tuple(map(prepare_one, sources))
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        name=", ".join(part.name for part in parts),
        key=key_of(config, sources),
        train=Tokens.joined([part.train for part in parts]),
        validation=Tokens.joined([part.validation for part in parts]),
        max_id=max(part.max_id for part in parts),
        bytes=(sum(part.bytes[0] for part in parts), sum(part.bytes[1] for part in parts)),
        notes=tuple(note for part in parts for note in part.notes),
        parts=parts,
        weights=tuple(weight for _, weight in split_spec(config.data)),
    )


def own_prompt(config: DataConfig, prepared: Prepared) -> str:
    """How the first text of the training data begins, up to the end of a word, or the first question of dialogues.

    Empty for stories that begin alike.
    """
    if config.data.partition(":")[0] in OWN_BEGINNINGS:
        return ""
    text = prepared.beginning
    if config.has_dialogues or len(text) <= PROMPT_CHARACTERS:
        return text
    begins = text[: PROMPT_CHARACTERS + 1]
    words = begins.rstrip() if begins[-1].isspace() else begins.rpartition(" ")[0].rstrip()
    return words if len(words) > PROMPT_CHARACTERS // 4 else text[:PROMPT_CHARACTERS]
