// The agent that stays: measures at the start and when something changed, brings profiles to
// the server, and sleeps.

#ifndef PARPLAN_PROFILER_AGENT_DAEMON_DAEMON_H_
#define PARPLAN_PROFILER_AGENT_DAEMON_DAEMON_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/service/shell/watch_flags.h"
#include "clients/cpp/channel.h"
#include "profiler-agent/drift/find_drift.h"
#include "profiler-agent/measure/measurement.h"
#include "profiler-agent/probe/probe_plan.h"
#include "profiler-agent/upload/uploader.h"

namespace parplan {

struct DaemonOptions {
  // Profiles go to all replicas in turn; leases come from one (Replicas).
  ChannelOptions server;
  // `clusters/{cluster}/nodes/{node}`.
  std::string parent;
  // Queue and memory are below it.
  std::string state_dir;
  // Where jobs leave windows; empty for nowhere.
  std::string spool_dir;
  WatchOptions watch;

  // Whether other agents may measure links with this one, by leases of the server; and the
  // nodes, this one first, whose links this agent measures. Empty: none.
  bool takes_leases = true;
  std::vector<std::string> link_nodes;
  // By which other nodes reach this one.
  std::string host;
  // See LeaseMachineOptions.
  absl::Duration look_interval = absl::Minutes(3);

  MeasurementOptions measurement;
  ProbeRequest request;
  DriftOptions drift;
  // A whole measurement again after so long; the inventory is looked at every hour.
  absl::Duration longest_age = absl::Hours(24 * 7);
  // After a busy node, and between measurements because of drift.
  absl::Duration busy_pause = absl::Minutes(5);
  absl::Duration drift_pause = absl::Minutes(10);
  absl::Duration upload_timeout = absl::Seconds(30);
};

// Returns OK after SIGINT or SIGTERM, which also end a measurement under way; an error where
// it could not start. REQUIRES: this process has no other thread yet.
absl::Status RunDaemon(const DaemonOptions& options);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_DAEMON_H_
