"""The frozen report format."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from attn_doctor.errors import BadInput
from attn_doctor.formats import report_v1
from attn_doctor.model.report import Report
from tests import strategies

#: Change it only together with a new format name: others read this one.
FROZEN = "1a832dc8e13de28edb2106e1b3463fd2901fd92cb965e887b79aa2c6ba28bec8"


@given(report=strategies.reports)
def test_round_trip(report: Report) -> None:
    """What is written and read again is the same report."""
    assert report_v1.loads(report_v1.dumps(report), about="a test") == report


@functools.cache
def _validator() -> Any:
    """Made once: to check the schema itself takes longer than to check a report."""
    schema = json.loads(report_v1.json_schema())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


@pytest.mark.long
@given(report=strategies.reports)
def test_every_report_follows_the_schema(report: Report) -> None:
    """The printed JSON Schema describes what is written."""
    _validator().validate(report_v1.to_json(report))


def test_the_schema_is_frozen() -> None:
    """Version 1 stays as it was published."""
    schema = json.loads(report_v1.json_schema())
    digest = hashlib.sha256(json.dumps(schema, sort_keys=True).encode()).hexdigest()

    assert digest == FROZEN


def test_the_schema_refuses() -> None:
    """A finding without its severity is no report: the schema can fail."""
    schema = json.loads(report_v1.json_schema())

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": report_v1.SCHEMA, "findings": [{"id": "x"}]}, schema)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": "attn-doctor/report/v1"}', '{"schema": "other"}'])
def test_damaged(text: str) -> None:
    """What is no report is refused in words."""
    with pytest.raises(BadInput):
        report_v1.loads(text, about="a test")
