"""The page in a real browser: what its script draws."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
import torch

import tracer
from tests.report.programs import breaking, eight_regions, found
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


def shown(path, tmp_path, *flags):
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, path.as_uri()]
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
