from .resources import trim


def recorded_by_proxy_async(test):
    async def run(*args, **kwargs):
        return await test(*args, **trim(test, kwargs))

    return run
