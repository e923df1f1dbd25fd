"""The page of a recording: one self-contained HTML file."""

from __future__ import annotations

import os
import time
from html import escape
from pathlib import Path
from typing import Any

from tracer.report.findings import Findings, Function, by_reason, gather
from tracer.report.function_sections import function_section
from tracer.report.markup import break_card
from tracer.report.records import VARIABLE, read
from tracer.report.timeline import duration, timeline
from tracer.whole_files import write_whole

_HERE = Path(__file__).parent
_MOST_WITHOUT_SEARCH = 12  # functions; a longer list has a search field
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_LIVE = '<p class="quiet" id="live"></p>'
_LIVE_POLICY = f"{_POLICY}; connect-src 'self'"


def write(directory: str | os.PathLike[str], target: str | os.PathLike[str] | None = None) -> Path:
    """Makes the page of a recording, by default `report.html` in it; returns its path. UserError where nothing was recorded, or
    where it cannot be written."""
    path = Path(directory) / "report.html" if target is None else Path(target)
    write_whole(path, page(gather(read(directory))).encode())
    return path


def page(findings: Findings, version: str | None = None) -> str:
    """The HTML. `version`: of a page that asks for its next one (see `live`)."""
    functions = findings.functions
    body = [
        _contents(functions),
        "<main>",
        _head(findings, version is not None),
        *[f'<p class="note">{escape(note)}</p>' for note in findings.notes],
        _summary_tiles(findings),
        f'<section id="timeline"><h2>Timeline</h2>{_timeline(findings)}</section>',
        _breaks(functions),
        *map(function_section, functions),
        "</main>",
    ]
    return _document(body, version)


def waiting_page(directory: str, version: str) -> str:
    """What is shown until something is recorded."""
    asked = f"Nothing is recorded in <code>{escape(directory)}</code> yet. Run the program with"
    text = f"{asked} <code>{VARIABLE}={escape(directory)}</code> in its environment."
    return _document([_contents([]), f"<main><header>{_LIVE}</header><p>{text}</p></main>"], version)


def _document(body: list[str], version: str | None) -> str:
    names = ["page.css", "shape_space.js", *(["live.js"] if version is not None else [])]
    style, *scripts = [(_HERE / name).read_text(encoding="utf-8") for name in names]
    policy = _POLICY if version is None else _LIVE_POLICY
    known = "" if version is None else f' data-version="{escape(version)}"'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>shapetracer report</title>\n<style>\n{style}</style></head>\n<body{known}>\n"
        + "\n".join([*body, *(f"<script>\n{script}</script>" for script in scripts)])
        + "\n</body></html>\n"
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


def _head(findings: Findings, live: bool) -> str:
    started = min(float(process.facts.get("t", 0.0)) for process in findings.processes)
    versions = {(process.facts.get("python", "?"), process.facts.get("torch", "?")) for process in findings.processes}
    summary = " and ".join(f"Python {python}, torch {torch}" for python, torch in sorted(versions))
    programs = sorted({process.facts.get("program") or "python" for process in findings.processes})
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(started))
    title = f'<h2>{escape(", ".join(programs))}</h2><p class="quiet">{when} · {escape(summary)}</p>'
    return f"<header>{title}{_LIVE if live else ''}</header>"


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
    cards = "".join(break_card(record, count) for record, count in found) or '<p class="quiet">No graph breaks.</p>'
    return f'<section id="breaks"><h2>Graph breaks</h2>{cards}</section>'
