"""Every operation of the HTTP interface against schemathesis, with a real agent behind it.

    python -m scripts.fuzz_http --seconds 120 --seed 7

Lives here: what is behind the interface, and where all of it runs. Never here: what is asked.
Invariant: nothing but a folder of its own can be written, and no process is left, for what is made
up is submitted as jobs too: it has processes, a network and mounts of its own, which needs root.
"""

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from scripts.pythons import cache
from tests.agent_lab import AgentLab

PACKAGES: Final = ("schemathesis==4.32.5", "msgpack==1.2.4")
# Much that its schema lets pass is refused with 400, in words; that is no mistake.
CHECKS: Final = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance",
    "response_schema_conformance", "unsupported_method",
)  # fmt: skip
ONCE: Final = ("down",)  # Nobody answers after it.
# Bytes are base64 in the schema, and bytes in msgpack.
HOOKS: Final = """
import base64, msgpack, schemathesis

def packed(value):
    if isinstance(value, dict):
        return {str(key): packed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [packed(one) for one in value]
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            return value.encode(errors="surrogatepass")
    return value

@schemathesis.serializer("application/msgpack")
def into_msgpack(ctx, value):
    try:
        return msgpack.packb(packed(value))
    except (OverflowError, ValueError):
        return bytes([0xC1])

@schemathesis.deserializer("application/msgpack")
def from_msgpack(ctx, response):
    return msgpack.unpackb(response.content)
"""
_ALONE: Final = """
ip link set lo up && mount --make-rprivate / && mount -t tmpfs tmpfs "$TMPDIR" &&
mount -o remount,bind,ro / && exec "$@"
"""


def installed() -> Path:
    """Its command, in an environment outside of the checkout; made if it is not there."""
    folder = cache() / "schemathesis"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *PACKAGES], check=True)
        stamp.write_text(" ".join(PACKAGES))
    return folder / "bin" / "schemathesis"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="For making up more and more.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="One operation, by its id.")
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.inside:
        return _inside(told)
    command = [
        sys.executable,
        "-m",
        "scripts.fuzz_http",
        *sys.argv[1:],
        "--inside",
        str(installed()),
    ]
    spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            ["unshare", *spaces, "--", "sh", "-c", _ALONE, "sh", *command],
            check=False,
            env={**os.environ, "TMPDIR": folder},
        )
    return done.returncode


def _inside(told: argparse.Namespace) -> int:
    with contextlib.closing(AgentLab()) as lab:
        lab.up()
        pid = lab.pid()
        known = _peopled(lab)
        port = _relayed(str(lab.home / "agent.sock"))
        schema = _with_examples(json.loads(lab.http("GET", "/openapi.json")[1]), known)
        (lab.root / "openapi.json").write_text(json.dumps(schema))
        (lab.root / "hooks.py").write_text(HOOKS)
        env = {**os.environ, "HOME": str(lab.root), "SCHEMATHESIS_HOOKS": "hooks"}
        env["PYTHONPATH"] = str(lab.root)
        code = subprocess.run(_command(told, port), cwd=lab.root, env=env, check=False).returncode
        if lab.pid() != pid or "Traceback" in lab.log:
            print(f"the agent ended, or told of a mistake of its own:\n{lab.log[-20_000:]}")
            code = 1
        return code


def _command(told: argparse.Namespace, port: int) -> list[str]:
    """Until the time is over, all phases."""
    left_out = [word for name in ONCE for word in ("--exclude-operation-id", name)]
    return [
        told.inside, "run", "openapi.json", "--url", f"http://127.0.0.1:{port}",
        "--checks", ",".join(CHECKS), "--max-time", str(told.seconds), "--seed", str(told.seed),
        "--request-timeout", "20", "--suppress-health-check", "all", "--warnings", "off",
        "--continue-on-failure", *(("--include-operation-id", told.only) if told.only else left_out),
    ]  # fmt: skip


def _peopled(lab: AgentLab) -> dict[str, list[str]]:
    """Jobs of several kinds, and a mesh: values for the parameters of paths."""
    lab("ticket")
    names = ("ended", "array", "long")
    lab("run", "--name", "ended", "echo", "told")
    lab("run", "--name", "array", "--array", "0-9", "--", "sh", "-c", "exit $GRID_ARRAY_INDEX")
    lab.detached("--name", "long", "sleep", "1000")
    tickets = [ticket["id"] for ticket in lab.json("ticket", "list")]
    return {"job": [*names], "node": ["lab"], "ticket": tickets, "map": ["0" * 64], "name": ["b"]}


def _with_examples(schema: dict[str, Any], known: dict[str, list[str]]) -> dict[str, Any]:
    """The document, with words that mean something here; streams without end are asked to end."""
    _loosened(schema)
    for operations in schema["paths"].values():
        for operation in operations.values():
            for one in operation["parameters"]:
                values = known.get(one["name"]) if one["in"] == "path" else None
                if values:
                    one["examples"] = {value: {"value": value} for value in values}
                if one["name"] == "follow":
                    one["schema"], one["required"] = {"enum": ["0"]}, True
                if one["name"].startswith("timeout"):
                    one["schema"], one["required"] = {"enum": ["0", "1", "200", "x", ""]}, True
    return schema


def _loosened(schema: Any) -> None:
    """Rows of unlike things: it takes what stands here for JSON Schema 4, and refuses it then."""
    if isinstance(schema, dict):
        if "prefixItems" in schema:
            schema["items"] = {"anyOf": schema.pop("prefixItems")}
        for value in schema.values():
            _loosened(value)
    elif isinstance(schema, list):
        for value in schema:
            _loosened(value)


def _relayed(path: str) -> int:
    """A port here that leads to a unix socket, which is all that an agent has."""
    ready: list[int] = []
    is_there = threading.Event()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while part := await reader.read(1 << 16):
                writer.write(part)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        theirs = await asyncio.open_unix_connection(path)
        await asyncio.gather(pour(reader, theirs[1]), pour(theirs[0], writer))

    async def serve() -> None:
        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        ready.append(server.sockets[0].getsockname()[1])
        is_there.set()
        await server.serve_forever()

    threading.Thread(target=lambda: asyncio.run(serve()), daemon=True).start()
    assert is_there.wait(10)
    return ready[0]


if __name__ == "__main__":
    sys.exit(main())
