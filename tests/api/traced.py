# SPDX-License-Identifier: GPL-2.0-or-later
"""A Python program with every call of scope.py: traced.py COUNT. Prints what it did."""

import sys
import threading

import scope


@scope.traced
def plain(i):
    return i


class Solver:
    @scope.traced
    def step(self, i):
        with scope.span("inner"):
            scope.argument("i", i)
            scope.flow(i + 1)
        return i


@scope.traced("named")
def fails():
    raise ValueError("on purpose")


def work(count):
    scope.thread_name("python worker")
    for i in range(count):
        scope.frame("loop")
        plain(i)
        Solver().step(i)
        scope.counter("integer", i)
        scope.counter("double", i / 2)
        scope.async_begin("request", i)
        try:
            fails()
        except ValueError:
            scope.instant("caught")
        scope.async_end("request", i)


count = int(sys.argv[1])
if not scope.available:
    sys.exit("libscope was not found")
thread = threading.Thread(target=work, args=(count,))
thread.start()
thread.join()
print(f"truth count={count} enabled={scope.enabled()}")
