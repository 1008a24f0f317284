"""The base class of config families. A family is a class that declares configuration keys that belong together.

A family is a frozen pydantic model. A key is declared once, as a field with its dotted name (alias), default, bounds
and description. The checks, the generated reference and the test of conf/share_group.yaml read these fields.
"""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.config import JsonDict
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails


def _whole_number(value: object) -> object:
    """Parse Kafka's INT and LONG: a whole number or its decimal text. YAML's `true` and `1.5` are rejected."""
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            raise ValueError("Not a whole number") from None
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("Not a whole number")
    return value


def _flag(value: object) -> object:
    """Parse Kafka's BOOLEAN: true, false, or the text "true" or "false". 1, "yes" and "on" are rejected."""
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise ValueError("Expected value to be either true or false")
    return value


Whole = Annotated[int, BeforeValidator(_whole_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]


def key(name: str, default: Any, doc: str, *, allowed: str | None = None, **checks: Any) -> Any:
    """Return the pydantic field that declares a config key. `checks` are passed to pydantic's `Field`.

    `doc` and `allowed` describe the key and its allowed values in the reference. By default, `allowed` is derived from
    the type and the checks of the field.
    """
    extra: JsonDict | None = {"allowed": allowed} if allowed is not None else None
    return Field(default=default, alias=name, description=doc, json_schema_extra=extra, **checks)


class ConfigKey(NamedTuple):
    """A config key as the generated reference shows it.

    `default` is None for a key of groups whose default is the value of a job-level key (`JOB_KEYS`).
    """

    name: str
    default: object
    allowed: str
    doc: str


class ConfigFamily(BaseModel):
    """Base class of the config families. A family declares config keys that belong together, each as a field.

    The name of a field is usually its key without the family's prefix, in snake case.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    @classmethod
    def config_keys(cls) -> dict[str, ConfigKey]:
        """Return {dotted name: key} for all keys of the family, in the order of declaration."""
        return {key.name: key for key in map(_describe, cls.model_fields.values())}

    def values(self) -> dict[str, Any]:
        """Return {dotted name: value} for all keys."""
        return self._by_name(self.__class__.model_fields)

    def set_values(self) -> dict[str, Any]:
        """Return {dotted name: value} for the values that were set explicitly."""
        return self._by_name(self.model_fields_set)

    def set_texts(self) -> dict[str, str]:
        """Return {dotted name: text} of the explicitly set values, in Kafka's format, which `check_family` accepts."""
        return {name: text_of(value) for name, value in self.set_values().items()}

    def _by_name(self, fields: Any) -> dict[str, Any]:
        aliases = {name: str(field.alias) for name, field in type(self).model_fields.items()}
        return {alias: getattr(self, name) for name, alias in aliases.items() if name in fields}


def text_of(value: object) -> str:
    """Return a value as text, in the format of Kafka's tools."""
    if type(value) is tuple:  # not a NamedTuple, which has its own text
        return ",".join(map(text_of, value))
    if isinstance(value, Enum):
        return str(value.value)
    return str(value).lower() if isinstance(value, bool) else str(value)


Family = TypeVar("Family", bound=ConfigFamily)


@dataclass(frozen=True)
class CheckedFamily(Generic[Family]):
    """A family that was created from user input, with the problems of this input.

    `wrong` are the names of keys with invalid values. `family` has the defaults of these keys instead. `problems` has a
    sentence for each of them.
    """

    family: Family
    wrong: frozenset[str]
    problems: tuple[str, ...]


def check_family(family: type[Family], values: Mapping[str, object]) -> CheckedFamily[Family]:
    """Create a family from `values`, {dotted name: value}, and collect the problems of all values.

    All names must be keys of the family.
    """
    missing = {name for name, value in values.items() if value is None}
    problems = {name: f"Missing value for configuration {name}" for name in missing}
    given = {name: value for name, value in values.items() if name not in missing}
    try:
        family.model_validate(given)
    except ValidationError as error:
        for details in error.errors():
            name = str(details["loc"][0])
            problems.setdefault(name, _sentence(family.config_keys()[name], given[name], details))
    good = {name: value for name, value in given.items() if name not in problems}
    ordered = tuple(problems[name] for name in values if name in problems)
    return CheckedFamily(family.model_validate(good), frozenset(problems), ordered)


def _sentence(key: ConfigKey, value: object, details: ErrorDetails) -> str:
    # The value of a mapping key may contain a password, even if it is malformed, so it is never shown.
    shown = "" if isinstance(key.default, Mapping) or isinstance(value, Mapping) else f"{value} "
    return f"Invalid value {shown}for configuration {key.name}: {_reason(details)} (allowed: {key.allowed})"


def _reason(details: ErrorDetails) -> str:
    """Return the reason why a value is invalid, in Kafka's words if they are known, otherwise in pydantic's."""
    context = details.get("ctx", {})
    templates = {
        "greater_than_equal": "Value must be at least {ge}",
        "less_than_equal": "Value must be no more than {le}",
        "value_error": "{error}",
        "enum": "Not one of the known values",
        "string_type": "Not a string",
        "string_too_short": "Value must not be empty",
    }
    template = templates.get(details["type"])
    return template.format(**context) if template else details["msg"]


def _describe(field: FieldInfo) -> ConfigKey:
    return ConfigKey(str(field.alias), field.default, _allowed(field), field.description or "")


def _allowed(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "allowed" in extra:
        return str(extra["allowed"])
    kind = _plain_type(field.annotation)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return " | ".join(str(member.value) for member in kind)
    if kind is bool:
        return "true | false"
    if kind is int:
        return _interval(field)
    return "string"


def _plain_type(annotation: Any) -> Any:
    """Return the type X of `X | None` and `Annotated[X, ...]`, and any other type unchanged."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(argument for argument in get_args(annotation) if argument is not type(None))
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _interval(field: FieldInfo) -> str:
    low = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    return f">= {low}" if high is None else f"{low}..{high}"
