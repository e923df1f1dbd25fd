"""What a server's operator asks of a function: which calls are certified and sealed, how long calls take, and why calls missed.

`report.function_sections` puts these tables on the page of a recording. Each function returns HTML, "" where nothing was
recorded. A `Record` is a line of the recording as JSON (made in `report.contents`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from html import escape

from tracer.report.axes import Axes, short
from tracer.report.findings import Function, Process, Record
from tracer.report.markup import counted, place_of, table
from tracer.report.timeline import duration

MOST_MISSES = 100  # rows, each of one cause
_DONE = {  # policy of a miss -> what was done
    "trace": "traced",
    "error": "refused",
    "eager": "run uncompiled",
    "background": "run uncompiled, traced in the background",
}
_REASONS = {"no entry": "there was no entry", "undeclared": "not in the declared domain", "guards": "no guards held"}


def sizes_text(axes: Axes, sizes: Mapping[str, int]) -> str:
    """`B = 3, S = 7`. `sizes`: label of a size, such as `L['x'].size()[0]` -> its value."""
    return ", ".join(f"{axes.text(name)} = {value}" for name, value in axes.sizes(sizes.items()))


# -- certificates and seals ---------------------------------------------------------------------------------------


def certificates(function: Function) -> str:
    """The last certificate of each region, variant by variant, and whether it is sealed."""
    # A group is a region of one process. One may have been sealed without a certificate.
    groups = [*function.certificates, *(group for group in function.seals if group not in function.certificates)]
    cards = [_certificate(function, function.certificates.get(group), function.seals.get(group)) for group in groups]
    return "".join(cards)


def _certificate(function: Function, certificate: tuple[Process, Record] | None, seal: tuple[Process, Record] | None) -> str:
    variants, process = "", None
    if certificate is not None:
        process, record = certificate
        rows = [_variant(function, process, variant) for variant in record.get("variants", ())]
        headings = ["variant", "domain", "regions, and the entries that serve them", "modes"]
        first = 0 if len(rows) > 1 else 1  # a single variant needs no name
        variants = table("variants", headings[first:], [row[first:] for row in rows])
    sealed = "not sealed"
    if seal is not None:
        process, record = seal
        done = _DONE.get(record.get("policy", ""), record.get("policy", ""))
        sealed = f"sealed at {_at(record)}: a miss is {done}" if record["kind"] == "seal" else f"unsealed at {_at(record)}"
    title = "Nothing was certified" if certificate is None else f"{_status(certificate[1])} at {_at(certificate[1])}"
    good = " good" if certificate is not None and certificate[1].get("reason") == "certified" else ""
    where = "" if process is None else f' <span class="quiet">{escape(process.title)}</span>'
    return f'<div class="card certificate{good}"><h4>{escape(title)}; {escape(sealed)}{where}</h4>{variants}</div>'


def _status(record: Record) -> str:
    """`Certified`, or `Certified (3 variants)`."""
    count = len(record.get("variants", ()))
    variants = f" ({counted(count, 'variant')})" if count > 1 else ""
    return f"{str(record.get('reason', '')).capitalize()}{variants}"


def _variant(function: Function, process: Process, variant: Record) -> list[str]:
    """The cells of a row. An entry of the certificate is a link where its compile is in the recording."""
    anchors = {entry.record.get("entry"): entry for entry in function.entries if entry.process is process}
    regions = []  # each is the set of shapes that one entry serves
    for region in variant["regions"]:
        entry = anchors.get(region["entry"])
        name = "" if entry is None else f'<a href="#{entry.anchor}">entry {entry.number}</a> '
        regions.append(f"<li>{name}<code>{escape(region['text'])}</code></li>")
    status = "" if variant["status"] == "certified" else f"<b>{escape(variant['status'])}</b> {escape(variant['witness'])} "
    reason = f'<p class="quiet">{escape(variant["reason"])}</p>' if variant["reason"] else ""
    domain = f"<code>{escape(variant['domain'])}</code>{reason}"
    return [escape(variant["name"]), f"{status}{domain}", f"<ul>{''.join(regions)}</ul>", escape(", ".join(variant["modes"]))]


def _at(record: Record) -> str:
    """The time of day, in the time zone of whoever makes the page."""
    return time.strftime("%H:%M:%S", time.localtime(record["t"]))


# -- latency ------------------------------------------------------------------------------------------------------


def latencies(function: Function) -> str:
    """How long calls took, by entry."""
    timed = [entry for entry in function.entries if entry.latency.count]
    if not timed:
        return ""
    rows = []
    for entry in timed:
        name = f'<a href="#{entry.anchor}">entry {entry.number}</a>'
        where = "" if entry.part.line is None else f' <span class="quiet">{escape(entry.part.title)}</span>'
        shares = [duration(entry.latency.percentile(share)) for share in (0.5, 0.95, 0.99)]
        rows.append([name + where, str(entry.latency.count), duration(entry.latency.mean), *shares])
    made = table("latency", ["", "runs", "mean", "p50", "p95", "p99"], rows)
    note = "Of the entry's code and graph, on the thread of the call; without the search for the entry. Percentiles: within 25%."
    return f'<h3>Latency by entry</h3>{made}<p class="quiet">{note}</p>'


# -- misses -------------------------------------------------------------------------------------------------------


def misses(function: Function) -> str:
    """Why calls missed, those of one cause in a row, the most frequent first."""
    causes: dict[tuple[str, str, str], list[tuple[Process, Record]]] = {}  # (policy, what was done, why) -> its misses
    for part in function.parts.values():
        for process, record in part.misses:
            causes.setdefault((*_done(record), _why(record)), []).append((process, record))
    if not causes:
        return ""
    ordered = sorted(causes.items(), key=lambda item: -len(item[1]))
    rows = [_row(function, done, why, missed) for (_, done, why), missed in ordered[:MOST_MISSES]]
    only_counted = function.missed - sum(map(len, causes.values()))  # beyond some number a miss has no record of its own
    notes = [f"{counted(len(ordered) - MOST_MISSES, 'further cause')} not shown."] if len(ordered) > MOST_MISSES else []
    notes += [f"{counted(only_counted, 'further miss', 'further misses')} only counted."] if only_counted > 0 else []
    made = table("misses", ["calls", "why it missed", "what was done", "such a call"], rows)
    return f'<h3>Misses</h3>{made}<p class="quiet">{escape(" ".join(notes))}</p>'


def _done(record: Record) -> tuple[str, str]:
    """The policy of a miss, and what was done in words."""
    policy = str(record.get("policy", ""))
    return policy, _DONE.get(policy, policy)


def _why(record: Record) -> str:
    """The cause as HTML, the same for misses that are to be one row: the guards that fail if they were recorded, else what the
    text of the miss (`MissedCall.summary`, "...serves this call: the cause") says, else the recorded reason."""
    reason = str(record.get("reason", ""))
    failures = list({failure["text"]: failure for failure in record.get("failures", ())}.values())
    if failures:
        items = "".join(
            f"<li><code>{escape(short(each['text']))}</code>{place_of(each.get('where'))}</li>" for each in failures[:3]
        )
        return f'<ul class="why">{items}</ul>'
    _, found, detail = str(record.get("detail", "")).partition("serves this call")
    said = detail.partition(": ")[2]
    if not found or not said or said.startswith("explain()") or reason == "no entry":
        return escape(_REASONS.get(reason, reason))
    return f"<code>{escape(short(said))}</code>"


def _row(function: Function, done: str, why: str, missed: list[tuple[Process, Record]]) -> list[str]:
    """The cells of a row, with the first call of one cause as the example."""
    process, record = missed[0]
    axes = function.axes_of((process.number, record.get("region_number", 0)))
    dtypes = sorted(set(record.get("dtypes", {}).values()) - {"int"})  # of the tensors; "int" is what an int argument has
    call = sizes_text(axes, record.get("sizes", {}))
    kinds = ", ".join(each.removeprefix("torch.") for each in dtypes)
    times = _at(record) if len(missed) == 1 else f"{_at(record)} to {_at(missed[-1][1])}"
    return [str(len(missed)), why, escape(done), f'{escape(call)} <span class="quiet">{escape(kinds)} · {times}</span>']
