"""The work at the end of an executor, in a process of its own."""

import gzip
import subprocess
import sys
import textwrap


def run(program):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_handlers_that_take_too_long_are_named_and_left():
    done = run("""
        import atexit, threading
        from raycompat._executor import exit_work

        def hang_here():
            threading.Event().wait()

        atexit.register(hang_here)
        exit_work.run(None, 0.2, joins_threads=True)
    """)
    assert done.returncode == 1
    assert "did not end within 0.2 s" in done.stderr
    assert "in hang_here" in done.stderr
    assert "exit_work.py" not in done.stderr


def test_files_above_others_are_written_first(tmp_path):
    path = tmp_path / "file.gz"
    done = run(f"""
        import gzip, os
        from raycompat._executor import exit_work

        file = gzip.open({str(path)!r}, "wt")
        file.write("text")
        exit_work.run(None, 30, joins_threads=True)
        os._exit(0)
    """)
    assert (done.returncode, done.stderr) == (0, "")
    with gzip.open(path, "rt") as file:
        assert file.read() == "text"
