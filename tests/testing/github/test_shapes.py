"""Every answer has the shape that GitHub's own published schemas give it."""

import base64
from typing import Any

from bot.testing.github.code_changes import LineNote
from bot.testing.github.credentials import create_app, job_token, parse_manifest, redirect_with_code
from bot.testing.github.entities import EnvironmentSettings, RulesetSettings
from bot.testing.github.graphql.graphql_api import schema
from bot.testing.github.rest.application import endpoints
from tests.testing.github.app_manifest import MANIFEST
from tests.testing.github.ground import NAME, Ground
from tests.testing.github.oracles import SCHEMA, answer_errors, needs_oracles

HOME = "/repos/{owner}/{repo}"


class Tour:
    """Makes requests, keeps what GitHub's description has against the answers, and which rows were seen."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.errors: list[str] = []
        self.seen: set[tuple[str, str]] = set()

    def go(
        self, method: str, path: str, body: Any = None, /, *, jwt: bool = False, token: str | None = None, **at: Any
    ) -> Any:
        """Make a request; `at` fills the path's parameters."""
        query = at.pop("query", "")
        filled = path.format(owner="acme", repo="shop", **at) + query
        reply = self.ground.ask(method, filled, body, token=self.ground.jwt() if jwt else token)
        found = reply.json if reply.raw else None
        self.seen.add((method, path))
        assert reply.status < 300, (method, filled, reply.raw)
        self.errors += answer_errors(method, path, reply.status, found)
        return found


def user_token(ground: Ground, login: str) -> str:
    app, oauth = ground.github.app, ground.github.oauth
    back = oauth.authorize(app, ground.github.world.user(login), {"redirect_uri": app.callback_urls[0]})
    form = {"client_id": app.client_id, "client_secret": app.client_secret, "code": back.rpartition("code=")[2]}
    return str(oauth.token(form)["access_token"])


def accounts(tour: Tour) -> None:
    ground = tour.ground
    at: dict[str, Any] = {"installation_id": ground.installation.id}
    tour.go("GET", "/rate_limit")
    tour.go("GET", "/app", jwt=True)
    tour.go("GET", "/app/installations", jwt=True)
    tour.go("GET", f"{HOME}/installation", jwt=True)
    asked = {"repository_ids": [ground.repository.id], "permissions": {"issues": "read"}}
    made = tour.go("POST", "/app/installations/{installation_id}/access_tokens", asked, jwt=True, **at)
    tour.go("GET", "/installation/repositories")
    tour.go("DELETE", "/installation/token", token=made["token"])
    tour.go("GET", "/user", token=ground.pat("alice"))
    tour.go("GET", "/user/repos", token=ground.pat("alice"))
    lent = user_token(ground, "alice")
    tour.go("GET", "/user/installations", token=lent)
    tour.go("GET", "/user/installations/{installation_id}/repositories", token=lent, **at)
    tour.go("GET", "/users/{username}", username="plangate[bot]")
    world = ground.github.world
    world.teams[world.user("acme").id, "core"] = frozenset({world.user("alice").id})
    tour.go(
        "GET", "/orgs/{org}/teams/{team_slug}/memberships/{username}", org="acme", team_slug="core", username="alice"
    )
    tour.go("GET", HOME)
    tour.go("GET", f"{HOME}/collaborators")
    tour.go("GET", f"{HOME}/collaborators/{{username}}/permission", username="carol")


def manifests(tour: Tour) -> None:
    world = tour.ground.github.world
    asked = parse_manifest(MANIFEST)
    made = create_app(world, asked, asked.name, world.user("alice"))
    code = redirect_with_code(world, made, asked, "s").partition("code=")[2].partition("&")[0]
    tour.go("POST", "/app-manifests/{code}/conversions", {}, code=code)


def hooks(tour: Tour) -> None:
    ground = tour.ground
    ground.github.webhooks.hook_app(ground.github.app, f"{ground.github.api_url}/nowhere")
    ground.github.webhooks.drain()
    listed = tour.go("GET", "/app/hook/deliveries", jwt=True)
    at: dict[str, Any] = {"delivery_id": listed[0]["id"]}
    tour.go("POST", "/app/hook/deliveries/{delivery_id}/attempts", jwt=True, **at)


def threads(tour: Tour) -> None:
    issue, comment = f"{HOME}/issues/{{issue_number}}", f"{HOME}/issues/comments/{{comment_id}}"
    tour.go("POST", f"{HOME}/labels", {"name": "plangate"})
    tour.go("GET", f"{HOME}/labels/{{name}}", name="plangate")
    tour.go("POST", f"{HOME}/issues", {"title": "Broken", "body": "Please", "labels": ["bug"], "assignees": ["alice"]})
    at: dict[str, Any] = {"issue_number": 1}
    tour.go("GET", f"{HOME}/issues", query="?state=all&labels=bug&since=2020-01-01T00:00:00Z")
    tour.go("GET", issue, **at)
    tour.go("PATCH", issue, {"title": "Very broken", "state": "closed"}, **at)
    tour.go("POST", f"{issue}/labels", {"labels": ["plangate"]}, **at)
    tour.go("GET", f"{issue}/events", **at)
    tour.go("DELETE", f"{issue}/labels/{{name}}", name="bug", **at)
    made = tour.go("POST", f"{issue}/comments", {"body": "Hello"}, **at)
    tour.go("GET", f"{issue}/comments", **at)
    places: tuple[tuple[str, dict[str, Any]], ...] = ((comment, {"comment_id": made["id"]}), (issue, at))
    for path, place in places:
        tour.go("POST", f"{path}/reactions", {"content": "eyes"}, **place)
        tour.go("POST", f"{path}/reactions", {"content": "eyes"}, **place)
    tour.go("GET", f"{comment}/reactions", comment_id=made["id"])
    tour.go("GET", comment, comment_id=made["id"])
    rendered(tour, comment, made["id"])
    tour.go("PATCH", comment, {"body": "Hello again"}, comment_id=made["id"])
    tour.go("DELETE", comment, comment_id=made["id"])


def rendered(tour: Tour, comment: str, ident: int) -> None:
    path = comment.format(owner="acme", repo="shop", comment_id=ident)
    full = tour.ground.ask("GET", path, headers={"Accept": "application/vnd.github.full+json"}).json
    tour.errors += answer_errors("GET", comment, 200, full)
    assert full["body_html"] == "<p>Hello</p>\n"


def code(tour: Tour) -> None:
    put = {"message": "Add", "content": base64.b64encode(b"x").decode(), "branch": "topic"}
    made = tour.go("PUT", f"{HOME}/contents/{{path}}", put, path="new.txt")
    sha = made["commit"]["sha"]
    tour.go("GET", f"{HOME}/contents/{{path}}", path="src")
    tour.go("GET", f"{HOME}/contents/{{path}}", path="src/a.py", query="?ref=topic")
    tour.go("GET", f"{HOME}/branches/{{branch}}", branch="topic")
    tour.go("GET", f"{HOME}/commits", query="?sha=topic")
    tour.go("GET", f"{HOME}/commits/{{ref}}", ref=sha)
    tour.go("GET", f"{HOME}/compare/{{basehead}}", basehead="main...topic")
    git = f"{HOME}/git"
    tour.go("POST", f"{git}/refs", {"ref": "refs/heads/other", "sha": sha})
    tour.go("PATCH", f"{git}/refs/{{ref}}", {"sha": sha}, ref="heads/other")
    tour.go("GET", f"{git}/matching-refs/{{ref}}", ref="heads/")
    tour.go("DELETE", f"{git}/refs/{{ref}}", ref="heads/other")
    run = tour.go(
        "POST", f"{HOME}/check-runs", {"name": "plan", "head_sha": sha, "output": {"title": "t", "summary": "s"}}
    )
    tour.go("GET", f"{HOME}/commits/{{ref}}/check-runs", ref="topic")
    log(tour, run["id"])


def log(tour: Tour, job: int) -> None:
    tour.ground.github.world.job_logs[job] = b"Run tests\n"
    path = f"{HOME}/actions/jobs/{{job_id}}/logs"
    reply = tour.ground.ask("GET", path.format(owner="acme", repo="shop", job_id=job))
    assert (reply.status, answer_errors("GET", path, reply.status, None)) == (302, [])
    tour.seen.add(("GET", path))


def rules(tour: Tour) -> None:
    world = tour.ground.github.world
    assert tour.go("GET", f"{HOME}/rules/branches/{{branch}}", branch="topic") == []
    world.change_repository(NAME, signed=True)
    assert len(tour.go("GET", f"{HOME}/rules/branches/{{branch}}", branch="not/there")) == 1
    world.change_repository(NAME, signed=False, required_checks=(("ci", None), ("ci", 7)), ruled_checks=(("a", 7),))
    (rule,) = tour.go("GET", f"{HOME}/rules/branches/{{branch}}", branch="main")
    assert rule["parameters"]["required_status_checks"] == [{"context": "a", "integration_id": 7}]
    main = tour.go("GET", f"{HOME}/branches/{{branch}}", branch="main")
    assert [check["app_id"] for check in main["protection"]["required_status_checks"]["checks"]] == [None, 7]
    world.change_repository(NAME, required_checks=(), ruled_checks=())
    world.set_settings(NAME, rulesets=(RulesetSettings("all", ("creation",)), RulesetSettings("size", target="push")))
    assert len(tour.go("GET", f"{HOME}/rules/branches/{{branch}}", branch="topic")) == 1
    assert [each["target"] for each in tour.go("GET", f"{HOME}/rulesets")] == ["branch", "push"]
    world.set_settings(NAME, rulesets=())


def settings(tour: Tour) -> None:
    world, admin = tour.ground.github.world, tour.ground.pat("ada")
    world.set_role(NAME, "ada", "admin")
    world.plans[world.add_user("guild", "Organization").id] = "free"
    world.add_repository("guild/tools", {})
    world.set_role("guild/tools", "ada", "admin")
    held = EnvironmentSettings(frozenset({"KEY"}), reviewed=True, limited=True)
    world.set_settings(NAME, environments={"bot": held}, secrets=frozenset({"KEY"}))
    tour.go("GET", f"{HOME}/actions/permissions", token=admin)
    tour.go("GET", f"{HOME}/actions/permissions/workflow", token=admin)
    assert tour.go("GET", f"{HOME}/actions/secrets", token=admin)["total_count"] == 1
    tour.go("GET", f"{HOME}/actions/organization-secrets", token=admin)
    tour.go("GET", f"{HOME}/environments/{{environment_name}}", token=admin, environment_name="bot")
    tour.go("GET", f"{HOME}/environments/{{environment_name}}/secrets", token=admin, environment_name="bot")
    assert tour.go("GET", "/orgs/{org}", token=admin, org="guild")["plan"]["name"] == "free"
    changes(tour, admin)


def changes(tour: Tour, admin: str) -> None:
    name: dict[str, Any] = {"environment_name": "other"}
    place = f"{HOME}/environments/{{environment_name}}"
    tour.go("PUT", place, {}, token=admin, **name)
    key = tour.go("GET", f"{place}/secrets/public-key", token=admin, **name)
    sealed = {"encrypted_value": "YQ==", "key_id": key["key_id"]}
    for _ in range(2):
        tour.go("PUT", f"{place}/secrets/{{secret_name}}", sealed, token=admin, secret_name="KEY", **name)
    tour.go("DELETE", place, token=admin, **name)
    every = {"ref_name": {"include": ["~ALL"], "exclude": []}}
    rules = {"name": "all", "enforcement": "active", "conditions": every, "rules": [{"type": "creation"}]}
    made = tour.go("POST", f"{HOME}/rulesets", rules, token=admin)
    tour.go("GET", f"{HOME}/rulesets/{{ruleset_id}}", token=admin, ruleset_id=made["id"])
    tour.go("DELETE", f"{HOME}/rulesets/{{ruleset_id}}", token=admin, ruleset_id=made["id"])


def actions(tour: Tour) -> None:
    world = tour.ground.github.world
    run = world.start_run(NAME, "schedule")
    tour.go("GET", f"{HOME}/actions/runs/{{run_id}}", run_id=run.id)
    world.end_run(run.id, "cancelled")
    ended = tour.go("GET", f"{HOME}/actions/runs/{{run_id}}", run_id=run.id)
    assert (ended["status"], ended["conclusion"]) == ("completed", "cancelled")
    world.add_workflow(NAME, "sweep.yml")
    workflow = f"{HOME}/actions/workflows/{{workflow_id}}"
    token = job_token(world, world.repository(NAME), {"actions": "write"}).value
    for switch, state in (("disable", "disabled_manually"), ("enable", "active")):
        tour.go("PUT", f"{workflow}/{switch}", token=token, workflow_id="sweep.yml")
        assert tour.go("GET", workflow, workflow_id="sweep.yml")["state"] == state
    tour.go("POST", f"{workflow}/dispatches", {"ref": "main"}, token=token, workflow_id="sweep.yml")
    assert tour.go("GET", f"{HOME}/actions/runs", query="?event=workflow_dispatch")["total_count"] == 1
    assert tour.go("GET", f"{HOME}/deployments", token=tour.ground.pat("alice")) == []


def pulls(tour: Tour) -> None:
    world = tour.ground.github.world
    pull = f"{HOME}/pulls/{{pull_number}}"
    made = tour.go("POST", f"{HOME}/pulls", {"title": "New", "head": "topic", "base": "main", "body": "Closes #1"})
    at: dict[str, Any] = {"pull_number": made["number"]}
    tour.go("GET", f"{HOME}/pulls", query="?head=acme:topic&state=all")
    tour.go("GET", pull, **at)
    tour.go("GET", f"{HOME}/commits/{{commit_sha}}/pulls", commit_sha=made["head"]["sha"])
    tour.go("GET", f"{pull}/files", **at)
    review = tour.go("POST", f"{pull}/reviews", {"event": "COMMENT", "body": "Fine"}, **at)
    tour.go("GET", f"{pull}/reviews", **at)
    tour.go("GET", f"{pull}/reviews/{{review_id}}", review_id=review["id"], **at)
    noted = world.person("alice").review(NAME, made["number"], "See", notes=[LineNote("new.txt", 1, "Why?")])
    inner = tour.go("GET", f"{pull}/comments", **at)
    tour.go("GET", f"{pull}/reviews/{{review_id}}/comments", review_id=noted.id, **at)
    comment = f"{HOME}/pulls/comments/{{comment_id}}"
    tour.go("GET", comment, comment_id=inner[0]["id"])
    tour.go("POST", f"{pull}/comments/{{comment_id}}/replies", {"body": "So"}, comment_id=inner[0]["id"], **at)
    tour.go("POST", f"{comment}/reactions", {"content": "+1"}, comment_id=inner[0]["id"])
    tour.go("POST", f"{pull}/requested_reviewers", {"reviewers": ["bob"]}, **at)


@needs_oracles
def test_every_answer_has_githubs_shape(ground: Ground) -> None:
    tour = Tour(ground)
    for part in (accounts, manifests, hooks, threads, code, rules, settings, actions, pulls):
        part(tour)
    # There, and there alone, the description wants an account to be a user and an enterprise at once.
    assert [error for error in tour.errors if not error.startswith("GET /app/installations: 0/account:")] == []
    extra = {("GET", "/repos/{}/{}/contents")}  # not in GitHub's description
    rows = {(row.method, _shape(row.path)) for row in endpoints(ground.github.webhooks)} - extra
    assert rows - {(method, _shape(path)) for method, path in tour.seen} == set()


def _shape(path: str) -> str:
    import re

    return re.sub(r"\{[^}]*\}", "{}", path)


@needs_oracles
def test_every_field_is_githubs_own() -> None:
    from graphql import build_schema

    assert SCHEMA is not None
    theirs = build_schema(SCHEMA.read_text(), assume_valid=True, no_location=True).type_map
    wrong = [
        f"{name}: {problem}"
        for name, ours in schema().type_map.items()
        if not name.startswith("__")
        for problem in _problems(ours, theirs.get(name))
    ]
    assert wrong == []


def _problems(ours: Any, theirs: Any) -> list[str]:
    if type(ours) is not type(theirs):
        return ["another kind of type"]
    found = [value for value in getattr(ours, "values", {}) if value not in theirs.values]
    fields = getattr(theirs, "fields", {})
    for name, field in getattr(ours, "fields", {}).items():
        if name not in fields or str(fields[name].type) != str(field.type):
            found.append(f"{name}: {field.type}")
        for argument, given in getattr(field, "args", {}).items():
            known = fields[name].args.get(argument) if name in fields else None
            if known is None or str(known.type) != str(given.type):
                found.append(f"{name}({argument})")
    return found
