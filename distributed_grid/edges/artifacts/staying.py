"""Which files of a work directory stay at home, and why.

Lives here: whose word counts, and the only list of what stays without anybody's word. Never here:
what a pattern means (`ignoring`), where git keeps its own (`git_excludes`), walking (`walking`).
Invariant: secrets travel only if a `.gridignore` brings them back, or if somebody named them.

The last word has `.gridignore`, then the list below, then git's files: a `!` in a `.gitignore`
is about what is committed, and brings back nothing but what a `.gitignore` leaves out.
"""

from typing import Final, NamedTuple

from distributed_grid.edges.artifacts.ignoring import Line, Rules, line_of, rules_of
from distributed_grid.model.artifact import joined

GRID_IGNORE: Final = b".gridignore"
GIT_IGNORE: Final = b".gitignore"
_SECRETS: Final = b"""
# In small letters, as in the next: names are looked up without regard to case.
.env
.env.*
.env~
*.env
.envrc
!.env.example
!.env.sample
!.env.template
!.env.dist
id_rsa*
id_dsa*
id_ecdsa*
id_ed25519*
!id_*.pub
*.pem
*.pem~
*.pem.bak*
*.pem.old*
*.key
*.key~
*.key.bak*
*.key.old*
*.p8
*.ppk
*.p12
*.pfx
*.jks
*.keystore
*.kdbx
credentials
credentials.json
credentials.yaml
credentials.yml
credentials.toml
credentials.ini
credentials.csv
secrets.json
secrets.yaml
secrets.yml
secrets.toml
client_secret*.json
service-account*.json
service_account*.json
.netrc
_netrc
.pgpass
.pypirc
.npmrc
.htpasswd
.git-credentials
.vault-token
*.tfstate
*.tfstate.*
**/.docker/config.json
.ssh/
.gnupg/
.aws/
.azure/
.kube/
"""
_LITTER: Final = b"""
.git
.hg/
.svn/
node_modules/
__pycache__/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.ipynb_checkpoints/
.tox/
.nox/
.eggs/
.direnv/
.terraform/
.ds_store
"""
_BUILT_IN: Final = rules_of(_SECRETS, _LITTER)
_SECRETS_COUNT: Final = sum(line_of(line) is not None for line in _SECRETS.split(b"\n"))
_NEVER_BACK: Final = rules_of(_LITTER)
GUARDED: Final = frozenset(
    (b".git", b".hg", b".svn", b".ssh", b".gnupg", b".aws", b".azure", b".kube")
)  # Nothing that a job leaves behind is ever written below these.

STEERING: Final = frozenset((GRID_IGNORE, GIT_IGNORE, b"grid.toml"))  # What travels, and how.

SECRET: Final = "may hold secrets, name it to send it"  # noqa: S105  (a reason)
LITTER: Final = "left out by default"
ENVIRONMENT: Final = "a virtual environment"
_ANY: Final = b"\0" * 9  # A name that no pattern means in particular.
MARKS: Final = {  # What a folder is that has one of these; the last has a node's keys in it.
    b"pyvenv.cfg": ENVIRONMENT,
    b"conda-meta": ENVIRONMENT,
    b"keeper.lock": "a directory of Grid",
}


def is_litter(name: bytes, *, is_folder: bool) -> bool:
    """Whether something that a job made is of no use elsewhere, or for others to write."""
    name = name.lower()
    return name in GUARDED or _NEVER_BACK.last(name, name, is_folder=is_folder) >= 0


def built_in(path: bytes, name: bytes, *, is_folder: bool) -> str:
    """Why something stays without anybody's word: SECRET, LITTER or nothing."""
    found = _BUILT_IN.last(path.lower(), name.lower(), is_folder=is_folder)
    if found < 0 or _BUILT_IN.are_back[found]:
        return ""
    return SECRET if found < _SECRETS_COUNT else LITTER


class Scope(NamedTuple):
    """Rules, and from where they count."""

    rules: Rules
    source: str  # As people know the file.
    above: bytes = b""  # The way from their folder to the root, with a slash at its end.
    below: int = 0  # The bytes of the way from the root to their folder, with that slash.

    def says(self, path: bytes, name: bytes, *, is_folder: bool) -> bool | None:
        """Whether a path stays; None: they say nothing of it."""
        told = self.above + path if self.above else path[self.below :]
        found = self.rules.last(told, name, is_folder=is_folder)
        return None if found < 0 else not self.rules.are_back[found]

    def within(self, path: bytes) -> "Scope":
        """The same without what leaves out a folder, or all in it: who named it wants that."""
        asked = ((path, True), (joined(path, _ANY), True), (joined(path, _ANY), False))

        def is_kept(line: Line) -> bool:
            alone = self._replace(rules=Rules([line]))
            return not any(
                alone.says(one, one.rpartition(b"/")[2], is_folder=is_folder)
                for one, is_folder in asked
            )

        return self._replace(rules=Rules([line for line in self.rules.lines if is_kept(line)]))


class Level(NamedTuple):
    """Whose word counts in a folder, the nearest last."""

    grid: tuple[Scope, ...] = ()
    git: tuple[Scope, ...] = ()
    are_ignored_sent: bool = False
    is_grid_heard: bool = False  # All the same.

    def within(self, path: bytes) -> "Level":
        """What counts in a folder that somebody named, by `.gridignore` above it."""
        return self._replace(grid=tuple(scope.within(path) for scope in self.grid))

    def why(self, path: bytes, name: bytes, *, is_folder: bool) -> str:
        """Why something stays at home; empty: it travels. `path` counts from the root."""
        for scope in reversed(self.grid):
            stays = scope.says(path, name, is_folder=is_folder)
            if stays is False:
                return ""
            if stays and (self.is_grid_heard or not self.are_ignored_sent):
                return scope.source
            if stays:
                break
        why = built_in(path, name, is_folder=is_folder)
        if why == SECRET or (why and not self.are_ignored_sent):
            return why
        for scope in () if self.are_ignored_sent else reversed(self.git):
            stays = scope.says(path, name, is_folder=is_folder)
            if stays is not None:
                return scope.source if stays else ""
        return ""

    def with_file(self, name: bytes, text: bytes, folder: bytes) -> "Level":
        """The same, with an ignore file of a folder, whose path from the root is given."""
        start = folder + b"/" if folder else b""
        source = (start + name).decode(errors="backslashreplace")
        scope = Scope(rules_of(text), source, below=len(start))
        if name == GRID_IGNORE:
            return self._replace(grid=(*self.grid, scope))
        return self._replace(git=(*self.git, scope))
