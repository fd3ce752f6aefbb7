"""Which shell lines are known to be read-only, and every trick that must not be taken for one (S10, P4)."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.agent.shell_policy import LONGEST, PURE, is_read_only

READ_ONLY = r"""
ls
ls -la src
ls *.py
ls {a,b}
cat README.md
cat a.py b.py
cat *.md
cat -- -odd-name
head -n 20 a.py
head -c 100 a.py
tail -n +5 a.py
wc -l a.py
wc -l *.py | sort -n
echo hello
echo "hello world"
echo 'it is; rm -rf /'
echo "a > b"
echo \$HOME
echo a\ b
echo rm
printf '%s\n' a b
printf "%s\n" a
pwd
cd src
cd src && ls
cd src; ls
which python3
type ls
true
false
! true
test -f a.py
test -f a.py && echo yes
[ -f a.py ] && echo yes || echo no
[[ -d src ]]
stat a.py
basename src/a.py
dirname src/a.py
realpath .
cut -d: -f1 a.txt
tr a-z A-Z < a.txt
cmp a b
nl a.py
rev a.txt
grep -rn "def " src
grep -E 'a|b' a.py
grep -c x a.py || true
grep rm a.py
egrep -i x a.py
du -sh .
comm -12 a b
md5sum a
seq 10
uname -a
find . -name '*.py'
find . -type f -newer a.py -print0
find src -maxdepth 2 -name "test_*"
find . '(' -name a -o -name b ')'
rg foo
rg -n 'a b' src
rg foo src/*.py
rg -l --glob '*.py' foo
sort a.txt
sort -rn -k2,2 a.txt
sort -u a.txt | uniq -c
uniq a.txt
uniq -c
diff a b
diff -u a.py b.py
tree -L 2
sed -n 3,9p a.py
sed -n '3p' a.py
sed -n '$p' a.py
git log
git log --oneline -5
git log -p -- src/a.py
git log --format=%H
git show HEAD:a.py
git diff HEAD~1 -- a.py
git diff --stat
git status --short
git blame -L 3,9 a.py
git ls-files
git ls-files '*.py'
git rev-parse HEAD
git cat-file -p HEAD
git grep -n foo
git describe --tags
git branch
git branch -a -v
git branch --show-current
git tag
git tag --list
git remote -v
git stash list
git worktree list
git -C src log
git --no-pager log -3
ls | head -5
ls -la | grep x | wc -l
(cd src && ls)
ls 2>/dev/null
ls > /dev/null 2>&1
ls >/dev/null
ls &>/dev/null
ls 2>&1 | head
cat < a.txt
cat </dev/null
cat <<< hello
echo $(git rev-parse HEAD)
echo "at $(git rev-parse HEAD)"
echo `pwd`
ls # a comment; rm x
ls; # done
grep -rn Größe src
echo 👍
find . -name 'é*'
"""

NOT = r"""
rm x
rm -rf /
/bin/ls
./ls
ls && rm x
ls || rm x
ls; rm x
ls | rm x
ls |& rm x
ls & rm x
ls &
ls | sh
ls | bash -
ls | xargs rm
ls | xargs
ls | tee x
tee x
mv a b
cp a b
chmod +x a
chown me a
sudo ls
su -c ls
kill 1
killall x
pkill x
ps aux
top
touch x
mkdir x
ln -s a b
dd if=a of=b
truncate -s 0 a
install a b
make
python3 -c 'print(1)'
perl -e 1
node -e 1
ruby -e 1
bash -c ls
sh a.sh
eval ls
exec ls
source a.sh
. ./a.sh
command ls
command rm x
builtin cd x
env ls
env FOO=1 ls
nohup ls
nice ls
time ls
timeout 5 ls
watch ls
setsid ls
flock a ls
stdbuf -o0 ls
strace ls
ssh host ls
curl http://x
wget http://x
nc -l 1
tar xf a.tar
tar cf a.tar .
unzip a.zip
gzip a
zcat a.gz
pip install x
npm test
vim a
less a
more a
man ls
awk '{print}' a
awk 'BEGIN{system("rm x")}'
gawk -f a.awk
dc -e '!rm x'
bc
ed a
ex a
split a
csplit a 1
crontab -l
alias ls=rm
unalias ls
hash -p /x ls
enable -f x y
trap 'rm x' EXIT
set -e
shopt -s extglob
export A=1
declare -x A=1
local a=1
readonly A=1
unset A
read a
mapfile a
let a=1
wait
exit
return
ulimit -c 0
umask 0
A=1
A=1 ls
PATH=. ls
PATH=.:$PATH git log
LD_PRELOAD=./x.so ls
GIT_EXTERNAL_DIFF=./x git diff
GIT_PAGER=./x git log
RIPGREP_CONFIG_PATH=x rg a
ls > x
ls >x
ls >> x
ls >| x
ls 2> x
ls &> x
ls &>> x
ls >& x
ls 1<>x
cat <>x
ls > /dev/sda
ls > /dev/null/../x
ls > "/dev/null"x
ls >$(echo x)
cat a>b
>x
> x ls
2>x ls
cat </dev/tcp/1.1.1.1/80
cat < /dev/tcp/h/1
cat <"/de""v/tcp/h/1"
cat </dev//tcp/h/1
cat <'/dev/tcp/h/1'
cat <$'/dev/tcp/h/1'
cat </de\v/tcp/h/1
cat <$X
cat <$(echo a)
cat <&3
exec 3>x
cat <<E
cat <(rm x)
cat <(ls)
diff <(ls a) <(ls b)
tee >(cat)
echo $(rm x)
echo "$(rm x)"
echo `rm x`
echo "`rm x`"
echo "a $(echo "b $(rm x)")"
echo $(echo $(echo `rm x`))
echo $X
echo ${X}
echo ${X:=$(rm x)}
echo ${X:-`rm x`}
echo ${!X}
echo ${X@P}
echo $((a[$(rm x)]))
echo $(($(rm x)))
echo $[1+1]
echo $'a'
((a=1))
(( a[$(rm x)] ))
[[ 'a[$(rm x)]' -eq 0 ]]
[[ a\[\$\(rm\ x\)\] -eq 0 ]]
[[ -v 'a[$(rm x)]' ]]
[ -v 'a[$(rm x)]' ]
[ -v "a[`rm x`]" ]
[[ $(rm x) ]]
[ a > b ]
[ a \> b ]
[ -n "$(rm x)" ]
test -v 'a[$(rm x)]'
test 1 = 1 -o -v 'a[$(rm x)]'
test -R x
test $(rm x)
test -* x
printf -v 'a[$(rm x)]' y
printf '-v' 'a[$(rm x)]' y
printf ""-v 'a[$(rm x)]' y
printf \-v 'a[$(rm x)]' y
printf -* x
printf {-v,'a[$(rm x)]'} y
printf "$(echo -v)" 'a[$(rm x)]' y
printf `echo -v` 'a[$(rm x)]' y
f() { rm x; }; f
function ls { rm x; }
ls() { rm x; }; ls
{ rm x; }
{ ls; }
(rm x)
( (rm x) )
if ls; then rm x; fi
if true; then ls; fi
for a in *; do rm $a; done
for a in 1; do ls; done
while true; do ls; done
until ls; do rm x; done
case a in a) rm x;; esac
select a in b; do rm x; done
coproc rm x
! rm x
!ls
\rm x
r\m x
'rm' x
"rm" x
r'm' x
l's'
"ls"
$'rm' x
$(echo rm) x
`echo rm` x
$X x
${X} x
{rm,x}
{ls,-la}
l?
l*
~/ls
ls;rm x
ls&&rm x
ls||rm x
ls|rm
find . -delete
find . -exec rm {} +
find . -exec rm {} \;
find . -execdir rm {} +
find . -ok rm {} \;
find . -okdir rm {} \;
find . -fprint x
find . -fprint0 x
find . -fprintf x %p
find . -fls x
find . -name a -o -delete
find . '-delete'
find . "-delete"
find . -d'elete'
find . -dele\te
find . -d*
find . -?elete
find . $(echo -delete)
find . *
find . {-delete,}
find $X
find ~ -name a
rg --pre ./x a
rg --pre=./x a
rg '--pre=./x' a
rg --pr* a
rg --hostname-bin ./x a
rg --search-zip a
rg -z a
rg -nz a
rg $X
sort -o x a
sort -ox a
sort -uo x a
sort a -o x
sort a --output=x
sort a --output x
sort --out=x a
sort --o=x a
sort --compress-program=./x a
sort --comp=./x a
sort -T . a
sort --temporary-directory=. a
sort --t=. a
sort -* a
sort "$X"
uniq a b
uniq -c a b
uniq - b
uniq -- a
uniq -- -a b
uniq a*
uniq 'a' b
uniq $X
diff -l a b
diff --paginate a b
diff --pag a b
diff $X b
tree -o x
tree -ox
tree -R
tree --output x
sed -i s/a/b/ a
sed -n -i 3p a
sed -ni 3p a
sed -n 3p -i a
sed -n --in-place 3p a
sed s/a/b/ a
sed -n 's/a/b/w x' a
sed -n '3w x' a
sed -n '1e rm x' a
sed -n 's/a/rm x/ep' a
sed -n -e 3p a
sed -nf x a
sed -n "$X" a
sed -n p -s a
sed --expression=1e a
git
git push
git commit -m x
git add a
git checkout a
git switch a
git restore a
git reset --hard
git clean -fd
git rm a
git mv a b
git fetch
git pull
git clone x
git init
git config a b
git gc
git stash
git stash pop
git worktree add x
git branch x
git branch -d x
git branch -D x
git branch -m x
git branch --list -d x
git tag x
git tag -d x
git remote add a b
git remote update
git remote show origin
git -c core.pager=./x log
git -c alias.log='!rm x' log
git -ccore.fsmonitor=./x status
git --exec-path=. log
git --git-dir=x log
git --work-tree=x status
git -p log
git --paginate log
git -C
git -C . -c a=b log
git log --output=x
git log --output x
git log --outpu=x
git log --ou=x
git log --o*
git diff --output=x
git show --output=x
git diff '--output=x'
git diff --ext-diff
git diff --ext
git log -p --textconv
git show --textconv
git grep -Oless x
git grep -O x
git grep -nOtouch x
git grep -lO x
git grep --open-files-in-pager=x a
git grep --open-files=x a
git grep --op=x a
git cat-file --filters HEAD:a
git cat-file --fi HEAD:a
git cat-file --textconv HEAD:a
git cat-file --t HEAD:a
git ls-remote --upload-pack=x .
git archive --output=x HEAD
git archive HEAD
git bundle create x HEAD
git format-patch HEAD~1
git apply x
git am x
git bisect start
git rebase HEAD~1
git notes add
git replace a b
git update-ref a b
git update-index --refresh
git hash-object -w a
git submodule foreach rm x
git filter-branch
git daemon
git help log
git difftool
git mergetool
git $X
git "$X"
git l{og,s}
lslog
cat a | python3
xargs ls
xargs -I{} rm {}
parallel ls
ls ;; rm
ls |
ls &&
ls 'x
ls "x
ls $(
ls `
(
)
if
echo "a
"""


def lines(table: str) -> list[str]:
    return [line for line in table.strip("\n").splitlines() if line]


# What a table of lines cannot hold, or what looks like something else.
ODD = {
    "newline": "ls\nrm x",
    "newline in a substitution": "echo $(ls\nrm x)",
    "here-document": "cat <<E\n$(rm x)\nE",
    "here-document, quoted": "cat <<'E' | sh\nrm x\nE",
    "here-document and a command": "cat <<E\nx\nE\nrm x",
    "carriage return": "ls\rrm x",
    "carriage return before a newline": "ls\r\nrm x",
    "a folder called `cat` and a carriage return": "cat\r/../x.sh",
    "a folder called `ls` and a tab of the old kind": "ls\x0b/../x.sh",
    "form feed": "ls\x0c/../x.sh",
    "joined lines": "ls\\\n/../x.sh",
    "joined operator": "ls &\\\n& rm x",
    "joined lines in quotes": 'find . "-del\\\nete"',
    "no-break space": "ls\u00a0x",
    "em space": "ls\u2003/../x.sh",
    "line separator": "ls\u2028rm x",
    "paragraph separator": "ls\u2029rm x",
    "next line": "ls\u0085rm x",
    "right to left": "ls \u202etxt.sh",
    "zero width": "ls\u200b/../x.sh",
    "byte order mark": "\ufeffls",
    "Cyrillic look-alike": "сat a",
    "full-width": "ｌｓ",
    "full-width semicolon in a name": "ls；rm",
    "a letter at which the parser once ended the process": "{\U0010ffff",
    "NUL": "ls\x00; rm x",
    "NUL alone": "\x00",
    "escape": "ls \x1b[0m",
    "backspace": "ls \x08\x08rm",
    "delete": "ls \x7f",
    "lone surrogate": "ls \ud800",
    "huge": "ls " + "a" * LONGEST,
    "huge, many commands": "ls;" * LONGEST,
    "deeply nested": "echo " + "$(" * 3000,
    "deeply nested and closed": "(" * 2000 + "rm x" + ")" * 2000,
    "comment that ends": "ls # \\\nrm x",
    "arithmetic loop": "for ((;;)); do rm x; done",
    "assignment in a subshell": "(A=1; ls)",
    "redirected group": "{ ls; } > x",
    "redirected subshell": "(ls) > x",
    "redirect among arguments": "ls > x -la",
    "several redirections": "ls >/dev/null 2>x",
}


@pytest.mark.req("S10")
@pytest.mark.parametrize("line", lines(READ_ONLY))
def test_a_line_that_only_reads_is_allowed(line: str) -> None:
    """What people look around with runs in plan mode."""
    assert is_read_only(line)


@pytest.mark.req("S10", "P4")
@pytest.mark.parametrize("line", lines(NOT))
def test_any_other_line_is_not(line: str) -> None:
    """What changes something, could, or is not understood is refused."""
    assert not is_read_only(line)


@pytest.mark.req("S10", "P4")
@pytest.mark.parametrize("line", list(ODD.values()), ids=list(ODD))
def test_odd_lines_are_not(line: str) -> None:
    """Characters that the parser and bash read in different ways, and sizes that nobody types."""
    assert not is_read_only(line)


def test_the_tables_are_as_long_as_they_must_be() -> None:
    """At least 60 lines that read and 150 that do not, none of them twice."""
    assert len(lines(READ_ONLY)) == len(set(lines(READ_ONLY))) >= 60
    assert len(lines(NOT)) == len(set(lines(NOT))) >= 150


@pytest.mark.req("S10")
@pytest.mark.parametrize("line", ["", " ", "\n", "# a comment"])
def test_nothing_reads_only(line: str) -> None:
    """A line without a command changes nothing."""
    assert is_read_only(line)


@pytest.mark.req("S10")
@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_any_text_is_judged(line: str) -> None:
    """Whatever the model writes, there is an answer: no text raises."""
    assert is_read_only(line) in {True, False}


_words = st.sampled_from(
    "ls cat rm find -delete -exec sort -o x uniq git log diff --output=x sed -n 3p -i > < >> | || && & ; $( ` ) ( { } ' "
    '" \\ \n $X FOO=1 * ? [ ] [[ ]] test printf -v # ! if then fi a.txt /dev/null 2>&1 <<E E'.split(" ")
)


@pytest.mark.req("S10")
@given(st.lists(_words, max_size=9).map(" ".join))
def test_commands_of_shell_words_are_judged(line: str) -> None:
    """Neither do lines of the shell's own words; and what is refused stays refused behind a harmless command."""
    verdict = is_read_only(line)
    assert verdict in {True, False}
    if "rm" in line.split() and verdict:
        words = line.split()
        assert words[0] != "rm", "a command called rm was taken for reading"


@pytest.mark.req("S10")
@given(st.sampled_from(sorted(PURE - {"cd", "type", "test"})), st.sampled_from(lines(NOT)))
def test_a_harmless_command_in_front_hides_nothing(harmless: str, line: str) -> None:
    """A line that is refused alone is refused behind another command too."""
    if not is_read_only(line):
        assert not is_read_only(f"{harmless} && {line}")


@pytest.mark.req("S10", "P4")
def test_what_is_allowed_leaves_no_trace(tmp_path: Path) -> None:
    """bash runs every allowed line in a folder full of files that are called like options: nothing changes."""
    tree = tmp_path / "tree"
    (tree / "src").mkdir(parents=True)
    names = ["a", "b", "a.py", "b.py", "a.txt", "README.md", "src/a.py", "-delete", "-odd-name", "-o", "--pre=x", "in1"]
    for name in names:
        (tree / name).write_text("def a():\n    b\n" * 5)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"], ["commit", "-qm", "y", "--allow-empty"]):
        person = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
        subprocess.run(["git", "-C", str(tree), *person, *command], check=True)
    before = photograph(tree)
    script = "\n".join(f"( {line}\n) </dev/null >/dev/null 2>&1" for line in lines(READ_ONLY) if line != "uniq -c")
    subprocess.run(["bash", "-c", script], cwd=tree, check=False, timeout=50, env=os.environ | {"GIT_OPTIONAL_LOCKS": "0"})
    assert photograph(tree) == before


def photograph(tree: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in tree.rglob("*") if path.is_file()}
