"""Cuts the graph of a wrong region down to the operations without which it is right, as a program that shows it."""

from __future__ import annotations

import contextlib
import copy
import io
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch import fx

from .regions import Arguments

STAGES = ("eager", "aot_eager", "inductor")
_APART = 1e-3
"""Relative difference of one output that counts as wrong here; the rule of judge.py found it before."""


class Captured:
    """The graphs that Dynamo makes of a call, with their inputs."""

    def __init__(self) -> None:
        self.graphs: List[Tuple[fx.GraphModule, List[Any]]] = []

    def __call__(self, graph: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        def run(*real: Any) -> Any:
            kept = [one.detach() if isinstance(one, torch.Tensor) else one for one in real]
            self.graphs.append((graph, kept))
            return graph(*real)

        return run


def capture(module: torch.nn.Module, taken: Arguments) -> Captured:
    """The graphs of one call, in their order."""
    torch._dynamo.reset()
    found = Captured()
    with torch.no_grad():
        torch.compile(module, backend=found, dynamic=False)(*taken[0], **taken[1])
    return found


def minimise(module: torch.nn.Module, taken: Arguments, until: float) -> Optional[Tuple[str, Optional[float]]]:
    """(a program, the difference that it printed here; None when it did not show the fault), or None: nothing smaller
    than the module shows it."""
    for graph, inputs in capture(module, taken).graphs:
        found = _smallest(graph, inputs, until)
        if found is not None:
            script = _program(*found)
            return script, _shown(script)
    return None


def _smallest(graph: fx.GraphModule, inputs: List[Any], until: float) -> Optional[Tuple[fx.GraphModule, List[Any]]]:
    values = _values(graph, inputs)
    nodes = [node for node in graph.graph.nodes if node.op.startswith("call") and _is_float(values.get(node))]
    if not nodes or not _wrong(*_cut(graph, values, nodes[-1], None)):
        return None
    # The first wrong node: all before it are right.
    low, high = 0, len(nodes) - 1
    while low < high and time.perf_counter() < until:
        middle = (low + high) // 2
        if _wrong(*_cut(graph, values, nodes[middle], None)):
            high = middle
        else:
            low = middle + 1
    last = nodes[high]
    best = _cut(graph, values, last, None)
    # What stands farther away than this becomes an input.
    for depth in range(2, 24):
        if time.perf_counter() > until:
            break
        smaller = _cut(graph, values, last, depth)
        if _wrong(*smaller):
            best = smaller
            break
    return best


def _values(graph: fx.GraphModule, inputs: List[Any]) -> Dict[fx.Node, Any]:
    found: Dict[fx.Node, Any] = {}

    class Keep(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            found[n] = super().run_node(n)
            return found[n]

    with torch.no_grad():
        Keep(graph).run(*inputs)
    return found


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _cut(
    graph: fx.GraphModule, values: Dict[fx.Node, Any], last: fx.Node, depth: Optional[int]
) -> Tuple[fx.GraphModule, List[Any]]:
    """The graph up to `last`, with what is more than `depth` operations before it as inputs."""
    near: Dict[fx.Node, int] = {last: 0}
    waiting = [last]
    while waiting:
        node = waiting.pop(0)
        for before in node.all_input_nodes:
            if before not in near:
                near[before] = near[node] + 1
                waiting.append(before)
    made = fx.Graph()
    moved: Dict[fx.Node, fx.Node] = {}
    given: List[Any] = []
    for node in graph.graph.nodes:
        if node not in near:
            continue
        far = depth is not None and near[node] >= depth
        if node.op in ("placeholder", "get_attr") or (far and isinstance(values.get(node), torch.Tensor)):
            if all(one not in near or near[one] >= near[node] for one in node.users) and node is not last:
                pass
            moved[node] = made.placeholder("x{}".format(len(given)))
            given.append(values[node])
        else:
            moved[node] = made.node_copy(node, lambda one: moved[one])
    made.output(moved[last])
    made.eliminate_dead_code()
    kept = {node.name for node in made.nodes if node.op == "placeholder" and node.users}
    order = [node for node in made.nodes if node.op == "placeholder"]
    inputs = [value for node, value in zip(order, given) if node.name in kept]
    for node in order:
        if node.name not in kept:
            made.erase_node(node)
    return fx.GraphModule(graph, made), inputs


def _wrong(graph: fx.GraphModule, inputs: List[Any]) -> bool:
    torch._dynamo.reset()
    with contextlib.suppress(Exception), torch.no_grad():
        wanted = graph(*inputs)
        found = torch.compile(copy.deepcopy(graph), dynamic=False)(*inputs)
        return apart(found, wanted) > _APART
    return False


def apart(found: torch.Tensor, wanted: torch.Tensor) -> float:
    """The largest difference, relative to the largest value."""
    difference = float((found.double() - wanted.double()).abs().max())
    return difference / max(float(wanted.double().abs().max()), 1e-30)


def _program(graph: fx.GraphModule, inputs: List[Any]) -> str:
    lines = [line for line in graph.code.strip().splitlines() if line.strip()]
    begin = next(number for number, line in enumerate(lines) if line.startswith("def forward"))
    body = [line.partition("  #")[0].partition(";  ")[0].rstrip() for line in lines[begin + 1 :]]
    names = [node.target for node in graph.graph.nodes if node.op == "placeholder"]
    given = []
    for name, value in zip(names, inputs):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            given.append(
                "{} = torch.empty_strided({}, {}, dtype={}, device='{}').normal_()".format(
                    name, tuple(value.shape), tuple(value.stride()), value.dtype, value.device.type
                )
            )
        elif isinstance(value, torch.Tensor):
            given.append("{} = torch.tensor({}, device='{}')".format(name, value.tolist(), value.device.type))
        else:
            given.append("{} = {!r}".format(name, value))
    call = ", ".join(str(name) for name in names)
    return "\n".join(
        [
            "import torch",
            "",
            "",
            "def attention({}):".format(call),
            *body,
            "",
            "",
            "torch.manual_seed(0)",
            *given,
            "with torch.no_grad():",
            "    eager, compiled = attention({0}), torch.compile(attention)({0})".format(call),
            "print((compiled - eager).abs().max().item(), 'off, of', eager.abs().max().item())",
            "",
        ]
    )


def _shown(script: str) -> Optional[float]:
    """Runs the program; the relative difference if it is one."""
    torch._dynamo.reset()
    scope: Dict[str, Any] = {"__name__": "__attention__"}
    import tempfile

    with contextlib.suppress(Exception), tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(script)
        file.flush()
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(script, file.name, "exec"), scope)  # noqa: S102
        found = apart(scope["compiled"], scope["eager"])
        return found if found > _APART else None
    return None
