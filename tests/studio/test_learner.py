"""What a learner does in the studio, in a real browser."""

import re

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from grader.course import catalog
from tests.conftest import NO_SHIFT, ROOT, misconception_name
from tests.studio.conftest import Server, axe, enter, read_on

NAME = "p07_next_token_loss"
RIGHT = (ROOT / "solutions" / f"{NAME}.py").read_text()
WRONG = RIGHT.replace("logits[:-1], token_ids[1:]", NO_SHIFT)


@pytest.fixture
def problem(page: Page, studio: Server) -> Page:
    """The page of problem 07, opened from the map. Its file is the reference."""
    studio.file(NAME).write_text(RIGHT)
    page.goto(studio.base)
    page.get_by_role("link", name="Next-token loss").first.click()
    expect(editor(page)).to_contain_text("def next_token_loss")
    return page


def editor(page: Page):
    return page.locator("#editor .cm-content")


def write(page: Page, text: str) -> None:
    editor(page).click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(text)


def graded(page: Page, verdict: str) -> None:
    expect(page.locator("#headline")).to_have_text(re.compile(f"^{verdict}"))


def test_from_a_wrong_idea_to_a_pass(problem: Page, studio: Server):
    page = problem
    read_on(page)
    expect(page.locator("math").first).to_be_visible()
    write(page, WRONG)
    expect(page.locator("#saved")).to_have_text("unsaved")
    page.keyboard.press("Control+Enter")
    graded(page, "FAIL, 1 of 6 points")
    assert studio.file(NAME).read_text() == WRONG
    expect(page.locator("#advice")).to_contain_text(misconception_name("07", NO_SHIFT))
    expect(page.locator("#checks .failed")).to_have_count(5)
    expect(page.locator("#cause")).to_contain_text("This idea gives exactly your numbers")
    expect(page.locator("#report table.grid").first).to_be_attached()
    # The file that was there before may have passed just now, and a first pass opens the play.
    page.get_by_role("tab", name="Verdict").click()
    expect(page.locator("#cause .cause")).to_be_in_viewport(ratio=1)  # without scrolling
    expect(page.locator("#checks .failed").first).to_be_in_viewport(ratio=1)

    page.get_by_role("button", name="Show hint 1 of").click()
    expect(page.locator("#hints li")).to_have_count(1)

    write(page, RIGHT)
    page.keyboard.press("Control+s")
    graded(page, "PASS, 6 of 6 points")
    page.get_by_role("tab", name="Reference").click()
    expect(page.locator("#reference .cm-content")).to_contain_text("softmax_cross_entropy")
    expect(page.locator("#same-code")).to_be_visible()
    expect(page.locator("#why")).to_have_text(catalog.why(catalog.find("07")).replace("`", ""))

    page.get_by_role("tab", name="History").click()
    page.locator("#attempts button", has_text="FAIL").first.click()
    expect(page.locator("#compared .cm-content")).to_contain_text("token_ids[:-1]")
    page.get_by_role("button", name="Restore this attempt").click()
    expect(editor(page)).to_contain_text("logits[:-1], token_ids[:-1]")
    expect(page.locator("#saved")).to_have_text("unsaved")
    assert studio.file(NAME).read_text() == RIGHT
    page.keyboard.press("Control+z")  # a restored text is one more edit
    expect(page.locator("#saved")).to_have_text("saved")
    page.goto(studio.base)
    expect(page.get_by_role("link", name="Next-token loss")).to_contain_text("passed")


def test_a_cold_page_is_switched_to_the_whole_and_back(page: Page, studio: Server):
    page.goto(f"{studio.base}/problems/62")
    pitfalls, hint = page.locator("#page h2", has_text="Pitfalls"), page.locator("#hint")
    expect(page.locator("#page h2", has_text="Formulas")).to_be_visible()
    expect(pitfalls).to_have_count(0)
    expect(hint).to_be_hidden()
    page.get_by_role("link", name="The whole page").click()
    expect(pitfalls).to_have_count(1)
    page.get_by_role("link", name="Less on this page").click()
    expect(pitfalls).to_have_count(0)


def test_a_problem_is_passed_by_its_core(page: Page, studio: Server):
    """The file becomes the reference without its core; what was there is kept."""
    name = "p03_causal_mha"
    studio.file(name).write_text("mine = 1\n")
    page.goto(f"{studio.base}/problems/03")
    expect(editor(page)).to_contain_text("mine = 1")
    page.get_by_role("button", name="Write only its core, 10 lines").click()
    expect(editor(page)).to_contain_text("Write this part again: 10 lines in the reference.")
    expect(editor(page)).to_contain_text("self.q_proj")
    expect(page.get_by_text("Your file is kept as p03_causal_mha.1.py.")).to_be_attached()
    assert studio.file(f"{name}.1").read_text() == "mine = 1\n"
    graded(page, "FAIL, 1 of 7 points")  # its parameters are there
    write(page, (ROOT / "solutions" / f"{name}.py").read_text())
    page.keyboard.press("Control+s")
    graded(page, "PASS")
    page.goto(f"{studio.base}/problems/03")
    expect(page.locator("#hints-title")).to_be_attached()
    expect(page.locator("#test-out")).to_have_count(0)
    page.goto(studio.base)
    expect(page.locator('[data-label="03"]')).to_contain_text("passed by its core")


def test_the_comparison_with_the_reference_is_about_code(problem: Page, studio: Server):
    page = problem
    page.set_viewport_size({"width": 1440, "height": 900})
    own = RIGHT.replace("import optax\n", "import math\nimport optax\n").replace("    return", "    # mine\n    return")
    own = own.replace('"""Problem 07', '"""My loss').replace("jnp.sum(losses * counts)", "(losses * counts).sum()")
    write(page, own)
    page.keyboard.press("Control+s")
    graded(page, "PASS, 6 of 6 points")
    page.get_by_role("tab", name="Reference").click()
    compared = page.locator("#reference")
    expect(compared.locator(".cm-changedLine, .cm-insertedLine")).not_to_have_count(0)
    expect(page.locator("#same-code")).to_be_hidden()
    for words in ("My loss", "import", "# mine", '"""'):
        expect(compared).not_to_contain_text(words)
    assert compared.locator(".cm-scroller").evaluate("box => box.scrollWidth <= box.clientWidth"), "lines are wrapped"
    page.get_by_label("Docstrings, comments and imports, too").check()
    for words in ("My loss", "import math", "# mine"):
        expect(compared).to_contain_text(words)


def test_the_reference_stays_open_to_those_who_have_passed(problem: Page):
    page, reference = problem, problem.get_by_role("tab", name="Reference")
    for text, verdict in ((f"{RIGHT}\n# passes\n", "PASS"), (f"{WRONG}\n# fails\n", "FAIL")):
        write(page, text)
        page.keyboard.press("Control+s")
        graded(page, verdict)
        page.get_by_role("tab", name="Verdict").click()
        expect(reference).to_be_visible()
    page.reload()
    expect(reference).to_be_visible()


def test_what_is_saved_while_a_save_is_on_its_way_is_saved_after_it(problem: Page, studio: Server):
    page, held = problem, list[Route]()

    def hold(route: Route) -> None:
        is_first_save = route.request.method == "PUT" and not held
        held.append(route) if is_first_save else route.continue_()

    page.route("**/problems/07/file", hold)
    for text in (f"{RIGHT}\n# first\n", f"{WRONG}\n# second\n"):
        write(page, text)
        page.keyboard.press("Control+s")
        expect(page.locator("#saved")).to_have_text("saving")
    held[0].continue_()
    graded(page, "FAIL")
    expect(page.locator("#saved")).to_have_text("saved")
    assert studio.file(NAME).read_text() == f"{WRONG}\n# second\n"


def test_a_failing_case_can_be_tried(problem: Page, studio: Server):
    page, script = problem, studio.workspace / "try_p07.py"
    write(page, WRONG)
    page.keyboard.press("Control+Enter")
    graded(page, "FAIL")
    page.get_by_role("button", name="Try this case").click()
    expect(page.get_by_role("tab", name=script.name)).to_be_focused()
    expect(page.locator("#trial-script .cm-content")).to_contain_text("from p07_next_token_loss import next_token_loss")
    assert "on which it fails the check" in script.read_text()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#trial-said")).to_have_text("It ended.")
    expect(page.locator("#trial-printed")).to_contain_text("expected")

    script.write_text("print('\\x1b[31m<b>edited</b>', flush=True)\nopen('ran', 'w')\nwhile True:\n    pass\n")
    page.get_by_role("button", name="Run").click()
    while not (studio.workspace / "ran").exists():
        page.wait_for_timeout(50)
    page.locator("#trial-run").click()
    expect(page.locator("#trial-said")).to_have_text("Stopped.")
    expect(page.locator("#trial-script .cm-content")).to_contain_text("while True")
    expect(page.locator("#trial-printed")).to_contain_text("<b>edited</b>")
    page.get_by_role("tab", name="Verdict").click()
    page.get_by_role("button", name="Try this case").click()
    expect(page.locator("#trial-said")).to_contain_text("Your edited copy is now try_p07_kept1.py.")


def test_another_editor_saves(problem: Page, studio: Server):
    page, file = problem, studio.file(NAME)
    file.write_text(RIGHT + "\nif True\n    pass\n")
    graded(page, "ERROR")
    expect(editor(page)).to_contain_text("if True")
    page.get_by_role("button", name="Go to line").first.click()
    page.keyboard.insert_text("# here: ")
    expect(page.locator("#editor .cm-line", has_text="# here: if True")).to_be_visible()

    file.write_text(RIGHT + "\n# from elsewhere\n")
    expect(page.locator("#conflict")).to_be_visible()
    graded(page, "PASS")
    mine = page.locator(".cm-merge-b .cm-content")
    expect(mine).to_contain_text("# here: if True")
    expect(page.locator(".cm-merge-a .cm-content")).to_contain_text("# from elsewhere")
    page.get_by_role("button", name="Keep mine").click()
    expect(page.locator("#saved")).to_have_text("saved")
    assert "# here: if True" in file.read_text()


def test_what_was_typed_survives_a_reload_and_a_restart(problem: Page, studio: Server):
    page = problem
    write(page, RIGHT + "\n# typed\n")
    expect(page.locator("#saved")).to_have_text("unsaved")
    page.reload()
    expect(editor(page)).to_contain_text("# typed")
    studio.stop()
    expect(page.locator("#offline")).to_be_visible()
    page.get_by_role("button", name="Save and grade").click()
    expect(page.locator("#saved")).to_have_text("unsaved")
    studio.start()
    expect(page.locator("#offline")).to_be_hidden()
    expect(page.locator("#saved")).to_have_text("unsaved")
    page.get_by_role("button", name="Save and grade").click()
    expect(page.locator("#saved")).to_have_text("saved")  # the studio has graded the file before, when it started
    graded(page, "PASS")
    assert "# typed" in studio.file(NAME).read_text()


def test_two_tabs_do_not_overwrite_each_other(problem: Page, studio: Server):
    other = problem.context.new_page()
    other.goto(problem.url)
    write(problem, RIGHT + "\n# one\n")
    write(other, RIGHT + "\n# two\n")
    problem.keyboard.press("Control+s")
    expect(other.locator("#conflict")).to_be_visible()
    assert "# one" in studio.file(NAME).read_text()
    other.get_by_role("button", name="Take the file").click()
    expect(editor(other)).to_contain_text("# one")
    other.keyboard.press("Control+z")
    expect(editor(other)).to_contain_text("# two")


def test_html_in_a_file_is_text(problem: Page):
    attack = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    problem.on("dialog", lambda dialog: pytest.fail("a script ran"))
    write(problem, f"print({attack!r})\nraise ValueError({attack!r})\n")
    problem.keyboard.press("Control+Enter")
    graded(problem, "ERROR")
    expect(problem.locator("#report")).to_contain_text("onerror=alert(1)")
    assert problem.locator("#report img, #report script, #advice img").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_stands_in_the_way_of_a_screen_reader(browser: Browser, studio: Server, theme: str):
    studio.file(NAME).write_text(WRONG)
    with browser.new_context(bypass_csp=True, color_scheme=theme, viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        enter(page, studio)
        found = axe(page)
        page.goto(f"{studio.base}/problems/07")
        write(page, WRONG + "\n")
        page.keyboard.press("Control+s")
        graded(page, "FAIL")
        found += axe(page)
        page.get_by_role("tab", name="History").click()
        page.locator("#attempts button").first.click()
        expect(page.locator("#compared .cm-content")).to_be_visible()
        found += axe(page)
        page.get_by_role("tab", name=f"{NAME}.py").click()
        write(page, RIGHT)
        page.keyboard.press("Control+s")
        graded(page, "PASS")
        page.get_by_role("tab", name="Reference").click()
        expect(page.locator("#reference .cm-content")).to_be_visible()
        found += axe(page)
        page.goto(f"{studio.base}/problems/62")
        found += axe(page)
        page.set_viewport_size({"width": 390, "height": 844})
        found += axe(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert found == []


def test_the_whole_course_is_seen_at_once(page: Page, studio: Server):
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(studio.base)
    expect(page.locator(".map .node")).to_have_count(len(catalog.problems()))
    fits = "document.documentElement.scrollWidth === 1440 && document.documentElement.scrollHeight === 900"
    page.wait_for_function(fits)  # the script draws once more when the fonts are there
    attention = page.locator(".node[data-label='03']")
    attention.hover()
    expect(page.locator(".node.related")).to_have_count(1 + page.locator(".edges path.near").count())
    for label in ("02", "03", "05"):  # it builds on 02, and 05 on it
        expect(page.locator(f".node[data-label='{label}']")).to_have_class(re.compile(r"\brelated\b"))
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_borders_between_the_panes_move_and_stay_moved(problem: Page):
    page = problem
    width = lambda: page.locator("#page").bounding_box()["width"]  # noqa: E731
    height = lambda: page.locator("#code").bounding_box()["height"]  # noqa: E731
    before = width(), height()
    page.get_by_role("separator", name="Width of the page").press("ArrowLeft")
    border = page.get_by_role("separator", name="Height of the code")
    box = border.bounding_box()
    border.hover()
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    page.mouse.up()
    moved = width(), height()
    assert moved[0] < before[0]
    assert moved[1] == pytest.approx(before[1] + 150, abs=5)
    page.reload()
    assert (width(), height()) == pytest.approx(moved, abs=1)
    border.dblclick()
    page.get_by_role("separator", name="Width of the page").dblclick()
    assert (width(), height()) == pytest.approx(before, abs=1)


def test_keys_are_enough(page: Page, studio: Server):
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    following = page.get_by_role("link", name=re.compile("^Next"))
    label = following.inner_text().split()[1]  # which depends on what was graded in this studio before
    following.press("Enter")
    editor(page).focus()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    expect(editor(page)).not_to_be_focused()
    page.get_by_role("tab", name=f"{catalog.find(label).name}.py").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="History")).to_be_focused()
    expect(page.locator("#panel-history")).to_be_visible()
