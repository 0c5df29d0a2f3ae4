"""What a compiled function takes, and what it was handed."""

from __future__ import annotations

import pytest

from attn_doctor.diagnose.log.compiled_calls import CompiledCalls
from attn_doctor.diagnose.log.unit import Line

REFUSED = "TypeError: fwd(): incompatible function arguments. The following argument types are supported:\n"
TAKES = "    1. (arg0: torch.Tensor, arg1: Optional[torch.Tensor], arg2: float, arg3: int) -> list[torch.Tensor]\n\n"
TENSOR = "tensor([[0.1, 0.2],\n\n        [0.1, 0.2]], device='cuda:0',\n       dtype=torch.float16)"


def told(log: str) -> dict[str, str]:
    calls = CompiledCalls()
    for number, text in enumerate(log.splitlines(), start=1):
        calls.see(Line(number, text))
    return {name.removeprefix("log.call_"): value for name, value, _ in calls.told()}


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        (f"{TENSOR}, None, None, 3", {"takes": "4", "got": "4", "misfit": "kind", "wrong_kind": "arg2 (float) = None"}),
        (
            f"None, {TENSOR}, 1, 3",
            {"takes": "4", "got": "4", "misfit": "kind", "wrong_kind": "arg0 (torch.Tensor) = None"},
        ),
        (f"{TENSOR}, None, 0.5, 3", {"takes": "4", "got": "4", "misfit": "kind"}),
        (f"Parameter containing:\n{TENSOR}, None, 0.5", {"takes": "4", "got": "3", "misfit": "number"}),
        (f"{TENSOR}, None, 0.5, 3, (-1, -1)", {"takes": "4", "got": "5", "misfit": "number"}),
        (
            f"{TENSOR}, None; kwargs: arg3=1.5, arg2=2.0",
            {"takes": "4", "got": "4", "misfit": "kind", "wrong_kind": "arg3 (int) = float"},
        ),
        ("0.5, 3, None, None", {"takes": "4", "got": "4"}),  # the places of another release
        (f"{TENSOR}, ...", {}),  # whoever pasted it left the rest out
        ("tensor([[0.1, 0.2],", {}),
    ],
)
def test_values_are_counted_and_compared_with_their_places(values: str, facts: dict[str, str]) -> None:
    assert told(f"{REFUSED}{TAKES}Invoked with: {values}\nand more of the log") == facts


def test_places_with_values_of_their_own_may_be_left_out() -> None:
    places = (
        "    1. (x: at::Tensor, scale: float = 1.0, how: str = 'a, b') -> None\n    2. (x: at::Tensor, *args) -> None\n"
    )

    assert told(f"{REFUSED}{places}\nInvoked with: 2") == {
        "takes": "3",
        "got": "1",
        "misfit": "kind",
        "wrong_kind": "x (at::Tensor) = int",
    }


def test_of_several_signatures_the_one_counts_that_fits_best() -> None:
    places = "    1. (a: int, b: float) -> int\n    2. (a: torch.Tensor, b: float) -> int\n    3. (a: int) -> int\n"

    assert told(f"{REFUSED}{places}\nInvoked with: {TENSOR}, None") == {
        "takes": "2 / 1",
        "got": "2",
        "misfit": "kind",
        "wrong_kind": "b (float) = None",
    }


def test_nothing_is_told_of_a_call_without_its_values() -> None:
    assert told(REFUSED + TAKES + "and more of the log") == {}
