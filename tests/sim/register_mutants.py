"""The rules of at-most-once jobs with one broken, each with a seed that shows it.

`python -m tests.sim.register_mutants` looks for the seeds again, which is needed after the world
changes: a mutant that no seed kills means that a fault is missing, or that the rule is not needed.
Names of mutants, or parts of them, as arguments look for those only.
"""

import contextlib
import sys
from typing import NamedTuple

from tests.sim.breaking import replaced
from tests.sim.register_scenes import SCENES, played
from tests.sim.register_world import outcome_of

SEEDS = 200


class Mutant(NamedTuple):
    """One line of the kernel, and what stands there instead."""

    breaks: str
    where: str  # module:Class.method or module:function
    line: str
    instead: str
    seed: int | str  # That shows it; or the scene that does.
    # A rule of homes: those who vote hold out against one that breaks it, so they are broken, too.
    needs: tuple[tuple[str, str, str], ...] = ()


ONE_AFTER_THE_OTHER = (
    "register_voter:Voter._is_free", "return last is None", "return True or last is None"
)  # fmt: skip
ONLY_THE_NAMED = (
    "register_voter:Voter._may_go_on", "(renewal.fence, renewal.lease, node) == named",
    "renewal.fence >= standing.attempt",
)  # fmt: skip
TRUSTED = (ONE_AFTER_THE_OTHER, ONLY_THE_NAMED)

MUTANTS = (
    # The rules of docs/internals/protocols.md, section 2
    Mutant("a promise is not durable", "register_voter:Voter._prepare",
           "self._keep(asked.job, kept, sender, effects)",
           "self._jobs[asked.job] = kept\n        self._count_vote(effects)", "promise and crash"),
    Mutant("a lease is renewed with the coordinator only", "register_lease:Tenure.granted",
           "if not is_carried(self.standing.sets, self.rounds[sent_us]):",
           "if self.fence.epoch.node not in {one.node for one in self.rounds[sent_us]}:", "coordinator alone"),
    Mutant("epochs are numbers without a node", "register_voter:Voter._prepare",
           "is_repeat = (asked.epoch, asked.ask) == (kept.promised, kept.ask)",
           "is_repeat = asked.epoch.counter == kept.promised.counter", "two at once"),
    Mutant("clocks stand still in a sleep", "tests.sim.register_host:Host.boot_us",
           "(self.world.now_us - self.booted_us)",
           "(self.world.now_us - self.booted_us - self.slept_us)", 144, TRUSTED),
    Mutant("an attempt starts before it is recorded", "register_chair:Chair._go_on",
           "self._write(named, self._take_value(), now_us, effects, is_fencing=True)",
           "self._write(named, self._take_value(), now_us, effects, is_fencing=True)\n"
           "        if not self._doubtful:\n"
           "            self._is_asked_for, self._is_let = False, True\n"
           "            effects.happened.append(\n"
           "                MayStart(job=self.job, standing=self._flight.standing))", "unrecorded start", TRUSTED),
    Mutant("nobody waits after the next attempt is recorded", "register_chair:Chair._carried",
           "self._start_us = now_us + WAIT_US",
           "self._start_us = now_us\n        self._doubtful.clear()", "replaced while it runs", TRUSTED),
    Mutant("the coordinator declares a lease over", "register_chair:Chair._carried",
           "self._start_us = now_us + WAIT_US", "self._start_us = self.since_us + WAIT_US", "late record", TRUSTED),
    Mutant("a lease is counted from the answer", "register_lease:Tenure.granted",
           "until_us = sent_us + LEASE_US", "until_us = now_us + LEASE_US", "late answers"),
    Mutant("a voter that has lost its disk votes", "register_voter:Voter._begin_store",
           'f"{self._chance(1 << 128):032x}"', 'f"store of {self.me.node}"', "renewal and old disk", TRUSTED),
    Mutant("the old majority alone changes the set", "register_chair:Chair._go_on",
           "joint = msgspec.structs.replace(standing, next=self._members)\n"
           "        self._write(joint, value, now_us, effects)",
           "changed = msgspec.structs.replace(standing, voters=self._members)\n"
           "        self._write(changed, value, now_us, effects)\n"
           "        self._sets = standing.sets", "half a change"),
    Mutant("the set changes in one step", "register_chair:Chair._go_on",
           "joint = msgspec.structs.replace(standing, next=self._members)",
           "joint = msgspec.structs.replace(standing, voters=self._members)", "half a change"),
    Mutant("the new set alone promises while it changes", "register_candidate:Candidate.has_won",
           "is_carried(self.sets, ", "is_carried(self.sets[-1:], ", "promised by the new"),
    Mutant("the old set alone promises while it changes", "register_candidate:Candidate.has_won",
           "is_carried(self.sets, ", "is_carried(self.sets[:1], ", "promised by the old"),
    Mutant("the new set alone accepts while it changes", "register_chair:Chair.accepted",
           "is_carried(self._sets, ", "is_carried(self._sets[-1:], ", "accepted by the new"),
    Mutant("the old set alone accepts while it changes", "register_chair:Chair.accepted",
           "is_carried(self._sets, ", "is_carried(self._sets[:1], ", "accepted by the old"),
    Mutant("the new set alone renews while it changes", "register_lease:Tenure.granted",
           "is_carried(self.standing.sets, ", "is_carried(self.standing.sets[-1:], ",
           "renewed by the new"),
    Mutant("the old set alone renews while it changes", "register_lease:Tenure.granted",
           "is_carried(self.standing.sets, ", "is_carried(self.standing.sets[:1], ",
           "renewed by the old"),
    Mutant("the first write of an epoch ends a change", "register_chair:Chair.open",
           "self._write(standing, self.written.value, now_us, effects, is_fencing=has_named)",
           "if standing.next:\n        self._go_on(now_us, effects)\n        return\n    "
           "self._write(standing, self.written.value, now_us, effects, is_fencing=has_named)",
           "change taken up"),
    Mutant("nobody allows for clocks that drift", "register_lease:Tenure.granted",
           "until_us = sent_us + LEASE_US", "until_us = sent_us + 10_200_000", "unlike clocks"),
    # What else they rest on
    Mutant("a promise tells nothing of what was accepted", "register_voter:Voter._prepare",
           "written=kept.written,\n    )  # fmt: skip\n    self._answer",
           "written=None,\n    )  # fmt: skip\n    self._answer", "vote and crash"),
    Mutant("what is accepted is not durable", "register_voter:Voter._accept",
           "self._keep(asked.job, kept, sender, effects)",
           "self._jobs[asked.job] = kept\n        self._count_vote(effects)", "vote and crash"),
    Mutant("a promise is not kept by writes", "register_voter:Voter._accept",
           "if version.epoch < kept.promised:", "if False:", "promise and crash"),
    Mutant("a promise is given to anybody", "register_voter:Voter._prepare",
           "is_refused = not is_repeat and asked.epoch <= kept.promised",
           "is_refused = False", "old question"),
    Mutant("a replaced attempt is renewed", "register_voter:Voter._may_go_on",
           "(renewal.fence, renewal.lease, node) == named", "True", "replaced while it runs",
           (ONE_AFTER_THE_OTHER,)),
    Mutant("a voter with an old disk votes", "register_voter:Voter._is_voting",
           "if self.is_new or", "if True or", "renewal and old disk", TRUSTED),
    Mutant("a vote is told before anybody remembers it", "register_voter:Voter._answer",
           "if self._is_confirmed(held):", "if True:", "promise and old disk"),
    Mutant("one voter is enough for a lease", "register_lease:Tenure.granted",
           "if not is_carried(self.standing.sets, self.rounds[sent_us]):", "if False:", "coordinator alone"),
    Mutant("one promise is enough", "register_candidate:Candidate.has_won",
           "not is_carried(self.sets, self._promises)", "not self._promises", "promise and old disk"),
    Mutant("one vote is enough for a write", "register_chair:Chair.accepted",
           "and is_carried(self._sets, self._accepted)", "", "promise and amnesia"),
    Mutant("a candidate stays with the set that it knew", "register_candidate:Candidate._learn",
           "if self.is_forced or written.standing.sets == self.sets:", "if True:", "old set"),
    Mutant("the first record that is told is adopted", "register_candidate:Candidate._learn",
           "if version <= self.written.standing.version:",
           "if self.written.standing.version.seq:", "old record"),
    Mutant("a takeover starts without a wait", "register_chair:Chair.open",
           "[UNKNOWN], True, True", "[], True, True", "takeover in the wait", TRUSTED),
    Mutant("who never ran proves the end of others", "register_chair:Chair.ended",
           "if has_run:", "if True:", "refused after a takeover", TRUSTED),
    Mutant("an unended attempt is forgotten by the next", "register_chair:Chair._go_on",
           "self._doubtful.append(self._lease)", "pass", "replaced while it runs", TRUSTED),
)  # fmt: skip


def broken(mutant: Mutant) -> contextlib.AbstractContextManager[None]:
    """The register with this line replaced, for a while."""
    stack = contextlib.ExitStack()
    for where, line, instead in ((mutant.where, mutant.line, mutant.instead), *mutant.needs):
        whole = where if where.startswith("tests.") else f"across.{where}"
        stack.enter_context(replaced(whole, line, instead))
    return stack


def problem_of(seed: int | str) -> str:
    """What goes wrong in a seed or a scene; empty if nothing does."""
    return played(seed) if isinstance(seed, str) else outcome_of(seed).problem


def first_seed(mutant: Mutant) -> tuple[int | str | None, str]:
    """The first scene that shows it, else the first seed, and how."""
    with broken(mutant):
        for seed in (*SCENES, *range(SEEDS)):
            if problem := problem_of(seed):
                return seed, problem
    return None, "NOT KILLED"


if __name__ == "__main__":
    for each in MUTANTS:
        if not sys.argv[1:] or any(word in each.breaks for word in sys.argv[1:]):
            found, how = first_seed(each)
            changed = "" if found == each.seed else "CHANGED "
            print(f"{changed}{found}\t{each.breaks}\t{how[:160]}", flush=True)
