"""The whole decision once more, written from the design and not from the code.

Lives here: who can take a job, who should, in which order, and why not the others, one node at a
time, in the plainest words there are. Never here: anything imported from `kernel.placement`; the
numbers that the documentation gives to people are stated again.
Invariant: slow and obvious. Where this and the kernel differ, one of the two is wrong.
"""

from typing import Any, NamedTuple

from distributed_grid.model.job import JobSpec, Where
from distributed_grid.model.node import NodeRecord
from distributed_grid.model.resources import Request, Resources

MIB = 2**20
WISH = 10**15
FAILED_VERIFICATION = 1_000 * WISH
FURTHER_THAN_ANYTHING_US = 2**40  # How far away a node is that nobody has measured.
WORDS = 2**64


class Answer(NamedTuple):
    """What a decision must say."""

    ranked: list[tuple[str, int, dict[str, int], str]]  # id, score, parts, rank key; best first
    cluster: list[str]
    refused: list[tuple[str, list[tuple[str, Any, Any, str]]]]  # id, (what, wanted, has, kind)


def decide(job: JobSpec, nodes: list[NodeRecord], rules: Any) -> Answer:
    """The decision on these nodes, whatever their order."""
    ranked, refused = [], []
    for node in nodes:
        if why := reasons(job, node, rules):
            refused.append((node.id, why))
        else:
            parts = score_parts(job, node, rules)
            key = rank_key(rules.rank, int(job.id, 16), int(node.id, 16))
            ranked.append((node.id, sum(parts.values()), parts, f"{key:064x}"))
    ranked.sort(key=lambda entry: (entry[1], int(entry[3], 16), entry[0]))
    cluster = [entry[0] for entry in ranked][: rules.cluster_size]
    return Answer(ranked, cluster, sorted(refused))


# --- 1. Filters: capability, capacity, the job's own words, power, freshness ---------------------


def reasons(job: JobSpec, node: NodeRecord, rules: Any) -> list[tuple[str, Any, Any, str]]:
    """Everything against a node, in the order of the design's list."""
    return [
        *_amounts(job.request, node),
        *_what_it_is(job, node),
        *_where(job.require, node),
        *_not_there(job.avoid, node),
        *_power_and_age(job, node, rules),
        *_own_filters(job, node, rules),
    ]


def _amounts(request: Request, node: NodeRecord) -> list[tuple[str, Any, Any, str]]:
    wants: list[tuple[str, int, int, int]] = [
        (field, getattr(request, field), getattr(node.total, field), getattr(node.free, field))
        for field in ("cpu_milli", "memory_bytes", "storage_bytes")
    ]
    if request.gpus:
        model = request.gpus.model
        what = "gpu_milli" if model == "any" else f"gpu_milli.{model}"
        total, free = gpu_offer(request, node.total), gpu_offer(request, node.free)
        wants.append((what, request.gpus.milli, total, free))
    for kind, amount in request.custom:
        total, free = (dict(side.custom).get(kind, 0) for side in (node.total, node.free))
        wants.append((f"custom.{kind}", amount, total, free))
    found: list[tuple[str, Any, Any, str]] = []
    for what, wanted, total, free in wants:
        if total < wanted:
            found.append((what, wanted, total, "capability"))
        elif free < wanted:
            found.append((what, wanted, free, "capacity"))
    return found


def gpu_offer(request: Request, side: Resources) -> int:
    """For a share: the largest share of one device. For whole devices: how many are whole."""
    wanted = request.gpus
    assert wanted is not None
    shares = []
    for gpu in side.gpus:
        right_model = wanted.model in {"any", gpu.model, gpu.model.removeprefix("RTX")}
        if not right_model:
            continue
        if gpu.memory_bytes < wanted.memory_bytes:
            continue
        if gpu.compute_capability < wanted.compute_capability:
            continue
        shares.append(gpu.share_milli)
    if wanted.milli < 1_000:
        return max(shares, default=0)
    return 1_000 * shares.count(1_000)


def _what_it_is(job: JobSpec, node: NodeRecord) -> list[tuple[str, Any, Any, str]]:
    found: list[tuple[str, Any, Any, str]] = []
    if job.arch and node.arch != job.arch:
        found.append(("arch", job.arch, node.arch or None, "capability"))
    missing = [feature for feature in job.features if feature not in node.features]
    found += [(f"features.{feature}", True, False, "capability") for feature in missing]
    classes = job.require.classes
    if classes and node.node_class.name not in classes:
        found.append(("class", list(classes), node.node_class.name, "capability"))
    for key, value in job.require.labels:
        if node.labels.get(key) != value:
            found.append((f"labels.{key}", value, node.labels.get(key), "capability"))
    return found


def _where(require: Where, node: NodeRecord) -> list[tuple[str, Any, Any, str]]:
    found: list[tuple[str, Any, Any, str]] = []
    if require.nodes and not named(require.nodes, node):
        found.append(("nodes", list(require.nodes), node.name, "policy"))
    if require.jobs and not set(require.jobs) & set(node.running):
        found.append(("jobs", list(require.jobs), list(node.running), "policy"))
    limit, latency = require.latency_us_max, node.network.latency_us
    if limit is not None and (latency is None or latency > limit):
        found.append(("latency_us", limit, latency, "policy"))
    return found


def _not_there(avoid: Where, node: NodeRecord) -> list[tuple[str, Any, Any, str]]:
    found: list[tuple[str, Any, Any, str]] = []
    name = node.node_class.name
    if name in avoid.classes:
        found.append(("avoid.class", {"not": list(avoid.classes)}, name, "policy"))
    for key, value in avoid.labels:
        if node.labels.get(key) == value:
            found.append((f"avoid.labels.{key}", {"not": [value]}, value, "policy"))
    if named(avoid.nodes, node):
        found.append(("avoid.nodes", {"not": list(avoid.nodes)}, node.name, "policy"))
    if set(avoid.jobs) & set(node.running):
        found.append(("avoid.jobs", {"not": list(avoid.jobs)}, list(node.running), "policy"))
    return found


def _power_and_age(job: JobSpec, node: NodeRecord, rules: Any) -> list[tuple[str, Any, Any, str]]:
    found: list[tuple[str, Any, Any, str]] = []
    power, level = node.power, node.power.battery_percent
    if power.on_battery and not job.battery_safe:
        found.append(("on_battery", False, True, "policy"))
    elif power.on_battery and (level is None or level < rules.power.battery_percent_min):
        found.append(("battery_percent", rules.power.battery_percent_min, level, "policy"))
    heat, limit = power.temperature_centi, rules.power.temperature_centi_max
    if heat is not None and heat > limit:
        found.append(("temperature_centi", limit, heat, "policy"))
    if node.age_ms > rules.age_ms_max and not rules.last_known:
        found.append(("age_ms", rules.age_ms_max, node.age_ms, "stale"))
    return found


def _own_filters(job: JobSpec, node: NodeRecord, rules: Any) -> list[tuple[str, Any, Any, str]]:
    verdicts = [(name, rules.filters[name](job, node)) for name in sorted(rules.filters)]
    return [(f"filter.{name}", None, why, "policy") for name, why in verdicts if why is not None]


def named(names: tuple[str, ...], node: NodeRecord) -> bool:
    """Whether a list of names and ids means this node."""
    return node.name in names or node.id in names


# --- 2. Scores: the policy's parts and the unmet wishes; lower is better -------------------------


def score_parts(job: JobSpec, node: NodeRecord, rules: Any) -> dict[str, int]:
    """Every part of a node's score."""
    return policy_parts(job, node, rules) | wish_parts(job, node, rules)


def wish_parts(job: JobSpec, node: NodeRecord, rules: Any) -> dict[str, int]:
    """Wishes weigh alike and more than any policy; a failed verification more than all of them."""
    parts = {}
    for what, is_so in _facts(job.prefer, node):
        parts[f"prefer.{what}"] = 0 if is_so else WISH
    for what, is_so in _facts(job.avoid_if_possible, node):
        parts[f"avoid_if_possible.{what}"] = WISH if is_so else 0
    parts["unverified"] = FAILED_VERIFICATION if node.verification == "failed" else 0
    if rules.policy is not None:  # Without a policy: rank alone, and what the job itself wishes.
        if rules.power.prefer_ac_power:
            parts["battery"] = WISH if node.power.on_battery else 0
        parts["relayed"] = WISH if node.network.reachability == "relayed" else 0
    return parts


def _facts(where: Where, node: NodeRecord) -> list[tuple[str, bool]]:
    facts = []
    if where.classes:
        facts.append(("class", node.node_class.name in where.classes))
    facts += [(f"labels.{key}", node.labels.get(key) == value) for key, value in where.labels]
    if where.nodes:
        facts.append(("nodes", named(where.nodes, node)))
    if where.jobs:
        facts.append(("jobs", bool(set(where.jobs) & set(node.running))))
    if where.latency_us_max is not None:
        facts.append(("latency_us", latency_us(node) <= where.latency_us_max))
    return facts


def policy_parts(job: JobSpec, node: NodeRecord, rules: Any) -> dict[str, int]:
    """What each policy measures, as its documentation says it."""
    if rules.policy is None:
        return {}
    added_mw, is_measured = added_power(job.request, node)
    left_over = worth(node.free) - worth_of_request(job.request)
    match rules.policy.name:
        case "BestFit":
            return {"waste": left_over}
        case "FirstFit":
            return {"order": int(node.id, 16) >> 208}
        case "RoundRobin":
            return {"jobs": node.jobs}
        case "PowerAware":
            return {
                "power_mw": added_mw if is_measured else 0,
                "assumed_power_mw": 0 if is_measured else added_mw,
            }
        case "LocalityAware":
            return {"latency_us": latency_us(node)}
        case "CostOptimized":
            return {"price_micro": node.price_micro_per_hour}
        case "Balanced":  # Each from 0 to 1,000.
            return {
                "load": load(job.request, node),
                "waste": min(left_over // 256, 1_000),
                "power": min(added_mw // 500, 1_000),
                "distance": min(latency_us(node) // 200, 1_000),
                "price": min(node.price_micro_per_hour // 10_000, 1_000),
                "jobs": min(node.jobs * 10, 1_000),
            }
        case "Spread":
            return {"load": load(job.request, node)}
    own = rules.policy.parts(job, node)
    return {rules.policy.name: own} if isinstance(own, int) else own


def latency_us(node: NodeRecord) -> int:
    """How far away; unknown is last."""
    measured = node.network.latency_us
    return FURTHER_THAN_ANYTHING_US if measured is None else measured


def worth(side: Resources) -> int:
    """In milli-cores: a core is 4 GiB of memory or 64 GiB of storage, a GPU is 16 cores."""
    gpus = sum(gpu.share_milli for gpu in side.gpus)
    memory, storage = side.memory_bytes // (4 * MIB), side.storage_bytes // (64 * MIB)
    return side.cpu_milli + memory + storage + 16 * gpus


def worth_of_request(request: Request) -> int:
    """The same of what a job asks for."""
    gpus = request.gpus.milli if request.gpus else 0
    memory, storage = request.memory_bytes // (4 * MIB), request.storage_bytes // (64 * MIB)
    return request.cpu_milli + memory + storage + 16 * gpus


def added_power(request: Request, node: NodeRecord) -> tuple[int, bool]:
    """The draw a job adds, in milliwatts, and whether the node told what it draws.

    The job's share of the machine (in millionths) of the span between idle and full load; where
    that is not told, of 5 W a core and 75 W a GPU.
    """
    share_ppm = worth_of_request(request) * 1_000_000 // max(worth(node.total), 1)
    idle_mw, max_mw = node.power.idle_mw, node.power.max_mw
    if idle_mw is not None and max_mw is not None:
        return max(max_mw - idle_mw, 0) * share_ppm // 1_000_000, True
    gpus = sum(gpu.share_milli for gpu in node.total.gpus)
    assumed_mw = (node.total.cpu_milli * 5_000 + gpus * 75_000) // 1_000
    return assumed_mw * share_ppm // 1_000_000, False


def load(request: Request, node: NodeRecord) -> int:
    """Thousandths in use with the job, of whichever of cores, memory, GPUs is used most."""
    total, free = node.total, node.free
    cpu = total.cpu_milli - free.cpu_milli + request.cpu_milli
    memory = (total.memory_bytes - free.memory_bytes + request.memory_bytes) // (4 * MIB)
    loads = [
        cpu * 1_000 // max(total.cpu_milli, 1),
        memory * 1_000 // max(total.memory_bytes // (4 * MIB), 1),
    ]
    if request.gpus:
        all_milli = sum(gpu.share_milli for gpu in total.gpus)
        free_milli = sum(gpu.share_milli for gpu in free.gpus)
        used = all_milli - free_milli + request.gpus.milli
        loads.append(used * 1_000 // max(all_milli, 1))
    return max(loads)


# --- 3. Rank: who comes first among equals -------------------------------------------------------


def rank_key(rank: str, job: int, node: int) -> int:
    """`xor` is the literal XOR; `even` mixes it so that every node gets the same share."""
    distance = job ^ node
    if rank == "xor":
        return distance
    x0, x1, x2, x3 = (distance >> shift & (WORDS - 1) for shift in (192, 128, 64, 0))
    x2 = (x2 + splitmix(x3)) % WORDS
    x1 = (x1 + splitmix(x2)) % WORDS
    x0 = splitmix((x0 + splitmix(x1)) % WORDS)
    return ((x0 * WORDS + x1) * WORDS + x2) * WORDS + x3


def splitmix(word: int) -> int:
    """The finaliser of SplitMix64 on word + 0x9e3779b97f4a7c15."""
    z = (word + 0x9E3779B97F4A7C15) % WORDS
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORDS
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORDS
    return z ^ (z >> 31)
