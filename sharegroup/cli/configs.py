"""The command `sharegroup configs`: configs of groups, with the options of Kafka's kafka-configs.sh."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharegroup.cli.options.connection import (
    DEFAULT_TIMEOUT_MS,
    BootstrapServer,
    CommandConfig,
    CommandError,
    Timeout,
    admin_client,
    read_properties,
    reporting_errors,
)
from sharegroup.cli.options.output import Output, OutputFormat, OutputOption

if TYPE_CHECKING:
    from sharegroup.kafka_clients.admin import ConfigEntry, ShareGroupAdmin

GROUPS = "groups"


@dataclass(frozen=True)
class _Arguments:
    describe: bool
    alter: bool
    groups: tuple[str, ...]
    all: bool
    added: str | None
    file: Path | None
    removed: str | None

    def check(self) -> None:
        """Raise CommandError for an invalid combination of options.

        The messages are those of Kafka's ConfigCommandOptions.checkArgs.
        """
        if self.describe == self.alter:
            raise CommandError("Command must include exactly one action: --describe, --alter")
        if len(self.groups) > 1:
            raise CommandError("Only one of --entity-name and --group can be specified, and only once")
        changes = {"add-config": self.added, "add-config-file": self.file, "delete-config": self.removed}
        given = [option for option, value in changes.items() if value is not None]
        if self.describe and given:
            raise CommandError(f'Option "[describe]" can\'t be used with option "[{given[0]}]"')
        if self.alter and not self.groups:
            raise CommandError("An entity name must be specified with --alter of groups")
        if self.alter and self.all:
            raise CommandError('Option "[all]" can\'t be used with option "[alter]"')
        if self.added is not None and self.file is not None:
            raise CommandError("Only one of --add-config or --add-config-file must be specified")
        if self.alter and not given:
            options = "--add-config, --add-config-file, or --delete-config"
            raise CommandError(f"At least one of {options} must be specified with --alter")

    def to_set(self) -> dict[str, str]:
        """Return {name: value} of the configs to set, from --add-config or --add-config-file.

        Raise CommandError if the file cannot be read or an entry is not name=value.
        """
        return read_properties(self.file) if self.file is not None else parse_added_configs(self.added or "")


def configs(
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    entity_type: Annotated[str, typer.Option(help="Entity type; only groups are supported.")] = GROUPS,
    entity_name: Annotated[list[str] | None, typer.Option(help="Group id.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Group id (same as --entity-name).")] = None,
    describe: Annotated[
        bool, typer.Option("--describe", help="Describe configs of the group, or of all groups that have some.")
    ] = False,
    all_: Annotated[bool, typer.Option("--all", help="Describe all effective configs, including defaults.")] = False,
    alter: Annotated[bool, typer.Option("--alter", help="Set and remove configs in one step.")] = False,
    add_config: Annotated[str | None, typer.Option(help="Configs to set: 'k1=v1,k2=[v1,v2]'.")] = None,
    add_config_file: Annotated[
        Path | None, typer.Option(help="Properties file with configs to set, one name=value per line.")
    ] = None,
    delete_config: Annotated[str | None, typer.Option(help="Configs to remove: 'k1,k2'.")] = None,
    timeout: Timeout = DEFAULT_TIMEOUT_MS,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Describe and alter configs of share groups, as kafka-configs.sh does with --entity-type groups."""
    groups = tuple(group_id for group_id in (*(entity_name or ()), *(group or ())))
    arguments = _Arguments(describe, alter, groups, all_, add_config, add_config_file, delete_config)
    with reporting_errors("config command"):
        if entity_type != GROUPS:
            raise CommandError(f"Invalid entity type {entity_type}, the entity type must be one of {GROUPS}")
        arguments.check()
        added, removed = arguments.to_set(), parse_removed_configs(arguments.removed or "")
        with admin_client(bootstrap_server, command_config, timeout) as admin:
            if arguments.describe:
                _describe(admin, arguments, Output(output))
            else:
                admin.alter_group_configs(groups[0], added, removed=removed)
                Output(output).print_line(f"Completed updating config for group {groups[0]}.")


def parse_added_configs(text: str) -> dict[str, str]:
    """Parse `k1=v1,k2=[v1,v2]` to {name: value}. Brackets enclose a value that contains commas, and are removed.

    Raise CommandError for an entry that is not name=value.
    """
    pairs = [part.partition("=") for part in re.split(r",(?![^\[]*\])", text) if part.strip()]
    if any(not equals or not name.strip() for name, equals, _ in pairs):
        raise CommandError(
            'Invalid entity config: all configs to be added must be in the format "key=val" or '
            '"key=[val1,val2]" to group values which contain commas.'
        )
    return {name.strip(): re.sub(r"^\[(.*)\]$", r"\1", value.strip()) for name, _, value in pairs}


def parse_removed_configs(text: str) -> list[str]:
    """Return the config names in `k1,k2`. Empty names are left out."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _describe(admin: ShareGroupAdmin, arguments: _Arguments, output: Output) -> None:
    group_ids = list(arguments.groups) or sorted({*_existing(admin), *admin.list_groups_with_configs()})
    found = {
        group_id: [entry for entry in entries.values() if arguments.all or entry.is_of_group]
        for group_id, entries in admin.describe_group_configs(group_ids).items()
    }
    if output.kind is not OutputFormat.TABLE:
        output.document([_row(group_id, entry) for group_id, entries in found.items() for entry in entries])
        return
    existing = set() if all(found.values()) else _existing(admin)
    for group_id, entries in found.items():
        if not entries and group_id not in existing:
            output.print_line(f"The group '{group_id}' doesn't exist and doesn't have dynamic config.")
            continue
        output.print_line(f"{'All' if arguments.all else 'Dynamic'} configs for group {group_id} are:")
        for entry in entries:
            output.print_line(f"  {_line(entry)}")


def _existing(admin: ShareGroupAdmin) -> set[str]:
    return {group.group_id for group in admin.list_groups(types=())}


def _line(entry: ConfigEntry) -> str:
    synonyms = ", ".join(f"{source.name}:{name}={value}" for source, name, value in entry.synonyms)
    return f"{entry.name}={entry.value} sensitive={str(entry.is_sensitive).lower()} synonyms={{{synonyms}}}"


def _row(group_id: str, entry: ConfigEntry) -> Mapping[str, object]:
    return {
        "group": group_id,
        "config": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "sensitive": entry.is_sensitive,
        "synonyms": [{"source": source.name, "config": name, "value": value} for source, name, value in entry.synonyms],
    }
