"""The page in a real browser: what its script draws."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import torch

import tracer
from tests.report.programs import branching, breaking, eight_regions, found
from tests.report.test_live import serving
from tracer.report.page import page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=5000", "--enable-logging=stderr",
]  # fmt: skip

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium"),
]


def shown(page, tmp_path, *flags):
    where = page if isinstance(page, str) else page.as_uri()
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, where]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0 and "CONSOLE" not in ran.stderr, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")

    def calls():
        eight_regions(120)
        made = tracer.compile(breaking)
        for n in (3, 4):
            made(torch.randn(n))

    path = folder / "report.html"
    path.write_text(page(found(folder / "records", calls)), encoding="utf-8")
    return path


def numbers(pattern, text):
    return [tuple(map(float, each)) for each in re.findall(pattern, text)]


def around(box, x, y):
    left, top, wide, tall = box
    return left - 1 <= x <= left + wide + 1 and top - 1 <= y <= top + tall + 1


def test_eight_regions_are_drawn_and_each_call_lies_in_that_of_its_entry(report, tmp_path):
    dom = shown(report, tmp_path, "--dump-dom")
    drawing = dom[dom.index('<div class="drawing"><svg') : dom.index("</svg>", dom.index('<div class="drawing"><svg'))]
    regions = {}
    for fill, inside in re.findall(r'<g class="region" fill="([^"]+)"[^>]*>(.*?)</g>', drawing):
        regions[fill] = numbers(r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)">', inside)
    calls = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="[\d.]+" class="served" fill="([^"]+)"', drawing)
    assert len(regions) == 8 and all(regions.values()) and len(calls) > 60
    for x, y, fill in calls:
        assert any(around(box, float(x), float(y)) for box in regions[fill]), (x, y, fill)
    assert dom.count('<ul class="legend"><li>') >= 1 and "entry 8" in dom


def test_a_screenshot_is_not_empty(report, tmp_path):
    picture = tmp_path / "shot.png"
    shown(report, tmp_path, f"--screenshot={picture}", "--window-size=1300,1800")
    data = picture.read_bytes()
    assert data[:4] == b"\x89PNG" and len(data) > 50_000


def test_a_live_page_shows_what_is_recorded_after_it_was_opened(tmp_path):
    """The page is asked for, then something is compiled, then its script asks whether there is more."""
    records = tmp_path / "records"
    stop = tracer.record(records)
    made = tracer.compile(branching, shapes="x: B, S; B in 1..64; S in 1..64")
    made(torch.ones(3, 5))
    asked = []

    class Later:
        """Goes on with the program when the page is open."""

        def version(self):
            asked.append("version")
            if asked.count("version") == 2:  # the first belongs to the page
                made(torch.ones(20, 48))
                tracer.compile(breaking)(torch.ones(3))
            return version()

    with serving(records) as server:
        version, server.version = server.version, Later().version
        dom = shown(server.url, tmp_path, "--dump-dom")
    stop()
    assert asked.count("version") > 2
    assert "<h2>branching</h2>" in dom and "<h2>breaking</h2>" in dom and "follows the recording" in dom
    assert 'id="f1-e2"' in dom and dom.count('<g class="region"') >= 2  # drawn anew, with the new entry
    assert re.search(r'<details class="entry" id="f1-e1" open', dom)


def test_what_is_chosen_and_unfolded_on_a_live_page_stays(tmp_path):
    """A script in the page acts as a user does before the contents are taken anew, and notes what it finds after that."""
    records = tmp_path / "records"
    stop = tracer.record(records)
    made = tracer.compile(branching, shapes="x: B, S; B in 1..64; S in 1..64")
    for size in (3, 20):
        made(torch.ones(size, 5))
    act = """<script>
      const choice = () => document.querySelectorAll("figure.shapes select")[1];
      choice().value = ""; choice().dispatchEvent(new Event("change"));
      document.getElementById("f1-e2").open = true;
      document.getElementById("f1-e1").open = false;
      document.addEventListener("contents", () => setTimeout(() => {
        const open = [1, 2].map(number => document.getElementById(`f1-e${number}`).open);
        document.title = JSON.stringify([choice().value, ...open, !!document.getElementById("f1-e3")]);
      }, 0));
    </script>"""

    with serving(records) as server:
        version, page = server.version, server.page
        asked = []

        def going_on():
            asked.append(1)
            if len(asked) == 2:
                made(torch.ones(20, 48))
            return version()

        server.version = going_on
        server.page = lambda: page().replace(b"</body>", act.encode() + b"</body>")
        dom = shown(server.url, tmp_path, "--dump-dom")
    stop()
    assert '<title>["",false,true,true]</title>' in dom
