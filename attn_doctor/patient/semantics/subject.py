"""The model under examination: how it is called, where its tokens enter, and what it takes."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

import torch

if TYPE_CHECKING:
    from ..arguments import Given

LENGTH, BOUNDARY = 19, 9
"""Tokens of a test sequence, and where its second document begins; a prime, so that no other dimension has its size."""
_FIRST_WORD, _WORDS = 10, 97
"""Tokens are drawn from these: low ones often mean padding or an end."""


class CannotCall(Exception):
    """No tokens can be changed in a call of this model; the message gives the reason."""


class Subject:
    """A model, one call of it, and the tensor in it that holds the tokens."""

    def __init__(
        self, module: Optional[torch.nn.Module], function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Given
    ) -> None:
        self.module = module
        self.function = function
        self.args, self.kwargs = args, kwargs
        self.config = getattr(module, "config", None)
        self.where, self.tokens = _tokens(args, kwargs)
        forward = module.forward if module is not None else function
        try:
            found = inspect.signature(forward).parameters
        except (TypeError, ValueError):
            found = {}  # type: ignore[assignment]
        self.parameters = {name: one for name, one in found.items() if one.kind is not inspect.Parameter.VAR_KEYWORD}
        self.takes_all = len(self.parameters) < len(found)
        self.is_transformers = any(one.__name__ == "PreTrainedModel" for one in type(module).__mro__)

    @property
    def length(self) -> int:
        return int(self.tokens.shape[1])

    @property
    def boundary(self) -> int:
        return min(BOUNDARY, self.length // 2)

    def takes(self, *names: str) -> Optional[str]:
        """The first of these parameters that its forward names."""
        return next((name for name in names if name in self.parameters), None)

    def call(self, tokens: torch.Tensor, **given: Any) -> Any:
        """Its whole output for these tokens, in the place of the ones it was built with."""
        args, kwargs = list(self.args), dict(self.kwargs)
        if isinstance(self.where, int):
            args[self.where] = tokens
        else:
            kwargs[self.where] = tokens
        torch.manual_seed(0)
        return self.function(*args, **{**kwargs, **given})

    def outputs(self, tokens: torch.Tensor, **given: Any) -> torch.Tensor:
        """The first output with one row for each token. Raises CannotCall."""
        return rows_of(self.call(tokens, **given), int(tokens.shape[1]))

    def changed(self, tokens: torch.Tensor, positions: slice) -> torch.Tensor:
        """The same tokens with other ones at these positions."""
        other = tokens.clone()
        part = other[:, positions]
        if tokens.is_floating_point():
            generator = torch.Generator().manual_seed(positions.start or 0)
            noise = torch.randn(part.shape, generator=generator).to(tokens.device, tokens.dtype)
            other[:, positions] = noise * max(float(tokens.float().std()), 1e-3)
            return other
        low, high = self._words()
        other[:, positions] = (part - low + (high - low) // 3 + 1) % (high - low) + low
        return other

    def words(self, batch: int, length: int) -> torch.Tensor:
        """Tokens for a call; those that it was built with, if it takes no other length."""
        if not self.is_transformers:
            return self.tokens
        low, high = self._words()
        generator = torch.Generator().manual_seed(5)
        return torch.randint(low, high, (batch, length), generator=generator).to(self.tokens.device)

    def _words(self) -> Tuple[int, int]:
        size = next(
            (
                int(one.num_embeddings)
                for one in (self.module.modules() if self.module is not None else ())
                if isinstance(one, torch.nn.Embedding)
            ),
            0,
        )
        if not self.is_transformers:
            high = size or int(self.tokens.max()) + 1
            return (min(_FIRST_WORD, high // 3), high) if high > 4 else (0, max(high, 2))
        return min(_FIRST_WORD, size // 3), min(_WORDS, size) if size else _WORDS

    def embedding(self) -> Optional[torch.nn.Module]:
        """The module that turns tokens into vectors."""
        if self.module is None:
            return None
        ask = getattr(self.module, "get_input_embeddings", None)
        try:
            found = ask() if callable(ask) else None
        except Exception:  # noqa: BLE001
            found = None
        if isinstance(found, torch.nn.Module):
            return found
        return next((one for one in self.module.modules() if isinstance(one, torch.nn.Embedding)), None)


def _tokens(args: Tuple[Any, ...], kwargs: Given) -> Tuple[Any, torch.Tensor]:
    """Where in a call its tokens are: numbers [batch, length], or vectors [batch, length, width]."""
    places: List[Tuple[Any, Any]] = [*kwargs.items(), *enumerate(args)]
    named = [one for one in places if one[0] in ("input_ids", "tokens", "ids", "x", "hidden_states", "inputs_embeds")]
    for where, value in [*named, *places]:
        if not isinstance(value, torch.Tensor):
            continue
        whole = value.dtype in (torch.int64, torch.int32) and value.dim() == 2
        if (whole or (value.is_floating_point() and value.dim() == 3)) and value.shape[1] >= 4:
            return where, value
    raise CannotCall(
        "none of its inputs holds tokens: integers [batch, length] or vectors [batch, length, width], length 4 or more"
    )


def rows_of(output: Any, length: int) -> torch.Tensor:
    """The first floating tensor [batch, length, …] of an output. Raises CannotCall."""
    found = _first(output, length)
    if found is None:
        raise CannotCall("its output has no row for each token")
    return found


def _first(output: Any, length: int) -> Optional[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        rows = output.is_floating_point() and output.dim() >= 3 and output.shape[1] == length
        return output if rows else None
    if isinstance(output, dict):
        parts: List[Any] = list(output.values())
    elif isinstance(output, (list, tuple)):
        parts = list(output)
    else:
        parts = list(vars(output).values()) if hasattr(output, "__dict__") else []
    for part in parts:
        if isinstance(part, (torch.Tensor, list, tuple)):
            found = _first(part, length)
            if found is not None:
                return found
    return None


def described(subject: Subject) -> Dict[str, Optional[str]]:
    """What it is, in words, and its attention implementation."""
    kind = type(subject.module).__name__ if subject.module is not None else getattr(subject.function, "__name__", "it")
    return {"subject": kind, "implementation": getattr(subject.config, "_attn_implementation", None)}
