"""Runs the scenarios of azure-servicebus against a server, each on entities of its own.

`run.py entities` prints the entities of all scenarios, in the format of the configuration of Microsoft's emulator.
`run.py sync|async SETTINGS.json [NAME...]` runs the scenarios and prints a line for each: `pass NAME` or `FAIL NAME: reason`.
The settings are `connection`, and where a server has them: `listen_only`, `send_only`, `wrong_key`, `web_socket`, `tls`, `ca`,
`administration`, `administration_listen`, `administration_wrong_key`.

The scenarios are written for the asynchronous client. Without `async` and `await` the same source is for the other one.
"""

import asyncio
import json
import os
import re
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

MODULES = ["sending", "receiving", "settling", "sessions", "topics", "connections", "administration", "over_http"]
# More of the asynchronous ones in one thread delay each other's renewals.
AT_ONCE = {"sync": 40, "async": 16}
# The next page of a list begins behind a number of entities: if others are deleted meanwhile, some are passed over.
ALONE = {"list_queues"}
# Longer than the scenario that waits the longest takes on a busy machine, and than all of them.
SECONDS = 90
SECONDS_OF_ALL = 600

SYNC = [
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"azure\.servicebus\.aio", "azure.servicebus"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\b__a(enter|exit|iter|next)__\b", r"__\1__"),
]


class Expected(AssertionError):
    """A scenario did not see what it expected."""


def same(what, got, expected):
    """Fails unless both are the same."""
    if got != expected:
        raise Expected(f"{what}: {got!r} instead of {expected!r}")


class Missing(Exception):
    """The server under test has no such setting."""


class Scenario:
    """A function, and the entities that it uses."""

    def __init__(self, function, entities):
        self.function, self.name, self.entities = function, function.__name__, entities


def load(mode):
    """The scenarios of a mode by name."""
    scenarios = {}

    def scenario(*entities):
        def register(function):
            if function.__name__ in scenarios:
                raise ValueError(f"two scenarios are {function.__name__}")
            scenarios[function.__name__] = Scenario(function, entities)
            return function

        return register

    folder = Path(__file__).parent
    together, pause = (threads, time.sleep) if mode == "sync" else (tasks, asyncio.sleep)
    given = {"scenario": scenario, "same": same, "Expected": Expected, "Missing": Missing, "together": together, "pause": pause}
    given |= {"queue": queue, "topic": topic, "subscription": subscription, "rule": rule}
    support = dict(given)
    for module in ["support", *MODULES]:
        source = (folder / f"{module}.py").read_text()
        if mode == "sync":
            for pattern, replacement in SYNC:
                source = re.sub(pattern, replacement, source)
        names = support if module == "support" else dict(support)
        exec(compile(source, f"{module}.py", "exec"), names)
    return scenarios


def queue(**properties):
    """A queue with properties of the emulator's format."""
    return {"Properties": properties}


def topic(*subscriptions, **properties):
    """A topic."""
    return {"Properties": properties, "Subscriptions": list(subscriptions)}


def subscription(name, *rules, **properties):
    """A subscription of a topic."""
    return {"Name": name, "Properties": properties, "Rules": list(rules)}


def rule(name, **properties):
    """A rule of a subscription."""
    return {"Name": name, "Properties": properties}


def names_of(scenario, mode):
    """The names of the entities of a scenario."""
    base = f"{mode}-{scenario.name}"
    return [base if i == 0 else f"{base}-{i}" for i in range(len(scenario.entities))]


def emulator_config():
    """All entities, for each mode."""
    queues, topics = [], []
    for mode in ["sync", "async"]:
        for scenario in load(mode).values():
            names = names_of(scenario, mode)
            for name, entity in zip(names, scenario.entities):
                # A target of another entity of the scenario is `@1`.
                entity = json.loads(re.sub(r'"@(\d+)"', lambda m: f'"{names[int(m[1])]}"', json.dumps(entity)))
                (topics if "Subscriptions" in entity else queues).append({"Name": name, **entity})
    namespace = {"Name": "sbemulatorns", "Queues": queues, "Topics": topics}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "Console"}}}


def reason(error):
    """The first line of an error, and where the scenario was."""
    where = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).stem in MODULES]
    place = f" ({where[-1].filename}:{where[-1].lineno})" if where else ""
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}{place}"


failed = 0


def report(name, error=None):
    """Prints the result of a scenario."""
    global failed
    if error is None:
        line = f"pass {name}"
    elif isinstance(error, Missing):
        line = f"skip {name}: {error}"
    else:
        failed += 1
        line = f"FAIL {name}: {reason(error)}"
    # One write: threads print at the same time.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def threads(*functions):
    """Calls functions at the same time."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(function) for function in functions]]


async def tasks(*functions):
    """Calls functions at the same time."""
    return await asyncio.gather(*[function() for function in functions])


def run_sync(scenarios, context):
    limit = threading.Semaphore(AT_ONCE["sync"])
    # The scenarios that are not reported, and when those that have begun are late.
    left, late = {scenario.name for scenario in scenarios}, {}
    ending = threading.Lock()

    def end(name, error=None):
        with ending:
            # One that is late may end after all.
            if name in left:
                report(name, error)
                left.remove(name)

    def one(scenario):
        with limit:
            late[scenario.name] = time.monotonic() + SECONDS
            error = None
            try:
                scenario.function(context(scenario))
            except Exception as raised:
                error = raised
            end(scenario.name, error)

    until = time.monotonic() + SECONDS_OF_ALL
    for scenario in scenarios:
        threading.Thread(target=one, args=[scenario], daemon=True).start()
    while left:
        time.sleep(0.1)
        for name in list(left):
            if time.monotonic() > min(late.get(name, until), until):
                end(name, TimeoutError("it did not end"))


async def run_async(scenarios, context):
    limit = asyncio.Semaphore(AT_ONCE["async"])

    async def one(scenario):
        async with limit:
            try:
                await asyncio.wait_for(scenario.function(context(scenario)), SECONDS)
            except asyncio.TimeoutError:
                report(scenario.name, TimeoutError("it did not end"))
            except Exception as raised:
                report(scenario.name, raised)
            else:
                report(scenario.name)

    await asyncio.gather(*[one(scenario) for scenario in scenarios])


def main():
    if sys.argv[1] == "entities":
        print(json.dumps(emulator_config()))
        return
    mode, settings = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
    scenarios = load(mode)
    chosen = [scenarios[name] for name in sys.argv[3:]] or list(scenarios.values())
    make = next(iter(scenarios.values())).function.__globals__["Context"]

    def context(scenario):
        return make(settings, names_of(scenario, mode))

    alone = [[scenario] for scenario in chosen if scenario.name in ALONE]
    for group in [*alone, [scenario for scenario in chosen if scenario.name not in ALONE]]:
        if mode == "sync":
            run_sync(group, context)
        else:
            asyncio.run(run_async(group, context))
    print(f"{len(chosen)} scenario(s), {failed} failed", flush=True)
    # Threads of a client may be left.
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
