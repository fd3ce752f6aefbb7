"""The actions of a person on the simulated GitHub, within their role. Tests and the page use it.

A thread is a repository's "owner/name" and a number. A forbidden action raises NotAllowedError and changes nothing,
because the web interface would not offer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bot.testing.github import code_changes, conversation
from bot.testing.github.code_changes import LineNote, NewPull, Verdict
from bot.testing.github.entities import REACTIONS, Comment, Issue, Reaction, Repository, Review, Role, User
from bot.testing.github.git_objects import FileContents
from bot.testing.github.world import ActingUser, NotAllowedError, NotThereError

UNTICKED, TICKED = "- [ ] ", "- [x] "


@dataclass(frozen=True, slots=True)
class Person(ActingUser):
    @property
    def user(self) -> User:
        return self.world.users[self.id]

    def by_mail(self) -> Person:
        """Return this person as one who writes by mail: their texts have `createdViaEmail`."""
        return replace(self, mails=True)

    # --- threads -----------------------------------------------------------------------------------------------

    def open_issue(self, repository: str, title: str, body: str = "") -> Issue:
        home = self._require_permission(repository, Role.READ)
        return conversation.open_issue(self, home, title=title, body=body)

    def edit_issue(self, repository: str, number: int, *, title: str | None = None, body: str | None = None) -> Issue:
        issue = self._own(repository, number, Role.WRITE)
        return conversation.edit_issue(self, issue, title=title, body=body)

    def close(self, repository: str, number: int) -> Issue:
        return conversation.set_state(self, self._own(repository, number, Role.TRIAGE), "closed")

    def reopen(self, repository: str, number: int) -> Issue:
        return conversation.set_state(self, self._own(repository, number, Role.TRIAGE), "open")

    def lock(self, repository: str, number: int) -> Issue:
        """Lock a conversation: only users with write access may comment, and nobody may react."""
        return conversation.set_locked(self, self._thread(repository, number, Role.WRITE), locked=True)

    def unlock(self, repository: str, number: int) -> Issue:
        return conversation.set_locked(self, self._thread(repository, number, Role.WRITE), locked=False)

    def label(self, repository: str, number: int, name: str) -> Issue:
        issue = self._thread(repository, number, Role.TRIAGE)
        return conversation.set_labels(self, issue, tuple(dict.fromkeys([*issue.labels, name])))

    def unlabel(self, repository: str, number: int, name: str) -> Issue:
        issue = self._thread(repository, number, Role.TRIAGE)
        return conversation.set_labels(self, issue, tuple(n for n in issue.labels if n != name))

    def assign(self, repository: str, number: int, login: str) -> Issue:
        issue, user = self._thread(repository, number, Role.TRIAGE), self.world.user(login).id
        return conversation.add_assignees(self, issue, (user,))

    # --- comments ----------------------------------------------------------------------------------------------

    def comment(self, repository: str, number: int, body: str) -> Comment:
        issue = self._thread(repository, number, Role.READ)
        if issue.locked:
            self._require_permission(repository, Role.WRITE)
        return conversation.comment(self, issue, body)

    def edit_comment(self, comment_id: int, body: str) -> Comment:
        return conversation.edit_comment(self, self._own_comment(comment_id), body)

    def delete_comment(self, comment_id: int) -> None:
        conversation.delete_comment(self, self._own_comment(comment_id))

    def minimize(self, comment_id: int, reason: str | None = "outdated") -> Comment:
        comment = self._comment(comment_id)
        self._require_permission(self.world.repositories[comment.repository].full_name, Role.WRITE)
        return conversation.minimize(self.world, comment_id, reason)

    def tick(self, comment_id: int, item: int = 0, *, ticked: bool = True) -> Comment:
        """Tick or untick a task-list item, counted from 0. This counts as an edit of the comment by this person."""
        body = self._comment(comment_id).text.body
        lines = body.split("\n")
        boxes = [at for at, line in enumerate(lines) if line.lstrip().startswith((UNTICKED, TICKED))]
        if item >= len(boxes):
            raise NotThereError(f"task-list item {item} of comment {comment_id}")
        old, new = (UNTICKED, TICKED) if ticked else (TICKED, UNTICKED)
        lines[boxes[item]] = lines[boxes[item]].replace(old, new, 1)
        return self.edit_comment(comment_id, "\n".join(lines))

    def react(self, subject: Issue | Comment | Review, content: str) -> Reaction:
        issue = self._subject(subject)
        self._require_permission(self.world.repositories[issue.repository].full_name, Role.READ)
        if issue.locked or content not in REACTIONS:
            raise NotAllowedError(f"{self.user.login} may not react with {content!r} on #{issue.number}")
        return conversation.react(self, subject.node_id, content)[0]

    def unreact(self, subject: Issue | Comment | Review, content: str) -> None:
        if self._subject(subject).locked:
            raise NotAllowedError("the conversation is locked")
        for reaction in self.world.reactions_to(subject.node_id):
            if (reaction.user, reaction.content) == (self.id, content):
                conversation.unreact(self.world, reaction)

    # --- code --------------------------------------------------------------------------------------------------

    def push(
        self, repository: str, files: FileContents, *, branch: str | None = None, message: str = "Change files\n"
    ) -> str:
        home = self._require_permission(repository, Role.WRITE)
        return code_changes.push_files(self, home, branch or home.default_branch, files=files, message=message)

    def open_pull(self, repository: str, title: str, *, head: str, body: str = "", base: str | None = None) -> Issue:
        home = self._require_permission(repository, Role.READ)
        target = base or home.default_branch
        return code_changes.open_pull(self, home, NewPull(title, head, target, body))

    def review(
        self,
        repository: str,
        number: int,
        body: str = "",
        *,
        verdict: Verdict = "COMMENTED",
        notes: Sequence[LineNote] = (),
    ) -> Review:
        issue = self._thread(repository, number, Role.READ)
        return code_changes.review(self, issue, verdict=verdict, body=body, notes=notes)

    def merge(self, repository: str, number: int) -> str:
        return code_changes.merge(self, self._thread(repository, number, Role.WRITE))

    # --- rights ------------------------------------------------------------------------------------------------

    def _require_permission(self, repository: str, needed: Role) -> Repository:
        home = self.world.repository(repository)
        role = self.world.role(home, self.id)
        if not role.covers(needed) or home.archived:
            raise NotAllowedError(f"{self.user.login} has the role {role} in {home.full_name}, needs {needed}")
        return home

    def _thread(self, repository: str, number: int, needed: Role) -> Issue:
        return self.world.issue(self._require_permission(repository, needed), number)

    def _own(self, repository: str, number: int, needed: Role) -> Issue:
        issue = self._thread(repository, number, Role.READ)
        if issue.author != self.id:
            self._require_permission(repository, needed)
        return issue

    def _comment(self, comment_id: int) -> Comment:
        try:
            return self.world.comments[comment_id]
        except KeyError:
            raise NotThereError(f"comment {comment_id}") from None

    def _own_comment(self, comment_id: int) -> Comment:
        comment = self._comment(comment_id)
        needed = Role.READ if comment.author == self.id else Role.WRITE
        self._require_permission(self.world.repositories[comment.repository].full_name, needed)
        return comment

    def _subject(self, subject: Issue | Comment | Review) -> Issue:
        return self.world.issues[subject.repository, subject.number]
