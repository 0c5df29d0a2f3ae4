"""`uv`: a plan as a pyproject.toml for `uv sync`, each index named for the packages that come from it alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

from attn_doctor.model.stack import Channel, StackAnswer, StackPlan
from attn_doctor.report.renderer import PLAN, Media, Page, Renderer
from attn_doctor.report.stack_file import stack_file
from attn_doctor.report.words import stack as words


def _project(answer: StackAnswer, plan: StackPlan) -> Iterator[str]:
    urls = {one.name: one.url for one in plan.releases if one.channel is Channel.AUTHORS}
    indexes = words.indexes(plan)
    yield "[project]"
    yield 'name = "stack"'
    yield 'version = "0"'
    major, minor = answer.node.python.split(".")
    yield f'requires-python = ">={major}.{minor},<{major}.{int(minor) + 1}"'
    yield "dependencies = ["
    for one in words.pinned(plan):
        yield f"  {json.dumps(one.split(' @ ')[0])},"
    yield "]"
    for number, index in enumerate(indexes):
        yield from (
            "",
            "[[tool.uv.index]]",
            f'name = "torch-{number}"',
            f"url = {json.dumps(index)}",
            "explicit = true",
        )
    sources = [f"{name} = {{ url = {json.dumps(url)} }}" for name, url in urls.items()]
    for release in plan.releases:
        if release.channel is Channel.TORCH_INDEX:
            at = plan.index if release.name == "torch" else release.url
            sources.append(f'{release.name} = {{ index = "torch-{indexes.index(at)}" }}')
    if sources:
        yield from ("", "[tool.uv.sources]", *sources)


RENDERER = Renderer("uv", suffixes=(".toml",), media=Media.PROGRAM, pages=(Page(PLAN, stack_file(_project)),))
