"""Logins and launches, as Canvas and Moodle send them, and as attackers do."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from commandline.errors import UsageError
from hosting.lti import claims as names
from hosting.lti import keys
from hosting.lti.launch import RefusedLaunchError, accepted
from tests.hosting.lti import platform as platforms
from tests.hosting.lti.conftest import HUB, ONE_PLATFORM, PATH, Browser, Site, folder_for, offline, parsed, served
from tests.hosting.lti.platform import COURSE, LearningPlatform

pytestmark = pytest.mark.fast

AGAIN = "Open the link in your course again."


def launch(site: Site, browser: Browser, question: dict[str, str], token: str, **more: str) -> httpx2.Response:
    """Posts an id_token in the place of the platform's."""
    values = {"state": question["state"], "id_token": token} | more
    return browser.http.post(f"{site.port}/launch", data=values)


def require_refused(answer: httpx2.Response, site: Site, sentence: str) -> None:
    assert answer.status_code == 403
    assert sentence in answer.text.replace("&#39;", "'")
    assert site.launches == []
    assert site.tool.enrollments.courses() == []


def test_a_click_in_the_course_opens_the_problem(site: Site, browser: Browser, platform: LearningPlatform):
    answer = browser.open(platform.login("17", f"{site.address}/launch"))
    assert parsed(answer) == {"user": "17"}
    (launch,) = site.launches
    assert (launch.platform.name, launch.user, launch.name) == (platform.system, "17", "Ada Lovelace")
    assert (launch.course, launch.course_title, launch.problem) == (COURSE, "Language models", "p01_token_embedding")
    assert launch.is_learner
    assert not launch.is_teacher
    assert site.tool.enrollments.courses()[0].line_items == platform.line_items(COURSE)


@ONE_PLATFORM
def test_a_login_may_be_posted_and_leave_out_the_client(site: Site, browser: Browser, platform: LearningPlatform):
    address, _, query = platform.login("17", f"{site.address}/launch").partition("?")
    values = {name: value for name, value in parse_qsl(query) if name != "client_id"}
    answer = browser.http.post(address, data=values)
    assert parsed(browser.open(answer.headers["location"])) == {"user": "17"}


def test_the_cookie_reaches_a_frame_of_the_platform_over_tls_and_no_script(tmp_path: Path, canvas: LearningPlatform):
    folder = folder_for(tmp_path / "lti", canvas)
    with served(folder, canvas, public=f"https://hub.example.edu{PATH}") as site, Browser().http as http:
        cookie = http.get(canvas.login("17", f"{site.address}/launch")).headers["set-cookie"]
    assert "; Path=/services/hand-in/lti; Max-Age=600; HttpOnly; SameSite=None; Secure; Partitioned" in cookie


# Each makes an id_token for a login of user 17, from the claims that would be right.
def other_issuer(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {"iss": "https://lms.example.com"})


def other_tool(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {"aud": "another-client", "azp": "another-client"})


def other_party(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {"aud": [platform.client_id, "another-client"], "azp": "another-client"})


def no_party_of_several(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    claims.pop("azp", None)
    return platform.token(claims | {"aud": [platform.client_id, "another-client"]})


def expired(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {"iat": int(time.time()) - 120, "exp": int(time.time()) - 60})


def of_the_future(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {"iat": int(time.time()) + 600, "exp": int(time.time()) + 900})


def endless(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token({name: value for name, value in claims.items() if name != "exp"})


def other_nonce(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {"nonce": "n" * 43})


def other_deployment(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {names.DEPLOYMENT: "of another school"})


def old_version(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {names.VERSION: "1.1"})


def nobody(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return platform.token(claims | {"sub": ""})


def swapped_user(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    """The signature of one launch below the user of another."""
    header, payload, signature = platform.token(claims).split(".")
    other = json.loads(base64.urlsafe_b64decode(payload + "==")) | {"sub": "18"}
    return ".".join([header, encoded(json.dumps(other).encode()), signature])


def unsigned(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return jwt.encode(claims, "", "none", {"kid": platform.key_names[0]})


def signed_with_the_public_key(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    """HS256, whose secret is the platform's public key as everybody can read it."""
    public = platforms.key(platform.key_names[0]).public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    header = encoded(json.dumps({"alg": "HS256", "typ": "JWT", "kid": platform.key_names[0]}).encode())
    text = f"{header}.{encoded(json.dumps(claims).encode())}"
    return f"{text}.{encoded(hmac.digest(pem, text.encode(), hashlib.sha256))}"


def signed_by_another(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    """The key of an attacker under the name of the platform's."""
    return jwt.encode(claims, platforms.key("attacker's"), "RS256", {"kid": platform.key_names[0]})


def with_its_own_key(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    """A token that names the place of its key."""
    header = {"kid": "attacker's", "jku": "http://127.0.0.1:1/keys"}
    return jwt.encode(claims, platforms.key("attacker's"), "RS256", header)


def not_a_token(platform: LearningPlatform, claims: dict[str, Any]) -> str:
    return "a.b"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@pytest.mark.parametrize(
    ("forge", "sentence"),
    [
        (other_issuer, "Invalid issuer"),
        (other_tool, "Audience doesn't match"),
        (other_party, "The launch is for another tool."),
        (no_party_of_several, "The launch is for another tool."),
        (expired, "Signature has expired"),
        (of_the_future, "The token is not yet valid"),
        (endless, "missing the &#34;exp&#34; claim"),
        (other_nonce, "This launch belongs to another login."),
        (other_deployment, "deployments of [canvas] in platforms.toml"),
        (old_version, "register the tool with 1.3"),
        (nobody, "says nothing about who you are"),
        (swapped_user, "Signature verification failed"),
        (unsigned, "The specified alg value is not allowed"),
        (signed_with_the_public_key, "The specified alg value is not allowed"),
        (signed_by_another, "Signature verification failed"),
        (with_its_own_key, "/keys has no key"),
        (not_a_token, "Not enough segments"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_forged_launch_is_refused(forge: Any, sentence: str, shared: tuple[Site, LearningPlatform], browser: Browser):
    site, canvas = shared
    question = browser.login(canvas.login("17", f"{site.address}/launch"))
    answer = launch(site, browser, question, forge(canvas, canvas.claims("17", question["nonce"])))
    require_refused(answer, site, sentence)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, LearningPlatform]]:
    """One site for all forgeries, none of which leaves anything there."""
    folder = tmp_path_factory.mktemp("lti")
    with platforms.running("canvas") as canvas, served(folder_for(folder, canvas), canvas) as site:
        yield site, canvas


def test_a_launch_is_accepted_once(site: Site, browser: Browser, platform: LearningPlatform):
    question = browser.login(platform.login("17", f"{site.address}/launch"))
    token = platform.token(platform.claims("17", question["nonce"]))
    assert parsed(launch(site, browser, question, token)) == {"user": "17"}
    assert "was used before" in launch(site, browser, question, token).text


@ONE_PLATFORM
def test_an_old_launch_is_refused_in_a_new_login(site: Site, browser: Browser, platform: LearningPlatform):
    first = browser.login(platform.login("17", f"{site.address}/launch"))
    token = platform.token(platform.claims("17", first["nonce"]))
    assert parsed(launch(site, browser, first, token)) == {"user": "17"}
    second = browser.login(platform.login("17", f"{site.address}/launch"))
    assert "belongs to another login" in launch(site, browser, second, token).text


def test_a_used_launch_is_refused_after_a_restart(tmp_path: Path, canvas: LearningPlatform, browser: Browser):
    folder, public = folder_for(tmp_path / "lti", canvas), f"http://localhost{PATH}"
    with served(folder, canvas, public=public) as site:
        question = browser.login(canvas.login("17", f"{site.address}/launch"))
        token = canvas.token(canvas.claims("17", question["nonce"]))
        assert parsed(launch(site, browser, question, token)) == {"user": "17"}
    with served(folder, canvas, public=public) as site:
        assert "was used before" in launch(site, browser, question, token).text


@ONE_PLATFORM
def test_nobody_gets_another_signed_in_as_themselves(site: Site, browser: Browser, platform: LearningPlatform):
    """An attacker's own launch, in the browser of a victim, who did not begin this login."""
    attacker = Browser()
    question = attacker.login(platform.login("18", f"{site.address}/launch"))
    token = platform.token(platform.claims("18", question["nonce"]))
    require_refused(launch(site, browser, question, token), site, "did not send this tool's cookie")
    own = browser.login(platform.login("17", f"{site.address}/launch"))
    require_refused(launch(site, browser, own, token), site, "belongs to another login")
    attacker.http.close()


def test_a_state_of_another_platform_or_of_nobody_is_refused(
    tmp_path: Path, canvas: LearningPlatform, moodle: LearningPlatform, browser: Browser
):
    with served(folder_for(tmp_path / "lti", canvas, moodle), canvas, moodle) as site:
        question = browser.login(canvas.login("17", f"{site.address}/launch"))
        token = moodle.token(moodle.claims("17", question["nonce"]))
        require_refused(launch(site, browser, question, token), site, "Invalid issuer")
        state = question["state"][:-8] + "AAAAAAAA"
        answer = launch(
            site, browser, question | {"state": state}, canvas.token(canvas.claims("17", question["nonce"]))
        )
        require_refused(answer, site, "This login is too old.")


def test_the_same_number_at_two_platforms_is_two_people(
    tmp_path: Path, canvas: LearningPlatform, moodle: LearningPlatform, browser: Browser
):
    with served(folder_for(tmp_path / "lti", canvas, moodle), canvas, moodle) as site:
        assert parsed(browser.open(canvas.login("17", f"{site.address}/launch"))) == {"user": "17"}
        with pytest.raises(RefusedLaunchError, match="'17' belongs to another account of moodle"):
            site.tool.enrollments.remember(accepted(moodle.claims("17", "n"), site.tool.platforms), "17")


def test_a_learner_and_a_user_stay_the_same(tmp_path: Path, canvas: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", canvas))
    ada, bob = (accepted(canvas.claims(user, "n"), tool.platforms) for user in ("17", "18"))
    tool.enrollments.remember(ada, "ada")
    tool.enrollments.remember(ada, "ada")
    with pytest.raises(RefusedLaunchError, match="'ada' belongs to another account"):
        tool.enrollments.remember(bob, "ada")
    with pytest.raises(RefusedLaunchError, match="'bob' belongs to another account"):
        tool.enrollments.remember(ada, "bob")
    assert tool.enrollments.learners("canvas") == {"17": "ada"}
    tool.close()


@ONE_PLATFORM
def test_a_platform_may_replace_its_keys(
    site: Site, browser: Browser, platform: LearningPlatform, monkeypatch: pytest.MonkeyPatch
):
    target = f"{site.address}/launch"
    assert parsed(browser.open(platform.login("17", target))) == {"user": "17"}
    platform.key_names.append("second")
    assert "has no key" in browser.open(platform.login("17", target)).text  # it was read a moment ago
    monkeypatch.setattr(keys, "_PAUSE", 0.0)
    assert parsed(browser.open(platform.login("17", target))) == {"user": "17"}
    platform.key_names = ["third"]
    assert parsed(browser.open(platform.login("17", target))) == {"user": "17"}
    question = browser.login(platform.login("17", target))
    withdrawn = platform.token(platform.claims("17", question["nonce"]), "first")
    assert "has no key" in launch(site, browser, question, withdrawn).text
    assert platform.asked.count("GET /keys") == 4


@ONE_PLATFORM
def test_a_withdrawn_key_counts_for_an_hour_at_most(
    site: Site, browser: Browser, platform: LearningPlatform, monkeypatch: pytest.MonkeyPatch
):
    target = f"{site.address}/launch"
    assert parsed(browser.open(platform.login("17", target))) == {"user": "17"}
    question = browser.login(platform.login("17", target))
    token = platform.token(platform.claims("17", question["nonce"]))
    platform.key_names = ["second"]
    monkeypatch.setattr(keys, "_FRESH", 0.0)  # an hour later
    assert "has no key" in launch(site, browser, question, token).text


@ONE_PLATFORM
def test_a_platform_whose_keys_cannot_be_read_signs_nobody_in(site: Site, browser: Browser, platform: LearningPlatform):
    question = browser.login(platform.login("17", f"{site.address}/launch"))
    token = platform.token(platform.claims("17", question["nonce"]))
    platform.public_keys = lambda: {"error": "down"}
    require_refused(launch(site, browser, question, token), site, "/keys cannot be read (KeyError)")


@ONE_PLATFORM
def test_a_refusal_of_the_platform_is_shown(site: Site, browser: Browser, platform: LearningPlatform):
    question = browser.login(platform.login("17", f"{site.address}/launch"))
    answer = launch(site, browser, question, "", error="login_required", error_description="<b>Sign in</b>")
    require_refused(answer, site, "Your course did not sign you in: &lt;b&gt;Sign in&lt;/b&gt;.")


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"iss": "https://lms.example.com"}, "'https://lms.example.com' with the client id 'client-of-canvas' is not"),
        ({"client_id": "another"}, "the client id 'another' is not registered here."),
        (
            {"target_link_uri": "https://evil.example.com/"},
            "'https://evil.example.com/' is not an address of this tool.",
        ),
        ({"login_hint": ""}, "Open it from a link in your course."),
    ],
)
def test_a_login_of_a_stranger_goes_nowhere(
    changed: dict[str, str], sentence: str, shared: tuple[Site, LearningPlatform], browser: Browser
):
    site, canvas = shared
    require_refused(browser.http.get(canvas.login("17", f"{site.address}/launch", **changed)), site, sentence)


def test_logins_for_the_hub_go_to_the_hub(tmp_path: Path, canvas: LearningPlatform, browser: Browser):
    """With all that the platform sent, so that one registration serves both."""
    folder = folder_for(tmp_path / "lti", canvas)
    with served(folder, canvas, hub_login=f"{HUB}/lti13/oauth_login") as site:
        target = f"{HUB}/user-redirect/gpt-kata/problem/01"
        login = canvas.login("17", target)
        answer = browser.http.get(login)
        address, _, query = answer.headers["location"].partition("?")
        assert (answer.status_code, address) == (302, f"{HUB}/lti13/oauth_login")
        assert parse_qsl(query) == parse_qsl(urlsplit(login).query)
        assert parsed(browser.open(canvas.login("17", f"{site.address}/launch"))) == {"user": "17"}
        neighbor = f"{site.address}-of-another/launch"
        assert browser.http.get(canvas.login("17", neighbor)).headers["location"].startswith(f"{HUB}/")


def test_claims_that_the_hub_verified_are_a_launch(tmp_path: Path, canvas: LearningPlatform):
    """JupyterHub keeps them as the `auth_state` of a user."""
    tool = offline(folder_for(tmp_path / "lti", canvas))
    claims = json.loads(json.dumps(canvas.claims("17", "n")))
    tool.enrollments.remember(accepted(claims, tool.platforms), "ada")
    assert tool.enrollments.user("ada") == "17"
    assert len(tool.enrollments.courses_of("ada")) == 1
    with pytest.raises(RefusedLaunchError, match="add it to the deployments"):
        accepted(claims | {names.DEPLOYMENT: "another"}, tool.platforms)
    with pytest.raises(RefusedLaunchError, match="for another tool"):
        accepted(claims | {"aud": "another-client"}, tool.platforms)
    tool.close()


def test_a_launch_without_services_keeps_those_that_are_known(tmp_path: Path, canvas: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", canvas))
    full = canvas.claims("17", "n")
    tool.enrollments.remember(accepted(full, tool.platforms), "ada")
    (known,) = tool.enrollments.courses()
    del full[names.ENDPOINT], full[names.NAMES_AND_ROLES]
    tool.enrollments.remember(accepted(full, tool.platforms), "ada")
    assert tool.enrollments.courses() == [known]
    tool.close()


def test_a_teacher_gets_no_marks(tmp_path: Path, canvas: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", canvas))
    tool.enrollments.remember(accepted(canvas.claims("99", "n"), tool.platforms), "teacher")
    assert tool.enrollments.courses_of("teacher") == []
    assert len(tool.enrollments.courses()) == 1
    tool.close()


def test_one_process_has_the_folder(tmp_path: Path, canvas: LearningPlatform):
    tool = offline(folder_for(tmp_path / "lti", canvas))
    with pytest.raises(UsageError, match="used by another process; stop it first"):
        offline(tmp_path / "lti")
    tool.close()
    offline(tmp_path / "lti").close()
