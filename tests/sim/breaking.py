"""One line of a function replaced, for a while: how a rule is broken on purpose."""

import contextlib
import importlib
import inspect
import textwrap
from collections.abc import Iterator

KERNEL = "distributed_grid.kernel"


@contextlib.contextmanager
def replaced(where: str, line: str, instead: str) -> Iterator[None]:
    """`where` is module:function or module:Class.method. Whoever has imported it sees it too."""
    module_name, _, path = where.partition(":")
    is_whole = module_name.startswith("tests.")
    module = importlib.import_module(module_name if is_whole else f"{KERNEL}.{module_name}")
    whole = module
    for name in path.split("."):
        whole = whole.__dict__[name]
    source = textwrap.dedent(inspect.getsource(whole))
    assert source.count(line) == 1, f"{where} has changed: {line!r}"
    made: dict = {}
    exec(compile(source.replace(line, instead), where, "exec"), vars(module), made)
    code = whole.__code__
    whole.__code__ = made[whole.__name__].__code__
    try:
        yield
    finally:
        whole.__code__ = code
