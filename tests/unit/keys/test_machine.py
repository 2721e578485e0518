"""Is a machine told from others by what stays, and not by what anybody can read off?"""

import pytest

from distributed_grid.edges.keys import machine, machine_fingerprint

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def place(tmp_path):
    """A machine that says nothing of itself yet."""
    (tmp_path / "net").mkdir()
    return tmp_path


def fingerprint(place, host="attic"):
    return machine_fingerprint(
        machine_id=place / "machine-id", dmi_uuid=place / "uuid", network=place / "net", host=host
    )


def card(place, name, address, *, is_there=True):
    (place / "net" / name).mkdir()
    (place / "net" / name / "address").write_text(f"{address}\n")
    if is_there:
        (place / "net" / name / "device").mkdir()


def test_the_systems_id_decides_and_nothing_else(place):
    (place / "machine-id").write_text(f"{ID}\n")
    first = fingerprint(place)
    (place / "uuid").write_text("4c4c4544-0042-3510-8052-b4c04f4d3232\n")
    card(place, "eth0", "02:00:00:00:00:01")

    assert fingerprint(place, host="cellar") == first
    assert len(first) == 64
    assert ID not in first

    (place / "machine-id").write_text(f"{ID[::-1]}\n")

    assert fingerprint(place) != first


@pytest.mark.parametrize(
    "nothing", ["", "uninitialized\n", "0" * 32, "f" * 32, "None", "x" * 32, "\xff\xfe", "abc"]
)
def test_an_id_that_is_none_is_passed_over(place, nothing):
    (place / "machine-id").write_text(nothing, encoding="latin-1")
    (place / "uuid").write_text("4C4C4544-0042-3510-8052-B4C04F4D3232\n")
    by_board = fingerprint(place)
    (place / "uuid").unlink()
    by_host = fingerprint(place)

    assert by_board != by_host
    assert fingerprint(place, host="cellar") != by_host


def test_without_any_id_the_host_and_a_card_that_is_really_there_decide(place):
    card(place, "br0", "02:00:00:00:00:09", is_there=False)
    card(place, "eth1", "02:00:00:00:00:02")
    first = fingerprint(place)
    card(place, "veth7", "02:00:00:00:00:07", is_there=False)

    assert fingerprint(place) == first

    card(place, "eth0", "02:00:00:00:00:01")

    assert fingerprint(place) != first


def test_a_card_that_cannot_be_read_is_no_reason_to_fail(place):
    (place / "net" / "eth0" / "device").mkdir(parents=True)

    assert fingerprint(place) == fingerprint(place)


@pytest.mark.parametrize(
    ("number", "expected"), [(0x0200_0000_0001, "020000000001"), (1 << 40 | 5, "")]
)
def test_an_address_that_was_made_up_is_another_each_time_and_not_used(
    place, monkeypatch, number, expected
):
    monkeypatch.setattr(machine.uuid, "getnode", lambda: number)

    assert machine._card(place / "net") == expected


def test_this_machine_has_a_fingerprint_that_stays():
    assert machine_fingerprint() == machine_fingerprint()
