"""A real hub whose learners come from a course, in browsers: from a link of the platform to a mark in its gradebook."""

import importlib.util
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.conftest import ROOT
from tests.hosting import test_hub
from tests.hosting.conftest import gradebook, wait_until
from tests.hosting.lti.conftest import folder_for
from tests.hosting.lti.platform import LearningPlatform, User
from tests.hosting.test_hub import RIGHT, SECONDS, Hub, contexts, running  # noqa: F401  a fixture
from tests.studio.conftest import browser  # noqa: F401  a fixture

pytestmark = [
    *test_hub.pytestmark,
    pytest.mark.skipif(not importlib.util.find_spec("ltiauthenticator"), reason="needs jupyterhub-ltiauthenticator"),
]

CONFIG = f"load_subconfig({str(ROOT / 'hosting' / 'jupyterhub_lti_config.py')!r})\n"


@pytest.fixture
def hub(platform: LearningPlatform) -> Iterator[Hub]:
    """A hub that the platform knows."""
    platform.users["teacher"] = User("teacher", "Teacher", roles=["Instructor"])

    def prepare(hub: Hub) -> None:
        lti = hub.hub_folder / "class" / "lti"
        lti.parent.mkdir(parents=True)
        folder_for(lti, platform)
        address = f"{hub.origin}/services/hand-in/lti"
        platform.login_address = f"{address}/login"
        platform.redirect_addresses = [f"{address}/launch", f"{hub.origin}/hub/lti13/oauth_callback"]

    with running(CONFIG, prepare) as hub:
        yield hub


def act(page: Page, button: str, **fields: str) -> None:
    """Fills in a form of the page for teachers, and sends it."""
    form = page.locator("form").filter(has=page.get_by_role("button", name=button, exact=True))
    for name, text in fields.items():
        field = form.locator(f"[name={name}]")
        (field.select_option if name == "problem" else field.fill)(text)
    form.get_by_role("button").click()


def test_from_a_link_in_the_course_to_a_mark_in_its_gradebook(
    hub: Hub,
    platform: LearningPlatform,
    browser: Browser,  # noqa: F811
    contexts: list[BrowserContext],  # noqa: F811
):
    link = f"{hub.origin}/hub/user-redirect/gpt-kata/problems/01"
    for context, user in zip(contexts, ("ada", "bob"), strict=True):
        page = context.new_page()
        page.goto(platform.login(user, link))
        page.wait_for_url(f"{hub.origin}/user/{user}/gpt-kata/~*/problems/01", timeout=SECONDS * 1000)
        page.locator("#editor .cm-content").fill(f"{RIGHT}\nmine = '{user}'\n")
        page.get_by_role("button", name="Hand in").click()
        expect(page.locator("#handed-in p")).to_contain_text("PASS, 6 of 6 points. This attempt counts.")
    wait_until(lambda: gradebook(platform) == {"ada": 6, "bob": 6}, SECONDS)
    answer = contexts[0].pages[0].goto(f"{hub.origin}/services/hand-in/")
    assert answer is not None
    assert answer.status == 403
    assert "'ada' is not one of this hub's HUB_TEACHERS" in contexts[0].pages[0].content()
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(platform.login("teacher", f"{hub.origin}/hub/home"))
        page.goto(f"{hub.origin}/services/hand-in/")
        expect(page.get_by_text("2 sent to the course, 0 not.")).to_be_visible()
        # A fault of the grader, as far as the results can tell.
        with closing(sqlite3.connect(hub.hub_folder / "class" / "results" / "results.sqlite")) as database, database:
            for table, column in (("attempts", "score"), ("counted", "adjusted"), ("marks", "mark")):
                database.execute(f"update {table} set {column} = 2 where learner = 'bob'")
        act(page, "Send marks")
        wait_until(lambda: gradebook(platform) == {"ada": 6, "bob": 2}, SECONDS)
        act(page, "Grade again", learner="bob", problem="01", because="a fault of the course")
        expect(page.get_by_role("status")).to_have_text("bob: problem 01 is graded again.")
        wait_until(lambda: gradebook(platform) == {"ada": 6, "bob": 6}, SECONDS)
        # Both are late, and one is ill.
        (hub.hub_folder / "class" / "deadlines.yml").write_text("due: 2020-01-01\npenalty: 10%\n")
        (hub.hub_folder / "class" / "deadlines.yml").chmod(0o644)
        act(page, "Give more time", learner="ada", problems="01", time="9999 weeks", because="ill")
        expect(page.get_by_role("status")).to_have_text("ada has 9999 weeks more for problem 01.")
        wait_until(lambda: gradebook(platform) == {"ada": 6, "bob": 0}, SECONDS)
        with page.expect_download() as download:
            page.get_by_role("link", name="canvas.csv").click()
        assert "01" in download.value.path().read_text(encoding="utf-8-sig")
        page.get_by_role("link", name="summary.html").click()
        expect(page.get_by_text("bob").first).to_be_visible()
    # A link to another one's server leads bob nowhere, although he comes from the course.
    page = contexts[1].pages[0]
    page.goto(platform.login("bob", f"{hub.origin}/user/ada/gpt-kata/problems/01"))
    expect(page.get_by_text(re.compile("^40[34] : "))).to_be_visible()
    assert page.locator("#editor").count() == 0


def test_a_launch_of_another_deployment_gets_nobody_in(hub: Hub, platform: LearningPlatform, browser: Browser):  # noqa: F811
    platform.deployment = "of another school"
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(platform.login("ada", f"{hub.origin}/hub/home"))
        expect(page.get_by_text("The deployment 'of another school' is not known here.")).to_be_visible()
        assert not [cookie for cookie in context.cookies() if cookie["name"] == "jupyterhub-hub-login"]
