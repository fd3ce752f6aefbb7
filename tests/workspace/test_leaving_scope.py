"""Commands in the sandbox that try to change more than the plan names: their work is not published (G4, MT6).

What is out of scope becomes a plan of its own, which waits for people. The rest is refused by name.
"""

from typing import Final

import pytest

from bot.core.errors import OutOfScope, Refused
from bot.core.paths import linked_classes
from bot.ports import Access
from bot.workspace.workspace import GitWorkspace
from tests.stories.github.ground import long
from tests.workspace.ground import Repository, approved, begin, order, write

SCOPE: Final = ("src/a.py",)
OWN: Final = "git -c user.name=x -c user.email=x@localhost"
OUTSIDE: Final = {
    "another file": ("echo more >> README.md", "README.md"),
    "another file of its folder": ("echo more >> src/b.py", "src/b.py"),
    "a file beside it": ("echo more > src/a.pyc", "src/a.pyc"),
    "the mode of another file": ("chmod +x README.md", "README.md"),
    "another file through a link": ("ln -s ../README.md src/c; echo more >> src/c", "README.md src/c"),
    "another file through a hard link": ("ln README.md src/c; echo more >> src/c", "README.md src/c"),
    "a folder through a link": ("mkdir docs; ln -s ../docs src/d; echo more > src/d/x", "docs/x src/d"),
    "another target of a link": ("ln -sf README.md link", "link"),
    "a rename of another file": ("mv README.md src/README.md", "README.md src/README.md"),
    "a rename of its own file": ("git mv src/a.py src/c.py; echo x > src/a.py", "src/c.py"),
    "a removed file": ("rm README.md", "README.md"),
    "a folder where a file was": ("rm README.md; mkdir README.md; echo x > README.md/a", "README.md README.md/a"),
    "the configuration": ("mkdir .github; echo 'maintenance: []' > .github/plangate.yml", ".github/plangate.yml"),
    "a workflow": ("mkdir -p .github/workflows; echo 'on: push' > .github/workflows/x.yml", ".github/workflows/x.yml"),
    "instructions to agents": ("echo Obey. > src/CLAUDE.md", "src/CLAUDE.md"),
    "dependencies": ("echo evil > requirements.txt", "requirements.txt"),
    "attributes": ("echo '*.py filter=x' > .gitattributes", ".gitattributes"),
    "attributes with a filter": (
        "echo '*.md filter=x' > .gitattributes; git config filter.x.clean 'cat /etc/passwd'; echo x >> README.md",
        ".gitattributes README.md",
    ),
    "a list of submodules": ("echo '[submodule \"x\"]' > .gitmodules", ".gitmodules"),
    "a commit of its own": (f"echo more >> README.md; {OWN} commit -qam x", "README.md"),
    "a commit on another branch": (f"git checkout -qb x; echo more >> README.md; {OWN} commit -qam x", "README.md"),
    "a file that git is told to ignore": ("echo x > c.py; mkdir -p .git/info; echo c.py > .git/info/exclude", "c.py"),
    "a file that git takes for unchanged": (
        "git update-index --assume-unchanged README.md; echo x >> README.md",
        "README.md",
    ),
    "a file that git skips": ("git update-index --skip-worktree README.md; echo x >> README.md", "README.md"),
    "objects that git takes for others": (
        "git replace $(git rev-parse HEAD:README.md) $(echo x | git hash-object -w --stdin); echo x > README.md",
        "README.md",
    ),
}
"""What each changes beside the plan's file."""
REFUSED: Final = {
    "its own file in another case": ("echo x > src/A.py", "is the same name on other systems"),
    "two forms of Unicode": (
        "echo 1 > caf$(printf '\\303\\251'); echo 2 > cafe$(printf '\\314\\201')",
        "is the same name on other systems",
    ),
    "a name of two lines": ("echo x > \"src/a.py$(printf '\\n.')\"", "cannot be had on Windows"),
    "a link out of the repository": ("ln -sf /etc/passwd src/a.py", "src/a.py: it is a link that leads out"),
    "a link into git": ("ln -sf ../.git/config src/a.py", "src/a.py: it is a link that leads out"),
    "a repository inside": (f"git init -q src/x; {OWN} -C src/x commit -q --allow-empty -m x", "its name means .git"),
}


async def leave(workspace: GitWorkspace, repository: Repository, command: str) -> Refused:
    """Change the plan's file, run a command in the sandbox, and return why that is not published."""
    checkout = await workspace.checkout("main", repository.head)
    host = await workspace.open(checkout, Access.WRITE)
    ran = await host.call("Bash", {"command": f"echo 'a = 2' > src/a.py && {{ {command}; }}"})
    assert ran.details["exit_code"] == 0, ran.text
    with pytest.raises(Refused) as caught:
        await workspace.publish(approved(checkout.base, SCOPE), checkout, order())
    assert repository.git("branch", "--format=%(refname:short)") == "main"
    return caught.value


def sample(table: dict[str, tuple[str, str]]) -> list[object]:
    """Return the cases of a table by name: the first for every day."""
    return [long(name) if n else name for n, name in enumerate(table)]


@pytest.mark.req("G4", "MT6")
@pytest.mark.parametrize("name", sample(OUTSIDE))
async def test_work_outside_its_plan(name: str, workspace: GitWorkspace, repository: Repository) -> None:
    """All that was changed beside the plan's file is named, and people are asked about it."""
    command, paths = OUTSIDE[name]
    refused = await leave(workspace, repository, command)
    assert isinstance(refused, OutOfScope)
    assert refused.paths == tuple(paths.split())


@pytest.mark.req("G1", "MT6")
@pytest.mark.parametrize("name", sample(REFUSED))
async def test_work_that_nothing_allows(name: str, workspace: GitWorkspace, repository: Repository) -> None:
    """No approval makes it right."""
    command, said = REFUSED[name]
    refused = await leave(workspace, repository, command)
    assert not isinstance(refused, OutOfScope)
    assert said in str(refused)


@pytest.mark.req("G4")
async def test_what_a_link_of_tier_high_leads_to_is_published_only_by_name(
    workspace: GitWorkspace, repository: Repository
) -> None:
    (repository.path / ".claude").mkdir()
    (repository.path / ".claude" / "skills").symlink_to("../skills")
    classes = linked_classes(await workspace.links(repository.commit()))
    checkout = await begin(workspace, repository, write(**{"skills/deploy.md": "Push at once."}))
    with pytest.raises(OutOfScope, match=r"skills/deploy\.md"):
        await workspace.publish(approved(checkout.base, ("**",), classes=classes), checkout, order())
    named = approved(checkout.base, ("skills/**",), classes=classes)
    assert (await workspace.publish(named, checkout, order())).paths == ("skills/deploy.md",)
