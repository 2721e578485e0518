"""Do documents become values, or errors that say where they do not fit?"""

from typing import Annotated

import msgspec
import pytest

from distributed_grid.config.shape import Word, shaped
from distributed_grid.errors import BadInput, BadValue
from distributed_grid.model import milli


class Wheel(msgspec.Struct, frozen=True, kw_only=True):
    spokes: Annotated[int, Word(milli.parse)] = 0


class Cart(msgspec.Struct, frozen=True, kw_only=True):
    load: Annotated[int, Word(milli.parse)]
    wheels: tuple[Wheel, ...] = ()
    spare: Wheel | None = None
    maker: Annotated[str, Word(str)] = msgspec.field(default="", name="by")


def refusal(document, kind=Cart, **where):
    with pytest.raises(BadInput) as caught:
        shaped("cart.yaml", document, kind, **where)
    return caught.value


def test_a_document_becomes_the_value_it_describes():
    document = {"load": "1.5", "wheels": [{"spokes": 8}, {}], "spare": {"spokes": "9"}, "by": "me"}

    assert shaped("cart.yaml", document, Cart) == Cart(
        load=1_500, wheels=(Wheel(spokes=8_000), Wheel()), spare=Wheel(spokes=9_000), maker="me"
    )
    assert shaped("cart.yaml", [{"load": 1}], tuple[Cart, ...]) == (Cart(load=1_000),)
    assert shaped("cart.yaml", {"load": 1, "spare": None}, Cart) == Cart(load=1_000)


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        ("x", "$", "expected a mapping of keys to values, got 'x'"),
        ({}, "$", "expected the key 'load', got []"),
        ({"load": "x"}, "$.load", "expected a number of amount, got 'x'"),
        ({"load": 1, "wheels": {}}, "$.wheels", "expected a list, got {}"),
        ({"load": 1, "wheels": [{}, 5]}, "$.wheels[1]", "expected a mapping of keys to values"),
        ({"load": 1, "wheels": [{"spokes": -1}]}, "$.wheels[0].spokes", "amount of 0 or more"),
        ({"load": 1, "spare": {"spoke": 1}}, "$.spare", "has the unknown key 'spoke'"),
        ({"load": 1, "maker": "me"}, "$", "has the unknown key 'maker'"),
    ],
)
def test_an_error_names_file_path_and_what_was_expected(document, path, problem):
    error = refusal(document)

    assert (error.file, error.path) == ("cart.yaml", path)
    assert problem in error.problem
    assert error.remedy


def test_an_unknown_key_gets_a_suggestion_if_one_is_near_and_the_list_always():
    assert refusal({"laod": 1}).remedy == "Did you mean 'load'? Known: by, load, spare, wheels"
    assert refusal({"zzz": 1}).remedy == "Known: by, load, spare, wheels"


def test_the_path_can_begin_deeper_in_a_file():
    assert refusal({"load": "x"}, path="$[3]").path == "$[3].load"


def test_a_word_that_knows_more_of_the_path_adds_it():
    def read(_):
        raise BadValue("x", expected="y", remedy="z", field=".deep[2]")

    class Box(msgspec.Struct, frozen=True):
        inner: Annotated[int, Word(read)] = 0

    assert refusal({"inner": 1}, Box).path == "$.inner.deep[2]"
