"""Workarounds for the bindings of iroh: each test fails when upstream has made one unnecessary.

Then delete the file that the test names, and the test. The one about cancelled reads needs a
network: `as_it_comes_a_cancelled_read_loses_bytes` in iroh_cases.py.
"""

import inspect
from importlib.metadata import version

import pytest
from iroh import iroh_ffi

from distributed_grid.edges.transport import iroh_calling, iroh_copying, iroh_sockets, iroh_waking

SOURCE = inspect.getsource(iroh_ffi)


@pytest.mark.parametrize("workaround", [iroh_calling, iroh_copying, iroh_sockets, iroh_waking])
def test_the_installed_version_was_looked_at(workaround):
    assert version("iroh") in workaround.NEEDED_BY


def test_the_bindings_still_copy_byte_by_byte():
    """Else delete iroh_copying.py."""
    builder = SOURCE[SOURCE.index("class _UniffiRustBufferBuilder") :]
    write = builder[builder.index("def write(") : builder.index("def write_i8(")]

    assert "for i, byte in enumerate(value)" in write


@pytest.mark.parametrize("size", [0, 1, 64 << 10, (1 << 20) + 7])
def test_bytes_and_pieces_of_them_go_over_and_back(size):
    iroh_copying.hasten()
    converter = iroh_ffi._UniffiFfiConverterBytes
    whole = bytes(number % 251 for number in range(size + 9))

    assert converter.lift(converter.lower(whole)) == whole
    assert converter.lift(converter.lower(memoryview(whole)[4 : 4 + size])) == whole[4 : 4 + size]


def test_the_bindings_still_take_the_long_way_round():
    """Else delete iroh_waking.py."""
    start = SOURCE.index("def _uniffi_continuation_callback(")
    callback = SOURCE[start : SOURCE.index("async def _uniffi_rust_call_async(", start)]

    assert "call_soon_threadsafe" in callback
    assert "get_ident" not in callback


def test_the_bindings_still_build_a_status_for_each_call():
    """Else delete iroh_calling.py."""
    start = SOURCE.index("def _uniffi_rust_call_with_error(")
    call = SOURCE[start : SOURCE.index("def _uniffi_check_call_status(", start)]

    assert "_UniffiRustCallStatus.default()" in call


def test_an_error_is_raised_and_its_status_not_used_again():
    iroh_calling.hasten()
    for _ in range(2):
        with pytest.raises(iroh_ffi.IrohError):
            iroh_ffi.EndpointId.from_string("no such id")

    assert all(status.code == 0 for status, _ in iroh_calling._spare)
