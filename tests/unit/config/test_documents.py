"""Are untrusted files read as plain values, or refused in one line, before they can do harm?"""

import os
import threading

import pytest

from distributed_grid.config import documents
from distributed_grid.config.documents import read_document
from distributed_grid.errors import BadInput


def read(tmp_path, text, name="a.yaml"):
    file = tmp_path / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(str(file))


def refusal(tmp_path, text, name="a.yaml"):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text, name)
    assert caught.value.file == str(tmp_path / name)
    assert str(caught.value).isprintable()
    return caught.value


def test_yaml_scalars_stay_text_whatever_yaml_would_make_of_them(tmp_path):
    text = "[no, 0123, 12:30, .nan, 1e3, 0x10, 2024-01-01, =, true, 1_000, '5', \"~\", ~, null, ]"

    assert read(tmp_path, text) == [
        *("no", "0123", "12:30", ".nan", "1e3", "0x10", "2024-01-01", "=", "true", "1_000"),
        *("5", "~", None, None),
    ]


def test_yaml_and_json_of_the_same_things_are_the_same(tmp_path):
    expected = [{"a": {"b": ["c", "d"]}, "e": None}, []]

    assert read(tmp_path, "- a: {b: [c, d]}\n  e:\n- []\n") == expected
    assert read(tmp_path, '[{"a": {"b": ["c", "d"]}, "e": null}, []]', "a.json") == expected


def test_a_file_without_an_ending_is_json_if_it_begins_like_it(tmp_path):
    assert read(tmp_path, ' [{"a": 1}]', "fleet") == [{"a": 1}]
    assert read(tmp_path, "- a: 1", "fleet") == [{"a": "1"}]
    assert read(tmp_path, '{"a": 1}', "fleet.yml") == {"a": "1"}


def test_a_byte_order_mark_is_no_content(tmp_path):
    assert read(tmp_path, b"\xef\xbb\xbf[1]", "a.json") == [1]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x 1", "line 1: uses the anchor &x"),
        ("a: &x [1]", "line 1: uses the anchor &x"),
        ("a: 1\nb: *x", "line 2: uses the alias *x"),
        ("a: !!python/object:os.system x", "uses the tag 'tag:yaml.org,2002:python/object:os"),
        ("a: !!int 5", "uses the tag"),
        ("a: !mine [1]", "uses the tag '!mine'"),
        ("a: 1\na: 2", "line 2: has the key 'a' twice"),
        ("a: {b: 1, c: 2, b: 3}", "has the key 'b' twice"),
        ("? [a]\n: 1", "has a key that is not text"),
        ("? {a: 1}\n: 1", "has a key that is not text"),
        ("~: 1", "has an empty key"),
        ("a: 1\n---\nb: 2", "line 2: holds a second document"),
        ("a: [1", "is not YAML"),
        ("a: b: c", "is not YAML"),
        ("\tx: 1", "is not YAML"),
        ("a: \x07", "is not YAML"),
        ("%YAML 9", "is not YAML"),
        ("# only words\n", "is empty"),
        ("[" * 65 + "]" * 65, "is nested deeper than 64 levels"),
    ],
)
def test_what_yaml_may_not_do_is_refused_with_its_line(tmp_path, text, problem):
    assert problem in refusal(tmp_path, text).problem


def test_the_path_of_a_problem_in_yaml_is_told(tmp_path):
    text = "- a: 1\n- b:\n    c: [x, {d: 1, d: 2}]\n"

    assert refusal(tmp_path, text).path == "$[1].b.c[1]"
    assert refusal(tmp_path, "- a: {}\n  b: {c: &x 1}").path == "$[0].b"


def test_quotes_and_a_lone_exclamation_mark_keep_a_scalar_text(tmp_path):
    assert read(tmp_path, "[! '1', ! x, '', \"\"]") == ["1", "x", "", ""]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "has the key 'a' twice"),
        ('{"a": NaN}', "is not JSON"),
        ('{"a": Infinity}', "is not JSON"),
        ('{"a": 1e400}', "is not JSON"),
        ("[1,]", "is not JSON"),
        ('{"a" 1}', "is not JSON"),
        ('["\\ud800"]', "is not JSON"),
        ('["a', "is not JSON"),
        ("[1] [2]", "is not JSON"),
        ("[" + "1" * 5_000 + "]", "is not JSON"),
        ("[" * 100_000, "is nested deeper than 64 levels"),
        ('{"a":' * 100_000, "is nested deeper than 64 levels"),
        ("[" * 65 + "]" * 65, "is nested deeper than 64 levels"),
        ('"\\' + "[" * 100_000, "is not JSON"),
        ("\0" * 100, "is not JSON"),
    ],
)
def test_what_json_may_not_do_is_refused(tmp_path, text, problem):
    assert problem in refusal(tmp_path, text, "a.json").problem


def test_the_path_of_a_key_that_stands_twice_in_json_is_told(tmp_path):
    text = '[{"a": "b:c"}, {"b": [{"c": {"\\u0064": 1, "d": 2}}]}]'

    assert refusal(tmp_path, text, "a.json").path == "$[1].b[0].c"


def test_colons_and_brackets_in_json_text_are_no_structure(tmp_path):
    tricky = {'a:"{[': '":{[]}\\"', "b": ["::::", "\\"], "}": {}}

    import json

    assert read(tmp_path, json.dumps(tricky), "a.json") == tricky


def test_64_levels_are_deep_enough(tmp_path):
    text = "[" * 64 + "]" * 64

    assert read(tmp_path, text, "a.json") == read(tmp_path, text, "a.yaml")


@pytest.mark.parametrize("text", ["", " \n\t ", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.json", "a.yaml", "a"])
def test_an_empty_file_is_told_so(tmp_path, text, name):
    assert refusal(tmp_path, text, name).problem == "is empty"


def test_bytes_that_are_no_text_are_told_so(tmp_path):
    assert "byte 1 is not UTF-8" in refusal(tmp_path, b"a\xff\xfe\x00").problem


def test_files_that_cannot_be_read_are_told_why(tmp_path):
    for file, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "missing", "No such file"),
        (tmp_path / "a\0b", "null byte"),
        (tmp_path / ("x" * 300), "File name too long"),
    ):
        with pytest.raises(BadInput, match=f"cannot be read: .*{why}") as caught:
            read_document(str(file))
        assert str(caught.value).isprintable()


def test_no_more_is_read_of_a_file_than_may_be(tmp_path):
    for name, limit in (("a.yaml", documents.YAML_BYTES_MAX), ("a.json", documents.JSON_BYTES_MAX)):
        file = tmp_path / name
        with file.open("wb") as stream:
            stream.truncate(limit + 1)  # Sparse: takes no room.
        with pytest.raises(BadInput, match=f"is larger than {limit >> 20} MiB"):
            read_document(str(file))


def test_a_pipe_is_read_to_its_end(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        with pipe.open("wb") as stream:
            for _ in range(20_000):
                stream.write(b"- abcdefgh\n")

    writer = threading.Thread(target=write)
    writer.start()
    document = read_document(str(pipe))
    writer.join()

    assert document == ["abcdefgh"] * 20_000
