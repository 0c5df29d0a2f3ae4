"""Asks whether the channels of a plan can be reached, and whether its files are there: one HEAD request each."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from attn_doctor.machine.web import Unreachable, head, host
from attn_doctor.model.stack import Channel, ChannelState, StackPlan
from attn_doctor.quick_dataclasses import replace

_SECONDS = 3.0


def states(plans: Iterable[StackPlan], *, offline: bool, resolver: str) -> tuple[ChannelState, ...]:
    """Each channel of the plans, in the order of trust, and what came of asking it."""
    used: dict[Channel, list[str]] = {Channel.REGISTRY: []}
    for plan in plans:
        if plan.channel is Channel.TORCH_INDEX:
            used.setdefault(Channel.TORCH_INDEX, []).append(f"{plan.index}/torch/")
        for one in plan.releases:
            if one.channel in (Channel.TORCH_INDEX, Channel.AUTHORS) and one.url:
                used.setdefault(one.channel, []).append(one.url)
    found = []
    for channel in Channel:
        if channel not in used:
            continue
        if channel is Channel.REGISTRY:
            words = f"asked through {resolver}" if resolver else "not asked: the shelf's tables answer"
            found.append(ChannelState(channel=channel, asked=bool(resolver), words=words))
        elif offline:
            found.append(ChannelState(channel=channel, asked=False, words="not asked (--offline)"))
        else:
            answers = _heads(dict.fromkeys(used[channel]))
            words = "; ".join(dict.fromkeys(answers.values()))
            found.append(
                ChannelState(channel=channel, asked=all(_is_there(one) for one in answers.values()), words=words)
            )
    return tuple(found)


def marked(plan: StackPlan, states_: Iterable[ChannelState]) -> StackPlan:
    """The plan, with a note for each of its channels that could not be reached."""
    away = {one.channel: one for one in states_ if not one.asked and one.channel is not Channel.REGISTRY}
    notes = [
        f"{one.name} is on {one.channel.words}, which was not reached from here: {away[one.channel].words}"
        for one in plan.releases
        if one.channel in away
    ]
    return replace(plan, notes=(*plan.notes, *notes)) if notes else plan


def _heads(addresses: Iterable[str]) -> dict[str, str]:
    answers: dict[str, str] = {}

    def ask(address: str) -> None:
        answers[address] = _head(address)

    threads = [threading.Thread(target=ask, args=(one,), daemon=True) for one in addresses]
    for one in threads:
        one.start()
    for one in threads:
        one.join(_SECONDS + 1)
    return {one: answers.get(one, f"{host(one)} did not answer within {_SECONDS:.0f} s") for one in addresses}


def _head(address: str) -> str:
    try:
        status = head(address, seconds=_SECONDS)
    except Unreachable as error:
        return error.what
    return (
        f"{host(address)} has no such file ({status})" if status in (404, 410) else f"{host(address)} answered {status}"
    )


def _is_there(words: str) -> bool:
    return words.rpartition(" ")[2] in ("200", "301", "302")
