"""What a platform does for the tool: columns and scores of a gradebook (AGS), names and roles (NRPS)."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx2

from commandline.text import one_line
from grader.batch.gradebook import Assignment
from grader.batch.records import whole
from hosting.lti import claims as names
from hosting.lti.enrollments import Course
from hosting.lti.keys import Keys
from hosting.lti.registration import Platform, is_safe

TAG = "gpt-kata"
_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_MARGIN = 60.0  # seconds before the end of an access token at which it counts as ended
_BUSY = (429, 503)
_LONGEST_REASON = 200  # characters of a platform's answer


class ServiceError(Exception):
    """A platform did not do what it was asked. The message is a clause that says why.

    Attributes:
        status: The status of its answer; 0 if there was none.
        passes: Whether the same request may succeed later.
        everywhere: Whether no other request to the platform can succeed now.
        wait: The seconds that the platform asks to wait; None if it does not say.
    """

    def __init__(
        self, reason: str, status: int = 0, *, passes: bool = False, everywhere: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(reason)
        self.status, self.passes, self.everywhere, self.wait = status, passes, everywhere, wait


@dataclass(frozen=True)
class Score:
    """A mark for a user.

    Attributes:
        user: The user's id at the platform.
        points: The points.
        maximum: The most points; the platform scales to its own.
        received: When the submission was received; it tells the platform which attempt this is. None if there was none.
        timestamp: When the mark was made. A platform takes no earlier mark after a later one.
    """

    user: str
    points: float
    maximum: float
    received: datetime | None
    timestamp: datetime

    def as_json(self) -> str:
        """Returns the score as it is sent. Both platforms drop the mark of any score that is not fully graded."""
        submitted = self.received.isoformat(timespec="milliseconds") if self.received else ""
        return json.dumps({
            "userId": self.user,
            "scoreGiven": whole(self.points),
            "scoreMaximum": whole(self.maximum),
            "timestamp": self.timestamp.isoformat(timespec="milliseconds"),
            "activityProgress": "Completed",
            "gradingProgress": "FullyGraded",
            **({"submission": {"submittedAt": submitted}} if submitted else {}),
            # A mark that a teacher entered in Canvas stays. Moodle locks such a mark of a link itself.
            names.CANVAS_SUBMISSION: {"prioritize_non_tool_grade": True},
        })  # fmt: skip


@dataclass(frozen=True)
class Member:
    """An active member of a course. The name and the address are empty where the platform keeps them private."""

    user: str
    name: str
    email: str
    roles: tuple[str, ...]


class Services:
    """The services of all platforms. Keeps access tokens for as long as they are valid."""

    def __init__(self, platforms: Sequence[Platform], keys: Keys, http: httpx2.AsyncClient) -> None:
        self._platforms = {platform.name: platform for platform in platforms}
        self._keys, self._http = keys, http
        self._tokens: dict[tuple[str, str], tuple[str, float]] = {}

    async def line_item(self, course: Course, column: Assignment) -> str:
        """Returns the address of a column, which is created if the course has none for the problem.

        Raises ServiceError. To ask again is safe: a column whose creation was not confirmed is found.
        """
        if not course.line_items or names.SCORE not in course.scopes:
            raise ServiceError(f"{course.platform} gives this tool no access to the gradebook of {course.title!r}")
        scopes = _granted(course)
        address = str(_url(course.line_items).copy_merge_params({"resource_id": column.problem}))
        found = [
            item
            async for page in self._pages(course.platform, scopes, address, names.LINE_ITEMS_TYPE)
            for item in _objects(page)
            if names.text(item, "resourceId") == column.problem
        ]
        if not found:
            if names.LINE_ITEM not in scopes:
                raise ServiceError(
                    f"{course.title!r} has no column for {column.problem}, and {course.platform} does not let this "
                    "tool create one"
                )
            wish = {
                "label": column.title, "scoreMaximum": column.points, "resourceId": column.problem, "tag": TAG,
            }  # fmt: skip
            response = await self._request(
                course.platform, scopes, "POST", course.line_items, content=json.dumps(wish),
                headers={"Content-Type": names.LINE_ITEM_TYPE, "Accept": names.LINE_ITEM_TYPE},
            )  # fmt: skip
            found = [_json(response)]
        # An assignment that a teacher added for the problem comes before a bare column.
        chosen = min(found, key=lambda item: (not names.text(item, "resourceLinkId"), names.text(item, "id")))
        address = names.text(chosen, "id")
        _require_below(course, address)
        return address

    async def send(self, course: Course, line_item: str, score: Score) -> None:
        """Sends a score to a column. Raises ServiceError."""
        _require_below(course, line_item)
        await self._request(
            course.platform, _granted(course), "POST", _inside(line_item, "scores"), content=score.as_json(),
            headers={"Content-Type": names.SCORE_TYPE},
        )  # fmt: skip

    async def result(self, course: Course, line_item: str, user: str) -> tuple[float, float] | None:
        """Returns the mark of a user in a column, and the most points there; None if there is none, or if the platform
        does not show it to this tool. Raises ServiceError."""
        if names.RESULT_READ not in course.scopes:
            return None
        _require_below(course, line_item)
        address = str(_url(_inside(line_item, "results")).copy_merge_params({"user_id": user}))
        async for page in self._pages(course.platform, _granted(course), address, names.RESULTS_TYPE):
            for row in _objects(page):
                mark, maximum = (_number(row.get(name)) for name in ("resultScore", "resultMaximum"))
                if str(row.get("userId")) == user and mark is not None and maximum is not None:
                    return mark, maximum
        return None

    async def members(self, course: Course) -> list[Member]:
        """Returns the active members of a course, from all pages of the list. Raises ServiceError."""
        if not course.memberships:
            raise ServiceError(f"{course.platform} does not show this tool the members of {course.title!r}")
        scopes = (names.MEMBERSHIP_READ,)
        return [
            Member(user, names.text(row, "name"), names.text(row, "email"), names.texts(row, "roles"))
            async for page in self._pages(course.platform, scopes, course.memberships, names.MEMBERS_TYPE)
            for row in _objects(page.get("members") if isinstance(page, Mapping) else None)
            if row.get("status", "Active") == "Active" and (user := str(row.get("user_id") or ""))
        ]

    async def _pages(self, platform: str, scopes: Sequence[str], address: str, kind: str) -> AsyncIterator[Any]:
        """Yields the pages of a list. The address of the next one must be of the same server, as it gets the token."""
        server = _url(address)
        seen = set[str]()
        while address and address not in seen:
            seen.add(address)
            response = await self._request(platform, scopes, "GET", address, headers={"Accept": kind})
            yield _json(response)
            following = response.links.get("next", {}).get("url")
            address = str(server.join(following)) if following else ""
            if address and not _same_server(_url(address), server):
                raise ServiceError(f"{platform} continues a list on another server, {_url(address).host}")

    async def _request(
        self, platform: str, scopes: Sequence[str], method: str, address: str, *, headers: Mapping[str, str],
        content: str | None = None,
    ) -> httpx2.Response:  # fmt: skip
        """Sends a request with an access token; with a new one if the platform no longer knows the first."""
        if not is_safe(address):
            raise ServiceError(f"{platform} names {address!r}, which is not an address with https://")
        for renew in (False, True):
            token = await self._token(platform, scopes, renew=renew)
            response = await self._answer(
                method, address, content=content, headers={**headers, "Authorization": f"Bearer {token}"}
            )
            if response.status_code != 401:
                break
        if not response.is_success:
            raise _refusal(response, passes=response.status_code == 401)
        return response

    async def _token(self, platform: str, scopes: Sequence[str], *, renew: bool) -> str:
        """Returns an access token: by client credentials, with a signed JWT."""
        wanted = (platform, " ".join(scopes))
        token, ends = self._tokens.get(wanted, ("", 0.0))
        if token and not renew and time.monotonic() < ends:
            return token
        known = self._platforms.get(platform)
        if known is None:
            raise ServiceError(f"[{platform}] is no longer in platforms.toml")
        assertion = self._keys.sign(
            {"iss": known.client_id, "sub": known.client_id, "aud": known.token, "jti": uuid.uuid4().hex}, seconds=300
        )
        response = await self._answer(
            "POST", known.token,
            data={
                "grant_type": "client_credentials", "client_assertion_type": _ASSERTION, "client_assertion": assertion,
                "scope": wanted[1],
            },
        )  # fmt: skip
        answer = _json(response) if response.is_success else None
        token = names.text(answer, "access_token")
        if not token:
            error = _refusal(response, passes=True)
            raise ServiceError(
                f"{platform} gives no access token: {error}",
                error.status,
                passes=True,
                everywhere=True,
                wait=error.wait,
            )
        seconds = answer.get("expires_in", 3600) if answer else 0
        self._tokens[wanted] = (token, time.monotonic() + float(seconds) - _MARGIN)
        return token

    async def _answer(self, method: str, address: str, **how: Any) -> httpx2.Response:
        try:
            return await self._http.request(method, address, **how)
        except httpx2.HTTPError as error:
            host, why = _url(address).host, type(error).__name__
            raise ServiceError(f"{host} does not answer ({why})", passes=True, everywhere=True) from None


def _granted(course: Course) -> tuple[str, ...]:
    """Returns the scopes to ask for: Canvas refuses a request with one that the tool does not have."""
    return tuple(scope for scope in names.GRADE_SCOPES if scope in course.scopes)


def _inside(line_item: str, name: str) -> str:
    """Returns the address of a part of a column. The address of a column may end in a query, as in Moodle."""
    address = _url(line_item)
    return str(address.copy_with(path=f"{address.path.rstrip('/')}/{name}"))


def _require_below(course: Course, line_item: str) -> None:
    """Raises ServiceError unless the address is that of a column of this course."""
    own, address = _url(course.line_items), _url(line_item)
    if not _same_server(address, own) or not address.path.startswith(f"{own.path.rstrip('/')}/"):
        raise ServiceError(f"{course.platform} names the column {line_item!r}, which is not one of {course.title!r}")


def _same_server(one: httpx2.URL, other: httpx2.URL) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _url(address: str) -> httpx2.URL:
    try:
        return httpx2.URL(address)
    except httpx2.InvalidURL:
        raise ServiceError(f"{address!r} is not an address") from None


def _objects(page: object) -> list[Mapping[str, Any]]:
    return [row for row in page if isinstance(row, Mapping)] if isinstance(page, list) else []


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise ServiceError(f"{response.url.host} did not answer with JSON", response.status_code, passes=True) from None


def _refusal(response: httpx2.Response, *, passes: bool) -> ServiceError:
    status = response.status_code
    words = " ".join(f"{response.reason_phrase} {response.text}".split())
    try:
        wait = float(response.headers.get("retry-after", ""))
    except ValueError:
        wait = None
    return ServiceError(
        one_line(f"{response.url.host} answers {status} {words}"[:_LONGEST_REASON].strip()), status,
        passes=passes or status in _BUSY or status >= 500, everywhere=passes or status in _BUSY, wait=wait,
    )  # fmt: skip
