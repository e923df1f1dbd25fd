"""Pieces of HTML that several sections of the page have."""

from __future__ import annotations

import os
from html import escape

from tracer.report.findings import Record


def break_card(record: Record, count: int = 1) -> str:
    reason = record.get("reason", {})
    stack = [place for place in reason.get("stack", ()) if place]
    times = f' <span class="count">{count} times</span>' if count > 1 else ""
    where = place_of(stack[-1]) if stack else ""
    outer = "".join(f"<li>{place_of(place)}</li>" for place in reversed(stack[:-1]))
    called = f"<details><summary>called from</summary><ol>{outer}</ol></details>" if outer else ""
    return (
        f'<div class="card break"><h4>{escape(reason.get("message", ""))} <code>{escape(reason.get("id", ""))}</code>{times}</h4>'
        f"{where}<p>{escape(reason.get('explanation', ''))}</p>"
        f"<p><b>Hint</b> {escape(reason.get('hint', ''))}</p>{called}</div>"
    )


def place_of(place: Record | None) -> str:
    """A line of the program, with where it stands."""
    if not place:
        return ""
    name = f"{os.path.basename(place['file'])}:{place['line']}"
    full = escape(f"{place['file']}:{place['line']} in {place['function']}")
    return f'<span class="place" title="{full}"><em>{escape(name)}</em> <code>{escape(place["code"])}</code></span>'


def counted(count: int, one: str, many: str = "") -> str:
    """`1 entry`, `2 entries`"""
    return f"{count} {one if count == 1 else many or one + 's'}"


def table(kind: str, headings: list[str], rows: list[list[str]]) -> str:
    """A table; what is in the cells is HTML."""
    head = "".join(f"<th>{each}</th>" for each in headings)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead>{body}</table>'
