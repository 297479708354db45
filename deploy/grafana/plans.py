"""Plans: what is asked, what is answered, and what the answers promise."""
from parts import (BLUE, GREEN, INSTANCE, RED, YELLOW, dashboard, heatmap, mean, quantile,
                   quantiles, query, rate_by, stat, steps, timeseries)

SERVER = 'instance=~"$instance"'
ASKING = f'{SERVER}, method=~"ShapePlan|CreatePlan|SearchPlan"'


def build():
    now = ("At a glance", [
        stat("Plans issued", "Plans signed and stored in the time shown. Answers from the caches "
             "do not count.", "short",
             query(f"sum(increase(parplan_plans_issued_total{{{SERVER}}}[$__range]))"),
             decimals=0),
        stat("From the caches", "Share of questions for a plan that were answered by a plan or a "
             "result kept in memory.", "percentunit",
             query(f'sum(increase(parplan_cache_lookups_total{{{SERVER}, '
                   'cache=~"plan|result", result="hit"}[$__range])) / '
                   f'sum(increase(parplan_cache_lookups_total{{{SERVER}, cache="plan"}}'
                   "[$__range]))"), decimals=1),
        stat("Proved optimal", "Share of searches that ended with a proof that no better plan "
             "exists in the space searched.", "percentunit",
             query(f'sum(increase(parplan_searches_total{{{SERVER}, outcome="optimal"}}'
                   f"[$__range])) / sum(increase(parplan_searches_total{{{SERVER}}}[$__range]))"),
             decimals=1),
        stat("Nothing fits", "Searches that found that no plan fits into the memory of the "
             "devices.", "short",
             query(f'sum(increase(parplan_searches_total{{{SERVER}, outcome="nothing_fits"}}'
                   "[$__range]))"), decimals=0, thresholds=steps(BLUE, (1, YELLOW))),
        stat("Failed checks", "Answers of a planner that the independent check refused. Must stay "
             "0: it is a mistake in parplan.", "short",
             query(f'sum(increase(parplan_searches_total{{{SERVER}, outcome="check_failed"}}'
                   "[$__range]))"), decimals=0, thresholds=steps(GREEN, (1, RED))),
        stat("Faster than the best baseline", "Mean of predicted step time of the best baseline "
             "over that of the plan, of questions with compare_baselines. 1.2 is a fifth faster.",
             "none",
             query(f"sum(increase(parplan_baseline_gain_ratio_sum{{{SERVER}}}[$__range])) / "
                   f"sum(increase(parplan_baseline_gain_ratio_count{{{SERVER}}}[$__range]))"),
             decimals=2, empty="nobody compared",
             thresholds=steps(RED, (0.999, BLUE), (1.05, GREEN)))])
    requests = ("Requests and outcomes", [
        timeseries("Questions", "Calls that ask for shapes or plans, by method.", "reqps",
                   query(rate_by("method", "parplan_requests_total", ASKING), "{{method}}"),
                   least=0),
        timeseries("Answers by code", "The same calls by gRPC status. FAILED_PRECONDITION is often "
                   "an answer: nothing fits, or nothing was measured.", "reqps",
                   query(rate_by("code", "parplan_requests_total", ASKING), "{{code}}"),
                   least=0, stacked=True),
        timeseries("Searches by outcome", "How searches ended. `stopped_empty` had too little "
                   "time for a first plan.", "ops",
                   query(rate_by("outcome", "parplan_searches_total", SERVER), "{{outcome}}"),
                   least=0, stacked=True),
        timeseries("Refusals by reason", "Calls refused, by the reason that the error names. "
                   "Reasons that did not occur are left out.", "reqps",
                   query(rate_by("reason", "parplan_rejects_total", SERVER) + " > 0",
                         "{{reason}}"), least=0)])
    latency = ("Latency", [
        heatmap("Time of CreatePlan", "From a call's arrival to its answer. Answers from memory "
                "take milliseconds, searches seconds.", "s",
                "sum by (le) (increase(parplan_request_duration_seconds_bucket{"
                f'{SERVER}, method="CreatePlan"}}[$__rate_interval]))'),
        timeseries("Time of questions", "99 % of the calls are answered within it.", "s",
                   query(quantile(0.99, "parplan_request_duration_seconds", ASKING, "method"),
                         "{{method}}"), least=0),
        timeseries("Time of searches", "Wall time of a search, by planner: the 99 % quantile.",
                   "s", query(quantile(0.99, "parplan_search_duration_seconds", SERVER,
                                       "planner"), "{{planner}}"), least=0),
        timeseries("Wait in the queue", "From a question to the begin of its search.", "s",
                   *quantiles("parplan_search_queue_duration_seconds", SERVER), least=0),
        timeseries("Answers from memory", "Share of looks into each cache that found something.",
                   "percentunit",
                   query('sum by (cache) (rate(parplan_cache_lookups_total{' + SERVER +
                         ', result="hit"}[$__rate_interval])) / '
                         f'{rate_by("cache", "parplan_cache_lookups_total", SERVER)}',
                         "{{cache}}"), least=0, most=1),
        timeseries("Questions that shared a search", "Calls that found their question in flight "
                   "and waited for that search.", "reqps",
                   query(rate_by("", "parplan_searches_shared_total", SERVER), "shared"),
                   least=0)])
    promises = ("What plans promise", [
        timeseries("Predicted throughput", "Of plans when they are issued. Models differ, so it "
                   "says what kind of jobs there are, not how good plans are.", "none",
                   *quantiles("parplan_predicted_throughput_samples_per_second", SERVER,
                              ((0.5, "median, samples/s"), (0.9, "90 %, samples/s"))),
                   least=0),
        timeseries("Predicted step time", "Of one optimizer step of issued plans.", "s",
                   *quantiles("parplan_predicted_step_seconds", SERVER,
                              ((0.5, "median"), (0.9, "90 %"))), least=0),
        timeseries("Memory headroom", "Share of usable memory that issued plans leave free on the "
                   "fullest device. Near 0 a plan has no room for what was not foreseen.",
                   "percentunit",
                   *quantiles("parplan_predicted_memory_headroom_ratio", SERVER,
                              ((0.1, "lowest tenth"), (0.5, "median"))),
                   least=0, most=1, thresholds=steps(RED, (0.02, GREEN))),
        timeseries("Predicted peak memory", "Of the fullest device.", "bytes",
                   *quantiles("parplan_predicted_peak_memory_bytes", SERVER,
                              ((0.5, "median"), (0.99, "99 %"))), least=0),
        timeseries("Planner and best baseline", "Predicted step time of the best baseline over "
                   "that of the plan, of questions with compare_baselines. 1 is no better.",
                   "none",
                   query(mean("parplan_baseline_gain_ratio", SERVER), "mean"),
                   query(quantile(0.9, "parplan_baseline_gain_ratio", SERVER), "90 %"),
                   decimals=2, thresholds=steps(RED, (1, GREEN))),
        timeseries("Age of measurements", "Age of the newest measurement that issued plans rest "
                   "on.", "s", *quantiles("parplan_profile_age_seconds", SERVER,
                                          ((0.5, "median"), (0.99, "99 %"))), least=0)])
    cost = ("What answers cost", [
        timeseries("Processor time of searches", "Processors that search, by planner.", "none",
                   query(rate_by("planner", "parplan_search_cpu_seconds_total", SERVER) + " > 0",
                         "{{planner}}"), least=0, stacked=True),
        timeseries("Partial plans expanded", "By planner.", "ops",
                   query(rate_by("planner", "parplan_search_states_total", SERVER) + " > 0",
                         "{{planner}}"), least=0),
        timeseries("Verifications", "Answers of VerifyPlan, by verdict.", "reqps",
                   query(rate_by("verdict", "parplan_plan_verifications_total", SERVER),
                         "{{verdict}}"), least=0, stacked=True),
        timeseries("Plans issued", "By planner.", "ops",
                   query(rate_by("planner", "parplan_plans_issued_total", SERVER) + " > 0",
                         "{{planner}}"), least=0, stacked=True)])
    return dashboard("plans", "parplan / Plans", "What is asked of the planner, what it answers, "
                     "and what its answers promise.", [INSTANCE],
                     [now, requests, latency, promises, cost])
