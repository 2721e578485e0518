"""`grid init`: a configuration to begin with, every key commented."""

from pathlib import Path

import click

from distributed_grid.errors import BadInput

SAMPLE = """\
# The configuration of this node. Everything has a default: lines that begin with '#' show it.
# Check this file with: grid config check
# See every value, and where it came from, with: grid config show

node:
  # The name of this machine in lists. Default: its host name.
  # name: workbench

  # Labels that jobs may require or prefer.
  labels: {}
  #   zone: home
  #   room: cellar

  # Countable things that only you know of; jobs ask with --resource tpu=1.
  resources: {}
  #   tpu: 4
  #   "licence:matlab": 2

  # What an hour of this machine costs, and what it draws, in watts: for the policies CostOptimized
  # and PowerAware.
  # price_per_hour: 0
  # watts_idle: 60
  # watts_max: 350

jobs:
  # Kept of each output stream of a job; the newest stays.
  # log_bytes: 64MiB

  # From asking a job to end until it is killed.
  # grace: 10s

  # Finished jobs that can still be looked at.
  # finished_max: 10000

  # Jobs that may wait at once; an array counts as one.
  # queue_max: 100000

http:
  # The largest request that the local API takes.
  # request_bytes_max: 32MiB

logging:
  # debug, info, warning or error
  level: info
  # text or json
  format: text

# Hardware that is not there, for demos and tests. It is granted, never oversold, and marked.
# pretend: {cpus: 16, memory: 64GiB, gpus: [{model: RTX4090, count: 2}]}

# Lending to others what is idle: docs/concepts/lending.md tells what each word means.
resource_sharing:
  enabled: true
  # offload_only, share_and_offload or dynamic_balancing
  # mode: dynamic_balancing
  # conservative, balanced, aggressive or predictive
  # policy: balanced
  check_interval: 60  # seconds
  offer_expiry: 300  # seconds
  max_offers_per_node: 5
  # Between two looks while something is lent; in seconds.
  # monitoring_interval_seconds: 10
  # A loan ends after so long. Default: when the job ends.
  # allocation_timeout_minutes: 10
  thresholds:
    gpu_utilization_max: 20.0  # a GPU is lent below 20 % utilisation
    gpu_memory_min_mb: 1024.0  # and with at least 1 GB of its memory free
    memory_percent_max: 50.0  # memory is lent below 50 % in use
    memory_min_gb: 2.0  # and with more than 2 GB free
    cpu_percent_max: 30.0  # cores are lent below 30 % utilisation
    cpu_min_cores: 1.0  # and with more than one free
    # Your own use above the high number makes borrowed work give way, until below the low one.
    # cpu_pressure_high: 0.8
    # cpu_pressure_low: 0.3
    # memory_pressure_high: 0.8
    # memory_pressure_low: 0.3
    # gpu_pressure_high: 0.8
    # gpu_pressure_low: 0.3
  # Never lent, whatever is idle.
  reserve:
    # cpus: 0
    # memory: 1GiB
    # gpus: 0
  # When lending is open, local time; `days` are those on which it begins. Default: always.
  # hours: "22:00-07:00"
  # days: mon-fri
  # Lent on battery from this level; 101: only on mains.
  # battery_min_percent: 101
  # Nothing is lent from this temperature, in degrees Celsius.
  # temperature_max: 85
  # So long no key and no terminal was touched. Default: as the policy has it.
  # quiet: 2m
  # What borrowed work does when you come back: suspend, stop or ignore.
  # yield: suspend
  # Suspended for so long it is stopped and waits again. Default: as the policy has it.
  # suspended_max: 10m
  # May borrowers preempt each other, and may borrowed work refuse to give way?
  # allow_urgent: false
  # allow_no_preempt: false

# Who gets how much when not everybody can run at once; whoever is not named weighs 1.
fair_share:
  # users: {}
  # projects: {}
  # Each such time of waiting lifts a job one class.
  # ageing: 1h

# How this machine meets others, once it is in a mesh. Nothing needs to be set.
mesh:
  # An address of this machine, a port, or both. Default: every address, a free port that is kept.
  # listen: 0.0.0.0:7946
  # Told to others beside the addresses that are found: a forwarded port, a name that is looked up.
  # advertise: [home.example.org:7946]
  # A relay of your own. Default: none; nobody else's is ever used.
  # relay: https://relay.example.org
  # hybrid, or full: everybody holds a connection to everybody
  # topology: hybrid
  # lan notices a dead machine within 3 seconds; wan, for laptops and far networks, within 15
  # preset: lan
  # Connections held at once, and how long one may take to come about.
  # max_connections_per_node: 50
  # connection_timeout: 5s
  # One to a machine that is no neighbour is closed after so long in silence.
  # idle_connection: 5m
  # Networks that may knock, and that may not; what is denied stays out. Default: all may.
  # allow: [192.168.0.0/16]
  # deny: [192.168.7.0/24]
  # Let others show that they have what they say they have.
  # verify_capabilities: true
  # Between two rounds of telling the neighbours what is new.
  # gossip_interval: 200ms
  # On battery below this level, and above this temperature, your own work runs elsewhere if it can.
  # battery_threshold: 20
  # thermal_limit_celsius: 85
  # Among machines that suit a job equally well, those on mains come first.
  # prefer_ac_power: true
"""


@click.command("init")
@click.argument("file", default="cluster_config.yaml", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="Overwrite FILE without asking.")
@click.pass_context
def command(ctx: click.Context, *, file: str, force: bool) -> None:
    """Write a commented configuration to FILE (cluster_config.yaml unless told)."""
    path = Path(file)
    if path.exists() and not force and not _may_overwrite(file):
        click.echo(f"grid: {file} stays as it is; --force overwrites it", err=True)
        ctx.exit(1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SAMPLE, encoding="utf-8")
    except OSError as error:
        raise BadInput(
            file,
            path="$",
            problem=f"cannot be written: {error.strerror}",
            remedy="Choose a place where you may write",
        ) from None
    click.echo(f"wrote {file}; check it with: grid config check {file}", err=True)


def _may_overwrite(file: str) -> bool:
    try:
        return click.confirm(f"{file} exists. Overwrite it?", err=True)
    except click.Abort:  # Nobody is there to answer.
        click.echo(err=True)
        return False
