"""Documents that are a list of tables; policies and role addresses have their own tests of what they allow."""

import pytest

from serving.config.table_documents import (
    PropertyReader,
    TableKind,
    TableLines,
    TablesRefused,
    WrongValue,
    duration,
    json_document,
    read_properties,
    tables_of,
    toml_document,
)


def _small(value):
    if value not in range(10):
        raise WrongValue("a digit")
    return value


KIND = TableKind("shelf", "shelves", 3, {"size": PropertyReader("size_m", _small)})


def read(text):
    tables = tables_of(
        toml_document(text), KIND, TableLines(text, KIND.name), lambda table, _: read_properties(table, KIND)[1]
    )
    return [KIND.values(table) for table in tables]


def refusal(text):
    with pytest.raises(TablesRefused) as refused:
        read(text)
    return str(refused.value)


def test_tables_become_values_under_the_names_of_fields():
    assert read("[[shelf]]\nsize = 1\n[[ 'shelf' ]]\n'size' = 2") == [{"size_m": 1}, {"size_m": 2}]


def test_mistakes_are_named_with_line_and_place():
    assert refusal("[[shelf]]\nsize = 1\n\n[[shelf]]\nsize = 10\ncolour = 'red'") == (
        "line 5, shelf 2: size: 10 is not allowed, but a digit is; "
        "line 6, shelf 2: colour: is no property of a shelf; those are size"
    )


def test_other_shape_and_too_many_tables_are_refused():
    assert refusal("shelf = 1").startswith("the document is a list of shelves: [[shelf]] in TOML")
    assert refusal("[[shelf]]\n" * 4) == "4 shelves are too many; the limit is 3"
    assert refusal("shelf = [1]") == "shelf 1: 1 is no shelf, but a table of size is"


def test_json_that_is_none_is_refused():
    with pytest.raises(TablesRefused, match="not JSON"):
        json_document("{")


@pytest.mark.parametrize(("text", "ms"), [("1500ms", 1500), ("2s", 2000), ("1m", 60_000), (700, 700)])
def test_duration_is_a_number_of_ms_or_text_with_a_unit(text, ms):
    assert duration(500, 60_000)(text) == ms


@pytest.mark.parametrize("value", ["10ms", "2h", True, "soon", 1.5])
def test_duration_out_of_its_limits_is_wrong(value):
    with pytest.raises(WrongValue, match="from 500 to 60000 ms"):
        duration(500, 60_000)(value)
