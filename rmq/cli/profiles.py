"""Profiles: a name for each site, in `~/.config/rmq/config.toml`; and the settings of a run. The edge."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from rmq.cli.options import given_options
from rmq.failures import UnknownName, WrongUse, unknown_sentence
from rmq.site.settings import PROFILE_KEYS, SiteSettings, settings_of

#: Another file.
CONFIG_VARIABLE: Final = "RMQ_CONFIG"
PROFILE_VARIABLE: Final = "RMQ_PROFILE"
_DEFAULT_PATH: Final = "~/.config/rmq/config.toml"
_SECRETS: Final = frozenset({"access_key", "secret_key"})
_TOP: Final = frozenset({"current", "profiles"})


def profile_of(wanted: str | None, environment: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the profile of this name, else that of RMQ_PROFILE, else the file's `current`; empty without any.

    Raises UnknownName for a profile that is not there, and WrongUse for a file that cannot be used.
    """
    if wanted == "":
        raise WrongUse("profile is blank: give it a value, or leave it out")
    path = Path(environment.get(CONFIG_VARIABLE) or _DEFAULT_PATH).expanduser()
    name = wanted or environment.get(PROFILE_VARIABLE)
    document = _document(path)
    if document is None:
        if name or environment.get(CONFIG_VARIABLE):
            raise WrongUse(f"the file of profiles, {path}, does not exist")
        return {}
    profiles = document.get("profiles", {})
    name = name or document.get("current")
    if name is None:
        return {}
    if not isinstance(name, str) or name not in profiles:
        raise UnknownName(f"{path}: {unknown_sentence('profile', str(name), profiles)}")
    return _checked(path, name, profiles[name])


def _document(path: Path) -> dict[str, Any] | None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror or error}") from None
    import tomllib  # noqa: PLC0415  # 6 ms, and most have no file

    try:
        with file:
            document = tomllib.load(file)
            if any(_SECRETS & set(each) for each in document.get("profiles", {}).values() if isinstance(each, dict)):
                from rmq.site.access import check_private  # noqa: PLC0415  # with TLS and signing, 30 ms

                check_private(path, file.fileno(), "profiles")
    except RecursionError:
        raise WrongUse(f"{path} is not a file of profiles: its values are nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WrongUse(f"{path} is not TOML: {error}") from None
    except AttributeError:
        raise WrongUse(f"{path}: profiles must be tables: [profiles.NAME]") from None
    unknown = sorted(set(document) - _TOP)
    if unknown:
        raise WrongUse(f"{path}: {unknown_sentence('setting', unknown[0], _TOP)}")
    return document


def _checked(path: Path, name: str, profile: Any) -> Mapping[str, Any]:
    if not isinstance(profile, dict):
        raise WrongUse(f"{path}: profiles.{name} must be a table: [profiles.{name}]")
    unknown = sorted(set(profile) - PROFILE_KEYS)
    if unknown:
        raise WrongUse(f"{path}: profile {name}: {unknown_sentence('setting', unknown[0], PROFILE_KEYS)}")
    return profile


def settings_in(context: click.Context) -> SiteSettings:
    """Return the settings of the command at hand; raises CommandFailed."""
    options = given_options(context)
    return settings_of(options, os.environ, profile_of(options.get("profile"), os.environ))
