"""Questions about the process and the thread, which are asked again before every call."""

from __future__ import annotations

import os
import sys
import threading

import torch

import tracer
from tests.support import captured

X = torch.arange(3.0)


def test_questions_about_the_process_are_answered_while_tracing():
    captured(lambda x: (x + 1, os.getpid(), os.getcwd(), os.cpu_count(), sys.getrecursionlimit(), threading.get_ident()), X)


def test_each_thread_has_its_own_answer():
    traced = tracer.compile(lambda x: (x + 1, threading.get_ident()), fullgraph=True)
    answers = []

    def ask():
        answers.append((traced(X)[1], threading.get_ident()))

    ask()
    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    ask()
    assert all(told == asked for told, asked in answers) and len({told for told, _ in answers}) == 2


def test_another_folder_is_seen(tmp_path, monkeypatch):
    traced = tracer.compile(lambda x: (x + 1, os.getcwd()), fullgraph=True)
    before = traced(X)[1]
    monkeypatch.chdir(tmp_path)
    assert traced(X)[1] == os.getcwd() != before
