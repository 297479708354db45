"""The common parts of the cases: the site they run on, and jobs."""
import datetime
import re
import types
import unittest

# Set by the program: its flags, the site, and lines to print in the end.
WORLD = types.SimpleNamespace(flags=None, site=None, figures=[])
# Values of Execution.State.
SUCCEEDED, FAILED = 2, 3


def variables(path):
    """The lines of `env`."""
    return dict(line.split("=", 1) for line in path.read_text().split("\n") if "=" in line)


def seconds_of(line):
    """Returns the seconds that a hook took, by its line in the log."""
    return float(re.search(r"seconds=(\S+)", line).group(1))


def moment(line):
    """When a line of the log was written, in seconds since 1970."""
    return datetime.datetime.fromisoformat(line.split(" ", 1)[0].replace("Z", "+00:00")).timestamp()


class SlurmTest(unittest.TestCase):
    def setUp(self):
        WORLD.site.configure()
        self.slurm = WORLD.site.slurm
        self.out = WORLD.site.folder / "out"
        # Whatever fails: the next case finds free nodes.
        self.addCleanup(self.slurm.run, "scancel", "--user=root", check=False)

    def expect_end(self, job, state):
        self.assertEqual(self.slurm.wait_for_end(job), state,
                         f"{self.slurm.output(job)}\n{self.hooks(job)}")

    def hooks(self, job):
        return "\n".join(line for hook in ("slurm-prolog", "slurm-node-prolog", "slurm-epilog",
                                           "slurm-node-epilog")
                         for line in WORLD.site.log_lines(hook, job))

    def expect_all_nodes_fit(self):
        for line in self.slurm.node_states():
            self.assertNotIn("drain", line)
            self.assertNotIn("down", line)

    def train(self, steps):
        """A script that trains on two nodes."""
        return (f"srun --ntasks-per-node=1 '{WORLD.flags.exec}' --steps {steps} --window-steps 2 "
                f"--server {WORLD.site.server.address} --results $SLURM_JOB_ID.results.json\n")

    def submit_training(self, steps):
        return self.slurm.submit(self.train(steps), "--nodes=2", "--ntasks-per-node=1",
                                 "--gres=core:here:1", *WORLD.site.plan_flags())

    def start_again(self, job):
        """Slurm lets a job that went back to the queue wait a while."""
        self.slurm.wait_for_state(job, "PENDING", "RUNNING", "CONFIGURING", "COMPLETED")
        self.slurm.run("scontrol", "release", job, check=False)
        self.slurm.run("scontrol", "update", f"jobid={job}", "starttime=now", check=False)
