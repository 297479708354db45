"""Fleet: agents, what they measured, and what is lent to them."""
from parts import (BLUE, CLUSTER, GREEN, NODE, RED, YELLOW, dashboard, query, rate_by, stat, steps,
                   timeseries)

IN = 'cluster=~"$cluster"'
AGENT = 'cluster=~"$cluster", instance=~"$node"'
DAY = 86400
AGE = steps(GREEN, (8 * DAY, YELLOW), (14 * DAY, RED))


def build():
    now = ("At a glance", [
        stat("Agents connected", "Agents that a server hears, by cluster.", "short",
             query(f"sum by (cluster) (parplan_agents_connected{{{IN}}})", "{{cluster}}"),
             width=5, decimals=0, names=True, thresholds=steps(RED, (1, GREEN))),
        stat("Last heard", "Since the last sign of life of any agent of the cluster; agents give "
             "one every 15 s.", "s",
             query("time() - max by (cluster) "
                   f"(parplan_agent_last_seen_timestamp_seconds{{{IN}}})", "{{cluster}}"),
             width=5, decimals=0, names=True,
             thresholds=steps(GREEN, (60, YELLOW), (300, RED))),
        stat("Age of measurements", "Of the newest measurement of the kind of node that was not "
             "measured for longest. Agents measure once a week.", "s",
             query("time() - max by (cluster) "
                   f"(parplan_profile_measurement_timestamp_seconds{{{IN}}})", "{{cluster}}"),
             width=5, decimals=1, names=True, thresholds=AGE),
        stat("Nodes that drift", "Agents whose jobs see other links than were measured.", "short",
             query(f"count(parplan_agent_drifted_shapes{{{AGENT}}} > 0) or vector(0)"),
             width=3, decimals=0, thresholds=steps(GREEN, (1, YELLOW))),
        stat("Profiles waiting", "Profiles in the agents' queues that the server has not taken "
             "yet.", "short",
             query(f"sum(parplan_agent_upload_queue_length{{{AGENT}}})"), width=3, decimals=0,
             thresholds=steps(GREEN, (1, YELLOW), (10, RED))),
        stat("Leases", "Leases of nodes that go on now, over all clusters.", "short",
             query("sum(parplan_leases_active)"), width=3, decimals=0)])
    agents = ("Agents", [
        timeseries("Agents connected", "By cluster. A step down is a node that is gone.", "short",
                   query(f"sum by (cluster) (parplan_agents_connected{{{IN}}})", "{{cluster}}"),
                   least=0, decimals=0),
        timeseries("Age of each node's measurement", "Since the agent's last measurement that was "
                   "done.", "s",
                   query("time() - (parplan_agent_last_measurement_timestamp_seconds"
                         f"{{{AGENT}}} > 0)", "{{instance}}"), least=0, thresholds=AGE),
        timeseries("Measurements", "That ended, by result. `busy` were put off because a job ran.",
                   "ops",
                   query(rate_by("kind, result", "parplan_agent_measurements_total", AGENT),
                         "{{kind}}, {{result}}"), least=0, stacked=True),
        timeseries("Time of a measurement", "What the last one of each node took.", "s",
                   query("parplan_agent_last_measurement_duration_seconds"
                         f"{{{AGENT}}} > 0", "{{instance}}"), least=0),
        timeseries("Profiles on their way", "In each agent's queue.", "short",
                   query(f"parplan_agent_upload_queue_length{{{AGENT}}}", "{{instance}}"),
                   least=0, decimals=0),
        timeseries("Attempts to bring a profile", "By result. `failed` is tried again, `refused` "
                   "never will be taken.", "ops",
                   query(rate_by("result", "parplan_agent_uploads_total", AGENT), "{{result}}"),
                   least=0, stacked=True)])
    links = ("Links", [
        timeseries("Bus bandwidth by tier", "What plans rest on: bus bandwidth of large messages, "
                   "of the slowest kind of node.", "Bps",
                   query("min by (cluster, tier, collective) "
                         f"(parplan_profile_bus_bandwidth_bytes_per_second{{{IN}}})",
                         "{{cluster}}, {{tier}}, {{collective}}"),
                   width=24, height=9, least=0),
        timeseries("Age of measurements", "Of the kind of node that was not measured for longest, "
                   "by cluster.", "s",
                   query("time() - max by (cluster) "
                         f"(parplan_profile_measurement_timestamp_seconds{{{IN}}})",
                         "{{cluster}}"), least=0, thresholds=AGE),
        timeseries("Drift of links", "Largest ratio of collectives' times in jobs to those "
                   "measured, or its inverse, by node. 1 is no drift.", "none",
                   query(f"parplan_agent_drift_ratio{{{AGENT}}}", "{{instance}}"), least=1,
                   decimals=2, thresholds=steps(GREEN, (1.2, YELLOW), (1.5, RED))),
        timeseries("Shapes out of range", "Shapes of collectives that an agent wants to measure "
                   "again.", "short",
                   query(f"parplan_agent_drifted_shapes{{{AGENT}}}", "{{instance}}"), least=0,
                   decimals=0),
        timeseries("Times seen in jobs", "Times of collectives that jobs left for the agents.",
                   "ops", query(rate_by("", "parplan_agent_passive_timings_total", AGENT),
                                "timings"), least=0)])
    leases = ("Leases of nodes", [
        timeseries("Leases ended", "By outcome. All clusters.", "ops",
                   query(rate_by("outcome", "parplan_leases_ended_total", ""), "{{outcome}}"),
                   least=0, stacked=True),
        timeseries("Leases refused", "Nodes that were not lent, by cause. All clusters.", "ops",
                   query(rate_by("cause", "parplan_lease_refusals_total", ""), "{{cause}}"),
                   least=0, stacked=True)])
    uploads = ("Profiles at the server", [
        timeseries("Uploads", "By result: stored, or why refused. All clusters.", "ops",
                   query(rate_by("result", "parplan_uploads_total", "") + " > 0", "{{result}}"),
                   least=0, stacked=True),
        timeseries("Memory of agents", "Resident, of each agent.", "bytes",
                   query(f"process_resident_memory_bytes{{{AGENT}}}", "{{instance}}"), least=0,
                   thresholds=steps(BLUE))])
    return dashboard("fleet", "parplan / Fleet", "Agents, what they measured, and what is lent to "
                     "them.", [CLUSTER, NODE], [now, agents, links, leases, uploads])
