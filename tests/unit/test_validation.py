"""What a library says of bad input is said in our words."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticKnownError
from pydantic_core.core_schema import ErrorType

from gateway.validation import keys_at, one_line, problems_in, problems_of

_CONTEXT: dict[str, Any] = {
    "gt": 1,
    "ge": 1,
    "lt": 1,
    "le": 1,
    "multiple_of": 2,
    "min_length": 1,
    "max_length": 1,
    "actual_length": 2,
    "field_type": "List",
    "expected": "'a'",
    "pattern": "x",
    "error": "e",
}


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    port: int = 1
    begins: str = Field(default="", alias="from")


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inner: Inner = Inner()
    several: list[Inner] = []
    named: dict[str, Inner] = {}
    either: Annotated[int, Field(ge=1)] | Literal["auto"] | None = None
    lists: int | list[list[str]] = 1


def problems(**given: Any) -> list[str]:
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate(given)
    return [words for _, words in problems_of(refused.value, model=Outer)[0]]


@pytest.mark.parametrize("kind", get_args(ErrorType))
def test_no_error_has_the_librarys_words(kind: Any) -> None:
    try:
        message = PydanticKnownError(kind, _CONTEXT).message()
    except (TypeError, KeyError):  # it has other things to tell, of types that no model of ours has
        message = "Input should be what it is"
    (told,) = problems_in([{"type": kind, "loc": ("a", "b"), "msg": message, "input": None, "ctx": _CONTEXT}])
    assert told[1].startswith("a.b: ")
    for words in ("Input should", "Value error", "after validation", "pydantic", "Input "):
        assert words not in told[1]


def test_unknown_keys_are_told_with_what_is_near() -> None:
    assert problems(inner={"prot": 1}) == ["inner.prot: unknown key (did you mean 'port'?)"]
    assert problems(several=[{"form": "x"}]) == ["several.0.form: unknown key (did you mean 'from'?)"]
    assert problems(named={"a": {"prt": 1}}) == ["named.a.prt: unknown key (did you mean 'port'?)"]
    assert problems(colour=1) == ["colour: unknown key"]
    assert keys_at(Outer, ("several", 0)) == ["port", "from"]


def test_a_value_of_several_kinds_is_one_problem() -> None:
    assert problems(either="many") == ["either: must be a whole number, or must be 'auto' (it is 'many')"]
    assert problems(either=0) == ["either: must be 1 or more, or must be 'auto' (it is 0)"]
    assert problems(lists=[["a"], "b"]) == ["lists.1: must be a list (it is 'b')"]


def test_the_first_and_how_many_more() -> None:
    with pytest.raises(ValidationError) as refused:
        Outer.model_validate({"inner": {"port": "x"}, "colour": 1, "size": 2})
    assert one_line(refused.value) == "inner.port: must be a whole number (it is 'x') (and 2 more)"


class Login(BaseModel):
    properties: dict[str, str] = {}
    port: int = 1


def test_what_may_be_a_secret_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        Login.model_validate({"properties": {"sasl.password": 31337}, "port": "x"})
    problems = [words for _, words in problems_of(caught.value)[0]]
    assert problems == [
        "properties.sasl.password: must be text, in quotes",
        "port: must be a whole number (it is 'x')",
    ]
