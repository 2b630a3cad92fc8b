"""Creates the entities of a test with the administration client of the SDK."""

import contextlib
import functools
import uuid

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.management import ServiceBusAdministrationClient

from devtools_testutils import Preparer
from devtools_testutils import ResourceGroupPreparer as CachedServiceBusResourceGroupPreparer
from devtools_testutils.resources import KEY, KEY_NAME, NAMESPACE, SUFFIX, Resource, connection_string

SERVICEBUS_ENDPOINT_SUFFIX = SUFFIX
# The file of keys has a key for the queue of this name.
QUEUE_WITH_KEY = "queue-with-key"


def administration():
    return ServiceBusAdministrationClient.from_connection_string(connection_string(KEY_NAME))


class _Entity(Preparer):
    cache = {}

    def __init__(self, name_prefix="", use_cache=False, parameter_name=None, **options):
        self.name_prefix = name_prefix
        self.use_cache = use_cache
        self.parameter_name = parameter_name or self.parameter
        self.options = options

    def enter(self, arguments):
        key = (self.parameter, repr(sorted(self.options.items())))
        resource = self.cache.get(key) if self.use_cache else None
        if resource is None:
            resource = Resource(f"{self.name_prefix}{uuid.uuid4().hex[:8]}")
            # The key of one queue is for its name.
            if self.name_prefix.endswith("qtwo"):
                resource = Resource(QUEUE_WITH_KEY)
            self.create(resource.name, arguments)
        if self.use_cache:
            self.cache[key] = resource
        return {self.parameter_name: resource}

    def leave(self, arguments):
        if not self.use_cache:
            # The test may have deleted it.
            with contextlib.suppress(ResourceNotFoundError):
                self.remove(arguments[self.parameter_name].name, arguments)


class ServiceBusQueuePreparer(_Entity):
    parameter = "servicebus_queue"

    def create(self, name, arguments):
        administration().create_queue(name, **{"lock_duration": "PT30S", **self.options})

    def remove(self, name, arguments):
        administration().delete_queue(name)


class ServiceBusTopicPreparer(_Entity):
    parameter = "servicebus_topic"

    def create(self, name, arguments):
        administration().create_topic(name)

    def remove(self, name, arguments):
        administration().delete_topic(name)


class ServiceBusSubscriptionPreparer(_Entity):
    parameter = "servicebus_subscription"

    def create(self, name, arguments):
        topic = arguments["servicebus_topic"].name
        administration().create_subscription(topic, name, **{"lock_duration": "PT60S", **self.options})

    def remove(self, name, arguments):
        administration().delete_subscription(arguments["servicebus_topic"].name, name)


class ServiceBusNamespacePreparer(Preparer):
    def __init__(self, **_):
        pass

    def enter(self, arguments):
        return {
            "servicebus_namespace": Resource(NAMESPACE),
            "servicebus_namespace_connection_string": connection_string(KEY_NAME),
            "servicebus_namespace_key_name": KEY_NAME,
            "servicebus_namespace_primary_key": KEY,
        }


class ServiceBusNamespaceAuthorizationRulePreparer(Preparer):
    """The file of keys has one for each set of rights."""

    def __init__(self, access_rights=("manage", "send", "listen"), **_):
        self.name = "-".join(sorted(access_rights))

    def enter(self, arguments):
        return {"servicebus_authorization_rule_connection_string": connection_string(self.name)}


class ServiceBusQueueAuthorizationRulePreparer(Preparer):
    def __init__(self, **_):
        pass

    def enter(self, arguments):
        text = connection_string(QUEUE_WITH_KEY, arguments["servicebus_queue"].name)
        return {"servicebus_queue_authorization_rule_connection_string": text}


CachedServiceBusNamespacePreparer = ServiceBusNamespacePreparer
CachedServiceBusQueuePreparer = functools.partial(ServiceBusQueuePreparer, use_cache=True)
CachedServiceBusTopicPreparer = functools.partial(ServiceBusTopicPreparer, use_cache=True)
CachedServiceBusSubscriptionPreparer = functools.partial(ServiceBusSubscriptionPreparer, use_cache=True)
