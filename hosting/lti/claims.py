"""The names of LTI 1.3 and LTI Advantage that others define: claims, messages, scopes, media types and roles.

https://www.imsglobal.org/spec/lti/v1p3, lti-dl/v2p0, lti-ags/v2p0, lti-nrps/v2p0 and security/v1p0.
"""

from collections.abc import Iterable, Mapping
from typing import Any

CLAIM = "https://purl.imsglobal.org/spec/lti/claim/"
DEPLOYMENT, VERSION, MESSAGE = f"{CLAIM}deployment_id", f"{CLAIM}version", f"{CLAIM}message_type"
CONTEXT, ROLES, CUSTOM = f"{CLAIM}context", f"{CLAIM}roles", f"{CLAIM}custom"
DEEP_LINKING = "https://purl.imsglobal.org/spec/lti-dl/claim/"
SETTINGS, CONTENT_ITEMS, DATA = (f"{DEEP_LINKING}{name}" for name in ("deep_linking_settings", "content_items", "data"))
ENDPOINT = "https://purl.imsglobal.org/spec/lti-ags/claim/endpoint"
NAMES_AND_ROLES = "https://purl.imsglobal.org/spec/lti-nrps/claim/namesroleservice"

LTI_VERSION = "1.3.0"
OPENS_A_LINK, CHOOSES_LINKS = "LtiResourceLinkRequest", "LtiDeepLinkingRequest"
CHOSEN_LINKS = "LtiDeepLinkingResponse"

_AGS = "https://purl.imsglobal.org/spec/lti-ags/scope/"
LINE_ITEM, LINE_ITEM_READ = f"{_AGS}lineitem", f"{_AGS}lineitem.readonly"
SCORE, RESULT_READ = f"{_AGS}score", f"{_AGS}result.readonly"
GRADE_SCOPES = (LINE_ITEM, LINE_ITEM_READ, SCORE, RESULT_READ)
MEMBERSHIP_READ = "https://purl.imsglobal.org/spec/lti-nrps/scope/contextmembership.readonly"

# Moodle compares these with the whole header.
LINE_ITEM_TYPE = "application/vnd.ims.lis.v2.lineitem+json"
LINE_ITEMS_TYPE = "application/vnd.ims.lis.v2.lineitemcontainer+json"
SCORE_TYPE = "application/vnd.ims.lis.v1.score+json"
RESULTS_TYPE = "application/vnd.ims.lis.v2.resultcontainer+json"
MEMBERS_TYPE = "application/vnd.ims.lti-nrps.v2.membershipcontainer+json"

# An extension of scores that Canvas reads and others ignore.
CANVAS_SUBMISSION = "https://canvas.instructure.com/lti/submission"

_IN_A_COURSE = "http://purl.imsglobal.org/vocab/lis/v2/membership"
_TEACHING = {"Instructor", "ContentDeveloper", "Administrator"}
_ADMINISTRATORS = ("person#Administrator", "person#SysAdmin")


def course_roles(roles: Iterable[str]) -> set[str]:
    """Returns the roles in a course by their short names. A role such as Instructor#TeachingAssistant is an Instructor.

    A role in the institution is none: who teaches elsewhere may be a learner here.
    """
    found = set[str]()
    for role in roles:
        if role.startswith(f"{_IN_A_COURSE}#"):
            found.add(role.rpartition("#")[2])
        elif role.startswith(f"{_IN_A_COURSE}/"):
            found.add(role.rpartition("/")[2].partition("#")[0])
        elif "/" not in role:
            found.add(role)
    return found


def is_learner(roles: Iterable[str]) -> bool:
    """Returns whether somebody with these roles gets marks."""
    return "Learner" in course_roles(roles)


def is_teacher(roles: Iterable[str]) -> bool:
    """Returns whether somebody with these roles may add problems to a course and see its marks."""
    listed = list(roles)
    return bool(_TEACHING & course_roles(listed)) or any(role.endswith(_ADMINISTRATORS) for role in listed)


def text(values: object, *keys: str) -> str:
    """Returns the text below these keys of nested objects; an empty text if there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values if isinstance(values, str) else ""


def texts(values: object, *keys: str) -> tuple[str, ...]:
    """Returns the texts in the list below these keys of nested objects."""
    found: Any = values
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()
