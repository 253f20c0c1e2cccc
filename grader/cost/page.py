"""The statement of what a program costs as HTML, for the studio and notebooks."""

from pathlib import Path

from grader.cost import compare, layout, roofline
from grader.cost.statement import Statement
from grader.cost.terminal import render_timing, seconds
from grader.course.selection import selected
from grader.report import html_report

_HERE = Path(__file__).parent
STYLE = _HERE.joinpath("cost.css").read_text(encoding="utf-8")
"""The style of a statement, beside that of reports."""


def document(statement: Statement) -> str:
    """Returns a whole page with a statement, which needs no other file."""
    return html_report.page(statement.title, selected().title, article(statement), html_report.STYLE + STYLE)


def article(statement: Statement, news: str = "") -> str:
    """Returns a statement as one `<article>`, to be shown with the STYLE of `html_report` and that of this module. All
    text in it is escaped. `news` is the sentence on a new record."""
    bill = statement.bill
    rows = compare.rows(bill.figures, statement.others, statement.attempts) if bill else []
    lines, rest = layout.lines(bill, statement.sources) if bill else ([], (0.0, 0.0))
    return (
        html_report.environment(_HERE)
        .get_template("cost.jinja")
        .render(
            title=statement.title,
            about=statement.about(),
            news=news,
            figures=layout.figures(bill) if bill else [],
            lines=lines,
            rest=rest if max(rest) >= layout.LEAST_SHARE else None,
            rows=[row for row in rows if len(row.all) > 1],
            difference=compare.explained(bill, statement.others) if bill else "",
            warning=statement.others.counted_otherwise(bill) if bill else "",
            times=[
                (each.machine.name, seconds(each.arithmetic), seconds(each.memory), each.binds)
                for each in (roofline.times(bill.figures) if bill else ())
            ],
            left_out=roofline.LEFT_OUT,
            timing=render_timing(statement.timing) if statement.timing else "",
        )
    )
