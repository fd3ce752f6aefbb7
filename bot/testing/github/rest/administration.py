"""REST endpoints of a repository's settings: Actions, environments, names of secrets, and rules.

https://docs.github.com/en/rest/actions/permissions
https://docs.github.com/en/rest/deployments/environments
https://docs.github.com/en/rest/actions/secrets
https://docs.github.com/en/rest/repos/rules
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bot.testing.github.entities import EnvironmentSettings, RepositorySettings, Role, RulesetSettings
from bot.testing.github.rest.endpoint import ApiCall, Endpoint, RestAnswer, not_found
from bot.testing.github.shapes import Json, fields, stamp

HOME = "/repos/{owner}/{repo}"


def actions_permissions(call: ApiCall) -> RestAnswer:
    settings = _settings(call)
    body: Json = {"enabled": settings.actions}
    if settings.actions:
        body |= {"allowed_actions": settings.allowed_actions, "sha_pinning_required": settings.pinned}
    return RestAnswer(body)


def workflow_permissions(call: ApiCall) -> RestAnswer:
    allowed = _settings(call).actions_open_pulls
    return RestAnswer({"default_workflow_permissions": "read", "can_approve_pull_request_reviews": allowed})


def environment(call: ApiCall) -> RestAnswer:
    name, settings = _environment(call)
    url, created_at = f"{call.site.api(call.repository)}/environments/{name}", stamp(call.repository.created_at)
    rules: list[Json] = []
    if settings.reviewed:
        rules.append({"id": 1, "node_id": "GA_1", "type": "required_reviewers", "reviewers": []})
    if settings.limited:
        rules.append({"id": 2, "node_id": "GA_2", "type": "branch_policy"})
    policy = {"protected_branches": False, "custom_branch_policies": True} if settings.limited else None
    return RestAnswer({
        "id": 1, "node_id": "EN_1", "name": name, "url": url,
        "html_url": f"{call.site.web(call.repository)}/settings/environments/1/edit", "created_at": created_at,
        "updated_at": created_at, "protection_rules": rules, "deployment_branch_policy": policy,
    })  # fmt: skip


def get_ruleset(call: ApiCall) -> RestAnswer:
    number, each = _ruleset_in_path(call)
    return RestAnswer(
        {**_ruleset(call, number, each), "current_user_can_bypass": "always" if each.bypassed else "never"}
    )


def create_ruleset(call: ApiCall) -> RestAnswer:
    """Create a ruleset. Of its conditions only `~ALL` and prefixes that end with `*` are known."""
    ref_name = dict(call.body.get("conditions", {})).get("ref_name", {"include": ["~ALL"]})
    (include,) = ref_name["include"]
    prefix = "" if include == "~ALL" else str(include).removeprefix("refs/heads/").rstrip("*")
    rules = tuple(str(rule["type"]) for rule in call.body.get("rules", []))
    ruleset = RulesetSettings(call.text("name"), rules, "branch", prefix)
    home = call.repository
    call.world.set_settings(home.full_name, rulesets=(*_settings(call).rulesets, ruleset))
    return RestAnswer(_ruleset(call, len(_settings(call).rulesets), ruleset), 201)


def delete_ruleset(call: ApiCall) -> RestAnswer:
    _, gone = _ruleset_in_path(call)
    kept = tuple(each for each in _settings(call).rulesets if each is not gone)
    call.world.set_settings(call.repository.full_name, rulesets=kept)
    return RestAnswer(status=204)


def put_environment(call: ApiCall) -> RestAnswer:
    environments = _settings(call).environments
    added = environments.get(call.path["name"], EnvironmentSettings())
    _set_environments(call, {**environments, call.path["name"]: added})
    return environment(call)


def delete_environment(call: ApiCall) -> RestAnswer:
    name, _ = _environment(call)
    _set_environments(call, {known: each for known, each in _settings(call).environments.items() if known != name})
    return RestAnswer(status=204)


def public_key(call: ApiCall) -> RestAnswer:
    _environment(call)
    return RestAnswer({"key_id": "1", "key": base64.b64encode(bytes(range(32))).decode()})


def put_secret(call: ApiCall) -> RestAnswer:
    name, settings = _environment(call)
    base64.b64decode(call.text("encrypted_value"), validate=True)
    changed = replace(settings, secrets=settings.secrets | {call.path["secret"]})
    _set_environments(call, {**_settings(call).environments, name: changed})
    return RestAnswer({}, 201) if call.path["secret"] not in settings.secrets else RestAnswer(status=204)


def own_secrets(call: ApiCall) -> RestAnswer:
    return _secrets(call, _settings(call).secrets)


def shared_secrets(call: ApiCall) -> RestAnswer:
    return _secrets(call, _settings(call).shared_secrets)


def environment_secrets(call: ApiCall) -> RestAnswer:
    return _secrets(call, _environment(call)[1].secrets)


# https://docs.github.com/en/rest/repos/rules#get-rules-for-a-branch
def branch_rules(call: ApiCall) -> RestAnswer:
    home, branch = call.repository, call.path["branch"]
    source = {"ruleset_source_type": "Repository", "ruleset_source": home.full_name}
    rules: list[Json] = [{"type": "required_signatures", **source, "ruleset_id": home.id}] if home.signed else []
    checks = [{"context": check} | ({} if app is None else {"integration_id": app}) for check, app in home.ruled_checks]
    if checks:
        parameters = {"required_status_checks": checks, "strict_required_status_checks_policy": False}
        rules.append({"type": "required_status_checks", "parameters": parameters, **source, "ruleset_id": home.id})
    for number, each in _rulesets_by_number(call):
        if (each.target, each.enforcement) == ("branch", "active") and branch.startswith(each.prefix):
            parameters = {"parameters": {"operator": "starts_with", "pattern": each.pattern, "negate": False}}
            named = {"branch_name_pattern": parameters}
            rules += [{"type": rule, **named.get(rule, {}), **source, "ruleset_id": number} for rule in each.rules]
    return RestAnswer(rules)


def _settings(call: ApiCall) -> RepositorySettings:
    return call.world.settings_of(call.repository)


def _environment(call: ApiCall) -> tuple[str, EnvironmentSettings]:
    name = call.path["name"]
    settings = _settings(call).environments.get(name)
    if settings is None:
        raise not_found()
    return name, settings


def _set_environments(call: ApiCall, every: Mapping[str, EnvironmentSettings]) -> None:
    call.world.set_settings(call.repository.full_name, environments=every)


def _secrets(call: ApiCall, names: Iterable[str]) -> RestAnswer:
    created_at = stamp(call.repository.created_at)
    return RestAnswer(
        [{"name": name, "created_at": created_at, "updated_at": created_at} for name in names], wrapped="secrets"
    )


def _rulesets_by_number(call: ApiCall) -> list[tuple[int, RulesetSettings]]:
    return list(enumerate(_settings(call).rulesets, start=1))


def _ruleset_in_path(call: ApiCall) -> tuple[int, RulesetSettings]:
    number = int(call.path["ruleset_id"])
    if not 0 < number <= len(_settings(call).rulesets):
        raise not_found()
    return number, _settings(call).rulesets[number - 1]


def _ruleset(call: ApiCall, number: int, each: RulesetSettings) -> Json:
    home = call.repository
    links = {
        "self": {"href": f"{call.site.api(home)}/rulesets/{number}"},
        "html": {"href": f"{call.site.web(home)}/rules/{number}"},
    }
    return {
        "id": number, **fields(each, "name target enforcement"), "source_type": "Repository",
        "source": home.full_name, "node_id": f"RRS_{number}", "_links": links, "created_at": stamp(home.created_at),
        "updated_at": stamp(home.created_at),
    }  # fmt: skip


_SECRETS = f"{HOME}/environments/{{name}}/secrets"
_ACTIONS = f"{HOME}/actions"
ADMINISTRATION, _CHANGING = ("administration:read",), ("administration:write",)
ENDPOINTS = (
    Endpoint("GET", f"{_ACTIONS}/permissions", actions_permissions, ADMINISTRATION, Role.ADMIN, "token"),
    Endpoint("GET", f"{_ACTIONS}/permissions/workflow", workflow_permissions, ADMINISTRATION, Role.ADMIN, "token"),
    Endpoint("GET", f"{_ACTIONS}/secrets", own_secrets, ("secrets:read",), Role.WRITE, "token"),
    Endpoint("GET", f"{_ACTIONS}/organization-secrets", shared_secrets, ("secrets:read",), Role.WRITE, "token"),
    Endpoint("GET", _SECRETS, environment_secrets, ("environments:read",), Role.WRITE, "token"),
    Endpoint("GET", f"{HOME}/environments/{{name}}", environment, ("actions:read",)),
    Endpoint("PUT", f"{HOME}/environments/{{name}}", put_environment, _CHANGING, Role.ADMIN),
    Endpoint("DELETE", f"{HOME}/environments/{{name}}", delete_environment, _CHANGING, Role.ADMIN),
    Endpoint("GET", f"{_SECRETS}/public-key", public_key, ("environments:read",), Role.WRITE, "token"),
    Endpoint("PUT", f"{_SECRETS}/{{secret}}", put_secret, ("environments:write",), Role.WRITE, "token"),
    Endpoint("GET", f"{HOME}/rulesets", lambda call: [_ruleset(call, *each) for each in _rulesets_by_number(call)]),
    Endpoint("GET", f"{HOME}/rulesets/{{ruleset_id:int}}", get_ruleset),
    Endpoint("POST", f"{HOME}/rulesets", create_ruleset, _CHANGING, Role.ADMIN),
    Endpoint("DELETE", f"{HOME}/rulesets/{{ruleset_id:int}}", delete_ruleset, _CHANGING, Role.ADMIN),
    Endpoint("GET", f"{HOME}/rules/branches/{{branch:path}}", branch_rules),
)  # fmt: skip
