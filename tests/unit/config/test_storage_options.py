"""`tables.storage.options`: the options of delta-rs, the properties of Hadoop, and the errors."""

from __future__ import annotations

import pytest

from sharegroup.config import JobConfig, parse_config
from sharegroup.config.keys.storage_options import delta_options, hadoop_properties, is_s3
from sharegroup.errors import InvalidConfigError

OWN_SERVER = {"AWS_ENDPOINT_URL": "http://store:9000", "AWS_ALLOW_HTTP": "true"}
SECRET = "do-not-tell"


def options_of(options: dict[str, object]) -> JobConfig:
    return parse_config({"job": {"tables.storage.options": options}}, "x").job


def test_numbers_and_booleans_become_strings() -> None:
    job = options_of({"AWS_ALLOW_HTTP": True, "max_retries": 3, "fs.s3a.retry.limit": 2})
    assert job.tables_storage_options == {"AWS_ALLOW_HTTP": "true", "max_retries": "3", "fs.s3a.retry.limit": "2"}
    assert job.delta_options == {"AWS_ALLOW_HTTP": "true", "max_retries": "3"}


def test_options_are_translated_for_hadoop() -> None:
    credentials = {"aws_access_key_id": "me", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_SESSION_TOKEN": "t"}
    assert hadoop_properties(OWN_SERVER | credentials | {"AWS_REGION": "eu-west-1", "max_retries": "3"}) == {
        "fs.s3a.endpoint": "http://store:9000",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.access.key": "me",
        "fs.s3a.secret.key": SECRET,
        "fs.s3a.session.token": "t",
        "fs.s3a.endpoint.region": "eu-west-1",
    }


def test_without_options_the_libraries_use_their_defaults() -> None:
    assert hadoop_properties({}) == {} == delta_options({}, "/data/tables")
    assert "fs.s3a.path.style.access" not in hadoop_properties({"AWS_REGION": "eu-west-1"})


def test_hadoops_properties_are_only_for_spark_and_take_precedence() -> None:
    options = OWN_SERVER | {"fs.s3a.endpoint": "http://proxy:1", "fs.azure.account.key": "k"}
    assert hadoop_properties(options)["fs.s3a.endpoint"] == "http://proxy:1"
    assert hadoop_properties(options)["fs.azure.account.key"] == "k"
    assert delta_options(options, "/data/tables") == OWN_SERVER


def test_retries_on_a_store_end_after_30_seconds() -> None:
    assert delta_options({}, "s3a://lake/tables") == {"retry_timeout": "30s"}
    assert delta_options({"retry_timeout": "5m"}, "s3a://lake/tables") == {"retry_timeout": "5m"}


def test_virtual_hosted_requests_disable_path_style() -> None:
    options = OWN_SERVER | {"aws_virtual_hosted_style_request": "true"}
    assert hadoop_properties(options)["fs.s3a.path.style.access"] == "false"


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"AWS_ACCES_KEY_ID": SECRET}, "Unknown option aws_acces_key_id; the nearest known name is aws_access_key_id"),
        ({"AWS_REGION": None}, "Option AWS_REGION is not a string"),
        ({"AWS_S3_ALLOW_UNSAFE_RENAME": True}, "two jobs could then write the same version of a table"),
        ({"aws_conditional_put": "disabled"}, "two jobs could then write the same version of a table"),
        ("AWS_REGION=x", "Not a mapping of storage options"),
    ],
)
def test_an_invalid_option_is_rejected_without_its_value(wrong: object, problem: str) -> None:
    with pytest.raises(InvalidConfigError, match=problem) as caught:
        parse_config({"job": {"tables.storage.options": wrong}}, "x")
    assert SECRET not in str(caught.value)


def test_secrets_are_not_shown() -> None:
    assert SECRET not in repr(options_of({"AWS_SECRET_ACCESS_KEY": SECRET}))


def test_s3_has_two_schemes() -> None:
    assert is_s3("s3a://a/b")
    assert is_s3("s3://a/b")
    assert not is_s3("/s3/a")
    assert not is_s3("abfss://a@b/c")
