"""Judges planned releases by the recipes and by what their wheels hold, and writes down what was proven."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from attn_doctor.machine.web import Unreachable
from attn_doctor.model.stack import Channel, Evidence, PlannedNode, PlannedRelease, StackPlan
from attn_doctor.quick_dataclasses import replace
from attn_doctor.recipes.recipe import Recipe
from attn_doctor.stack.candidates import Spot
from attn_doctor.stack.proof.judge import Proof, prove, prove_torch
from attn_doctor.stack.proof.known import known_code
from attn_doctor.stack.proof.wheel_code import WheelCode, code_behind, code_of
from attn_doctor.stack.verdict import faults


class Prover:
    """One for each run: a wheel is opened once."""

    def __init__(self, recipes: Sequence[Recipe], folder: Path, *, opens: bool) -> None:
        """`folder`: private to this run. `opens`: wheels that nobody opened before are read from their addresses."""
        self._recipes = recipes
        self._folder = folder
        self._opens = opens
        self._codes: dict[str, WheelCode | str] = {}
        self.downloaded = 0
        """Bytes of wheels that were read from the network."""

    def faults(self, releases: Sequence[PlannedRelease], node: PlannedNode, spot: Spot) -> dict[str, str]:
        """Canonical name of a release at fault -> why; empty for a sound set. Raises NoWheel for a damaged file."""
        return {
            **self.broken(releases, node, torch=spot.torch, cuda=spot.cuda),
            **faults(releases, node, spot, self._recipes),
        }

    def broken(self, releases: Iterable[PlannedRelease], node: PlannedNode, *, torch: str, cuda: str) -> dict[str, str]:
        """Canonical name of a wanted release whose wheel does not fit -> why. Raises NoWheel for a damaged file."""
        found = {}
        for one in releases:
            proof = self._proof(one, node, torch, cuda) if one.wanted else None
            if isinstance(proof, Proof) and proof.broken:
                found[one.name] = f"{one.file or one.name}: {proof.words}"
        return found

    def marked(self, plan: StackPlan, node: PlannedNode) -> StackPlan:
        """The plan, each want with its evidence."""
        cuda = f"{plan.build[2:-1]}.{plan.build[-1]}" if plan.build.startswith("cu") else ""
        return replace(plan, releases=tuple(self._marked(one, node, plan.torch, cuda) for one in plan.releases))

    def _marked(self, one: PlannedRelease, node: PlannedNode, torch: str, cuda: str) -> PlannedRelease:
        if one.evidence is not Evidence.BY_NAME or not one.wanted:
            return one
        proof = self._proof(one, node, torch, cuda)
        if not isinstance(proof, Proof):
            return replace(one, proof=proof)
        evidence = Evidence.BY_NAME if any("symbols of torch" in words for words in proof.open) else Evidence.PROVEN
        return replace(one, evidence=evidence, proof=proof.words)

    def _proof(self, one: PlannedRelease, node: PlannedNode, torch: str, cuda: str) -> Proof | str:
        """The proof, or why there is none; empty where none is needed."""
        if one.name == "torch":
            own = prove_torch(torch, one.file, one.sha256, node, build=f"cu{cuda.replace('.', '')}" if cuda else "cpu")
            return own or ""
        if one.evidence is Evidence.NOTHING_COMPILED or one.channel is Channel.TORCH_INDEX:
            return ""
        code = self._code(one)
        return code if isinstance(code, str) else prove(one.name, one.file, code, node, torch=torch, cuda=cuda)

    def _code(self, one: PlannedRelease) -> WheelCode | str:
        known = known_code(one.sha256) if one.sha256 else None
        if known is not None:
            return known
        if one.url not in self._codes:
            self._codes[one.url] = self._opened(one)
        return self._codes[one.url]

    def _opened(self, one: PlannedRelease) -> WheelCode | str:
        address = urlsplit(one.url)
        if address.scheme in ("", "file") and one.url:
            file = Path(unquote(address.path))
            return code_of(file, self._folder, sha256=one.sha256) if file.is_file() else ""
        if not self._opens or not one.url or not one.wanted:
            size = f", {one.size / 1e6:,.0f} MB" if one.size else ""
            return f"not opened{size} (--prove opens it)" if one.wanted and one.url else ""
        try:
            code = code_behind(one.url, self._folder, sha256=one.sha256)
        except Unreachable as error:
            return f"not opened: {error.what}"
        self.downloaded += code.downloaded
        return code
