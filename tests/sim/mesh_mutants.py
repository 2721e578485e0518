"""The kernel of the mesh with one guard broken, each with a seed that shows it.

`python -m tests.sim.mesh_mutants` looks for the seeds again, which is needed after the world
changes: a mutant that no seed of the two hundred kills means that a checker or a fault is missing.
Names of mutants, or parts of them, as arguments look for those only.
"""

import contextlib
import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from distributed_grid.sim.mesh import outcome_of
from distributed_grid.sim.mesh.scenes import SCENES, played

SEEDS = 200


class Mutant(NamedTuple):
    """One line of the kernel, and what stands there instead."""

    breaks: str
    where: str  # module:Class.method or module:function
    line: str
    instead: str
    seed: int | str  # That shows it; or the scene that does.


MUTANTS = (
    # Who belongs
    Mutant("a certificate of anybody is taken", "trust:judge",
           "if not chain or chain[0].node != node:", "if not chain:", 1),
    Mutant("signatures of certificates are not looked at", "trust:judge",
           "if not verify(certificate.issuer,", "if False and not verify(certificate.issuer,", 1),
    Mutant("whoever was revoked may come back", "trust:judge",
           "if certificate.node in revoked:", "if False:", 1),
    Mutant("any member lets others in", "trust:_links",
           "if not all(roles_permit(", "if False and not all(roles_permit(", 1),
    Mutant("certificates need not lead to the authority", "trust:_links",
           "certificate.mesh != mesh or certificate.issuer != issuer", "False", 1),
    Mutant("any member throws others out", "trust:judge_revocation",
           'if not roles_permit(standing.roles, "revoke")', "if False", 1),
    Mutant("a revocation need not be signed", "trust:judge_revocation",
           "return verify(issuer, revocation.signed_bytes(), revocation.signature)",
           "return True", 1),
    Mutant("entries need not be signed", "roster:Roster.verify",
           "return self._verify(entry.node, entry.signed_bytes(self.mesh), entry.signature)",
           "return True", 1),
    Mutant("entries of strangers enter", "roster:Roster.admits",
           "return self.is_member(entry.node)", "return True", 1),
    Mutant("who was revoked still counts", "roster:Roster.revoke",
           "self.standings.pop(gone, None)\n    self.forget(gone)", "pass", 1),
    Mutant("links to revoked nodes stay", "membership:Membership.out",
           'ready.hang_up.append((revocation.node, "revoked"))', "pass", 1),
    Mutant("a revocation is forgotten in a crash", "membership:Membership.kick",
           "self.save_known(now, ready)", "pass", "kick and crash"),
    # Tickets
    Mutant("a ticket lets in any number", "tickets:Tickets.redeem",
           "if len(record.used_by) >= record.uses_max:", "if False:", 0),
    Mutant("whoever knows the name of a ticket holds it", "tickets:Tickets.redeem",
           "if not hmac.compare_digest(expected, asked.mac):", "if False:", 1),
    Mutant("a stranger asks for somebody else", "membership:Membership._refusal",
           "if redeem.node != peer and not roster.is_member(peer):", "if False:", 1),
    Mutant("contacts of the welcome are not kept", "membership:Membership._save_own",
           "tuple(self.hints.values())[-CONTACTS_TOLD:]", "()", 17),
    # What everyone says
    Mutant("an older generation replaces a newer one", "replica_maps:Maps.is_news",
           "return entry.generation > node.generation", "return True", 9),
    Mutant("an older version replaces a newer one", "replica_maps:Maps.is_news",
           "return held is None or beats(entry, held.entry)", "return True", 6),
    Mutant("a new generation begins empty", "replica_voice:Voice._begin",
           "self._unsaid = said | self._unsaid", "pass", 7),
    Mutant("neighbours are never compared", "replica:Replica.link_up",
           "return [remember, self._everything()] if is_first else [remember]",
           "link.compared(self._maps, now_us + 10**12)\n    return [remember]", 0),
    # Who is alive
    Mutant("second-hand ages do not count", "liveness:Liveness._second_hand",
           "if now_us - age_us > peer.spoke_us:", "if False:", 8),
    Mutant("who is dead stays dead", "liveness:Liveness._first_hand",
           'if peer.health != "alive":', 'if peer.health == "suspect":', 5),
    Mutant("nobody ever dies", "liveness:Liveness._sentence",
           "elif age_us > rules.dead_us * limits and", "elif False and", 0),
    # Who talks to whom
    Mutant("failed dials are never tried again", "dialling:Dialling.failed",
           "self.under_way.discard(peer)", "pass", 10),
    Mutant("lost links are never dialled again", "dialling:Dialling.up",
           "self.under_way.discard(peer)", "pass", 5),
    # Clones
    Mutant("clones go unnoticed", "clones:Clones.meet",
           "is_back = start in former", "is_back = False", 4),
    Mutant("every start is a clone", "clones:Clones.meet",
           "is_back = start in former", "is_back = current is not None", 1),
    # Certificates that end
    Mutant("nobody asks for a later end", "renewing:Renewing.keep_valid",
           "if self._own.was_revoked or (holds and is_early and not doubters and not is_hanging):",
           "if True:", 7),
    Mutant("who holds the authority's key hangs on others", "renewing:Renewing.keep_valid",
           "self._own.authority is not None and self._own.chain[0].issuer != mesh.id", "False",
           "founder gone"),
    # Seldom needed: killed by a scene, or since a checker looks closer
    Mutant("who lost its disk does not rise", "replica_voice:Voice.remembered",
           "if is_older_life and", "if False and", "back after a week"),
    Mutant("who hears its own echo does not rise", "replica_voice:Voice.echoed",
           "return self._rise(entry.generation, now_us)", "return []", "old words"),
    Mutant("a sleeper does not notice that it slept", "liveness:Liveness._notice_gap",
           "if gap_us > 2 * self._rules.period_us:", "if False:", "nap"),
    Mutant("strangers are heard", "machine:Mesh._told",
           "if peer not in self.links or not self.roster.is_member(peer):", "if False:", 1),
    Mutant("a retry counts as a second use", "tickets:Tickets.redeem",
           "if asked.node in record.used_by:", "if False:", "answers lost"),
    Mutant("a cursor moves before a delta was taken", "replica_links:Link.delta",
           "self.sent = Sent(number, entries, cursor, now_us)", "self.cursor = cursor", "old words"),
    Mutant("a generation is not saved", "membership:Membership.save_generation",
           'ready.save["mesh.generation"] =', "_ =", 0),
    Mutant("a use is not saved before the answer", "membership:Membership.redeem",
           "self._save_tickets(ready)", "pass", 0),
    Mutant("nobody doubts its own hearing", "liveness:Liveness._sentence",
           "limits = 2 if now_us < self._is_weak_until_us else 1", "limits = 1", "deaf for a moment"),
    Mutant("ages of others are taken as new", "liveness:Liveness._second_hand",
           "age_us = (word & AGE_UNITS_MAX) * AGE_UNIT_US", "age_us = 0", "hearsay"),
    Mutant("late gossip makes a clone", "clones:Clones.rumour",
           "if current is not None and (current[0] == machine or is_old):", "if False:", "old words"),
)  # fmt: skip


@contextlib.contextmanager
def broken(mutant: Mutant) -> Iterator[None]:
    """The kernel with this line replaced, for a while; also for who has imported the function."""
    module_name, _, path = mutant.where.partition(":")
    module = importlib.import_module(f"distributed_grid.kernel.mesh.{module_name}")
    whole = module
    for name in path.split("."):
        whole = whole.__dict__[name]
    source = textwrap.dedent(inspect.getsource(whole))
    assert source.count(mutant.line) == 1, f"{mutant.where} has changed: {mutant.line!r}"
    made: dict = {}
    exec(compile(source.replace(mutant.line, mutant.instead), mutant.where, "exec"),
         vars(module), made)  # fmt: skip
    code = whole.__code__
    whole.__code__ = made[whole.__name__].__code__
    try:
        yield
    finally:
        whole.__code__ = code


def problem_of(seed: int | str) -> str:
    """What goes wrong in a seed or a scene; empty if nothing does."""
    return played(seed)[0] if isinstance(seed, str) else outcome_of(seed).problem


def first_seed(mutant: Mutant) -> tuple[int | str | None, str]:
    """The first seed that shows it, else the first scene, and how."""
    with broken(mutant):
        for seed in (*range(SEEDS), *SCENES) if isinstance(mutant.seed, int) else SCENES:
            if problem := problem_of(seed):
                return seed, problem
    return None, "NOT KILLED"


if __name__ == "__main__":
    for each in MUTANTS:
        if not sys.argv[1:] or any(word in each.breaks for word in sys.argv[1:]):
            found, how = first_seed(each)
            changed = "" if found == each.seed else "CHANGED "
            print(f"{changed}{found}\t{each.breaks}\t{how[:160]}", flush=True)
