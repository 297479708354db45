#!/usr/bin/python3
"""How long the agent takes for a profile, on the cores of this machine.

    profile_time.py --agent build/release/bin/parplan-agent [--ranks 2 8]

For each number of ranks an agent that knows nothing measures all it can (a whole profile), then it
is started again: with a window of a job in which all-reduces took far longer than is stored, and
with a second model among its flags (incremental profiles). Seconds are those between the agent's
start and its event `measured`, which needs no server. More ranks than cores share cores,
so all they do takes longer than on a node that has a core or a GPU for each.

Ends with 1 where a profile took longer than it may.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = ROOT / "deploy/examples/small-gpt.model.json"
LIMIT_SECONDS = {"whole": 180, "incremental": 20}
# An agent that says nothing for so long hangs.
PATIENCE_SECONDS = 900
# How often what a budget left out is looked at again.
MAX_ROUND_COUNT = 6


def second_model(folder):
    """Another width than the example's, so that no layer of it is known."""
    model = json.loads(MODEL.read_text())
    model["model_id"] = "wider-gpt"
    for layer in model["layer_definitions"]:
        layer["hidden_size"] = 320
        if "feed_forward_size" in layer:
            layer["feed_forward_size"] = 1280
    path = folder / "wider-gpt.model.json"
    path.write_text(json.dumps(model))
    return path


def leave_slow_window(spool):
    """Leaves the times that a job saw: all-reduces of two ranks that took seconds."""
    timing = {"collective": "COLLECTIVE_ALL_REDUCE", "participant_count": 2, "rank_stride": 1,
              "message_size_bytes": 65536, "median_duration": "3s", "sample_count": 100}
    window = {"rank": 0, "step_count": 1, "median_step_duration": "4s",
              "collective_timings": [timing]}
    staged = spool / "window.new"
    staged.write_text(json.dumps(window))
    staged.rename(spool / "slow.window.json")


def measure_once(agent, folder, ranks, models):
    """Seconds from the agent's start to the end of its first measurement, and both its events."""
    command = [agent, "--server", "127.0.0.1:1", "--cluster", "bench", "--node", "n1", "--no-leases",
               "--listen", "off", "--metrics-listen", "off", "--state-dir", folder / "state",
               "--spool-dir", folder / "spool", "--ranks", ranks, "--even-if-busy"]
    for model in models:
        command += ["--model", model]
    events = {}
    start = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
    watchdog.start()
    try:
        for line in process.stderr:
            event = json.loads(line) if line.startswith("{") else {}
            events.setdefault(event.get("event"), event)
            if event.get("event") in ("measured", "measurement failed"):
                break
        seconds = time.monotonic() - start
    finally:
        watchdog.cancel()
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        process.wait()
    if "measured" not in events:
        raise SystemExit(f"profile_time: the agent measured nothing: {events}")
    return seconds, events["measuring"], events["measured"]


def measure_all(agent, folder, ranks, why, models):
    """Measures, and what a budget left out again; prints a line each. Whether one was late."""
    is_late = False
    for round_count in range(MAX_ROUND_COUNT):
        seconds, asked, got = measure_once(agent, folder, ranks, models)
        # Each size is an entry of the embedding, of the layer and of the head.
        done = [int(got["collective_timings"]), int(got["layer_timings"]) // 3]
        wanted = [int(asked["collectives"]), int(asked["layer_sizes"])]
        limit = LIMIT_SECONDS[got["kind"]]
        is_late = is_late or seconds > limit
        print(f"{ranks:>5}  {got['kind']:<12} {'what was left out' if round_count else why:<24}"
              f"{f'{done[0]} of {wanted[0]}':>13}{f'{done[1]} of {wanted[1]}':>17}{seconds:9.1f}"
              f"   {'within' if seconds <= limit else 'LONGER than'} {limit} s", flush=True)
        # An agent that could measure nothing of the rest does not try again.
        if done == wanted or (round_count and not any(done)):
            break
    return is_late


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--agent", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 8])
    flags = parser.parse_args()
    print(f"{'ranks':>5}  {'profile':<12} {'why':<24}{'collectives':>13}{'sizes of layers':>17}"
          f"{'seconds':>9}", flush=True)
    is_late = False
    for ranks in flags.ranks:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "spool").mkdir()
            is_late |= measure_all(flags.agent, folder, ranks, "nothing is known", [MODEL])
            leave_slow_window(folder / "spool")
            is_late |= measure_all(flags.agent, folder, ranks, "all-reduces are slower", [MODEL])
            is_late |= measure_all(flags.agent, folder, ranks, "a model is new",
                                   [MODEL, second_model(folder)])
    return 1 if is_late else 0


if __name__ == "__main__":
    sys.exit(main())
