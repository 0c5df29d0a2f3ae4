"""Every class that attn_doctor/quick_dataclasses.py makes is what the standard library makes of the same text."""

from __future__ import annotations

import copy
import dataclasses
import functools
import importlib
import inspect
import pickle
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import attn_doctor
from attn_doctor import quick_dataclasses

PACKAGE = Path(attn_doctor.__file__).parent
#: serving/ imports an SDK, which is not made for the walls around these tests; it has no record of its own.
_NOT_OURS = ("attn_doctor.patient", "attn_doctor.fleet.hooks", "attn_doctor.__main__", "attn_doctor.serving")


@functools.cache
def _classes() -> tuple[type[Any], ...]:
    """Not when this file is imported: it imports everything there is."""
    return tuple(_found())


def _found() -> Iterator[type[Any]]:
    for module in pkgutil.walk_packages([str(PACKAGE)], "attn_doctor."):
        if not module.name.startswith(_NOT_OURS):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and value.__module__ == module.name and dataclasses.is_dataclass(value):
                    yield value


def _made_here() -> list[type[Any]]:
    return [one for one in _classes() if "_recorded" in vars(one)]


def _as_theirs(class_: type[Any]) -> type[Any]:
    """The same fields, made by the standard library."""
    body: dict[str, Any] = {"__annotations__": {}}
    keyword_only = True
    for one in dataclasses.fields(class_):
        body["__annotations__"][one.name] = one.type
        body[one.name] = dataclasses.field(
            default=one.default, default_factory=one.default_factory, compare=one.compare, repr=one.repr
        )  # type: ignore[call-overload]
        keyword_only &= bool(one.kw_only)
    for name in ("__post_init__", "__str__"):
        if name in vars(class_):
            body[name] = vars(class_)[name]
    order = "__lt__" in vars(class_)
    return dataclasses.dataclass(frozen=True, kw_only=keyword_only, order=order)(type(class_.__name__, (), body))


def test_nearly_all_are_made_here() -> None:
    """Those that change after they were made are the standard library's."""
    assert len(_made_here()) > 150
    assert len(_made_here()) > 0.9 * len(_classes())


def test_the_same_as_the_standard_librarys() -> None:
    """Arguments of __init__ with their defaults, what is equal, hashed, copied, pickled, refused."""
    for class_ in _made_here():
        _compare(class_)  # a failure shows the class among the values of its assert


def _compare(class_: type[Any]) -> None:
    theirs = _as_theirs(class_)
    parameters = inspect.signature(class_).parameters
    expected = inspect.signature(theirs).parameters
    assert [(one.name, one.kind, one.annotation) for one in parameters.values()] == [
        (one.name, one.kind, one.annotation) for one in expected.values()
    ]
    assert [one.name for one in parameters.values() if one.default is one.empty] == [
        one.name for one in expected.values() if one.default is one.empty
    ]
    assert class_.__match_args__ == theirs.__match_args__
    assert vars(class_)["__dataclass_params__"].frozen

    def told(fields: tuple[Any, ...], missing: object) -> list[object]:
        return [
            (
                *(one.name, one.type, one.repr, one.compare, dict(one.metadata)),
                *("none" if had is missing else had for had in (one.default, one.default_factory)),
            )
            for one in fields
        ]

    assert told(quick_dataclasses.fields(class_), quick_dataclasses.MISSING) == told(
        dataclasses.fields(class_), dataclasses.MISSING
    )

    if "__post_init__" in vars(class_):
        return  # takes no words in the place of values
    needed = {one.name: f"the {one.name}" for one in expected.values() if one.default is one.empty}
    mine, same, other = class_(**needed), class_(**needed), theirs(**needed)
    names = [one.name for one in dataclasses.fields(class_)]
    assert {name: getattr(mine, name) for name in names} == {name: getattr(other, name) for name in names}
    assert mine == same
    assert mine != other
    if not any(isinstance(getattr(mine, name), (dict, list)) for name in names):
        assert hash(mine) == hash(same)
    if "__repr__" not in vars(class_) or vars(class_)["__repr__"] is quick_dataclasses.__dict__["_repr"]:
        assert repr(mine) == repr(other).replace(theirs.__qualname__, class_.__qualname__, 1)
    for name in names[:1]:
        changed = dataclasses.replace(mine, **{name: "another"})
        assert quick_dataclasses.replace(mine, **{name: "another"}) == changed
        assert getattr(changed, name) == "another"
        compared = {one.name: one.compare for one in dataclasses.fields(class_)}[name]
        assert (changed != mine) == compared
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(mine, name, "changed")
        with pytest.raises(dataclasses.FrozenInstanceError):
            delattr(mine, name)
    assert copy.deepcopy(mine) == mine
    assert quick_dataclasses.asdict(mine) == dataclasses.asdict(mine)
    if "<locals>" not in class_.__qualname__:
        assert pickle.loads(pickle.dumps(mine)) == mine


def test_what_no_class_of_ours_has_yet() -> None:
    """Heirs, class variables, defaults that are made, what is not compared, an order, a class without fields."""

    @quick_dataclasses.dataclass(frozen=True, slots=True, order=True)
    class Base:
        a: int
        known: ClassVar[str] = "one"
        b: int = quick_dataclasses.field(default=1, compare=False)

    @quick_dataclasses.dataclass(frozen=True, slots=True)
    class Heir(Base):
        c: list[int] = quick_dataclasses.field(default_factory=list)
        a: int = 5

    @quick_dataclasses.dataclass(frozen=True)
    class Empty:
        pass

    assert Base(1, 2) == Base(1, 3)
    assert Base(1) < Base(2)
    assert (Base(1).b, Base.known) == (1, "one")
    assert [one.name for one in dataclasses.fields(Heir)] == ["a", "b", "c"]
    assert Heir() == Heir(5, 1, [])
    assert Heir().c is not Heir().c
    assert Heir() != Base(5)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())
    with pytest.raises(TypeError):
        Base()  # type: ignore[call-arg]


def test_records_in_records_become_plain() -> None:
    """In lists, tuples and dicts; of an heir that is no dataclass as well."""

    @quick_dataclasses.dataclass(frozen=True)
    class Inner:
        a: int = 1

    @quick_dataclasses.dataclass(frozen=True)
    class Outer:
        each: tuple[Inner, ...]
        by_name: dict[str, list[Inner]]

    class Plain(Inner):
        pass

    one = Outer((Inner(), Plain(2)), {"x": [Inner(3)]})
    assert quick_dataclasses.asdict(one) == dataclasses.asdict(one)
    assert quick_dataclasses.replace(Plain(2), a=4).a == 4
    assert quick_dataclasses.is_dataclass(Plain)
    assert not quick_dataclasses.is_dataclass("text")


def test_what_is_not_frozen_is_the_standard_librarys() -> None:
    """The same names, whoever makes the class."""

    @quick_dataclasses.dataclass
    class Changing:
        a: list[int] = quick_dataclasses.field(default_factory=list)

    one = Changing()
    one.a = [3]
    assert quick_dataclasses.asdict(one) == {"a": [3]}
    assert quick_dataclasses.is_dataclass(one)
    assert [field.name for field in quick_dataclasses.fields(Changing)] == ["a"]


def test_nothing_imports_the_originals() -> None:
    """One home: what imports dataclasses itself would load them at every start."""
    found = [
        str(file.relative_to(PACKAGE))
        for file in sorted(PACKAGE.rglob("*.py"))
        if "patient" not in file.parts and file.name != "quick_dataclasses.py"
        if any(line.startswith(("from dataclasses ", "import dataclasses")) for line in file.read_text().splitlines())
    ]

    assert found == []
