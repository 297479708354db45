"""A Slurm of four nodes on this machine: slurmctld, slurmd and munged of Debian, in a folder of
their own. Each node has eight devices that are none but have the numbers of GPUs, and a few cores
to train on. Needs root: Slurm's GRES are device files, and slurmd becomes the users of jobs."""
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
from machine import PATIENCE_SECONDS, die_with_parent, free_ports, wait_for  # noqa: E402

NODE_COUNT = 4
TOOLS = ("/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/sbatch")


def why_not():
    """Why there can be no cluster here; nothing where there can."""
    if os.geteuid() != 0:
        return "Slurm's daemons want root here"
    missing = [tool for tool in TOOLS if not os.path.exists(tool)]
    return f"not installed: {', '.join(missing)}" if missing else ""


class Cluster:
    """Ends at the latest with the `with` block."""

    def __init__(self, folder, plugin):
        self.folder = pathlib.Path(folder)
        self.plugin = plugin
        # More lines of slurm.conf, and who runs the controller.
        self.settings = ""
        self.user = "root"
        self.daemons = []
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "etc/slurm.conf")}

    def __enter__(self):
        for name in ("etc", "state", "spool", "log", "run", "dev", "munge", "out", "node"):
            (self.folder / name).mkdir(exist_ok=True)
        for name in ("state", "log", "run"):
            shutil.chown(self.folder / name, self.user)
        for number in range(8):
            path = self.folder / f"dev/nvidia{number}"
            if not path.exists():
                os.mknod(path, 0o666 | 0o020000, os.makedev(1, 3))
        self._start_munge()
        # Between the choice of a port and its use another may take it.
        for attempt in range(3):
            self._configure()
            self._start_slurm()
            try:
                self._wait_until_idle()
                return self
            except AssertionError:
                if attempt == 2:
                    self.stop()
                    raise
                self._stop_daemons(self.daemons[1:])
                self.daemons = self.daemons[:1]
        return self

    def __exit__(self, *unused):
        self.stop()

    def _spawn(self, *command):
        with open(self.folder / "log/daemons.log", "ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment,
                preexec_fn=die_with_parent, start_new_session=True)
        self.daemons.append(process)

    def _start_munge(self):
        key = self.folder / "munge/key"
        key.write_bytes(os.urandom(1024))
        (self.folder / "munge").chmod(0o700)
        key.chmod(0o400)
        self.socket = self.folder / "run/munge.sock"
        self._spawn("/usr/sbin/munged", "--foreground", "--force", f"--socket={self.socket}",
                    f"--key-file={key}", f"--pid-file={self.folder}/run/munged.pid",
                    f"--seed-file={self.folder}/munge/seed",
                    f"--log-file={self.folder}/log/munged.log")
        wait_for("munged", self.socket.exists)

    def _configure(self):
        host = socket.gethostname()
        ports = free_ports(1 + NODE_COUNT)
        nodes = "\n".join(
            f"NodeName=n{k} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[k]} CPUs=16 "
            f"Sockets=2 CoresPerSocket=8 ThreadsPerCore=1 RealMemory=64000 "
            f"Gres=gpu:{'a100' if k == NODE_COUNT else 'h200'}:8,core:here:16 State=UNKNOWN"
            for k in range(1, NODE_COUNT + 1))
        (self.folder / "etc/slurm.conf").write_text(f"""ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmUser={self.user}
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.socket}
CryptoType=crypto/munge
SlurmctldPort={ports[0]}
SlurmctldPidFile={self.folder}/run/slurmctld.pid
SlurmdPidFile={self.folder}/run/slurmd.%n.pid
SlurmdSpoolDir={self.folder}/spool/%n
StateSaveLocation={self.folder}/state
SlurmctldLogFile={self.folder}/log/slurmctld.log
SlurmdLogFile={self.folder}/log/slurmd.%n.log
SlurmctldDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
AccountingStoreFlags=job_comment
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,bf_interval=5,sched_interval=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
GresTypes=gpu,core
PrologFlags=Alloc
PlugStackConfig={self.folder}/etc/plugstack.conf
SlurmctldTimeout=600
SlurmdTimeout=600
MessageTimeout=60
BatchStartTimeout=600
InactiveLimit=0
KillWait=2
MinJobAge=3600
{self.settings}
{nodes}
PartitionName=all Nodes=n[1-{NODE_COUNT}] Default=YES MaxTime=INFINITE State=UP
""")
        (self.folder / "etc/gres.conf").write_text(
            f"NodeName=n[1-{NODE_COUNT - 1}] Name=gpu Type=h200 File={self.folder}/dev/nvidia[0-7]\n"
            f"NodeName=n{NODE_COUNT} Name=gpu Type=a100 File={self.folder}/dev/nvidia[0-7]\n"
            f"NodeName=n[1-{NODE_COUNT}] Name=core Type=here Count=16\n")
        (self.folder / "etc/plugstack.conf").write_text(
            f"required {self.plugin} node_dir={self.folder}/node/%n\n")

    def _start_slurm(self):
        conf = self.environment["SLURM_CONF"]
        self._spawn("/usr/sbin/slurmctld", "-D", "-c", "-f", conf)
        for k in range(1, NODE_COUNT + 1):
            self._spawn("/usr/sbin/slurmd", "-D", "-N", f"n{k}", "-f", conf)

    def _wait_until_idle(self):
        def idle():
            dead = [one.args[0] for one in self.daemons if one.poll() is not None]
            if dead:
                raise AssertionError(f"ended at once: {dead}; see {self.folder}/log")
            done = self.run("sinfo", "-h", "-t", "idle", "-o", "%D", check=False)
            return done.stdout.strip() == str(NODE_COUNT)
        wait_for("idle nodes", idle)

    def _stop_daemons(self, daemons):
        for process in daemons:
            if process.poll() is None:
                process.terminate()
        for process in daemons:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def stop(self):
        if self.daemons and all(one.poll() is None for one in self.daemons):
            self.run("scancel", "--full", "--signal=KILL", "--state=RUNNING", check=False)
            self.run("scancel", "--user=root", check=False)
            try:
                wait_for("the queue to empty", lambda: not self.run(
                    "squeue", "-h", check=False).stdout.strip(), patience=60)
            except AssertionError:
                pass
        # The controller first: nodes then start nothing more.
        self._stop_daemons(list(reversed(self.daemons)))
        self.daemons = []
        for pid in self._left_behind():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _left_behind(self):
        """Processes with this cluster's configuration in their environment, but this one."""
        mark = f"SLURM_CONF={self.folder}/etc/slurm.conf".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def run(self, tool, *arguments, check=True, **variables):
        done = subprocess.run(
            [f"/usr/bin/{tool}", *map(str, arguments)], capture_output=True, text=True,
            cwd=self.folder / "out", env={**self.environment, **variables},
            timeout=PATIENCE_SECONDS, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{tool} {arguments}: {done.stdout}{done.stderr}")
        return done

    def try_submit(self, script, *flags, **variables):
        """sbatch's answer. The script's output goes to out/JOB.out."""
        path = self.folder / "out/script.sh"
        path.write_text("#!/bin/sh\n" + script)
        return self.run("sbatch", "--parsable", "--output=%j.out", *flags, path, check=False,
                        **variables)

    def submit(self, script, *flags, **variables):
        done = self.try_submit(script, *flags, **variables)
        if done.returncode != 0:
            raise AssertionError(f"sbatch {flags}: {done.stderr}")
        return done.stdout.strip()

    def field(self, job, name):
        """Returns a field of `scontrol show job`; the rest of the line for comments."""
        text = self.run("scontrol", "show", "job", job).stdout
        pattern = rf"{name}=(.*)" if name.endswith("Comment") else rf"\b{name}=(\S*)"
        found = re.search(pattern, text)
        return found.group(1) if found else ""

    def state(self, job):
        return self.field(job, "JobState")

    def wait_for_state(self, job, *states):
        return wait_for(f"job {job} to be {states}, now {self.state(job)}",
                        lambda: (lambda now: now if now in states else "")(self.state(job)))

    def wait_for_end(self, job):
        return self.wait_for_state(job, "COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT")

    def output(self, job):
        path = self.folder / f"out/{job}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def node_states(self):
        return self.run("sinfo", "-h", "-N", "-o", "%N %T").stdout.split("\n")[:-1]
