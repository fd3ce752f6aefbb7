"""Imports the vendor's library without the modules that no request needs.

`import anthropic` loads 2,600 modules of types, of which a client uses about 500. That takes 0.7 s of CPU and 40 MB in
every process that asks a model. Here the library's packages of re-exports load what is asked of them, when it is asked
(as by https://peps.python.org/pep-0562/). Every public name stays importable. Only ANTHROPIC_LOG has no effect.
"""

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Final

LIBRARY: Final = "anthropic"
_LAZY: Final = re.compile(rf"{LIBRARY}(\.types(\..*)?)?")
"""Packages whose `__init__` consists of re-exports."""
_EXPORTS: Final = re.compile(r"^from (\.[\w.]*) import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)


def load_types_on_demand() -> None:
    """Make the first import of the library lazy. Has no effect if the library is loaded."""
    if LIBRARY not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the lazy packages of the library."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the spec of a lazy package, and None for every other module."""
        spec = PathFinder.find_spec(name, path, target) if _LAZY.fullmatch(name) else None
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec.loader = _Loader()
        return spec


class _Loader(Loader):
    """Loads a package by the names that it re-exports, and none of the modules that define them."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the package."""
        return _Package(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Record where each name of the package is defined."""
        homes: dict[str, str] = {}
        stars: list[str] = []
        for home, several, single in _EXPORTS.findall(Path(str(module.__file__)).read_text()):
            for export in filter(None, map(str.strip, (several or single).split(","))):
                if export == "*":
                    stars.insert(0, home)  # a later one overrides the others
                else:
                    homes[export.split(" as ")[-1]] = home
        module.__dict__.update(_homes=homes, _stars=stars)


class _Package(ModuleType):
    """A package that imports a name when it is asked for it."""

    def __getattr__(self, name: str) -> object:
        """Return what the package exports under a name, or the submodule of that name."""
        if name.startswith("__") and name not in self.__dict__.get("_homes", ()):
            raise AttributeError(name)
        home = self.__dict__.get("_homes", {}).get(name, "")
        if home and home != ".":
            value: object = getattr(import_module(home, self.__name__), name)
        else:
            value = self._import_submodule(name) or self._find_in_stars(name)
        setattr(self, name, value)
        return value

    def _import_submodule(self, name: str) -> ModuleType | None:
        full = f"{self.__name__}.{name}"
        return import_module(full) if PathFinder.find_spec(full, self.__path__) else None

    def _find_in_stars(self, name: str) -> object:
        for star in self.__dict__["_stars"] if not name.startswith("_") else ():  # which a star never imports
            module = import_module(star, self.__name__)
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
