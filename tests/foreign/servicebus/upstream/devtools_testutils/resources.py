"""The namespace and its keys."""

import inspect
import os

NAMESPACE = "consign"
SUFFIX = ".servicebus.test"
HOST = NAMESPACE + SUFFIX
KEY_NAME = "RootManageSharedAccessKey"
# Of each name.
KEY = "dGhlIGtleSBvZiB0aGUgdXBzdHJlYW0gdGVzdHM="


class Resource:
    def __init__(self, name):
        self.name = name


def connection_string(name, entity=None):
    text = f"Endpoint=sb://{HOST}/;SharedAccessKeyName={name};SharedAccessKey={KEY}"
    return f"{text};EntityPath={entity}" if entity else text


def trim(test, arguments):
    """The arguments that a test takes."""
    parameters = inspect.signature(test).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return arguments
    return {name: value for name, value in arguments.items() if name in parameters}
