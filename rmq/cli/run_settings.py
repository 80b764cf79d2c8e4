"""The settings of one run: options, environment and profile put together. The edge: it reads the environment."""

import os

import click

from rmq.cli.options import given_options
from rmq.cli.profiles import profile_of
from rmq.site.settings import SiteSettings, settings_of


def settings_in(context: click.Context) -> SiteSettings:
    """Return the settings of the command at hand; raises CommandFailed."""
    options = given_options(context)
    return settings_of(options, os.environ, profile_of(options.get("profile"), os.environ))
