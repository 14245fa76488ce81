"""What compiling an expression adds to the plugins of its app."""

from __future__ import annotations

from google.adk.plugins.base_plugin import BasePlugin


class AddedPlugin(BasePlugin):
    """A plugin that an app gets because of the expression it is compiled from.

    Where the app is read as an expression again, it is not taken for one of the user's.
    """
