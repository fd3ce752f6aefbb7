"""The text of the workflows, in each variant that `plangate init` can write, and the stamp that identifies it.

The shipped files are the variant for github.com with an environment. Each other variant is made from them by replacing
a few lines. The last line of a written file is its stamp: the version, the variant, and a digest of the text above it.
From the stamp, `init` and `doctor` know what wrote a file, and whether somebody has edited it since.
"""

import hashlib
import re
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.resources import files
from typing import Final, Self
from urllib.parse import urlsplit

from bot.core.receipt import PREDICATE_TYPE

WORKFLOW: Final = ".github/workflows/plangate.yml"
SWEEP: Final = ".github/workflows/plangate-sweep.yml"
SHIPPED: Final = {WORKFLOW: "workflow.yml", SWEEP: "sweep.yml"}
ACTION: Final = "plangate/plangate"
GITHUB: Final = "https://github.com"
RUNNER: Final = "ubuntu-24.04"
"""GitHub's runner for jobs that work. Jobs without a sandbox use a smaller one."""
KEY_NAME: Final = "ANTHROPIC_API_KEY"
ACCOUNT_KEY_NAME: Final = "PLANGATE_TOKEN"
"""Secret that holds the token of the bot's own account, beside the key."""
ENVIRONMENT: Final = "plangate"
_ENVIRONMENT: Final = re.compile(r"^    environment: .*\n", re.MULTILINE)
_SECRET_READS: Final = re.compile(r"\$\{\{ secrets\.(?:ANTHROPIC_API_KEY|PLANGATE_TOKEN) \}\}$", re.MULTILINE)
_KEY_LINE: Final = re.compile(r"anthropic_api_key: .*$", re.MULTILINE)
_USES: Final = re.compile(rf"uses: {ACTION}@\S+ #.*$", re.MULTILINE)
_RUNS_ON: Final = re.compile(r"runs-on: .*$", re.MULTILINE)
_OTHERS: Final = "github.event.sender.type != 'Bot'"
_ENVIRONMENT_STEP: Final = """\
# 1. Make an environment `plangate` (Settings, Environments), limit it to the default branch, and put the secret
#    ANTHROPIC_API_KEY there: whoever can push a branch can run workflows that read the repository's own secrets.
"""
REPOSITORY_STEP: Final = """\
# 1. Put the secret ANTHROPIC_API_KEY into the repository (Settings, Secrets and variables, Actions). Whoever can push
#    a branch can run workflows that read it. An environment would prevent that, but private repositories have none on
#    the Free plan.
"""
_PUBLISHES: Final = re.compile(r"^      actions: write # their logs.*\n", re.MULTILINE)
"""The last permission of the job that publishes work, which is the last job of each workflow."""
_ATTESTING: Final = """\
      id-token: write # proves to GitHub's attestations which workflow runs
      attestations: write # the attestation of the receipt
"""
# https://github.com/actions/attest#inputs
_ATTEST_STEP: Final = f"""\
      - name: Attest the receipt
        if: steps.plangate.outputs.receipt != ''
        uses: actions/attest@1e69f48acb82d1966a394da916b4c1698aa569d6 # v4.2.2
        with:
          subject-path: ${{{{ steps.plangate.outputs.receipt }}}}
          predicate-type: {PREDICATE_TYPE}
          predicate-path: ${{{{ steps.plangate.outputs.predicate }}}}
"""
_STAMP: Final = re.compile(r"^# plangate init: ([^\n]*)\n?\Z", re.MULTILINE)
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_WORD: Final = re.compile(r"[A-Za-z0-9._/+-]+")


@dataclass(frozen=True, slots=True)
class Variant:
    """The choices by which the workflows of repositories differ."""

    mention: str = "@plangate"
    account: str = ""
    """Login of the account whose token the bot speaks with; empty for the job's own token and for an App."""
    key_place: str = "environment"
    """Where the model's key is kept: `environment` or `repository`."""
    tag: str = ""
    """Tag of the release whose commit is named; empty if the workflows follow the major version."""
    commit: str = ""
    server: str = GITHUB
    runner: str = RUNNER
    attest: str = ""
    """``true`` if GitHub attests each receipt as well; else empty."""

    @property
    def is_enterprise_server(self) -> bool:
        """Whether the server is a GitHub Enterprise Server. `*.ghe.com` runs the software of github.com."""
        host = urlsplit(self.server).hostname or ""
        return not (host == "github.com" or host.endswith(".ghe.com"))


@dataclass(frozen=True, slots=True)
class Stamp:
    version: str
    variant: Variant
    edited: bool
    """Whether somebody changed the text above it after `init` wrote it."""

    @classmethod
    def of(cls, text: str) -> Self | None:
        """Return the stamp of a workflow's text, or None if it has none."""
        match = _STAMP.search(text)
        if match is None:
            return None
        choices = dict(part.split("=", 1) for part in match[1].split() if "=" in part)
        valid = {name: choices[name] for name, form in _FORMS.items() if form.fullmatch(choices.get(name, ""))}
        told_version = choices.get("version", "")
        is_edited = choices.get("sha256") != _digest(text[: match.start()])
        return cls(told_version if is_word(told_version) else "", Variant(**valid), is_edited)


_FORMS: Final = {
    "account": _LOGIN,
    "key_place": re.compile("environment|repository"),
    "tag": _WORD,
    "commit": re.compile("[0-9a-f]{40}"),
    "server": re.compile(r"https?://[\w.-]+(?::\d+)?", re.ASCII),
    "runner": _WORD,
    "attest": re.compile("true"),
}
"""The valid values in a stamp. Everybody who can change the file can write a stamp, and its values become part of
conditions and keys."""


def workflow_text(variant: Variant | None = None, name: str = WORKFLOW) -> str:
    """Return one workflow of this version in a variant, with its stamp."""
    choices = variant or Variant()
    text = files("bot.cli").joinpath(SHIPPED[name]).read_text(encoding="utf-8")
    text = _with_name(text, choices)
    if choices.key_place == "repository":
        text = _with_repository_secret(text)
    if choices.commit:
        text = _USES.sub(f"uses: {ACTION}@{choices.commit} # {choices.tag}", text)
    if choices.attest:
        text = _with_attestation(text)
    if choices.is_enterprise_server:
        text = _for_enterprise_server(text, choices)
    elif choices.runner != RUNNER:
        text = _RUNS_ON.sub(lambda _: f"runs-on: {choices.runner}", text)
    return text + _stamp(text, choices)


def variant_in(text: str, mention: str) -> Variant:
    """Return the variant of an existing workflow, for a bot with that mention."""
    stamp = Stamp.of(text)
    if stamp is not None:
        return replace(stamp.variant, mention=mention)
    return Variant(mention, key_place="repository" if REPOSITORY_STEP in text else "environment")


def installed_version() -> str:
    return version("plangate")


def is_login(text: str) -> bool:
    return _LOGIN.fullmatch(text) is not None


def is_word(text: str) -> bool:
    return _WORD.fullmatch(text) is not None


def _with_name(text: str, variant: Variant) -> str:
    """Return a workflow that starts jobs for the variant's mention, and not for comments of the bot's own account."""
    quoted = variant.mention.replace("'", "''")
    login = quoted.removeprefix("@")
    text = text.replace("'@plangate", f"'{quoted}").replace("'/plangate", f"'/{login}")
    text = text.replace("assignee.login == 'plangate'", f"assignee.login == '{variant.account or login}'")
    if not variant.account:
        return text
    text = text.replace(_OTHERS, f"{_OTHERS} && github.event.sender.login != '{variant.account}'")
    return _KEY_LINE.sub(rf"\g<0>\n          github_token: ${{{{ secrets.{ACCOUNT_KEY_NAME} }}}}", text)


def _with_repository_secret(text: str) -> str:
    """Return a workflow whose key is a secret of the repository instead of an environment's."""
    ignored = r"\g<0> # zizmor: ignore[secrets-outside-env] there are no environments here"
    return _SECRET_READS.sub(ignored, _ENVIRONMENT.sub("", text.replace(_ENVIRONMENT_STEP, REPOSITORY_STEP)))


def _with_attestation(text: str) -> str:
    """Return a workflow whose publishing job has GitHub attest the receipt that it made."""
    end = next(_PUBLISHES.finditer(text)).end()
    last = _USES.sub(r"\g<0>\n        id: plangate", text[end:])
    return f"{text[:end]}{_ATTESTING}{last}{_ATTEST_STEP}"


def _for_enterprise_server(text: str, variant: Variant) -> str:
    """Return a workflow for a GitHub Enterprise Server, with keys that older servers know.

    - `queue` and `deployment` are of 2026. Without `queue` GitHub keeps the newest of the runs that wait for one
      thread, which takes in everything that was said there. With `deployment` each job records a deployment.
    - The gh program reads the server's address and its token from variables of their own:
      https://cli.github.com/manual/gh_help_environment
    """
    host, token = urlsplit(variant.server).netloc, "${{ github.token }}"
    ignored = " # zizmor: ignore[self-hosted-runner] this server has no other"
    text = text.replace("      queue: max\n", "")
    text = re.sub(r"environment: \{ name: (\w+), .*$", r"environment: \1", text, flags=re.MULTILINE)
    text = text.replace(f"GH_TOKEN: {token}", f"GH_ENTERPRISE_TOKEN: {token}\n          GH_HOST: {host}")
    return _RUNS_ON.sub(lambda _: f"runs-on: {variant.runner}{ignored}", text)


def _stamp(text: str, variant: Variant) -> str:
    """Return the last line of a workflow. It records no mention, which the configuration holds."""
    choices = {name: str(getattr(variant, name)) for name in _FORMS}
    parts = [f"{name}={value}" for name, value in choices.items() if value]
    return f"# plangate init: version={installed_version()} {' '.join(parts)} sha256={_digest(text)}\n"


def _digest(text: str) -> str:
    """Return a short digest of a text that ignores the style of line ends, because git may change it."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()[:16]
