"""Answers one request: builds the model, makes every check within the time there is. Never raises because of it."""

from __future__ import annotations

import importlib.metadata
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from ..libraries import LIBRARIES
from ..trace.run import config_entry, entries
from . import COULD_NOT_LOOK, cache, checks, packing, small, subject, unanswered, uncompiled_flex, windows

if TYPE_CHECKING:
    from .checks import Check

#: Beside those of the attention libraries.
_VERSIONS = ("torch", "transformers", "causal-conv1d", "mamba-ssm", "kernels")
_BUDGET = 60.0


def examine(request: Dict[str, Any], on_check: Optional[Callable[[Dict[str, Any]], None]] = None) -> Dict[str, Any]:
    """The answer (schema in ../__init__); `on_check` receives it as far as it is."""
    started = time.perf_counter()
    answer = {**unanswered(), "versions": versions()}
    try:
        with uncompiled_flex.on_cpu(request):
            one, answer["cut"] = subject_of(request)
        answer.update(subject.described(one))
        # FlexAttention is compiled in the first call, which is no check yet.
        until = time.perf_counter() + float(request.get("budget") or _BUDGET)
        for names, check in _CHECKS:
            if time.perf_counter() > until:
                answer["checks"] += [checks.made(name, COULD_NOT_LOOK, "the time was up") for name in names]
                continue
            with uncompiled_flex.on_cpu(request):
                answer["checks"] += _guarded(names, check, one)
            if on_check is not None:
                on_check(answer)
    except (config_entry.Unusable, entries.EntryError) as error:
        answer["error"] = {"kind": error.kind, "message": str(error), "traceback": None}
    except (small.CannotCut, subject.CannotCall) as error:
        refused = "does not support an attention implementation" in str(error)
        kind = config_entry.ATTENTION_REFUSED if refused else "not built"
        answer["error"] = {"kind": kind, "message": str(error), "traceback": None}
    except (Exception, SystemExit) as error:  # noqa: BLE001
        words = "{}: {}".format(type(error).__name__, str(error).strip()[:1000])
        answer["error"] = {"kind": "model raised", "message": words, "traceback": traceback.format_exc()[-4000:]}
    answer["seconds"] = round(time.perf_counter() - started, 2)
    return answer


def _one(check: Callable[[Any], Check]) -> Callable[[Any], List[Check]]:
    return lambda one: [check(one)]


_CHECKS: Tuple[Tuple[Tuple[str, ...], Callable[[Any], List[Check]]], ...] = (
    (("causality",), _one(checks.causality)),
    (("batch-rows",), _one(checks.batch_rows)),
    (("packing",), packing.packing),
    (("padding-left", "padding-right", "padded-equals-unpadded"), checks.padding),
    (("window",), windows.windows),
    (("cache",), _one(cache.cache)),
)


def _guarded(names: Tuple[str, ...], check: Callable[[Any], List[Check]], one: Any) -> List[Check]:
    try:
        return check(one)
    except Exception as error:  # noqa: BLE001
        words = "{}: {}".format(type(error).__name__, (str(error).strip().splitlines() or [""])[0][:200])
        return [checks.made(name, COULD_NOT_LOOK, words) for name in names]


def versions() -> Dict[str, str]:
    """Versions of what decides how a model attends, by distribution, of those that are installed."""
    found = {}
    names = [name for library in LIBRARIES for name in library.distributions]
    for name in (*_VERSIONS, *names):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def subject_of(request: Dict[str, Any]) -> Tuple[subject.Subject, str]:
    device = request.get("device") or "cpu"
    if request.get("kind") == "hf":
        return _of_config(request, device)
    build = entries.load_factory(request["target"])
    args, kwargs = entries.arguments(request)  # type: ignore[arg-type]
    module, (function, given, named) = entries.callable_of(build(*args, **kwargs), request["target"])
    if module is not None:
        module.eval()
        module.to(device)
    moved: Any = entries.moved((given, named), device, None)
    return subject.Subject(module, function, moved[0], moved[1]), ""


def _of_config(request: Dict[str, Any], device: str) -> Tuple[subject.Subject, str]:
    trusted = bool(request.get("trust_remote_code"))
    transformers, config = config_entry.load(request["target"], trusted)
    first: Optional[BaseException] = None
    for model, words in _models(small.models(transformers, config, request.get("attn"), trusted), lambda: first):
        model.to(device)
        name = getattr(model, "main_input_name", "input_ids")
        if name != "input_ids":
            raise config_entry.Unusable(
                "config not understood", "{} takes {}, not tokens".format(type(model).__name__, name)
            )
        ids = torch.full((1, subject.LENGTH), 11, dtype=torch.long, device=device)
        one = subject.Subject(model, model, (), {"input_ids": ids, "use_cache": False})
        try:
            with torch.no_grad():
                one.outputs(one.words(1, subject.LENGTH))
        except Exception as error:  # noqa: BLE001
            first = first or error
            continue
        return one, words
    raise first or small.CannotCut("no cut runs")


def _models(found: Iterator[Any], reason: Callable[[], Optional[BaseException]]) -> Iterator[Any]:
    """The models as they come. Where none is left, the reason for which the first did not run says more than the size
    of the last."""
    try:
        yield from found
    except small.CannotCut:
        if reason() is None:
            raise
