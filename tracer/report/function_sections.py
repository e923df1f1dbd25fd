"""The section of a function on the page: what it was compiled to, for which calls, and what missed."""

from __future__ import annotations

import json
import os
import re
from html import escape

from tracer.report.findings import Entry, Function, Part, Record, by_reason
from tracer.report.markup import break_card, counted, place_of
from tracer.report.serving_tables import certificates, latencies, misses, sizes_text
from tracer.report.shape_space import picture, words
from tracer.report.timeline import duration

_MOST_ENTRIES_OPEN = 4  # the first entry of a function with up to so many is unfolded
_ABOUT_SHAPES = ("SHAPE_ENV", "TENSOR_MATCH")
_SOURCE = re.compile(r"\s*# File: (.+):(\d+), code: (.*)$")


def function_section(function: Function) -> str:
    summary = [counted(len(function.entries), "entry", "entries"), duration(function.seconds)]
    if function.recompiles:
        summary.append(counted(function.recompiles, "recompile"))
    if function.breaks:
        summary.append(counted(len(function.breaks), "break"))
    summary.append(counted(function.missed, "miss", "misses"))
    if any(entry.record.get("root") for entry in function.entries):
        summary.append(counted(function.served, "hit"))
    summary += [f"sealed ({record['policy']})" for _, record in function.seals.values() if record["kind"] == "seal"][:1]
    code = "" if function.name == function.code else f"{escape(function.code)} · "
    place = f"{code}{escape(function.file)}:{function.line}"
    parts = sorted(function.parts.values(), key=lambda part: -1 if part.line is None else part.line)
    several = len(parts) > 1
    return (
        f'<section id="{function.anchor}"><h2>{escape(function.name)}</h2>'
        f'<p class="quiet" title="{escape(function.file)}">{place} · {" · ".join(summary)}</p>'
        f"{certificates(function)}{_picture(function)}{latencies(function)}{misses(function)}"
        f"{''.join(_part(part, several) for part in parts)}</section>"
    )


def _picture(function: Function) -> str:
    data = picture(function)
    if data is None:
        return ""
    text = json.dumps(data).replace("<", "\\u003c")
    left_out = sum(space["left_out"] for space in data["spaces"])
    note = f" The {left_out} rarest calls are not drawn." if left_out else ""
    return (
        '<figure class="shapes"><div class="controls"></div><div class="drawing"></div><p class="readout quiet">&nbsp;</p>'
        '<ul class="legend"></ul><figcaption class="quiet">Regions: the shapes that each entry serves. Dots: calls that hit;'
        f" crosses: calls that missed; pale ones differ in a size that is not drawn.{note}</figcaption>"
        f'<script type="application/json">{text}</script></figure>'
    )


def _part(part: Part, several: bool) -> str:
    title = f"<h3>{'Traced ' + part.title}</h3>" if several else ""
    notes = "".join(_note(record) for _, record in part.notes)
    shown: dict[str, str] = {}
    return f"{title}{notes}{''.join(_entry(entry, shown) for entry in part.entries)}"


def _shown_once(html: str, entry: Entry, shown: dict[str, str], what: str) -> str:
    """A part of an entry, or a link to an earlier entry with the same: models have thousands of guards, the same in each
    entry."""
    if not html or len(html) < 400:
        return html
    before = shown.setdefault(html, entry.anchor)
    if before == entry.anchor:
        return html
    return f'<p>The same {what} as <a href="#{before}">entry {before.rpartition("-e")[2]}</a>.</p>'


_ORIGINS = {"merge": "merged from two", "load": "from a file", "share": "taken over from an equal module"}
_NOTE_TITLES = {"skip": "Left to CPython", "limit": "Recompile limit reached", "break": "Break"}


def _note(record: Record) -> str:
    if record["kind"] == "break":
        return break_card(record)
    reason = record.get("reason")
    text = break_card(record) if reason else f"<pre>{escape(record.get('detail', ''))}</pre>"
    return f'<div class="card"><h4>{_NOTE_TITLES.get(record["kind"], escape(record["kind"]))}</h4>{text}</div>'


def _entry(entry: Entry, shown: dict[str, str]) -> str:
    record = entry.record
    graph = record.get("graph")
    summary = [duration(record["seconds"])]
    if graph:
        summary.append(counted(graph["operations"], "operation"))
    if record.get("root"):
        summary.append(counted(entry.served.total(), "hit"))
    if entry.kind != "graph":
        summary.append(entry.kind)
    summary += [word for kind, word in _ORIGINS.items() if record["kind"] == kind]
    summary += ["evicted"] if entry.evicted else []
    opened = (
        " open"
        if len(entry.part.function.entries) <= _MOST_ENTRIES_OPEN and entry.number == 1 and entry.part.line is None
        else ""
    )
    breaks = "".join(break_card(each, count) for each, count in by_reason(entry.breaks))
    return (
        f'<details class="entry" id="{entry.anchor}"{opened}><summary><b>Entry {entry.number}</b>'
        f' <code>{escape(_shorten(words(entry)))}</code> <span class="quiet">{" · ".join(summary)}</span></summary>'
        f'<div class="inside">{_evicted(entry)}{_why(entry)}{_guards(entry, shown)}{_graph(entry, shown)}{breaks}'
        f'<p class="quiet">{_about(entry)}</p></div></details>'
    )


def _shorten(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _about(entry: Entry) -> str:
    sizes = sizes_text(entry.part.function.axes_of(entry.group), entry.record.get("sizes", {}))
    backend = entry.record.get("graph", {}).get("backend_seconds")
    summary = [f"traced for {sizes}"] if sizes else []
    summary.append(f"region {entry.record.get('region', '')} in {entry.process.title}, thread {entry.record.get('thread', '')}")
    if backend is not None:
        summary.append(f"{duration(backend)} in the backend")
    return escape(" · ".join(summary))


def _evicted(entry: Entry) -> str:
    if entry.evicted is None:
        return ""
    summary = str(entry.evicted.get("detail", "")).partition(" Its guards")[0]
    return f"<p>{escape(summary[:1].upper() + summary[1:])}</p>"


def _why(entry: Entry) -> str:
    if not entry.failures:
        return ""
    rows = "".join(
        f"<li><code>{escape(failure['text'])}</code>{_seen(failure)}{place_of(failure.get('where'))}</li>"
        for failure in entry.failures
    )
    return f'<h4>Why no older entry served the call</h4><ul class="why">{rows}</ul>'


def _seen(failure: Record) -> str:
    seen = failure.get("seen", "")
    return f' <span class="quiet">seen {escape(seen)}</span>' if seen and seen not in failure["text"] else ""


def _guards(entry: Entry, shown_above: dict[str, str]) -> str:
    record = entry.record
    guards = record.get("guards", [])
    first = [guard for guard in guards if guard["kind"] == _ABOUT_SHAPES[0]]
    first += [guard for guard in guards if guard["kind"] == _ABOUT_SHAPES[1] and "L['self']" not in guard["text"]]
    shown = set(map(id, first))
    rest = [guard for guard in guards if id(guard) not in shown]
    more = record.get("guards_in_all", len(guards)) - len(guards)
    cut = f'<p class="quiet">{more} more are not recorded.</p>' if more > 0 else ""
    parts = [f"<h4>Guards</h4>{_rows(first)}" if first else "<h4>Guards</h4>"]
    if rest:
        others = _shown_once(f"{_rows(rest)}{cut}", entry, shown_above, "ones")
        parts.append(f"<details><summary>{counted(len(rest), 'guard')} on other things</summary>{others}</details>")
    return "".join(parts)


def _rows(guards: list[Record]) -> str:
    rows = []
    for guard in guards:
        recorded = f' <span class="quiet">asked as {escape(guard["recorded"])}</span>' if guard.get("recorded") else ""
        cause = place_of(guard.get("where")) or '<span class="quiet">what is always guarded</span>'
        text = f"<td><code>{escape(guard['text'])}</code>{recorded}</td>"
        rows.append(f'<tr>{text}<td>{cause}</td><td class="kind">{escape(guard["kind"])}</td></tr>')
    return f'<table class="guards"><thead><tr><th>guard</th><th>because of</th><th>kind</th></tr></thead>{"".join(rows)}</table>'


def _graph(entry: Entry, shown: dict[str, str]) -> str:
    graph = entry.record.get("graph")
    if not graph:
        return ""
    lines = []
    for line in graph["code"].splitlines():
        source = _SOURCE.match(line)
        if source is not None:
            full, name = escape(f"{source[1]}:{source[2]}"), escape(f"{os.path.basename(source[1])}:{source[2]}")
            lines.append(f'<span class="src" title="{full}"><em>{name}</em>{escape(source[3])}</span>')
        elif not line.startswith(("TRACED GRAPH", " =====")):
            lines.append(f"<span>{escape(line)}</span>")
    listing = _shown_once(f'<pre class="graph">{"".join(lines)}</pre>', entry, shown, "graph")
    return f"<h4>Graph <code>{escape(graph['name'])}</code></h4>{listing}"
