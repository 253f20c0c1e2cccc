"""Templates of strangers are programs: they escape from nothing, end in time, and write no more than a text."""

import contextlib
import json
import time
from datetime import datetime
from pathlib import Path

import pytest

from harness.data import rendering
from harness.data.rendering import Rendered, RenderingError, render

VARIABLES = {
    "messages": [{"role": "user", "content": "Who?"}],
    "add_generation_prompt": True,
    "bos_token": "",
    "eos_token": "<end>",
}
SECONDS = 30  # within which a refusal comes, on a busy machine


def texts(template: str, *each: dict) -> list[str]:
    return [rendered.text for rendered in render(template, [*each])]


def test_a_text_for_each_of_the_variables():
    template = "{% for message in messages %}{{ message.role }}: {{ message.content }}{% endfor %}"
    other = VARIABLES | {"messages": [{"role": "user", "content": "\ud800 \N{SNOWMAN}"}]}
    assert texts(template, VARIABLES, other) == ["user: Who?", "user: \ud800 \N{SNOWMAN}"]
    assert render(template, []) == []


MARKED = """\
{% for message in messages %}{{ message.role }}
{% if message.role == 'assistant' %}{% generation %}{{ message.content }}.{% endgeneration %}{% endif %}
{% if loop.index == 3 %}{% break %}{% endif %}{% endfor %}
"""


def test_the_tag_around_answers_and_the_end_of_a_loop():
    messages = [{"role": role, "content": role.upper()} for role in ("assistant", "user", "assistant", "assistant")]
    ((text, answers),) = render(MARKED, [{"messages": messages}])
    assert [text[start:stop] for start, stop in answers] == ["ASSISTANT."] * 2
    assert text == "assistant\nASSISTANT.user\nassistant\nASSISTANT."
    assert render(MARKED, [{"messages": messages[1:2]}] * 2) == [Rendered("user\n", [])] * 2


def test_functions_and_filters_of_templates():
    """As transformers has them: JSON is not escaped for HTML, keys stay in their order, and the date is today's."""
    value = {"value": {"b": "<é&'>", "a": [1]}}
    assert texts("{{ value | tojson }}", value) == ["""{"b": "<é&'>", "a": [1]}"""]
    assert texts("{{ value | tojson(indent=1, sort_keys=true, ensure_ascii=true) }}", value) == [
        json.dumps(value["value"], indent=1, sort_keys=True)
    ]
    before = datetime.now()
    ((written, _),) = render("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}", [{}])
    assert before.replace(microsecond=0) <= datetime.strptime(written, "%Y-%m-%d %H:%M:%S") <= datetime.now()
    assert texts("{% set n = namespace(a=1) %}{% set n.b = n.a + 1 %}{{ n.b }}", {}) == ["2"]


# What reaches code or objects of Python from a template, where the sandbox does not hold
ESCAPES = [
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ''['__class__']['__base__'] }}",
    "{{ (''|attr('__class__')).__base__ }}",
    "{{ ''|attr('__cla' ~ 'ss__')|attr('__base__')|attr('__subclasses__')() }}",
    "{{ messages|map(attribute='__class__')|list }}",
    "{{ [messages]|map(attribute='__class__.__base__')|list }}",
    "{{ [messages]|sum(attribute='__class__') }}",
    "{{ [messages]|groupby('__class__') }}",
    "{{ [messages]|sort(attribute='__class__.__name__')|map(attribute='__class__')|first }}",
    "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{{ joiner.__init__.__globals__ }}",
    "{{ namespace.__init__.__globals__['os'] }}",
    "{{ lipsum.__globals__.os.listdir('.') }}",
    "{{ range.__class__.__base__ }}",
    "{{ dict.__base__.__subclasses__() }}",
    "{{ raise_exception.__globals__ }}",
    "{{ raise_exception.__code__.co_consts }}",
    "{{ self.__init__.__globals__ }}",
    "{{ self._TemplateReference__context.environment }}",
    "{{ self._TemplateReference__context.eval_ctx.environment.globals }}",
    "{% macro f() %}{% endmacro %}{{ f._func.__globals__ }}",
    "{% macro f() %}{% endmacro %}{{ f.__init__.__globals__ }}",
    "{% macro f() %}{{ caller.__globals__ }}{% endmacro %}{% call f() %}{% endcall %}",
    "{{ loop.__class__ }}",
    "{% for m in messages %}{{ loop.__init__.__globals__ }}{% endfor %}",
    "{% for m in messages %}{{ loop._iterator.gi_frame }}{% endfor %}",
    "{{ '{0.__class__}'.format(messages) }}",
    "{{ '{0.__class__.__base__}'.format('') }}",
    "{{ '{a.__init__.__globals__}'.format(a=cycler) }}",
    "{{ '{a[__class__]}'.format_map({'a': messages}) }}",
    "{{ '{0.__class__}'|format(messages) ~ ('{0.__class__}'|attr('format'))(messages) }}",
    "{% set f = '{0.__class__.__base__}'.format %}{{ f(messages) }}",
    "{{ ['{0.__class__}'.format]|map('call', messages)|list }}",
    "{{ ''.join.__self__.__class__ }}",
    "{{ messages.append.__self__.__class__ }}",
    "{{ messages.append(1) }}",
    "{{ messages.__setitem__(0, 1) }}",
    "{{ messages[0].update({'role': 'system'}) }}",
    "{{ messages[0].pop('role') }}",
    "{{ dict.fromkeys.__self__.__class__ }}",
    "{{ (1).__class__.__base__ }}",
    "{{ ''.encode().__class__.__base__ }}",
    "{% import 'os' as os %}{{ os }}",
    "{% include '/etc/passwd' %}",
    "{% extends '/etc/passwd' %}",
    "{% from 'os' import popen %}{{ popen('id') }}",
    "{{ __import__('os').popen('id').read() }}",
    "{{ __builtins__ }}",
    "{{ config.__class__ }}",
    "{{ request.application.__globals__ }}",
    "{{ url_for.__globals__ }}",
    "{{ undefined.__init__.__globals__ }}",
    "{{ undefined.__class__.__mro__ }}",
    "{{ [].__reduce_ex__(2) }}",
    "{{ ''.__getattribute__('__class__') }}",
    "{{ (messages|list).__iter__().__class__ }}",
    "{{ (messages|batch(1)).gi_frame.f_globals }}",
    "{{ (messages|batch(1))['gi_frame']['f_builtins'] }}",
    "{{ (messages|select).gi_code }}",
    "{{ messages|map('attr', '__class__')|list }}",
    "{{ messages|tojson|attr('__class__') }}",
    "{{ ''|escape|attr('__html_format__') }}",
    "{{ (''|escape).format.__func__ }}",
    "{{ ('{0.__class__}'|escape).format(messages) }}",
    "{% set x = namespace() %}{% set x.__class__ = 1 %}{{ x.__class__ }}",
    "{{ namespace(__class__=1).__init__ }}",
    "{% set x = namespace() %}{% set x._Namespace__attrs = 1 %}{{ x }}",
    "{{ strftime_now.__globals__ }}",
    "{{ strftime_now.__class__ }}",
    "{{ strftime_now('%Y').__class__ }}",
    "{% generation %}{{ caller.__globals__ }}{% endgeneration %}",
    "{{ cycler('a').next.__func__.__globals__ }}",
    "{{ cycler('a')['__init__']['__globals__'] }}",
]  # fmt: skip
SECRETS = ("uid=", "root:", "<class", "<function", "<module", "<frame", "<code", "builtins", "os.", "Environment")


@pytest.mark.parametrize("template", ESCAPES)
def test_the_sandbox_holds(template: str):
    with contextlib.suppress(RenderingError):
        written = render(template, [VARIABLES])[0].text
        for secret in (*SECRETS, str(Path.cwd())):
            assert secret not in written, written
    after = texts("{{ messages|length }} {{ messages[0].role }} {{ messages[0].content }}", VARIABLES)
    assert after == ["1 user Who?"], "nothing has changed for the next text"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "takes more than 2 s"),
        ("{{ lipsum(n=10000000) }}", "takes more than 2 s"),
        ("{{ 3 ** (3 ** 20) % 7 }}", "takes more than 2 s"),
        ("{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}", "writes more than 16,777,216 characters"),
        ("{{ 'a' * 20000000 }}", "writes more than 16,777,216 characters"),
        ("{{ 'a' * 10 ** 11 }}", "needs more than 1024 MiB of memory"),
        ("{{ ('a' * messages|length) * 10 ** 11 }}", "needs more than 1024 MiB of memory"),
        ("{{ '%99999999999d' % 1 }}", "needs more than 1024 MiB of memory"),
        ("{{ '{:99999999999}'.format(1) }}", "needs more than 1024 MiB of memory"),
        (
            "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
            "MiB of memory",
        ),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "is nested too deeply"),
        ("{{ " + "(" * 100_000 + " }}", "is nested too deeply"),
        ("{% if 1 %}" * 20_000, "is nested too deeply"),
    ],
)
def test_limits_of_time_memory_and_output(template: str, reason: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rendering, "SECONDS", 2)
    began = time.monotonic()
    with pytest.raises(RenderingError, match=reason):
        render(template, [VARIABLES])
    assert time.monotonic() - began < SECONDS
    monkeypatch.undo()
    assert texts("{{ eos_token }}", VARIABLES) == ["<end>"], "the next template is served"


def test_a_template_is_rendered_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing of the current folder is imported: it may be that of a stranger."""
    (tmp_path / "jinja2.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    rendering._renderer.close()
    assert texts("{{ eos_token }}", VARIABLES) == ["<end>"]
    assert not (tmp_path / "ran").exists()
