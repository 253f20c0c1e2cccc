"""A launch: what a platform says of the person who opened a link, of the course and of its services, once verified."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from hosting.lti import claims as names
from hosting.lti.keys import ALGORITHM, LEEWAY, KeySets, UnknownKeyError
from hosting.lti.registration import Platform, find, is_safe

_REQUIRED = ["iss", "aud", "exp", "iat", "sub", "nonce"]


class RefusedLaunchError(Exception):
    """A launch is not accepted. The message is a sentence for the person who opened the link."""


@dataclass(frozen=True)
class Selection:
    """The request to choose problems for a course.

    Attributes:
        return_url: The address that the choice is sent to.
        data: What the platform wants back with it; None for nothing.
        several: Whether more than one problem can be chosen.
        windows: Whether a link can open in a window of its own.
    """

    return_url: str
    data: str | None
    several: bool
    windows: bool


@dataclass(frozen=True)
class Launch:
    """A verified launch.

    Attributes:
        platform: The registration.
        deployment: The id of the place in the platform where the tool is used.
        user: The person's id at the platform, which never changes.
        name: The person's name; empty if the platform does not send it.
        roles: The roles, as the platform writes them.
        course: The course's id at the platform; empty for a launch outside of a course.
        course_title: The course's title.
        problem: The name of the problem that the link is for; empty if it is for none.
        line_item: The address of the link's own column in the gradebook; empty if it has none.
        line_items: The address of the course's columns in the gradebook; empty if the tool may not use it.
        memberships: The address of the list of the course's members; empty if the tool may not use it.
        scopes: What the tool may do in the gradebook.
        selection: The request to choose problems; None for a launch that opens a link.
    """

    platform: Platform
    deployment: str
    user: str
    name: str
    roles: tuple[str, ...]
    course: str
    course_title: str
    problem: str
    line_item: str
    line_items: str
    memberships: str
    scopes: tuple[str, ...]
    selection: Selection | None

    @property
    def is_learner(self) -> bool:
        return names.is_learner(self.roles)

    @property
    def is_teacher(self) -> bool:
        return names.is_teacher(self.roles)


async def verify(token: str, nonce: str, platform: Platform, key_sets: KeySets) -> Launch:
    """Returns the launch of an id_token: signed by the platform, for this tool, not expired, with the nonce of the
    login, from a known deployment. Raises RefusedLaunchError."""
    try:
        name = jwt.get_unverified_header(token).get("kid")
        key = await key_sets.key(platform, name if isinstance(name, str) else "")
        claims = jwt.decode(
            token, key, [ALGORITHM], audience=platform.client_id, issuer=platform.issuer, leeway=LEEWAY,
            options={"require": _REQUIRED},
        )  # fmt: skip
    except (jwt.PyJWTError, UnknownKeyError) as error:
        raise RefusedLaunchError(
            f"The launch from {platform.name} is not valid: {error}. Open the link in your course again."
        ) from None
    if not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
        raise RefusedLaunchError("This launch belongs to another login. Open the link in your course again.")
    return accepted(claims, [platform])


def accepted(claims: Mapping[str, Any], platforms: Sequence[Platform]) -> Launch:
    """Returns the launch of claims whose signature was verified, such as those that a JupyterHub keeps as the
    `auth_state` of a user. Raises RefusedLaunchError if they are not of a known deployment of these platforms."""
    audience = claims.get("aud")
    listed = audience if isinstance(audience, list) else [audience]
    party = claims.get("azp", listed[0] if len(listed) == 1 else None)
    platform = find(platforms, names.text(claims, "iss"), party) if isinstance(party, str) and party else None
    if platform is None or party not in listed:
        raise RefusedLaunchError("The launch is for another tool. Ask your teacher to add this tool to the course.")
    deployment = names.text(claims, names.DEPLOYMENT)
    if deployment not in platform.deployments:
        raise RefusedLaunchError(
            f"The deployment {deployment!r} is not known here. The administrator of this server can add it to the "
            f"deployments of [{platform.name}] in platforms.toml."
        )
    if (version := names.text(claims, names.VERSION)) != names.LTI_VERSION:
        raise RefusedLaunchError(f"The launch has the version {version!r} of LTI; register the tool with 1.3.")
    kind = names.text(claims, names.MESSAGE)
    if kind not in (names.OPENS_A_LINK, names.CHOOSES_LINKS):
        raise RefusedLaunchError(f"The launch is a {kind!r}, which this tool does not offer.")
    user = names.text(claims, "sub")
    if not user:
        raise RefusedLaunchError("The launch says nothing about who you are. Sign in to your course, then try again.")
    return Launch(
        platform=platform,
        deployment=deployment,
        user=user,
        name=names.text(claims, "name"),
        roles=names.texts(claims, names.ROLES),
        course=names.text(claims, names.CONTEXT, "id"),
        course_title=names.text(claims, names.CONTEXT, "title"),
        problem=names.text(claims, names.CUSTOM, "problem"),
        line_item=names.text(claims, names.ENDPOINT, "lineitem"),
        line_items=names.text(claims, names.ENDPOINT, "lineitems"),
        memberships=names.text(claims, names.NAMES_AND_ROLES, "context_memberships_url"),
        scopes=names.texts(claims, names.ENDPOINT, "scope"),
        selection=_selection(claims) if kind == names.CHOOSES_LINKS else None,
    )


def _selection(claims: Mapping[str, Any]) -> Selection:
    settings = claims.get(names.SETTINGS)
    if not isinstance(settings, Mapping) or "ltiResourceLink" not in names.texts(settings, "accept_types"):
        raise RefusedLaunchError("Links to problems cannot be added here. Add them where your course has activities.")
    address, data = names.text(settings, "deep_link_return_url"), settings.get("data")
    if not is_safe(address):
        raise RefusedLaunchError(f"The choice cannot be sent to {address!r}, which is not an address with https://.")
    return Selection(
        return_url=address,
        data=data if isinstance(data, str) else None,
        several=settings.get("accept_multiple") is not False,
        windows="window" in names.texts(settings, "accept_presentation_document_targets"),
    )
