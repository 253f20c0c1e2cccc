"""A teacher picks problems, and the platform has links and columns for them."""

import html
import re
from typing import Any

import httpx2
import pytest

from grader.batch.gradebook import Assignment
from grader.course import catalog
from hosting import forms
from hosting.lti import claims as names
from tests.hosting.lti.conftest import ONE_PLATFORM, Browser, Site, fields
from tests.hosting.lti.platform import LearningPlatform

pytestmark = pytest.mark.fast

P01, P07 = (catalog.find(label).name for label in ("01", "07"))


def page(
    site: Site, browser: Browser, platform: LearningPlatform, user: str = "99", **settings: Any
) -> httpx2.Response:
    """The page that a teacher gets from the platform's button."""
    question = browser.login(platform.login(user, f"{site.address}/launch"))
    token = platform.token(platform.claims(user, question["nonce"]) | platform.choosing(**settings))
    return browser.http.post(f"{site.address}/launch", data={"state": question["state"], "id_token": token})


def choose(site: Site, browser: Browser, shown: httpx2.Response, *problems: str) -> httpx2.Response:
    values = {"ticket": fields(shown.text)["ticket"], "problem": list(problems)}
    return browser.http.post(f"{site.address}/choose", data=values)


def test_chosen_problems_become_links_with_columns(site: Site, browser: Browser, platform: LearningPlatform):
    shown = page(site, browser, platform)
    assert shown.text.count('type="checkbox"') == len(catalog.problems())
    answer = choose(site, browser, shown, P07, P01)
    address = html.unescape(re.search(r'action="([^"]+)"', answer.text)[1])
    assert browser.http.post(address, data=fields(answer.text)).text == "added"
    assert [(link["type"], link["custom"]) for link in platform.links] == [
        ("ltiResourceLink", {"problem": P01}), ("ltiResourceLink", {"problem": P07}),
    ]  # fmt: skip
    column = Assignment.of(catalog.find("01"))
    assert platform.links[0]["title"] == column.title
    assert platform.links[0]["url"] == f"{site.address}/launch?problem={P01}"
    assert platform.column(P01).values["scoreMaximum"] == column.points
    opened = browser.open(platform.login("17", platform.links[0]["url"]))
    assert opened.json() == {"user": "17"}


@pytest.mark.parametrize("targets", [["iframe"], ["iframe", "window"]])
@ONE_PLATFORM
def test_a_link_opens_in_a_window_where_the_platform_has_them(
    targets: list[str], site: Site, browser: Browser, platform: LearningPlatform
):
    shown = page(site, browser, platform, accept_presentation_document_targets=targets)
    answer = choose(site, browser, shown, P01)
    browser.http.post(f"{platform.url}/deep_linking_response", data=fields(answer.text))
    (link,) = platform.links
    assert link.get("window") == ({"targetName": "_blank"} if "window" in targets else None)


@ONE_PLATFORM
def test_only_the_platform_shows_the_page_in_a_frame_and_gets_the_choice(
    site: Site, browser: Browser, platform: LearningPlatform
):
    policy = page(site, browser, platform).headers["content-security-policy"]
    assert f"frame-ancestors {platform.url}" in policy
    assert "default-src 'none'" in policy


@ONE_PLATFORM
def test_where_there_is_room_for_one_one_is_chosen(site: Site, browser: Browser, platform: LearningPlatform):
    shown = page(site, browser, platform, accept_multiple=False)
    assert 'type="radio"' in shown.text
    assert "checkbox" not in shown.text
    assert "only one where your course has room for one" in choose(site, browser, shown, P01, P07).text
    assert choose(site, browser, shown, P01).status_code == 200


@pytest.mark.parametrize(
    ("user", "settings", "sentence"),
    [
        ("17", {}, "Only teachers of a course can add problems to it."),
        ("99", {"accept_types": ["file"]}, "Links to problems cannot be added here."),
        ("99", {"deep_link_return_url": "javascript:alert(1)"}, "which is not an address with https://"),
    ],
)
@ONE_PLATFORM
def test_a_request_that_cannot_be_met_is_refused(
    user: str, settings: dict[str, Any], sentence: str, site: Site, browser: Browser, platform: LearningPlatform
):
    answer = page(site, browser, platform, user, **settings)
    assert answer.status_code == 403
    assert sentence in answer.text


@pytest.mark.parametrize("problems", [[], ["p99_none"], [P01, "../x"]])
@ONE_PLATFORM
def test_a_problem_that_does_not_exist_is_refused(
    problems: list[str], site: Site, browser: Browser, platform: LearningPlatform
):
    answer = choose(site, browser, page(site, browser, platform), *problems)
    assert (answer.status_code, "Choose at least one problem" in answer.text) == (403, True)


@ONE_PLATFORM
def test_a_ticket_is_the_tools_own_and_for_this_only(site: Site, browser: Browser, platform: LearningPlatform):
    state = browser.login(platform.login("99", f"{site.address}/launch"))["state"]
    for ticket in ("", "a.b.c", state):
        answer = browser.http.post(f"{site.address}/choose", data={"ticket": ticket, "problem": P01})
        assert (answer.status_code, "too old" in answer.text) == (403, True)


@ONE_PLATFORM
def test_a_form_that_is_too_large_is_an_empty_one(
    site: Site, browser: Browser, platform: LearningPlatform, monkeypatch: pytest.MonkeyPatch
):
    shown = page(site, browser, platform)
    monkeypatch.setattr(forms, "_LARGEST", 100)
    assert choose(site, browser, shown, P01).status_code == 403


@pytest.mark.parametrize(
    ("roles", "teaches", "learns"),
    [
        (["Instructor"], True, False),  # Moodle's list of members
        (["http://purl.imsglobal.org/vocab/lis/v2/membership#Learner"], False, True),
        (["http://purl.imsglobal.org/vocab/lis/v2/membership/Instructor#TeachingAssistant"], True, False),
        (["http://purl.imsglobal.org/vocab/lis/v2/institution/person#Administrator"], True, False),
        (["http://purl.imsglobal.org/vocab/lis/v2/institution/person#Instructor"], False, False),
        (["http://purl.imsglobal.org/vocab/lis/v2/institution/person#Instructor", "Learner"], False, True),
        (["http://purl.imsglobal.org/vocab/lis/v2/membership#Mentor"], False, False),
    ],
)
def test_who_teaches_a_course_and_who_learns_there(roles: list[str], teaches: bool, learns: bool):
    assert (names.is_teacher(roles), names.is_learner(roles)) == (teaches, learns)
