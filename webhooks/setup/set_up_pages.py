"""The pages of the set-up. They need no script and load nothing: the one stylesheet is in the page, and its hash is in
the policy. Every text that comes from outside is escaped."""

import base64
import hashlib
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from urllib.parse import urlsplit

from bot.core.errors import PlangateError
from webhooks.setup.app_form import HOOK_PATH, LONGEST_NAME, AppForm

if TYPE_CHECKING:
    from bot.compose.app_set_up import ManifestForm

_PURPOSES: Final = {
    "contents": "branches and files; its own state in <code>refs/plangate/</code>",
    "issues": "comments, reactions, and labels",
    "pull_requests": "pull requests and reviews",
    "metadata": "facts of repositories; comes with the others",
    "actions": "the logs of failed jobs, for sessions that read them",
    "checks": "failed checks, and the check “Plan approved”",
    "members": "teams that may approve, and code owners",
}


def security_headers(server_url: str) -> dict[str, str]:
    """Return the headers of every page. Forms lead to the set-up itself, or to GitHub's page that creates the App."""
    parts = urlsplit(server_url)
    policy = (
        f"default-src 'none'; style-src '{_style_hash()}'; form-action 'self' {parts.scheme}://{parts.netloc}; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    return {
        "Content-Security-Policy": policy,
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        # GitHub's form gets the origin of this page and nothing more.
        "Referrer-Policy": "strict-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def form_page(form: AppForm, server_url: str) -> str:
    """Return the page that asks which App to create."""
    host = escape(urlsplit(server_url).netloc)
    content = f"""
<h1>Create the GitHub App</h1>
<p>Plangate speaks on GitHub as an App of yours. Be signed in at <a href="{escape(server_url)}">{host}</a> in this
browser. Nothing is created before you confirm it there.</p>
<form method="post" action="/setup" novalidate>
{_owner(form)}
{_field(form, "name", "Name", f"At most {LONGEST_NAME} characters, and free on {host}.")}
{_field(form, "url", "Public address of this service", _ADDRESS_HINT)}
<button class="button">Continue</button>
</form>"""
    return _page("Create the GitHub App", content, "Step 1 of 3")


def confirmation_page(form: AppForm, manifest: "ManifestForm", server_url: str) -> str:
    """Return the page that shows what the App will be, with the form that goes to GitHub."""
    host = escape(urlsplit(server_url).netloc)
    permissions = "\n".join(
        f"<tr><th scope=row>{name.replace('_', ' ')}</th><td class=level>{level}</td><td>{_PURPOSES[name]}</td></tr>"
        for name, level in manifest.permissions.items()
    )
    events = ", ".join(escape(event.replace("_", " ")) for event in manifest.events)
    content = f"""
<h1>Check what the App may do</h1>
<table>
<tr><th scope=row>Name</th><td>{escape(form.name)}</td></tr>
<tr><th scope=row>Owner</th><td>{escape(form.owner) or "your own account"}, the only one that can install it</td></tr>
<tr><th scope=row>Events go to</th><td>{escape(form.webhook_url)}</td></tr>
<tr><th scope=row>Events</th><td>{events}</td></tr>
</table>
<h2>Permissions</h2>
<table>{permissions}</table>
<form method="post" action="{escape(manifest.url)}">
<input type="hidden" name="manifest" value="{escape(manifest.manifest)}">
<button class="button">Create the App on {host}</button>
<a class="beside" href="/setup">Change something</a>
</form>"""
    return _page("Check what the App may do", content, "Step 2 of 3")


def done_page(app: tuple[str, str], saved_at: str, webhook_url: str, *, has_model: bool) -> str:
    """Return the page that says what is left to do for an App: its name, and the page that installs it."""
    name, installation_url = app
    key = "" if has_model else "<li>Set <code>ANTHROPIC_API_KEY</code> and start the service again.</li>"
    content = f"""
<h1><span class="done" aria-hidden="true">✓</span> {escape(name)} exists</h1>
<p>Its credentials are in <code>{escape(saved_at)}</code>, which only the user of this service can read. The set-up is
closed, and the service now runs as this App.</p>
<h2>What is left</h2>
<ol>
<li><p>Choose the repositories that it works on.</p>
<a class="button" href="{escape(installation_url)}">Install the App</a></li>
<li>Let your proxy lead <code>{escape(webhook_url)}</code> to this service, and nothing else.</li>
{key}
<li>Run <code>plangate doctor</code>: it checks the permissions of each installation.</li>
<li>Write <code>@plangate</code> and a request on an issue. The answer is a plan to approve.</li>
</ol>"""
    return _page(f"{name} exists", content, "Step 3 of 3")


def message_page(title: str, error: PlangateError) -> str:
    """Return a page that says why something is refused, and what to do."""
    where, what = escape(error.where), error.what.rstrip(".") + "."
    link = f'<p><a href="{where}">{where}</a></p>' if where.startswith("http") else ""
    return _page(title, f"<h1>{escape(title)}</h1>\n<p>{escape(what)}</p>\n{link}\n<p>{escape(error.fix)}</p>")


_ADDRESS_HINT: Final = f"Your proxy leads <code>{HOOK_PATH}</code> below it to this service. GitHub sends events there."


def _owner(form: AppForm) -> str:
    checked = ("", " checked") if form.is_for_organization else (" checked", "")
    return f"""<fieldset><legend>Owner</legend>
<label class="choice"><input type="radio" name="owner" value="organization"{checked[1]}> An organization</label>
{_input(form, "organization", form.organization, 'placeholder="its login" aria-label="Login of the organization"')}
<label class="choice"><input type="radio" name="owner" value="person"{checked[0]}> My own account</label>
</fieldset>"""


def _field(form: AppForm, name: Literal["name", "url"], label: str, hint: str) -> str:
    value = form.name if name == "name" else form.url
    attributes = f'id="{name}" aria-describedby="{name}-hint"'
    return f"""<div class="field"><label class="above" for="{name}">{label}</label>
{_input(form, name, value, attributes)}
<p class="hint" id="{name}-hint">{hint}</p></div>"""


def _input(form: AppForm, name: str, value: str, attributes: str) -> str:
    mistake = form.mistakes.get(name, "")
    invalid = ' aria-invalid="true"' if mistake else ""
    message = f'\n<p class="mistake" role="alert">{escape(mistake)}</p>' if mistake else ""
    fixed = 'autocomplete="off" autocapitalize="off" spellcheck="false"'
    return f'<input type="text" name="{name}" value="{escape(value)}" {attributes}{invalid} {fixed}>{message}'


def _page(title: str, content: str, step: str = "Set-up") -> str:
    """Return a whole page of the set-up."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)} · Plangate</title>
<style>{_style()}</style>
</head>
<body>
<header><b>Plangate</b><span>{step}</span></header>
<main>{content}
</main>
</body>
</html>
"""


@cache
def _style() -> str:
    return (Path(__file__).parent / "style.css").read_text(encoding="utf-8")


@cache
def _style_hash() -> str:
    """Return the hash that lets the browser use the stylesheet: https://www.w3.org/TR/CSP3/#grammardef-hash-source"""
    return f"sha256-{base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()}"
