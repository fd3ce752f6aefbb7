"""Package registries on this machine, for real package managers: one small package with releases of several ages.

https://peps.python.org/pep-0691/ and https://peps.python.org/pep-0700/
https://github.com/npm/registry/blob/main/docs/responses/package-metadata.md
https://doc.rust-lang.org/cargo/reference/registry-index.html
https://go.dev/ref/mod#goproxy-protocol
"""

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from bot.testing.host import serve_routes

NAME: Final = "parcelpad"
RELEASES: Final[Mapping[str, int]] = MappingProxyType({"1.0.0": 400, "1.1.0": 30, "1.2.0": 3, "2.0.0": 2})
"""Version -> its age in days."""
SIMPLE: Final = "application/vnd.pypi.simple.v1+json"


@cache
def wheel(version: str) -> bytes:
    """Return a wheel with nothing but its metadata."""
    made, folder = io.BytesIO(), f"{NAME}-{version}.dist-info"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{folder}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n")
        archive.writestr(f"{folder}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{folder}/RECORD", "")
    return made.getvalue()


@cache
def tarball(version: str) -> bytes:
    """Return a package of npm with nothing but its manifest: always the same, also in its time, as its checksum is."""
    made, manifest = io.BytesIO(), json.dumps({"name": NAME, "version": version}).encode()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        entry = tarfile.TarInfo("package/package.json")
        entry.size = len(manifest)
        archive.addfile(entry, io.BytesIO(manifest))
    return made.getvalue()


def released(days: int) -> str:
    """Return when a release of that age was made."""
    return f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(slots=True)
class Registries:
    """A Python index, an npm registry, and an index of crates at one address."""

    address: str = ""
    dated: bool = True
    """Whether the index of crates says when a release was made. Not every registry does."""
    wheels: dict[str, bytes] = field(
        default_factory=lambda: {f"{NAME}-{v}-py3-none-any.whl": wheel(v) for v in RELEASES}
    )

    def routes(self) -> list[Route]:
        return [
            Route("/simple/{name}/", self._simple),
            Route("/wheels/{file}", lambda request: Response(self.wheels[request.path_params["file"]])),
            Route(f"/npm/{NAME}", self._packument),
            Route("/npm/tarballs/{version}.tgz", lambda request: Response(tarball(request.path_params["version"]))),
            Route("/crates/config.json", lambda _: JSONResponse({"dl": f"{self.address}/none"})),
            Route("/go/{module:path}/@v/{file}", self._module),
            Route(f"/crates/{NAME[:2]}/{NAME[2:4]}/{NAME}", self._crate),
        ]

    def env(self, home: Path) -> dict[str, str]:
        """Return the variables that lead the package managers here, and nowhere else."""
        cargo = home / "cargo"
        cargo.mkdir(parents=True, exist_ok=True)
        source = (
            f'[source.crates-io]\nreplace-with = "here"\n[source.here]\nregistry = "sparse+{self.address}/crates/"\n'
        )
        (cargo / "config.toml").write_text(source)
        return {
            "PIP_CONFIG_FILE": "/dev/null",
            "PIP_INDEX_URL": f"{self.address}/simple/",
            "NPM_CONFIG_REGISTRY": f"{self.address}/npm/",
            "NPM_CONFIG_CACHE": str(home / "npm"),
            "CARGO_HOME": str(cargo),
            "GOPROXY": f"{self.address}/go",
            "GONOSUMDB": "*",
            "GOFLAGS": "-mod=mod",
            "GOMODCACHE": str(home / "go"),
            "GOTOOLCHAIN": "local",
        }

    def _simple(self, request: Request) -> Response:
        prefix = f"{request.path_params['name']}-"
        files = [
            {
                "filename": name,
                "url": f"{self.address}/wheels/{name}",
                "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
                "upload-time": released(RELEASES.get(name.split("-")[1], 999)),
            }
            for name, content in self.wheels.items()
            if name.startswith(prefix)
        ]
        versions = [name.split("-")[1] for name in self.wheels if name.startswith(prefix)]
        found = {"meta": {"api-version": "1.1"}, "name": prefix[:-1], "files": files, "versions": versions}
        return Response(json.dumps(found), media_type=SIMPLE, status_code=200 if files else 404)

    def _packument(self, _: Request) -> Response:
        versions = {version: self._npm_version(version) for version in RELEASES}
        time = {version: released(days) for version, days in RELEASES.items()}
        return JSONResponse({"name": NAME, "dist-tags": {"latest": "2.0.0"}, "versions": versions, "time": time})

    def _npm_version(self, version: str) -> dict[str, Any]:
        shasum = hashlib.sha1(tarball(version), usedforsecurity=False).hexdigest()
        dist = {"tarball": f"{self.address}/npm/tarballs/{version}.tgz", "shasum": shasum}
        return {"name": NAME, "version": version, "dist": dist}

    def _module(self, request: Request) -> Response:
        """Answer for a module whose major version is 1."""
        module, name = request.path_params["module"], request.path_params["file"]
        ages = {f"v{version}": days for version, days in RELEASES.items() if version.startswith("1.")}
        version, _, kind = name.rpartition(".")
        if name == "list":
            return PlainTextResponse("\n".join(ages))
        if version not in ages or kind not in {"info", "mod"}:
            return PlainTextResponse("not found", status_code=404)
        if kind == "mod":
            return PlainTextResponse(f"module {module}\n")
        return JSONResponse({"Version": version, "Time": released(ages[version])})

    def _crate(self, _: Request) -> Response:
        rows = [
            {"name": NAME, "vers": version, "deps": [], "cksum": "0" * 64, "features": {}, "yanked": False}
            | ({"pubtime": released(days)} if self.dated else {})
            for version, days in RELEASES.items()
        ]
        return PlainTextResponse("\n".join(json.dumps(row, separators=(",", ":")) for row in rows))


@contextmanager
def serve_registries() -> Iterator[Registries]:
    """Serve the registries while the context is open."""
    made = Registries()
    with serve_routes(made.routes()) as made.address:
        yield made
