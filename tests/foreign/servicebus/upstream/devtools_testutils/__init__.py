"""Stands in for the package of the same name, which is not published: every test runs live, and nothing is recorded."""

import asyncio
import functools
import inspect

from azure.servicebus._base_handler import ServiceBusSharedKeyCredential
from azure.servicebus.aio._base_handler_async import ServiceBusSharedKeyCredential as AsyncSharedKeyCredential

from .resources import HOST, KEY, KEY_NAME, Resource, connection_string, trim


class AzureRecordedTestCase:
    is_live = True

    @staticmethod
    def await_prepared_test(test):
        return test


AzureMgmtRecordedTestCase = AzureRecordedTestCase


def get_credential(is_async=False, **_):
    return (AsyncSharedKeyCredential if is_async else ServiceBusSharedKeyCredential)(KEY_NAME, KEY)


def set_custom_default_matcher(**_):
    pass


set_bodiless_matcher = set_custom_default_matcher


def recorded_by_proxy(test):
    # Without functools.wraps: pytest takes the parameters of a test that it sees for fixtures.
    def run(*args, **kwargs):
        return test(*args, **trim(test, kwargs))

    return run


class Preparer:
    """A decorator that gives a test keyword arguments."""

    def enter(self, arguments):
        raise NotImplementedError

    def leave(self, arguments):
        pass

    def __call__(self, test):
        is_async = asyncio.iscoroutinefunction(inspect.unwrap(test))

        @functools.wraps(test)
        async def run_async(instance, *args, **kwargs):
            arguments = {**kwargs, **self.enter(kwargs)}
            try:
                return await test(instance, *args, **trim(test, arguments))
            finally:
                self.leave(arguments)

        @functools.wraps(test)
        def run(instance, *args, **kwargs):
            arguments = {**kwargs, **self.enter(kwargs)}
            try:
                return test(instance, *args, **trim(test, arguments))
            finally:
                self.leave(arguments)

        return run_async if is_async else run


class _Values(Preparer):
    def __init__(self, values):
        self.values = values

    def enter(self, arguments):
        return self.values


def PowerShellPreparer(_folder, **fakes):
    values = {
        "servicebus_connection_str": connection_string(KEY_NAME),
        "servicebus_fully_qualified_namespace": HOST,
        "servicebus_sas_policy": KEY_NAME,
        "servicebus_sas_key": KEY,
    }
    return _Values({**fakes, **values})


def ResourceGroupPreparer(*_, **__):
    return _Values({"resource_group": Resource("group")})


CachedResourceGroupPreparer = RandomNameResourceGroupPreparer = ResourceGroupPreparer
