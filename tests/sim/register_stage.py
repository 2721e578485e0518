"""The stage of scenes of at-most-once jobs: nodes whose leases and durable writes are watched.

Lives here: the cast, what they do, and the rule that all scenes must keep. Never here: the scenes
(`register_scenes`, `register_set_scenes`), faults by chance (`register_world`).
Invariant: as there: never two live processes of one job, and no durable write is lost.
"""

from distributed_grid.kernel.across.register_effects import (
    Effects,
    Extend,
    MayRun,
    MayStart,
    Stored,
)
from distributed_grid.model.ids import NodeId
from distributed_grid.wire.register import Member, Recollect, Recollected, Standing, Written
from tests.sim.register_world import Violation
from tests.unit.across.register_lab import JOB, RegisterLab

SECOND_US = 1_000_000
START_US = 10**9  # When a lab begins.
LOOK_US = 100_000
A, B, C, D, E, P, Q, X, Y = (NodeId(name) for name in "abcdepqxy")
MEMORY = (Recollect, Recollected)


class Scene(RegisterLab):
    """Nodes whose leases are watched."""

    def __init__(self) -> None:
        self.until_us: dict[str, tuple[NodeId, int]] = {}  # Of what runs, by the clock there.
        self.drift_ppm: dict[NodeId, int] = {}
        self._longest = b""
        super().__init__("abcdepqxy", is_new=True)
        self.first = self.members("abc")
        self.open(P)

    def clock(self, name: NodeId) -> int:
        return self.now_us + (self.now_us - START_US) * self.drift_ppm.get(name, 0) // SECOND_US

    def members(self, names: str) -> tuple[Member, ...]:
        return tuple(self.nodes[NodeId(name)].voter.me for name in names)

    def open(self, name: NodeId) -> None:
        writer = self.nodes[name].writer
        new = Written(standing=Standing(voters=self.first), value=b"new")
        self.do(name, writer.take_over(JOB, new, self.now_us))
        self.ask_of_p = self.post[0][2].ask
        self.deliver()

    def do(self, name: NodeId, effects: Effects) -> None:
        """As the lab; and look at what runs."""
        super().do(name, effects)
        for happening in effects.happened:
            match happening:
                case MayRun(lease=lease, until_boot_us=until_us):
                    self.until_us[lease] = (name, until_us)
                    self._check()
                case Extend(lease=lease, until_boot_us=until_us):
                    self.until_us[lease] = (name, until_us)
                    self._check()
                case Stored(written=Written(value=value)):
                    self._check_value(value)
                case _:
                    pass

    def _check(self) -> None:
        live = [
            lease
            for lease, (name, until_us) in self.until_us.items()
            if self.clock(name) < until_us
        ]
        if len(live) > 1:
            raise Violation(f"{JOB} runs twice at once: {' and '.join(live)}")

    def _check_value(self, value: bytes) -> None:
        if value.startswith(self._longest):
            self._longest = value
        elif not self._longest.startswith(value):
            raise Violation(f"a durable write was lost, {self._longest!r} or {value!r}")

    # What coordinators and executors do

    def name(self, lease: str, node: NodeId, by: NodeId = P) -> None:
        """Without delivery; of a coordinator that is none any more: nothing."""
        chair = self.nodes[by].writer.chair(JOB)
        if chair is not None:
            effects = Effects()
            value = chair.written.value + b" " + lease.encode()
            chair.name(node, lease, value, self.clock(by), effects)
            self.do(by, effects)

    def ended(self, lease: str, by: NodeId = P) -> None:
        self.until_us.pop(lease, None)
        chair = self.nodes[by].writer.chair(JOB)
        if chair is not None:
            effects = Effects()
            chair.ended(lease, effects, has_run=True)
            self.do(by, effects)

    def start(self, by: NodeId = P) -> None:
        """Whatever may start is told so, and asks the voters."""
        for may_start in self.take(by, MayStart):
            standing = may_start.standing
            leases = self.nodes[standing.node].leases
            self.do(standing.node, leases.begin(JOB, standing, self.clock(standing.node)))

    def attempt(self, lease: str, node: NodeId, by: NodeId = P) -> None:
        """All of it, at once."""
        self.name(lease, node, by)
        self.deliver()
        self.start(by)
        self.deliver()

    def ask(self, name: NodeId, written: Written | None = None) -> None:
        """A takeover, without delivery."""
        written = written or self.nodes[B].voter.written(JOB)
        self.do(name, self.nodes[name].writer.take_over(JOB, written, self.now_us))

    def set_aside(self, kind: type, to: NodeId | None = None) -> list:
        """Take messages out of the post, to be delivered late."""
        late = [one for one in self.post if isinstance(one[2], kind) and to in (None, one[1])]
        self.post = [one for one in self.post if one not in late]
        return late

    def rerun(self, name: NodeId, disk: dict[str, bytes]) -> None:
        """A node starts again with some disk, and meets the others."""
        self.disks[name] = disk
        super().start(name)
        self.meet_all(name)
        self.pass_time(SECOND_US // 2)
