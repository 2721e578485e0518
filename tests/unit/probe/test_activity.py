"""When somebody last touched the machine."""

import os
from pathlib import Path

from distributed_grid.edges.probe.activity import Activity
from tests.trees.growing import grown

NOW_MS = 1_800_000_000_000
INTERRUPTS = """\
           CPU0       CPU1
  1:         {keys}          2   IO-APIC   1-edge      i8042
 24:      90000          7   PCI-MSI 512000-edge      xhci_hcd
NMI:          0          0   Non-maskable interrupts
"""


def touched(root: Path, path: str, *, seconds_ago: int) -> None:
    grown(root, {path: ""})
    at_ns = (NOW_MS - seconds_ago * 1_000) * 1_000_000
    os.utime(root / path.lstrip("/"), ns=(at_ns, NOW_MS * 1_000_000))


def test_where_nothing_can_be_seen_nothing_is_said(tmp_path):
    assert Activity(grown(tmp_path, {"/dev/null": ""})).idle_ms(NOW_MS) is None


def test_the_terminal_that_was_read_last_counts(tmp_path):
    touched(tmp_path, "/dev/tty1", seconds_ago=900)
    touched(tmp_path, "/dev/pts/0", seconds_ago=300)
    touched(tmp_path, "/dev/pts/12", seconds_ago=500)
    touched(tmp_path, "/dev/tty", seconds_ago=1)
    touched(tmp_path, "/dev/pts/ptmx", seconds_ago=1)
    activity = Activity(grown(tmp_path, {}))

    assert activity.idle_ms(NOW_MS) == 300_000
    touched(tmp_path, "/dev/pts/13", seconds_ago=7)
    assert activity.idle_ms(NOW_MS) == 7_000


def test_a_terminal_that_goes_away_is_forgotten_and_one_of_the_future_is_now(tmp_path):
    touched(tmp_path, "/dev/tty1", seconds_ago=900)
    touched(tmp_path, "/dev/tty2", seconds_ago=-60)
    activity = Activity(grown(tmp_path, {}))
    assert activity.idle_ms(NOW_MS) == 0
    (tmp_path / "dev/tty2").unlink()

    assert activity.idle_ms(NOW_MS) == 900_000


def test_a_key_is_seen_by_its_interrupts(tmp_path):
    tree = grown(tmp_path, {"/proc/interrupts": INTERRUPTS.format(keys=5)})
    activity = Activity(tree)
    assert activity.idle_ms(NOW_MS) is None
    grown(tmp_path, {"/proc/interrupts": INTERRUPTS.format(keys=6)})
    assert activity.idle_ms(NOW_MS) == 0

    assert activity.idle_ms(NOW_MS + 5_000) == 5_000


def test_beside_a_desktop_a_touch_is_told_and_quiet_is_not(tmp_path):
    desktop = "UID=1000\nACTIVE=1\nTYPE=wayland\nCLASS=user\n"
    touched(tmp_path, "/dev/pts/0", seconds_ago=301)
    activity = Activity(grown(tmp_path, {"/run/systemd/sessions/2": desktop}))
    assert activity.idle_ms(NOW_MS) is None
    touched(tmp_path, "/dev/pts/0", seconds_ago=300)
    assert activity.idle_ms(NOW_MS) == 300_000
    touched(tmp_path, "/dev/pts/0", seconds_ago=301)
    for other in ("ACTIVE=0", "TYPE=tty", "CLASS=greeter"):
        key = other.partition("=")[0]
        lines = [other if line.startswith(key) else line for line in desktop.splitlines()]
        grown(tmp_path, {"/run/systemd/sessions/2": "\n".join(lines)})
        assert activity.idle_ms(NOW_MS) == 301_000
