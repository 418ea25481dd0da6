# SPDX-License-Identifier: BSD-2-Clause
"""libscope for Python: scopes that scopetrace records.

    import scope

    with scope.span("load"):
        ...

    @scope.traced
    def solve(): ...

    @scope.traced("a name of its own")
    def draw(): ...

    scope.counter("queue", len(queue))

While nobody records, a span costs one call into the library. The library is libscope.so.1: as $SCOPE_LIBRARY names it,
else beside this file or in the lib folder above it, else as the system finds it. Without it nothing is recorded, and
`scope.available` is False.

A span belongs to the thread that opened it. A generator or coroutine that is left inside a span closes it when it is
resumed and ends, in whatever thread that is: use async_begin and async_end there.
"""

import ctypes
import ctypes.util
import functools
import os

__all__ = [
    "available", "enabled", "span", "traced", "instant", "frame", "counter", "async_begin", "async_end", "argument",
    "flow", "thread_name",
]

_SONAME = "libscope.so.1"
_MASK = (1 << 64) - 1


def _candidates():
    here = os.path.dirname(os.path.abspath(__file__))
    if os.environ.get("SCOPE_LIBRARY"):
        yield os.environ["SCOPE_LIBRARY"]
        return
    for folder in ("", "..", "../lib", "../../lib", "../../lib64"):
        path = os.path.join(here, folder, _SONAME)
        if os.path.exists(path):
            yield path
    yield _SONAME


def _load():
    for path in _candidates():
        try:
            # No release of the interpreter's lock: none of these calls waits, and each is shorter than that.
            library = ctypes.PyDLL(path)
        except OSError:
            continue
        return library
    return None


_library = _load()
available = _library is not None


def _function(name, result, *arguments):
    if _library is None:
        return lambda *_: 0
    function = getattr(_library, name)
    function.restype = result
    function.argtypes = arguments
    return function


_name = (ctypes.c_char_p, ctypes.c_size_t)
_is_enabled = _function("scope_is_enabled", ctypes.c_int)
_start = _function("scope_start", ctypes.c_uint64, *_name)
_stop = _function("scope_stop", None, ctypes.c_uint64)
_instant = _function("scope_instant", None, *_name)
_frame = _function("scope_frame", None, *_name)
_counter = _function("scope_counter", None, *_name, ctypes.c_int64)
_counter_double = _function("scope_counter_double", None, *_name, ctypes.c_double)
_async_start = _function("scope_async_start", None, *_name, ctypes.c_uint64)
_async_stop = _function("scope_async_stop", None, *_name, ctypes.c_uint64)
_argument = _function("scope_argument", None, *_name, ctypes.c_int64)
_flow = _function("scope_flow", None, ctypes.c_uint64)
_thread_name = _function("scope_thread_name", None, *_name)


def _bytes(name):
    return name if isinstance(name, bytes) else str(name).encode("utf-8", "surrogateescape")


def enabled():
    """Whether anybody records just now."""
    return _is_enabled() != 0


class span:
    """A scope around a `with` block. One object may be entered again, and inside itself."""

    __slots__ = ("_name", "_tokens")

    def __init__(self, name):
        self._name = _bytes(name)
        self._tokens = []

    def __enter__(self):
        self._tokens.append(_start(self._name, len(self._name)) if _is_enabled() else 0)
        return self

    def __exit__(self, *exception):
        token = self._tokens.pop()
        if token:
            _stop(token)
        return False


def traced(function_or_name):
    """Decorator: a scope around each call, named after the function or as given."""
    if not callable(function_or_name):
        return lambda function: _traced(function, _bytes(function_or_name))
    return _traced(function_or_name, _bytes(function_or_name.__qualname__))


def _traced(function, name):
    length = len(name)

    @functools.wraps(function)
    def call(*arguments, **keywords):
        if not _is_enabled():
            return function(*arguments, **keywords)
        token = _start(name, length)
        try:
            return function(*arguments, **keywords)
        finally:
            if token:
                _stop(token)

    return call


def instant(name):
    """A point in time."""
    if _is_enabled():
        name = _bytes(name)
        _instant(name, len(name))


def frame(name):
    """Between two frames of a loop: from each mark to the next of this name in this thread it is one frame."""
    if _is_enabled():
        name = _bytes(name)
        _frame(name, len(name))


def _int64(value):
    """The nearest integer of 64 bits: ctypes would keep the low bits of a larger one, and an exception only while somebody
    records would be worse."""
    return max(-(2**63), min(2**63 - 1, int(value)))


def counter(name, value):
    """A number that changes over time."""
    if _is_enabled():
        name = _bytes(name)
        if isinstance(value, int):
            _counter(name, len(name), _int64(value))
        else:
            _counter_double(name, len(name), float(value))


def async_begin(name, id):
    """What begins here and ends with async_end of the same name and id, in another thread if need be."""
    if _is_enabled():
        name = _bytes(name)
        _async_start(name, len(name), id & _MASK)


def async_end(name, id):
    if _is_enabled():
        name = _bytes(name)
        _async_stop(name, len(name), id & _MASK)


def argument(key, value):
    """An integer that belongs to the innermost scope open in this thread."""
    if _is_enabled():
        key = _bytes(key)
        _argument(key, len(key), _int64(value))


def flow(id):
    """Ties the innermost scope open in this thread to all that name the same id."""
    if _is_enabled():
        _flow(id & _MASK)


def thread_name(name):
    """Names this thread, from now on."""
    name = _bytes(name)
    _thread_name(name, len(name))
