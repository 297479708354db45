#!/usr/bin/python3
"""Runs the commands of README.md, in order, as they stand but for two things: the
programs are those of --bin, and the ports of the server are free ones.

    readme_test.py --source FOLDER --bin FOLDER

Works in a copy of what the commands read, so nothing is left behind.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
from machine import free_ports  # noqa: E402

# Waits for what README gives a second: until somebody listens.
WAIT = """for attempt in $(seq 1 300); do
  (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.1
done"""


def fail(message):
    sys.exit(f"FAILED: {message}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    flags = parser.parse_args()
    for program in ("planctl", "parplan-server"):
        if not (flags.bin / program).is_file():
            print(f"skipped: {program} is not built")
            return 77

    readme = (flags.source / "README.md").read_text(encoding="utf-8")
    if len(readme.splitlines()) > 150:
        fail("README.md has more than 150 lines")
    blocks = re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    if len(blocks) != 1:
        fail(f"README.md has {len(blocks)} blocks of sh, and one was expected")
    script = blocks[0]
    commands = re.findall(r"^\s*(?:planctl|parplan-server|tests/\S+) ", script, re.MULTILINE)
    if len(commands) != 14:
        fail(f"README.md promises fourteen commands and has {len(commands)}")
    port, metrics_port = free_ports(2)
    for old, new in (("$PWD/build/release/bin", str(flags.bin.resolve())),
                     ("127.0.0.1:9477", f"127.0.0.1:{port}"),
                     ("127.0.0.1:9478", f"127.0.0.1:{metrics_port}"),
                     ("\nsleep 1\n", f"\n{WAIT.format(port=port)}\n")):
        if old not in script:
            fail(f"README.md does not say {old!r} any more; this test replaces it")
        script = script.replace(old, new)

    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for part in ("deploy/examples", "tests/integration", "tests/clients/import/data"):
            shutil.copytree(flags.source / part, root / part)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c",
             f"trap 'kill $(jobs -p) 2>/dev/null' EXIT\n{script}"],
            cwd=root, env={"PATH": "/usr/bin:/bin", "HOME": folder,
                           "PARPLAN_SERVER": f"127.0.0.1:{port}"},
            capture_output=True, text=True, timeout=100, check=False)
        written = {path.name for path in (root / "build" / "try").iterdir()}
        log = root / "build" / "try" / "server.log"
        server_log = log.read_text() if log.exists() else ""
    if done.returncode != 0:
        fail(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}\n{server_log}")
    for name in ("plan.json", "plan.html", "llama.model.json", "plan.dsse.json", "megatron"):
        if name not in written:
            fail(f"{name} was not written: {sorted(written)}")
    for words in ("compared with plain strategies", "what to ask for", "valid: clusters/",
                  "signed by"):
        if words not in done.stdout:
            fail(f"nothing said `{words}`:\n{done.stdout}")
    # The same question prints here the lines that README shows of the demo.
    shown = re.search(r"^```\n(answer .*?)^```$", readme, re.MULTILINE | re.DOTALL).group(1)
    for line in shown.splitlines():
        if line and line not in done.stdout:
            fail(f"README.md shows a line that is not printed: {line}\n{done.stdout}")
    print(f"{len(commands)} commands of README.md work")
    return 0


if __name__ == "__main__":
    sys.exit(main())
