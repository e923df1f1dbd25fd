"""The page of `make matrix`, of logs that are there."""

from __future__ import annotations

import sys

from tools import matrix

LOG = """commit ab12
..F.                                                                     [100%]
=========================== short test summary info ============================
FAILED tests/api/test_marks.py::test_a[one - two] - AssertionError: no
ERROR tests/api/test_more.py
1 failed, 30 passed, 2 skipped, 5 deselected, 7 warnings, 1 error in 3.20s
"""


def test_the_page_counts_what_ran_and_names_what_failed_and_what_has_not_run(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "KEPT", tmp_path)
    monkeypatch.setattr(matrix, "folders", lambda: ["tests/api", "tests/test_*.py"])
    for folder in matrix.folders():
        log = matrix.log_of("3.12", "2.13.0", folder)
        log.parent.mkdir(exist_ok=True)
        log.write_text(LOG)
    log.unlink()
    page = matrix.page()
    assert "| 3.12 | 2.13.0 | 30 | 2 | 2 | ab12 |\n" in page and "| 3.13 | 2.14.1 | not run | | | |\n" in page
    assert "- 3.12 with 2.13.0 fails: `tests/api/test_marks.py::test_a[one" in page
    assert "- 3.12 with 2.13.0 fails: `tests/api/test_more.py`\n" in page
    assert "- 3.12 with 2.13.0 has not run: tests/test_*.py\n" in page


def test_a_process_that_does_not_come_to_its_end_counts_as_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "KEPT", tmp_path)
    for folder, log in (("tests/api", LOG), ("tests/csrc", ".....Fatal Python error: Segmentation fault\n"), ("tests/docs", "")):
        path = matrix.log_of("3.12", "2.13.0", folder)
        path.parent.mkdir(exist_ok=True)
        path.write_text(log)
    page = matrix.page()
    assert "| 3.12 | 2.13.0 | 30 | 4 | 2 | ab12 |\n" in page
    assert page.count("(it did not come to its end)") == 2 and "`tests/csrc (it did" in page


def test_what_has_not_run_in_this_tree_keeps_its_row_and_its_notes(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "KEPT", tmp_path)
    log = matrix.log_of("3.12", "2.13.0", "tests/api")
    log.parent.mkdir()
    log.write_text(LOG)
    before = matrix.page().replace("ab12", "cd34")
    log.unlink()
    after = matrix.page(before)
    assert after == before and "| 3.12 | 2.13.0 | 30 | 2 | 2 | cd34 |\n" in after and "test_marks.py" in after
    assert "not run | | | |\n" in after


def test_what_a_process_says_after_the_count_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "KEPT", tmp_path)
    log = matrix.log_of("3.12", "2.13.0", "tests/api")
    log.parent.mkdir()
    log.write_text(LOG.replace("ab12", "ab12+") + "sys:1: DeprecationWarning: 3 failed attempts\n")
    assert "| 3.12 | 2.13.0 | 30 | 2 | 2 | ab12+ |\n" in matrix.page()


def test_only_what_is_set_up_is_run_and_3_14_in_its_root(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "environment", lambda *names: tmp_path / "env")
    assert matrix.tester("3.13", "2.14.1", builds=False, root=tmp_path) is None
    assert matrix.tester("3.14", "2.14.1", builds=False) is None
    assert matrix.tester("3.14", "2.14.1", root=tmp_path)[-1] == str(tmp_path)
    (tmp_path / "env/bin").mkdir(parents=True)
    (tmp_path / "env/bin/python").touch()
    assert matrix.tester("3.13", "2.14.1", builds=False, root=tmp_path) == [f"{tmp_path}/env/bin/python"]


def test_every_file_of_tests_is_in_a_folder_that_is_run():
    folders = [matrix.ROOT / folder for folder in matrix.folders()]
    for path in (matrix.ROOT / "tests").rglob("test_*.py"):
        assert any(path.is_relative_to(folder) for folder in folders) or path.match("tests/test_*.py"), path


def test_a_check_holds_where_its_exit_status_is_0_and_runs_once(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "KEPT", tmp_path)
    monkeypatch.setattr(matrix, "commit", lambda: "ab12")
    monkeypatch.setattr(matrix, "CHECKS", {"one": ("-c", "pass"), "two": ("-c", "raise SystemExit(3)")})
    matrix.run_checks("3.12", "2.13.0", ["one", "two"], [sys.executable])
    assert "| 3.12 | 2.13.0 | holds at ab12 | fails at ab12 |\n" in matrix.page()
    monkeypatch.setattr(matrix, "CHECKS", {"one": ("-c", "raise SystemExit(3)"), "two": ("-c", "pass")})
    matrix.run_checks("3.12", "2.13.0", ["one", "two"], [sys.executable])
    assert "| 3.12 | 2.13.0 | holds at ab12 | fails at ab12 |\n" in matrix.page()


def test_a_check_that_has_not_run_in_this_tree_keeps_its_cell(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "KEPT", tmp_path)
    monkeypatch.setattr(matrix, "CHECKS", {"one": (), "two": ()})
    logs = [matrix.log_of("3.12", "2.13.0", f"check {name}") for name in matrix.CHECKS]
    logs[0].parent.mkdir()
    logs[0].write_text("commit ab12\nsaid\nexit status 0")
    before = matrix.page()
    assert "| 3.12 | 2.13.0 | holds at ab12 | not run |\n" in before and "| 3.12 | 2.13.0 | not run | | | |\n" in before
    logs[0].unlink()
    logs[1].write_text("commit cd34\nsaid\nexit status -11")
    assert "| 3.12 | 2.13.0 | holds at ab12 | fails at cd34 |\n" in matrix.page(before)
