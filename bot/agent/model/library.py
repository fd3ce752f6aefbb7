"""Imports the anthropic library by need: a session begins when the third of it that it uses is there, not all of it.

A package of the library imports all that it offers when it is first touched: 3,300 modules of clouds, betas and types.
Here the ``__init__`` of such a package is read instead of run. It tells which module each name comes from, and that one
is imported when the name is asked for. A name that it does not tell of makes it run, as it would have at first.
"""

import ast
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Final, cast

LIBRARY: Final = "anthropic"
_MANY: Final = (f"{LIBRARY}.types", f"{LIBRARY}.resources")
"""Where packages do nothing but import what they offer."""


def by_need() -> None:
    """Have the library imported by need from now on; where it is there already, nothing changes."""
    if _ByNeed not in sys.meta_path:
        sys.meta_path.insert(0, _ByNeed)


class _ByNeed:
    """Finds the library's packages of many names."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Give such a package unrun; None, which leaves it to the finders that follow, for anything else."""
        if name != LIBRARY and not name.startswith(_MANY):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec and spec.submodule_search_locations and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Unrun(spec.loader)
        return spec


class _Unrun(Loader):
    """Makes the module of a package without running its code."""

    def __init__(self, loader: SourceFileLoader) -> None:
        self.loader = loader

    def create_module(self, _: ModuleSpec) -> ModuleType | None:
        """Leave it to the import system."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Note what the package's code would import, and from where; the module is its own loader's from then on."""
        module.__class__ = _Package
        package = cast(_Package, module)
        package.__homes__ = _homes(self.loader.get_data(self.loader.path))
        package.__run__ = self.loader.exec_module
        package.__loader__ = cast(ModuleSpec, package.__spec__).loader = self.loader


class _Package(ModuleType):
    """A package that was not run: its names come from their modules, one by one."""

    __homes__: dict[str, str]
    __run__: Callable[[ModuleType], None] | None

    def __getattr__(self, name: str) -> object:
        """Import what bears this name in the package; a name that it does not import itself makes it run."""
        if home := self.__homes__.get(name):
            found = getattr(import_module(home, self.__name__), name)
        elif not name.startswith("__") and find_spec(f".{name}", self.__name__):
            found = import_module(f".{name}", self.__name__)
        else:
            found = self._whole(name)
        setattr(self, name, found)
        return found

    def _whole(self, name: str) -> object:
        """Run the package, once, and give what the name has become."""
        if run := self.__run__:
            self.__run__ = None
            run(self)
        if name not in vars(self):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return vars(self)[name]


def _homes(source: bytes) -> dict[str, str]:
    """Tell for each name that a package's source imports from below it, unrenamed, from where."""
    return {
        name.name: f".{statement.module}"
        for statement in ast.parse(source).body
        if isinstance(statement, ast.ImportFrom) and statement.level == 1 and statement.module
        for name in statement.names
        if name.asname in {None, name.name} and name.name != "*"
    }
