"""The page of a recording: one self-contained HTML file."""

from __future__ import annotations

import json
import os
import re
import time
from html import escape
from pathlib import Path
from typing import Any

from tracer.report.findings import Entry, Findings, Function, Part, Record, by_reason, gather
from tracer.report.records import read
from tracer.report.shape_space import picture, short, words
from tracer.report.timeline import duration, timeline
from tracer.whole_files import write_whole

_HERE = Path(__file__).parent
_MOST_WITHOUT_SEARCH = 12  # functions; a longer list has a search field
_MOST_ENTRIES_OPEN = 4  # the first entry of a function with up to so many is unfolded
_ABOUT_SHAPES = ("SHAPE_ENV", "TENSOR_MATCH")
_SOURCE = re.compile(r"\s*# File: (.+):(\d+), code: (.*)$")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def write(directory: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Path:
    """Makes the page of a recording, by default `report.html` in it; returns its path. UserError where nothing was recorded, or
    where it cannot be written."""
    path = Path(directory) / "report.html" if target is None else Path(target)
    write_whole(path, page(gather(read(directory))).encode())
    return path


def page(findings: Findings) -> str:
    """The HTML."""
    functions = findings.functions
    body = [
        _contents(functions),
        "<main>",
        _head(findings),
        *[f'<p class="note">{escape(note)}</p>' for note in findings.notes],
        _summary_tiles(findings),
        f'<section id="timeline"><h2>Timeline</h2>{_timeline(findings)}</section>',
        _breaks(functions),
        *map(_function, functions),
        "</main>",
    ]
    style, script = [(_HERE / name).read_text(encoding="utf-8") for name in ("page.css", "shape_space.js")]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>shapetracer report</title>\n<style>\n{style}</style></head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>\n{script}</script>\n</body></html>\n"
    )


# -- the top ------------------------------------------------------------------------------------------------------


def _contents(functions: list[Function]) -> str:
    items = []
    for function in functions:
        flags = f'<b class="break">{len(function.breaks)}</b>' if function.breaks else ""
        name = f"{escape(function.name)} <small>{escape(os.path.basename(function.file))}:{function.line}</small>"
        found_by = escape(f"{function.name} {function.file}".lower())
        items.append(f'<li data-name="{found_by}"><a href="#{function.anchor}">{name}</a>{flags}</li>')
    search = '<input id="filter" type="search" placeholder="find a function" aria-label="find a function">'
    search = search if len(items) > _MOST_WITHOUT_SEARCH else ""
    return (
        '<nav><h1>shapetracer</h1><ul><li><a href="#timeline">Timeline</a></li><li><a href="#breaks">Graph breaks</a></li></ul>'
        f"<h3>Functions</h3>{search}<ul>{''.join(items)}</ul></nav>"
    )


def _head(findings: Findings) -> str:
    started = min(float(process.facts.get("t", 0.0)) for process in findings.processes)
    versions = {(process.facts.get("python", "?"), process.facts.get("torch", "?")) for process in findings.processes}
    summary = " and ".join(f"Python {python}, torch {torch}" for python, torch in sorted(versions))
    programs = sorted({process.facts.get("program") or "python" for process in findings.processes})
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(started))
    return f'<header><h2>{escape(", ".join(programs))}</h2><p class="quiet">{when} · {escape(summary)}</p></header>'


def _summary_tiles(findings: Findings) -> str:
    functions = findings.functions
    entries = [entry for function in functions for entry in function.entries]
    tracing = sum(entry.record["seconds"] for entry in entries)
    backend = sum(entry.record.get("graph", {}).get("backend_seconds", 0.0) for entry in entries)
    breaks, missed = sum(len(function.breaks) for function in functions), sum(function.missed for function in functions)
    tiles: list[tuple[Any, str]] = [
        (len(findings.processes), "process" if len(findings.processes) == 1 else "processes"),
        (len(functions), "function" if len(functions) == 1 else "functions"),
        (sum("graph" in entry.record for entry in entries), "graphs"),
        (duration(tracing), f"compiling, {duration(backend)} of it in the backend"),
        (sum(function.recompiles for function in functions), "recompiles"),
        (breaks, "graph breaks"),
        (missed, "missed calls"),
        (sum(function.served for function in functions), "calls that hit"),
    ]
    return f'<div class="tiles">{"".join(f"<div><b>{value}</b><span>{name}</span></div>" for value, name in tiles)}</div>'


def _timeline(findings: Findings) -> str:
    keys = [("compile first", "compile"), ("compile again", "recompile"), ("compile left", "traced, left to CPython")]
    marks = [("break", "break"), ("recompile", "why a recompile"), ("miss", "miss"), ("other", "other")]
    legend = "".join(f'<li><i class="{kind}"></i>{name}</li>' for kind, name in keys)
    legend += "".join(f'<li><i class="dot {kind}"></i>{name}</li>' for kind, name in marks)
    drawn = timeline(findings) or '<p class="quiet">Nothing was compiled.</p>'
    return f'{drawn}<ul class="keys">{legend}<li class="quiet">Dashed lines: idle time is cut out.</li></ul>'


def _breaks(functions: list[Function]) -> str:
    found = by_reason(record for function in functions for record in function.breaks)
    cards = "".join(_break(record, count) for record, count in found) or '<p class="quiet">No graph breaks.</p>'
    return f'<section id="breaks"><h2>Graph breaks</h2>{cards}</section>'


def _break(record: Record, count: int = 1) -> str:
    reason = record.get("reason", {})
    stack = [place for place in reason.get("stack", ()) if place]
    times = f' <span class="count">{count} times</span>' if count > 1 else ""
    where = _place(stack[-1]) if stack else ""
    outer = "".join(f"<li>{_place(place)}</li>" for place in reversed(stack[:-1]))
    called = f"<details><summary>called from</summary><ol>{outer}</ol></details>" if outer else ""
    return (
        f'<div class="card break"><h4>{escape(reason.get("message", ""))} <code>{escape(reason.get("id", ""))}</code>{times}</h4>'
        f"{where}<p>{escape(reason.get('explanation', ''))}</p>"
        f"<p><b>Hint</b> {escape(reason.get('hint', ''))}</p>{called}</div>"
    )


def _place(place: Record | None) -> str:
    """A line of the program, with where it stands."""
    if not place:
        return ""
    name = f"{os.path.basename(place['file'])}:{place['line']}"
    full = escape(f"{place['file']}:{place['line']} in {place['function']}")
    return f'<span class="place" title="{full}"><em>{escape(name)}</em> <code>{escape(place["code"])}</code></span>'


# -- functions ----------------------------------------------------------------------------------------------------


def _function(function: Function) -> str:
    summary = [_counted(len(function.entries), "entry", "entries"), duration(function.seconds)]
    if function.recompiles:
        summary.append(_counted(function.recompiles, "recompile"))
    if function.breaks:
        summary.append(_counted(len(function.breaks), "break"))
    summary.append(_counted(function.missed, "miss", "misses"))
    if any(entry.record.get("root") for entry in function.entries):
        summary.append(_counted(function.served, "hit"))
    parts = sorted(function.parts.values(), key=lambda part: -1 if part.line is None else part.line)
    several = len(parts) > 1
    return (
        f'<section id="{function.anchor}"><h2>{escape(function.name)}</h2>'
        f'<p class="quiet" title="{escape(function.file)}">{escape(function.file)}:{function.line} · {" · ".join(summary)}</p>'
        f"{_picture(function)}{''.join(_part(part, several) for part in parts)}</section>"
    )


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


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


_NOTE_TITLES = {"skip": "Left to CPython", "limit": "Recompile limit reached", "break": "Break"}


def _note(record: Record) -> str:
    if record["kind"] == "break":
        return _break(record)
    reason = record.get("reason")
    text = _break(record) if reason else f"<pre>{escape(record.get('detail', ''))}</pre>"
    return f'<div class="card"><h4>{_NOTE_TITLES.get(record["kind"], escape(record["kind"]))}</h4>{text}</div>'


def _entry(entry: Entry, shown: dict[str, str]) -> str:
    record = entry.record
    graph = record.get("graph")
    summary = [duration(record["seconds"])]
    if graph:
        summary.append(_counted(graph["operations"], "operation"))
    if record.get("root"):
        summary.append(_counted(entry.served.total(), "hit"))
    if entry.kind != "graph":
        summary.append(entry.kind)
    summary += [word for kind, word in (("merge", "merged from two"), ("load", "from a file")) if record["kind"] == kind]
    summary += ["evicted"] if entry.evicted else []
    opened = (
        " open"
        if len(entry.part.function.entries) <= _MOST_ENTRIES_OPEN and entry.number == 1 and entry.part.line is None
        else ""
    )
    breaks = "".join(_break(each, count) for each, count in by_reason(entry.breaks))
    return (
        f'<details class="entry" id="{entry.anchor}"{opened}><summary><b>Entry {entry.number}</b>'
        f' <code>{escape(_shorten(words(entry)))}</code> <span class="quiet">{" · ".join(summary)}</span></summary>'
        f'<div class="inside">{_evicted(entry)}{_why(entry)}{_guards(entry, shown)}{_graph(entry, shown)}{breaks}'
        f'<p class="quiet">{_about(entry)}</p></div></details>'
    )


def _shorten(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _about(entry: Entry) -> str:
    sizes = ", ".join(f"{short(name)} = {value}" for name, value in entry.record.get("sizes", {}).items())
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
        f"<li><code>{escape(failure['text'])}</code>{_seen(failure)}{_place(failure.get('where'))}</li>"
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
        parts.append(f"<details><summary>{_counted(len(rest), 'guard')} on other things</summary>{others}</details>")
    return "".join(parts)


def _rows(guards: list[Record]) -> str:
    rows = []
    for guard in guards:
        recorded = f' <span class="quiet">asked as {escape(guard["recorded"])}</span>' if guard.get("recorded") else ""
        cause = _place(guard.get("where")) or '<span class="quiet">what is always guarded</span>'
        said = f"<td><code>{escape(guard['text'])}</code>{recorded}</td>"
        rows.append(f'<tr>{said}<td>{cause}</td><td class="kind">{escape(guard["kind"])}</td></tr>')
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
