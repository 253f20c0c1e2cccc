"""Markdown of the course as HTML: formulas as MathML, highlighted code, drawings."""

import re
from collections.abc import MutableMapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer

from grader.course import page
from grader.problem import Problem

_THIN_SPACE = '<mspace width="0.167em" />'
# Where the converter's MathML is not what TeX shows: each pattern, and what stands in its place.
_AS_IN_TEX = (
    (re.compile(r"\\_"), "_"),
    # The name of a function is no operator: it touches its parenthesis. A thin space separates it from an argument
    # without one, and from a number before it.
    (re.compile(r"<mo>([a-z]{2,})</mo>"), r"<mi>\1</mi>"),
    (
        re.compile(
            r"(<msub><mi>[a-z]{2,}</mi><mn>\d+</mn></msub>|(?<!<msub>)<mi>[a-z]{2,}</mi>)(?=<(?:mi|mtext|msub)>)"
        ),
        rf"\1{_THIN_SPACE}",
    ),
    (re.compile(r"(</mn>)(?=<mi>[a-z]{2,}</mi>)"), rf"\1{_THIN_SPACE}"),
    # A minus sign after an equals sign, a comma or an opening parenthesis touches its number.
    (re.compile(r"(<mo[^>]*>&#x000(?:3D|28|2C);</mo>)<mo>(&#x02212;</mo>)"), r'\1<mo form="prefix">\2'),
)
STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")  # of a problem's page


def to_html(text: str) -> str:
    """Returns the HTML of a text that the course wrote. Its HTML is kept, so it must not be a learner's."""
    return str(_MARKDOWN.render(text))


def mathml(latex: str) -> str:
    """Returns a formula of LaTeX as MathML, with the spaces of TeX."""
    formula = convert(latex, display="block")
    for pattern, shown in _AS_IN_TEX:
        formula = pattern.sub(shown, formula)
    return formula


def article(problem: Problem) -> str:
    """Returns a problem's page without its hints, as HTML that needs nothing else: with its style, and the scripts of
    its sliders."""
    body = to_html(page.for_browser(problem))
    style, scripts = STYLE, list[str]()
    if "data-explorable" in body:
        parts = {path.suffix: "" for path in page.EXPLORABLES}
        for path in page.EXPLORABLES:
            parts[path.suffix] += path.read_text(encoding="utf-8")
        style += parts[".css"]
        scripts.append(f"<script>(() => {{\n{parts['.js']}\n}})();</script>")  # a notebook may hold several pages
    return "\n".join([f"<style>{style}</style>", f'<article class="page alone">{body}</article>', *scripts])


def _fence(
    renderer: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    language = token.info.strip()
    if language == "math":
        formulas = (mathml(line) for line in token.content.strip().splitlines())
        return "\n".join(f'<p class="formula" tabindex="0">{formula}</p>' for formula in formulas)
    if language == "python":
        lexer = PythonConsoleLexer() if token.content.startswith(">>>") else PythonLexer()
        code = highlight(token.content, lexer, HtmlFormatter(nowrap=True))
        return f'<pre tabindex="0"><code>{code}</code></pre>\n'
    return f'<pre class="drawing" tabindex="0"><code>{escape(token.content)}</code></pre>\n'


_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
_MARKDOWN.add_render_rule("fence", _fence)
