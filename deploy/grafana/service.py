"""Service: calls, queue, store and process of the servers."""
from parts import (BLUE, GREEN, INSTANCE, RED, YELLOW, dashboard, quantile, quantiles, query,
                   rate_by, stat, steps, timeseries)

SERVER = 'instance=~"$instance"'
FAILURES = 'code=~"UNKNOWN|INTERNAL|UNAVAILABLE|DATA_LOSS"'
DAY = 86400


def build():
    now = ("At a glance", [
        stat("Servers", "Replicas that tell metrics, by release.", "short",
             query('count by (version) (parplan_build_info{program="parplan-server", '
                   f"{SERVER}}})", "{{version}}"), decimals=0, names=True),
        stat("Calls", "Answered per second.", "reqps",
             query(rate_by("", "parplan_requests_total", SERVER)), decimals=1),
        stat("Failing", "Share of calls that fail through no fault of their callers.",
             "percentunit",
             query(f'(sum(rate(parplan_requests_total{{{SERVER}, {FAILURES}}}'
                   "[$__rate_interval])) or vector(0)) / "
                   f'{rate_by("", "parplan_requests_total", SERVER)}'),
             decimals=2, thresholds=steps(GREEN, (0.01, YELLOW), (0.05, RED))),
        stat("Queue", "Share of the queue of searches that is taken, of the fullest replica.",
             "percentunit",
             query(f"max(parplan_searches_waiting{{{SERVER}}} / "
                   f"parplan_search_queue_limit{{{SERVER}}})"), decimals=0,
             thresholds=steps(GREEN, (0.5, YELLOW), (0.8, RED))),
        stat("Certificates end in", "The first of the servers' certificates and the CAs they "
             "trust.", "s",
             query("min(parplan_tls_certificate_expiry_timestamp_seconds"
                   f"{{{SERVER}}}) - time()"), empty="no TLS", decimals=1,
             thresholds=steps(RED, (2 * DAY, YELLOW), (14 * DAY, GREEN))),
        stat("Signing keys end in", "The last key of the replica whose keys end first. A new one "
             "is made 7 days before.", "s",
             query(f"min(parplan_signing_key_expiry_timestamp_seconds{{{SERVER}}} > 0) - time()"),
             decimals=1, thresholds=steps(RED, (5 * DAY, YELLOW), (6.9 * DAY, GREEN)))])
    calls = ("Calls", [
        timeseries("Calls by method", "Answered per second.", "reqps",
                   query(rate_by("method", "parplan_requests_total", SERVER), "{{method}}"),
                   least=0, stacked=True),
        timeseries("Calls by code", "By gRPC status.", "reqps",
                   query(rate_by("code", "parplan_requests_total", SERVER), "{{code}}"), least=0,
                   stacked=True),
        timeseries("Time of calls", "99 % of the calls of a method are answered within it. Streams "
                   "of agents last as long as the agents.", "s",
                   query(quantile(0.99, "parplan_request_duration_seconds",
                                  f'{SERVER}, method!="ConnectAgent"', "method"), "{{method}}"),
                   least=0, log=True),
        timeseries("Calls in flight", "That wait for their answer now.", "short",
                   query(f"sum by (method) (parplan_requests_in_flight{{{SERVER}}}) > 0",
                         "{{method}}"), least=0, decimals=0)])
    queue = ("Queue of searches", [
        timeseries("Searches waiting", "By replica, and what may wait: beyond it questions are "
                   "refused with QUEUE_FULL.", "short",
                   query(f"parplan_searches_waiting{{{SERVER}}}", "{{instance}}"),
                   query(f"min(parplan_search_queue_limit{{{SERVER}}})", "limit"), least=0,
                   decimals=0),
        timeseries("Searches running", "By replica, and how many may run at once.", "short",
                   query(f"parplan_searches_running{{{SERVER}}}", "{{instance}}"),
                   query(f"min(parplan_search_workers{{{SERVER}}})", "workers"), least=0,
                   decimals=0),
        timeseries("Wait in the queue", "From a question to the begin of its search.", "s",
                   *quantiles("parplan_search_queue_duration_seconds", SERVER), least=0),
        timeseries("Refused because the queue was full", "By replica.", "reqps",
                   query(rate_by("instance", "parplan_rejects_total",
                                 f'{SERVER}, reason="QUEUE_FULL"'), "{{instance}}"), least=0)])
    store = ("Store", [
        timeseries("Calls of the store", "By operation.", "ops",
                   query(rate_by("operation", "parplan_store_calls_total", SERVER) + " > 0",
                         "{{operation}}"), least=0, stacked=True),
        timeseries("Time of store calls", "99 % of the calls of an operation take less.", "s",
                   query(quantile(0.99, "parplan_store_call_duration_seconds", SERVER,
                                  "operation"), "{{operation}}"), least=0, log=True),
        timeseries("Failures of the store", "Calls that ended with UNAVAILABLE, DATA_LOSS or "
                   "INTERNAL, by replica. Must be 0.", "ops",
                   query(rate_by("instance", "parplan_store_calls_total",
                                 f'{SERVER}, code=~"UNAVAILABLE|DATA_LOSS|INTERNAL"'),
                         "{{instance}}"), least=0,
                   thresholds=steps(GREEN, (0.001, RED))),
        timeseries("Failures of the audit log", "Lines that could not be written, by replica. Must "
                   "be 0.", "ops",
                   query(rate_by("instance", "parplan_audit_failures_total", SERVER),
                         "{{instance}}"), least=0, thresholds=steps(GREEN, (0.001, RED))),
        timeseries("Size of uploads", "Of profiles, refused ones included.", "bytes",
                   *quantiles("parplan_upload_size_bytes", SERVER,
                              ((0.5, "median"), (0.99, "99 %"))), least=0)])
    process = ("Process", [
        timeseries("Processors", "Used by each replica.", "none",
                   query(f"rate(process_cpu_seconds_total{{{SERVER}}}[$__rate_interval])",
                         "{{instance}}"), least=0, decimals=2),
        timeseries("Memory", "Resident, of each replica.", "bytes",
                   query(f"process_resident_memory_bytes{{{SERVER}}}", "{{instance}}"), least=0),
        timeseries("Open files", "Share of what each replica may open.", "percentunit",
                   query(f"process_open_fds{{{SERVER}}} / process_max_fds{{{SERVER}}}",
                         "{{instance}}"), least=0, most=1,
                   thresholds=steps(GREEN, (0.8, RED))),
        timeseries("Threads", "Of each replica.", "short",
                   query(f"process_threads{{{SERVER}}}", "{{instance}}"), least=0, decimals=0),
        timeseries("Runs since", "How long each replica has run. A step down is a restart.", "s",
                   query(f"time() - process_start_time_seconds{{{SERVER}}}", "{{instance}}"),
                   least=0, thresholds=steps(BLUE)),
        timeseries("Leases of nodes", "How long leases lasted, from grant to end.", "s",
                   *quantiles("parplan_lease_duration_seconds", SERVER,
                              ((0.5, "median"), (0.99, "99 %"))), least=0)])
    return dashboard("service", "parplan / Service", "Calls, queue, store and process of the "
                     "servers.", [INSTANCE], [now, calls, queue, store, process])
