"""Parts of a recipe that are made when they are first asked for.

A start reads every recipe of the shelf and answers with a few: three quarters of the shelf's text are remedies and
cases, which the others never need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar, overload

T = TypeVar("T")


class Later(Sequence[T], Generic[T]):
    """What `make` returns, asked once; equal to the tuple that it is."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], tuple[T, ...]]) -> None:
        self._make: Callable[[], tuple[T, ...]] | None = make
        self._made: tuple[T, ...] = ()

    def _all(self) -> tuple[T, ...]:
        if self._make is not None:
            self._made = self._make()
            self._make = None
        return self._made

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[T, ...]: ...
    def __getitem__(self, at: int | slice) -> T | tuple[T, ...]:
        return self._all()[at]

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[T]:
        return iter(self._all())

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, Later) else other)

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return repr(self._all())
