"""`tables.storage.options`: how delta-rs and Spark connect to the object store with the tables and checkpoints.

delta-rs reads and writes the tables. Spark, with Hadoop's file systems, reads and writes the checkpoints and reads the
tables in SQL. delta-rs and Hadoop have different names for their options. `tables.storage.options` uses delta-rs'
names, in upper or lower case (AWS_ENDPOINT_URL). This module derives Hadoop's properties for S3 from them. Options with
the prefix `fs.` are Hadoop properties: only Spark uses them, and they take precedence over derived ones. If an option
is missing, each library uses its own default, such as the environment or the role of the machine.
"""

from collections.abc import Mapping

from sharegroup.config.family import text_of
from sharegroup.config.nearest_name import nearest_hint

_HADOOP = "fs."
_S3_SCHEMES = ("s3://", "s3a://")

#: {option of delta-rs: property of Hadoop's S3A}.
_TO_S3A = {
    "aws_access_key_id": "fs.s3a.access.key",
    "aws_secret_access_key": "fs.s3a.secret.key",
    "aws_session_token": "fs.s3a.session.token",
    "aws_default_region": "fs.s3a.endpoint.region",
    "aws_region": "fs.s3a.endpoint.region",
    "aws_endpoint": "fs.s3a.endpoint",
    "aws_endpoint_url": "fs.s3a.endpoint",
}
_PATH_STYLE = "fs.s3a.path.style.access"
_VIRTUAL_HOSTED = "aws_virtual_hosted_style_request"
_ENDPOINTS = ("aws_endpoint", "aws_endpoint_url")

#: Options with other defaults than in delta-rs. By default, delta-rs retries for three minutes if a store does not
#: respond. During this time the job cannot stop, and clients of a gateway wait.
_DEFAULTS = {"retry_timeout": "30s"}
#: {option: rejected values}. With these values, two writers could commit the same version of a table.
_UNSAFE = {"aws_s3_allow_unsafe_rename": ("true", "1"), "aws_conditional_put": ("disabled",)}
#: Unknown options with this prefix are rejected, because they are probably misspelt. delta-rs itself ignores them.
_AWS = "aws_"
_KNOWN_AWS = frozenset(
    {
        *_TO_S3A,
        _VIRTUAL_HOSTED,
        *_UNSAFE,
        "aws_allow_http",
        "aws_bucket",
        "aws_bucket_name",
        "aws_checksum_algorithm",
        "aws_container_authorization_token_file",
        "aws_container_credentials_full_uri",
        "aws_container_credentials_relative_uri",
        "aws_copy_if_not_exists",
        "aws_disable_tagging",
        "aws_endpoint_url_dynamodb",
        "aws_endpoint_url_sts",
        "aws_force_credential_load",
        "aws_iam_role_arn",
        "aws_iam_role_session_name",
        "aws_imdsv1_fallback",
        "aws_metadata_endpoint",
        "aws_profile",
        "aws_request_payer",
        "aws_role_arn",
        "aws_role_session_name",
        "aws_s3_assume_role_arn",
        "aws_s3_express",
        "aws_s3_locking_provider",
        "aws_s3_role_session_name",
        "aws_server_side_encryption",
        "aws_skip_signature",
        "aws_sse_bucket_key_enabled",
        "aws_sse_customer_key_base64",
        "aws_sse_kms_key_id",
        "aws_sts_endpoint",
        "aws_token",
        "aws_unsigned_payload",
        "aws_web_identity_token_file",
    }
)


def checked_options(value: object) -> object:
    """Return the options as strings. Raise ValueError if an option is invalid.

    The error contains no values that may be passwords.
    """
    if not isinstance(value, Mapping):
        raise ValueError("Not a mapping of storage options")
    options = {str(name): _text(str(name), text) for name, text in value.items()}
    if problems := [problem for name, text in options.items() if (problem := _problem(name.lower(), text))]:
        raise ValueError("; ".join(problems))
    return options


def delta_options(options: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the `storage_options` that delta-rs needs for tables below a path.

    If the path is in an object store (it contains `://`), options that are not set have the defaults of `_DEFAULTS`.
    """
    own = {name: text for name, text in options.items() if not name.startswith(_HADOOP)}
    return {**_DEFAULTS, **own} if "://" in path else own


def hadoop_properties(options: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's properties for options of delta-rs.

    As in delta-rs, custom endpoints are accessed in path style by default. Options with the prefix `fs.` are returned
    unchanged.
    """
    by_name = {name.lower(): text for name, text in options.items()}
    found = {hadoop: by_name[name] for name, hadoop in _TO_S3A.items() if name in by_name}
    if _VIRTUAL_HOSTED in by_name or any(name in by_name for name in _ENDPOINTS):
        found[_PATH_STYLE] = text_of(by_name.get(_VIRTUAL_HOSTED, "false").lower() != "true")
    return found | {name: text for name, text in options.items() if name.startswith(_HADOOP)}


def is_s3(path: str) -> bool:
    """Return whether a path is on S3, for which Spark requires additional JARs."""
    return path.startswith(_S3_SCHEMES)


def _text(name: str, value: object) -> str:
    if not isinstance(value, (bool, str, int, float)):
        raise ValueError(f"Option {name} is not a string")
    return text_of(value)


def _problem(name: str, text: str) -> str | None:
    if text.lower() in _UNSAFE.get(name, ()):
        return f"{name}={text} is not allowed, because two jobs could then write the same version of a table"
    if name.startswith(_AWS) and name not in _KNOWN_AWS:
        return f"Unknown option {name}{nearest_hint(name, _KNOWN_AWS)}"
    return None
