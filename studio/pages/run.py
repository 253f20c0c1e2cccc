"""Runs of the harness: all of them, one while it trains, and two compared."""

import contextlib
import dataclasses
import os
import re
import statistics
from collections.abc import Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from commandline.chart import Chart, Line, Point, draw
from commandline.errors import CommandError
from harness.config import Config
from harness.errors import UsageError
from harness.presets import PRESETS, preset
from harness.settings import typed_settings
from studio.run_folders import RunState
from studio.training import Training, topic
from studio.training_studio import TrainingStudio
from studio.view import fragment, read_json, render

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
# The settings of the form: those that everybody changes, and those of the model.
_FIRST_SETTINGS = ("steps", "batch_size", "learning_rate")
_OTHER_SETTINGS = ("d_model", "num_layers", "num_heads", "d_ff", "context", "eval_every", "seed")
_LONGEST_SETTING = 100  # characters
_STORIES = ("4000", "16000", "")  # of the data set; empty: all


@dataclasses.dataclass(frozen=True)
class Status:
    """A run as the pages show it: the contents of its folder, and the state of its training."""

    name: str
    state: RunState | None  # None until the folder exists
    training: Training | None

    @property
    def config(self) -> Config:
        """The settings."""
        config = self.state.config if self.state else self.training.config if self.training else None
        assert config is not None  # noqa: S101  a run without a folder is starting
        return config

    @property
    def is_running(self) -> bool:
        """Whether this studio trains it."""
        return self.training is not None and self.training.is_running

    @property
    def is_elsewhere(self) -> bool:
        """Whether another program trains it."""
        ended_here = self.training is not None and not self.training.is_running
        state = self.state
        return bool(not self.is_running and not ended_here and state and state.is_fresh and not state.is_finished)

    @property
    def words(self) -> str:
        """The state of the run in a word or a few."""
        if self.training and self.training.error:
            return "failed"
        if self.is_running and self.training:
            return (
                "stopping"
                if self.training.is_stopping
                else "training"
                if self.state and self.state.step
                else "starting"
            )
        if self.is_elsewhere:
            return "training in another program"
        return "finished" if self.state and self.state.is_finished else "stopped"


def all_runs(request: Request) -> Response:
    """Returns all runs, and how to start one."""
    studio: TrainingStudio = request.app.state.studio
    values = {
        "presets": _presets(),
        "first_settings": _FIRST_SETTINGS,
        "other_settings": _OTHER_SETTINGS,
        "helps": {field.name: field.metadata.get("help", "") for field in dataclasses.fields(Config)},
        "stories": _STORIES,
        "free_name": _free_name(studio),
    }
    return render(request, "runs.html", values | _list_values(studio))


def all_runs_now(request: Request) -> Response:
    """Returns the list of runs alone."""
    return HTMLResponse(fragment(request, "runs_list.html", _list_values(request.app.state.studio)))


async def all_events(request: Request) -> Response:
    """Streams an event when a run has changed."""
    studio: TrainingStudio = request.app.state.studio
    return studio.events.stream(topic(""), ("changed", {}))


async def start(request: Request) -> Response:
    """Starts a new run."""
    studio: TrainingStudio = request.app.state.studio
    body = await read_json(request, name=str, preset=str, stories=str, settings=dict, with_pieces=bool)
    return JSONResponse(await run_in_threadpool(_start, studio, body), 201)


def _start(studio: TrainingStudio, body: dict[str, Any]) -> dict[str, str]:
    name, typed = body["name"], body["settings"]
    if not _NAME.fullmatch(name):
        raise UsageError("The name of a run has letters, digits, - and _, and begins with a letter or a digit.")
    if os.path.lexists(studio.runs.root / name):
        raise UsageError(f"There is a run {name!r} already. Resume it on its page, or choose another name.")
    if body["preset"] not in _presets() or body["stories"] not in _STORIES:
        raise UsageError("Choose a preset and a number of stories from the lists.")
    known = {*_FIRST_SETTINGS, *_OTHER_SETTINGS}
    if not all(
        key in known and isinstance(value, str) and len(value) <= _LONGEST_SETTING for key, value in typed.items()
    ):
        raise HTTPException(400, "The request is not what the studio's pages send.")
    flags = {"data": f"pocket:{body['stories']}" if body["stories"] else None, "steps": typed.get("steps")}
    settings = tuple(f"{key}={value}" for key, value in typed.items() if key != "steps")
    config = preset(body["preset"]).with_options(typed_settings(settings, flags))
    options = ["--preset", body["preset"]]
    options += [part for key, value in flags.items() if value for part in (f"--{key}", value)]
    options += [part for setting in settings for part in ("--set", setting)]
    if body["with_pieces"]:
        options += ["--pieces", str(studio.space.folder.absolute())]
    studio.trainings.start(name, config, *options)
    return {"path": f"/runs/{name}"}


def run_page(request: Request) -> Response:
    """Returns one run."""
    studio, status = _of(request)
    others = [name for name in studio.runs.names() if name != status.name]
    values = {
        "others": others,
        "with_name": request.query_params.get("with", "") if request.query_params.get("with") in others else "",
        "samples": [dataclasses.asdict(sample) for sample in studio.runs.samples(status.name)],
    }
    return render(request, "run.html", values | _live_values(request))


def live(request: Request) -> Response:
    """Returns the parts that change while a run trains: the state with the charts, and the samples."""
    studio, status = _of(request)
    samples = [dataclasses.asdict(sample) for sample in studio.runs.samples(status.name)]
    return JSONResponse({"html": fragment(request, "run_live.html", _live_values(request)), "samples": samples})


async def run_events(request: Request) -> Response:
    """Streams an event when the run has changed."""
    studio, status = await run_in_threadpool(_of, request)
    return studio.events.stream(topic(status.name), ("changed", {}))


def resume(request: Request) -> Response:
    """Trains on from the last checkpoint, with the run's own settings and pieces."""
    studio, status = _of(request)
    studio.runs.require_no_links(status.name)
    studio.trainings.start(status.name, status.config)
    return Response(status_code=202)


def stop(request: Request) -> Response:
    """Stops the training after it has saved a checkpoint."""
    studio, status = _of(request)
    studio.trainings.stop(status.name)
    return Response(status_code=202)


def _of(request: Request) -> tuple[TrainingStudio, Status]:
    """Returns the studio and the run that the path names. Raises 404 if there is none."""
    studio: TrainingStudio = request.app.state.studio
    status = _status(studio, request.path_params["name"])
    if status is None:
        raise HTTPException(404)
    return studio, status


def _status(studio: TrainingStudio, name: str) -> Status | None:
    training = studio.trainings.get(name)
    state = studio.runs.state(name) if studio.runs.has(name) else None
    return Status(name, state, training) if state or (training and training.config) else None


def _list_values(studio: TrainingStudio) -> dict[str, Any]:
    """Returns the readable runs, and the reason for each run that cannot be read."""
    statuses, broken = list[Status](), list[str]()
    for name in studio.runs.names():
        try:
            if status := _status(studio, name):
                statuses.append(status)
        except CommandError as error:
            broken.append(str(error))
    return {"runs": statuses, "broken": broken}


def _live_values(request: Request) -> dict[str, Any]:
    studio, status = _of(request)
    name, other = request.query_params.get("with", ""), None
    if name != status.name and studio.runs.has(name):
        with contextlib.suppress(CommandError):  # the list of runs says why
            other = studio.runs.state(name)
    return {
        "run": status,
        "other": other,
        "differences": _differences(other.config, status.config) if other else [],
        "charts": _charts(status.state, other) if status.state else [],
        "lines": list(status.training.lines) if status.training else [],
        "settings": [(field.name, getattr(status.config, field.name)) for field in dataclasses.fields(Config)],
    }


def _differences(other: Config, own: Config) -> list[str]:
    """Returns the settings that differ. Pieces are only counted: their names are many."""
    lines = [line for line in other.differences(own) if not line.startswith("pieces: ")]
    if other.pieces != own.pieces:
        lines.append(f"your pieces: {len(other.pieces)} -> {len(own.pieces)}")
    return lines


def _charts(run: RunState, other: RunState | None) -> list[Chart]:
    """Returns the charts of the loss and of the other metrics of each step."""
    last = max(run.step, other.step if other else 0)
    runs = [(run, "own"), *([(other, "other")] if other else [])]

    def lines(key: str) -> list[Line]:
        return [Line(each.name, kind, each.series(key)) for each, kind in runs]

    training = [
        Line(f"{each.name} train" if other else "train", f"{kind} faint", each.series("loss")) for each, kind in runs
    ]
    validation = [
        Line(f"{each.name} validation" if other else "validation", f"{kind} strong", each.validated, has_dots=True)
        for each, kind in runs
    ]
    speed = [dataclasses.replace(line, points=_median(line.points)) for line in lines("tokens_per_s")]
    charts = [
        draw("Loss, nats per token", [*training, *validation], last_step=last, levels=run.baselines, is_log=True),
        draw("Learning rate", lines("learning_rate"), last_step=last),
        draw("Gradient norm", lines("gradient_norm"), last_step=last),
        draw("Tokens per second", speed, last_step=last),
    ]  # fmt: skip
    return [chart for chart in charts if chart]


def _median(points: Sequence[Point]) -> list[Point]:
    """Returns the medians of neighbors, because single steps that waited for nothing seem to take no time."""
    return [
        (step, statistics.median(value for _, value in points[max(0, index - 8) : index + 9]))
        for index, (step, _) in enumerate(points)
    ]


def _presets() -> dict[str, Config]:
    """Returns the presets that need nothing from the network."""
    configs = {name: preset(name) for name in PRESETS}
    return {
        name: config for name, config in configs.items() if (config.data, config.tokenizer) == ("pocket", "pocket-2k")
    }


def _free_name(studio: TrainingStudio) -> str:
    names = set(studio.runs.names())
    return next(
        name for name in ("pocket", *(f"pocket-{number}" for number in range(2, len(names) + 3))) if name not in names
    )


_AT = "/runs/{name}"
routes = [
    Route("/runs", all_runs),
    Route("/runs", start, methods=["POST"]),
    Route("/runs.events", all_events),
    Route("/runs.list", all_runs_now),
    Route(_AT, run_page),
    Route(f"{_AT}/live", live),
    Route(f"{_AT}/events", run_events),
    Route(f"{_AT}/resume", resume, methods=["POST"]),
    Route(f"{_AT}/stop", stop, methods=["POST"]),
]
