"""The reports of one run, as they come into its folder."""

from __future__ import annotations

from datetime import datetime, timedelta

from attn_doctor.fleet.gather import Gathered, moment
from attn_doctor.fleet.reading import Messages, Watched
from attn_doctor.fleet.run_folder import Plan, RunFolder
from attn_doctor.model.fleet import NodeReport, Unreadable
from attn_doctor.quick_dataclasses import dataclass, field

#: Clocks of nodes may be behind ours by so much.
_SKEW = timedelta(minutes=5)


@dataclass(slots=True, kw_only=True)
class Arrivals:
    """The reports that came, and who sent them."""

    folder: RunFolder
    plan: Plan
    gathered: Gathered
    heard: Messages
    any: bool = False
    """A report of this run was seen."""
    _by_node: dict[str, bool] = field(default_factory=dict)
    """Short name of a node -> whether a deep report is among those that arrived."""
    _damaged: dict[str, Unreadable] = field(default_factory=dict)
    _watched: Watched | None = None

    def leave_out_what_is_there(self) -> None:
        """Reports that lie in the folder already are of an earlier run."""
        for _ in self._files().news():
            pass

    def look(self) -> None:
        """Takes in the reports that came since the last look."""
        for arrival in self._files().news():
            if isinstance(arrival, Unreadable):
                self._damaged[arrival.source] = arrival
            elif self._of_this_run(arrival):
                self._damaged = {source: one for source, one in self._damaged.items() if one.node != arrival.node}
                self.gathered.add(arrival)
                name = _short(arrival.node)
                self._by_node[name] = self._by_node.get(name, False) or not arrival.quick
                self.any = True
        self.gathered.unreadable[:] = self._damaged.values()

    def came(self, node: str, *, deep: bool = False) -> bool:
        """A report of the node arrived; `deep`: one in depth."""
        there = self._by_node.get(_short(node))
        return there is not None and (there or not deep)

    def _files(self) -> Watched:
        if self._watched is None:
            self._watched = Watched([self.folder.folder], self.heard)
        return self._watched

    def _of_this_run(self, report: NodeReport) -> bool:
        try:
            return moment(report.created) >= datetime.fromisoformat(self.plan.begun) - _SKEW
        except ValueError:
            return True  # an invalid time: the verdict reports it


def _short(node: str) -> str:
    return node.partition(".")[0]
