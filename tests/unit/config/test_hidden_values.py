"""No repr, dump or error contains a password of the configuration."""

from __future__ import annotations

import pytest

from sharegroup.config import parse_config
from sharegroup.config.keys.job import JobConfig
from sharegroup.errors import InvalidConfigError

SECRET = "hunter2"
JOB = {
    "bootstrap.servers": "kafka:9093",
    "kafka": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'x.PlainLoginModule required username="job" password="{SECRET}";',
        "ssl.key.password": SECRET,
    },
    "tables.storage.options": {"AWS_SECRET_ACCESS_KEY": SECRET},
}


def test_reprs_and_dumps_hide_passwords() -> None:
    config = parse_config({"job": JOB}, "test")
    job = config.job
    assert SECRET in job.kafka["sasl.jaas.config"]
    shown = [repr(config), str(config), repr(job), str(job), str(job.model_dump()), job.model_dump_json()]
    shown += [str(job.model_dump(by_alias=True)), repr(config.for_cell("")), repr(job.model_copy())]
    assert not [text for text in shown if SECRET in text]
    assert "sasl.jaas.config" in job.model_dump_json()


@pytest.mark.parametrize(
    "wrong",
    [
        {"kafka": {**JOB["kafka"], "sasl.mechanism": "KERBEROS"}},  # type: ignore[dict-item]
        {"kafka": [SECRET]},
        {"kafka": SECRET},
        {"tables.storage.options": {"AWS_SECRET_KEY": SECRET}},
        {"tables.storage.options": {"AWS_SECRET_ACCESS_KEY": [SECRET]}},
    ],
)
def test_errors_hide_passwords(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidConfigError) as error:
        parse_config({"job": {**JOB, **wrong}}, "test")
    assert SECRET not in str(error.value)


def test_errors_of_pydantic_hide_passwords() -> None:
    with pytest.raises(ValueError, match="validation error") as error:
        JobConfig.model_validate({**JOB, "kafka": {**JOB["kafka"], "sasl.mechanism": "KERBEROS"}})  # type: ignore[dict-item]
    assert SECRET not in str(error.value)
