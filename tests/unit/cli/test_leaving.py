import os

from distributed_grid.cli.down import lives


def test_a_process_that_has_ended_is_gone_before_anybody_asked_for_its_status():
    """Whoever inherits the keeper may take seconds for that; `grid down` does not wait for it."""
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    assert not lives(pid)
    os.waitpid(pid, 0)
    assert not lives(pid)


def test_a_process_that_runs_lives_whoever_it_belongs_to():
    assert lives(os.getpid())
    assert lives(1)
