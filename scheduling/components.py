"""Classes by name: ours, Hadoop's names for them, and a user's own as `module:Class`.

Follows `Configuration.getInstances` and `CallQueueManager.createScheduler`: of several names the
first is used, and a component may be built in three ways, tried in this order:

    Class.from_conf(...)   with the whole configuration
    Class(number)          the number of levels (scheduler) or the capacity (queue)
    Class()

Differs: a constructor is chosen by its signature, never by calling it and catching what it raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module

from .errors import NotBuilt, UnknownClass

HADOOP_PACKAGES = ("org.apache.hadoop.ipc", "java.util.concurrent")


def canonical(name: str) -> str:
    """Our name of a class: Hadoop's package is dropped, anything else stands."""
    package, _, simple = name.strip().rpartition(".")
    return simple if package in HADOOP_PACKAGES else name.strip()


def class_named(name: str, known: Mapping[str, type]) -> type:
    """The class of that name among the `known`, or imported; UnknownClass."""
    simple = canonical(name)
    if simple in known:
        return known[simple]
    module, colon, attribute = simple.partition(":")
    if not colon:
        raise UnknownClass(f"no class {name!r}; known are {', '.join(sorted(known))}")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UnknownClass(f"no class {name!r}: {error}") from error
    if not isinstance(found, type):
        raise UnknownClass(f"{name!r} is not a class")
    return found


def provider_class(names: list[str], known: Mapping[str, type], method: str, default: type) -> type:
    """The class of the first of `names`, all of which must exist and have `method`; NotBuilt."""
    classes = []
    for name in names:
        try:
            classes.append(class_named(name, known))
        except UnknownClass as error:
            raise NotBuilt(str(error)) from error
        if not callable(getattr(classes[-1], method, None)):
            raise NotBuilt(f"{name} has no method {method}()")
    return classes[0] if classes else default


def accepts(component: type, count: int) -> bool:
    """Whether `component` can be called with that many positional arguments."""
    try:
        inspect.signature(component).bind(*range(count))
    except TypeError:
        return False
    return True


def build(component: type, number: int, *whole: object) -> object:
    """An instance, from the `whole` configuration, the `number`, or nothing; NotBuilt."""
    from_conf = getattr(component, "from_conf", None)
    try:
        if from_conf is not None:
            return from_conf(*whole)
        if accepts(component, 1):
            return component(number)
        if accepts(component, 0):
            return component()
    except ValueError as error:
        raise NotBuilt(f"{component.__name__} could not be built: {error}") from error
    raise NotBuilt(f"{component.__name__} could not be built: no usable constructor")
