"""Markdown of the course as HTML: formulas as MathML, highlighted code, no script."""

from collections.abc import MutableMapping, Sequence
from html import escape
from typing import Any

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererProtocol
from markdown_it.token import Token
from markdown_it.utils import OptionsDict
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonConsoleLexer, PythonLexer


def to_html(text: str) -> str:
    """The HTML of a text that the course wrote. Its HTML is kept, so it must not be a learner's."""
    return str(_MARKDOWN.render(text))


def _fence(
    renderer: RendererProtocol, tokens: Sequence[Token], index: int, options: OptionsDict, env: MutableMapping[str, Any]
) -> str:
    token = tokens[index]
    language = token.info.strip()
    if language == "math":
        formulas = (convert(line, display="block") for line in token.content.strip().splitlines())
        return "\n".join(f'<p class="formula" tabindex="0">{formula}</p>' for formula in formulas)
    if language == "python":
        lexer = PythonConsoleLexer() if token.content.startswith(">>>") else PythonLexer()
        code = highlight(token.content, lexer, HtmlFormatter(nowrap=True))
        return f'<pre tabindex="0"><code>{code}</code></pre>\n'
    return f'<pre class="drawing" tabindex="0"><code>{escape(token.content)}</code></pre>\n'


_MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
_MARKDOWN.add_render_rule("fence", _fence)
