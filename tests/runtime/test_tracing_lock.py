"""The lock on tracing: one thread traces at a time, and the others wait."""

from __future__ import annotations

import threading
import time

import pytest

from tracer.runtime.tracing_lock import Delegation, TracingLock


def entering(lock, delegation=None):
    """A thread that enters, and whether it has."""
    entered = threading.Event()

    def run():
        if delegation is not None:
            lock.act_for_owner(delegation)
        with lock:
            entered.set()

    thread = threading.Thread(target=run)
    thread.start()
    return thread, entered


@pytest.fixture
def lock():
    return TracingLock()


def test_a_thread_waits_for_another_and_not_for_itself(lock):
    with lock, lock:
        thread, entered = entering(lock)
        assert not entered.wait(0.05)
    thread.join()
    assert entered.is_set()


def test_a_guest_enters_while_its_host_waits(lock):
    delegation = Delegation(active=False)
    with lock, lock.delegate(delegation):
        thread, entered = entering(lock, delegation)
        thread.join(5)
        assert entered.is_set()


def test_a_guest_is_one_no_longer_when_its_host_goes_on(lock):
    delegation = Delegation(active=False)
    with lock:
        with lock.delegate(delegation):
            pass
        thread, entered = entering(lock, delegation)
        assert not entered.wait(0.05)
    thread.join()
    assert entered.is_set()


def test_who_has_no_lock_is_no_host(lock):
    delegation = Delegation(active=False)
    with lock.delegate(delegation):
        with lock:
            thread, entered = entering(lock, delegation)
            assert not entered.wait(0.05)
        thread.join()


def test_a_thread_that_gets_the_ident_of_a_guest_that_ended_is_no_guest(lock):
    """The system gives the ident of a thread that ended to the next one that begins."""
    for _ in range(20):
        delegation = Delegation(active=False)
        with lock:
            with lock.delegate(delegation):
                guest, _ = entering(lock, delegation)
                guest.join()
                time.sleep(0.01)  # until it has ended for the system, too
                other, entered = entering(lock)
                assert not entered.wait(0.01)
                if other.ident == guest.ident:
                    break
        other.join()
    else:
        pytest.skip("no thread got the ident of another: this system does not give them again")
    other.join()
