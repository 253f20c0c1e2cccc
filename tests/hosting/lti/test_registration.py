"""What somebody writes, and what the tool shows, to register it with a platform."""

import stat
from pathlib import Path

import jwt
import pytest

from commandline.errors import UsageError
from hosting.lti import claims as names
from hosting.lti import registration
from hosting.lti.keys import Keys
from tests.conftest import ROOT
from tests.hosting.lti.conftest import ONE_PLATFORM, PATH, Browser, Site
from tests.hosting.lti.platform import LearningPlatform

pytestmark = pytest.mark.fast

GOOD = """[canvas]
issuer = "https://canvas.instructure.com"
client_id = "10000000000042"
deployments = ["42:8865"]
authorization = "https://sso.canvaslms.com/api/lti/authorize_redirect"
token = "https://sso.canvaslms.com/login/oauth2/token"
keys = "https://sso.canvaslms.com/api/lti/security/jwks"
"""


def test_the_example_of_the_document_is_read(tmp_path: Path):
    text = (ROOT / "docs" / "lti.md").read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    (tmp_path / "platforms.toml").write_text(text)
    canvas, moodle = registration.read(tmp_path / "platforms.toml")
    assert (canvas.name, moodle.name) == ("canvas", "moodle")
    assert registration.find([canvas, moodle], canvas.issuer, canvas.client_id) == canvas
    assert registration.find([canvas, moodle], moodle.issuer, "") == moodle
    assert registration.find([canvas, moodle], moodle.issuer, canvas.client_id) is None


def test_an_empty_file_is_that_of_a_tool_before_its_registration(tmp_path: Path):
    (tmp_path / "platforms.toml").touch()
    assert registration.read(tmp_path / "platforms.toml") == []


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[canvas]", "[canvas", "are not TOML: "),
        ("[canvas]\n", "", "issuer in .* is outside of a table; begin each"),
        ('client_id = "10000000000042"\n', "", "has no client_id; the platform shows it"),
        ("client_id", "clientid", "has an unknown key 'clientid'; did you mean 'client_id'?"),
        ("client_id", "zzz", "has an unknown key 'zzz'\\."),
        ('["42:8865"]', '"42:8865"', 'is not a list of texts; write deployments = \\["1"\\]'),
        ('"10000000000042"', "10000000000042", "client_id in .* is not a text; put it into quotation marks"),
        ('token = "https', 'token = "http', "token in .* is not an address with https://: http://sso"),
        ('token = "https://sso', 'token = "https://[', "token in .* is not an address with https://"),
        (GOOD, GOOD + GOOD.replace("[canvas]", "[again]"), "have the same issuer and client_id in \\[canvas\\] and"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(old: str, new: str, sentence: str, tmp_path: Path):
    file = tmp_path / "platforms.toml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError, match=sentence):
        registration.read(file)


def test_a_file_that_is_missing_is_named(tmp_path: Path):
    with pytest.raises(UsageError, match=r"platforms\.toml cannot be read: No such file"):
        registration.read(tmp_path / "platforms.toml")


def test_the_key_is_made_once_and_only_its_owner_reads_it(tmp_path: Path):
    file = tmp_path / "new" / "key.pem"
    first = Keys(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["key.pem"]
    assert Keys(file).public == first.public
    assert {"d", "p", "q"}.isdisjoint(first.public)
    token = first.sign({"aud": "somebody"}, 60)
    assert jwt.get_unverified_header(token) == {"alg": "RS256", "typ": "JWT", "kid": first.public["kid"]}
    assert jwt.decode(token, jwt.PyJWK(first.public), ["RS256"], audience="somebody")["aud"] == "somebody"


def test_a_key_that_others_can_read_is_refused(tmp_path: Path):
    file = tmp_path / "key.pem"
    Keys(file)
    file.chmod(0o640)
    with pytest.raises(UsageError, match=r"Other users can read the key .*key.pem; make a new one, or run `chmod 600"):
        Keys(file)


def test_a_file_that_is_no_key_is_refused(tmp_path: Path):
    file = tmp_path / "key.pem"
    file.touch(0o600)
    file.write_text("not a key")
    with pytest.raises(UsageError, match=r"key.pem is not an RSA key; delete it, and register the new key"):
        Keys(file)


@ONE_PLATFORM
def test_the_tool_shows_its_key_and_the_settings_for_canvas(site: Site, browser: Browser, platform: LearningPlatform):
    assert browser.http.get(f"{site.address}/keys").json() == platform.tool_keys
    settings = browser.http.get(f"{site.address}/canvas.json").json()
    assert settings["oidc_initiation_url"] == f"{site.address}/login"
    assert settings["public_jwk_url"] == f"{site.address}/keys"
    assert set(settings["scopes"]) == {*names.GRADE_SCOPES, names.MEMBERSHIP_READ}
    placements = settings["extensions"][0]["settings"]["placements"]
    assert {placement["message_type"] for placement in placements} == {names.CHOOSES_LINKS}
    assert {placement["target_link_uri"] for placement in placements} == {f"{site.address}/launch"}
    assert site.address.endswith(PATH)
