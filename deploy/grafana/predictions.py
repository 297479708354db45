"""Predictions: how measured jobs compare with their plans."""
from parts import (BLUE, CLUSTER, GREEN, RED, YELLOW, dashboard, heatmap, mean, query, rate_by,
                   stat, steps, timeseries)

IN = 'cluster=~"$cluster"'
# Colours of measured over predicted.
AROUND_ONE = steps(RED, (0.8, YELLOW), (0.9, GREEN), (1.1, YELLOW), (1.2, RED))
MEMORY = steps(YELLOW, (0.8, GREEN), (1.0, YELLOW), (1.05, RED))


def build():
    now = ("At a glance", [
        stat("Drift of step times", "Measured over predicted, a mean of about the last ten "
             "executions of each cluster. 1 is a perfect prediction.", "none",
             query(f"avg by (cluster) (parplan_step_drift_ratio{{{IN}}})", "{{cluster}}"),
             width=6, decimals=3, thresholds=AROUND_ONE, names=True),
        stat("Executions measured", "Closed in the time shown.", "short",
             query(f"sum(increase(parplan_step_duration_ratio_count{{{IN}}}[$__range]))"),
             decimals=0),
        stat("Executions failed", "Share of the executions closed in the time shown that failed, "
             "for whatever reason.", "percentunit",
             query(f'sum(increase(parplan_executions_closed_total{{{IN}, state="failed"}}'
                   f"[$__range])) / sum(increase(parplan_executions_closed_total{{{IN}}}"
                   "[$__range]))"), decimals=1,
             thresholds=steps(GREEN, (0.05, YELLOW), (0.2, RED))),
        stat("Refused for memory", "Questions in the time shown to which no plan fits the "
             "devices. All clusters.", "short",
             query('sum(increase(parplan_rejects_total{reason="NO_FEASIBLE_PLAN"}[$__range]))'),
             decimals=0),
        stat("Calibration", "Age of the active calibration. A cluster without one goes by that of "
             "published runs.", "s",
             query("time() - max by (cluster) "
                   f"(parplan_calibration_activation_timestamp_seconds{{{IN}}})", "{{cluster}}"),
             width=6, names=True, empty="published", decimals=1)])
    whole = ("Measured over predicted: 1 is a perfect prediction", [
        timeseries("Step time", "Mean over the executions that closed, by cluster. Above 1 jobs "
                   "are slower than their plans said.", "none",
                   query(mean("parplan_step_duration_ratio", IN, "cluster"), "{{cluster}}"),
                   query(f"avg by (cluster) (parplan_step_drift_ratio{{{IN}}})",
                         "{{cluster}}, last ten"), decimals=3, thresholds=AROUND_ONE),
        heatmap("Step time, spread", "How many executions had which ratio.", "none",
                f"sum by (le) (increase(parplan_step_duration_ratio_bucket{{{IN}}}"
                "[$__rate_interval]))"),
        timeseries("Peak memory", "Mean over the executions that closed, by cluster. Above 1 jobs "
                   "take more memory than their plans said, and may run out of it.", "none",
                   query(mean("parplan_peak_memory_ratio", IN, "cluster"), "{{cluster}}"),
                   decimals=3, thresholds=MEMORY),
        heatmap("Peak memory, spread", "How many executions had which ratio.", "none",
                f"sum by (le) (increase(parplan_peak_memory_ratio_bucket{{{IN}}}"
                "[$__rate_interval]))")])
    classes = ("By class", [
        timeseries("Phases of a step", "Mean of measured over predicted time of each phase, over "
                   "all stages. Phases below 1 % of a step are left out. All clusters.", "none",
                   query(mean("parplan_phase_duration_ratio", "", "phase"), "{{phase}}"),
                   height=9, decimals=2, thresholds=AROUND_ONE),
        timeseries("Items of memory", "Mean of measured over predicted size of each item, over all "
                   "stages. Items below 1 % of the peak are left out. All clusters.", "none",
                   query(mean("parplan_memory_item_ratio", "", "item"), "{{item}}"),
                   height=9, decimals=2, thresholds=MEMORY)])
    world = ("Jobs", [
        timeseries("Executions closed", "By state.", "ops",
                   query(rate_by("state", "parplan_executions_closed_total", IN), "{{state}}"),
                   least=0, stacked=True),
        timeseries("Windows stored", "Measured windows that jobs reported. All clusters.", "ops",
                   query(rate_by("", "parplan_windows_stored_total", ""), "windows"), least=0),
        timeseries("Refused for memory", "Questions to which no plan fits the devices. All "
                   "clusters.", "reqps",
                   query(rate_by("", "parplan_rejects_total", 'reason="NO_FEASIBLE_PLAN"'),
                         "refused"), least=0),
        timeseries("Calibration is active", "1 while the cluster has a calibration of its own.",
                   "none",
                   query(f"max by (cluster) (parplan_calibration_active{{{IN}}})", "{{cluster}}"),
                   least=0, most=1, decimals=0, thresholds=steps(BLUE))])
    running = ("Jobs that run now, by their sidecars", [
        timeseries("Step time now", "Median of the latest windows over the prediction, of each "
                   "job.", "none",
                   query("parplan_sidecar_step_duration_ratio", "{{instance}}"), decimals=3,
                   thresholds=AROUND_ONE),
        timeseries("Memory now", "Of the fullest device over the prediction, of each job.",
                   "none", query("parplan_sidecar_peak_memory_ratio", "{{instance}}"),
                   decimals=3, thresholds=MEMORY),
        timeseries("Windows on their way", "Taken from jobs, and not at the server yet.", "short",
                   query("parplan_sidecar_windows_waiting", "{{instance}}"), least=0,
                   decimals=0),
        timeseries("Looks for a newer plan", "By result. `refused` is a plan whose signature or "
                   "binding does not hold.", "ops",
                   query(rate_by("result", "parplan_sidecar_plan_looks_total", ""),
                         "{{result}}"), least=0, stacked=True)])
    return dashboard("predictions", "parplan / Predictions", "How what jobs measured compares "
                     "with what their plans said.", [CLUSTER], [now, whole, classes, world, running])
