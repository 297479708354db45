// The agent as a service: measures the node when it knows no recent measurement (`Remembered`) and
// after changes, uploads profiles, and sleeps between. `parplan-agent`
// (profiler-agent/main/main.cc) runs it unless it is started with `--once` or `--inventory`.

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

// The node, the folder of its state, and the times of measurements. The defaults of durations
// were chosen; none was measured.
struct DaemonOptions {
  // Uploads go to any replica of the server; leases come from one replica, which
  // profiler-agent/replicas/replicas.h chooses.
  ChannelOptions server;
  // The node, `clusters/{cluster}/nodes/{node}`.
  std::string parent;
  // Folder that holds the upload queue and the measured profile.
  std::string state_dir;
  // Folder in which jobs leave windows; empty for none.
  std::string spool_dir;
  WatchOptions watch;

  // Whether other agents may borrow this node through the server to measure links.
  bool takes_leases = true;
  // Ids of the nodes, of this node's cluster, between which this agent measures links: at least
  // two, the first of which is this node. The caller checks that. Empty, or without `takes_leases`:
  // it measures none.
  std::vector<std::string> link_nodes;
  // Host name or address under which other nodes reach this one.
  std::string host;
  // Interval between checks for a replica that comes earlier in this agent's order; each interval
  // is randomly up to a quarter shorter or longer.
  absl::Duration look_interval = absl::Minutes(3);

  // How to measure; `on_line` and `on_job` are replaced.
  MeasurementOptions measurement;
  // The devices, models and sizes to measure, as CompleteSettings (main/once.h) leaves them:
  // `rank_count` is above 0.
  ProbeRequest request;
  DriftOptions drift;
  // Age after which everything is measured again. The inventory is checked every hour.
  absl::Duration longest_age = absl::Hours(24 * 7);
  // Pause after a node was busy, also if there is drift, and the least pause between measurements
  // caused by drift.
  absl::Duration busy_pause = absl::Minutes(5);
  absl::Duration drift_pause = absl::Minutes(10);
  // Deadline of one attempt to upload.
  absl::Duration upload_timeout = absl::Seconds(30);
};

// Runs until SIGINT or SIGTERM, which also end a measurement under way, and then returns OK.
//
// Returns an error if it could not start: FAILED_PRECONDITION if the spool folder cannot be watched
// (SPEC_INVALID) or `state_dir` cannot be used (STORE_UNAVAILABLE), INVALID_ARGUMENT (SPEC_INVALID)
// for a server or TLS files that cannot be used, UNAVAILABLE if an address cannot be bound or a
// port file not written, RESOURCE_EXHAUSTED without file descriptors.
//
// Later failures are logged and tried again, without end: a measurement that failed, or a profile
// that cannot be queued, after a pause that doubles from 1 minute to 1 hour; what a time budget
// left out after 1 minute; links after 30 s; uploads as `Uploader` says. There are two exceptions:
// an upload that the server refuses is set aside (`MayRetryUpload`), and if leases cannot be
// offered at the start, the daemon logs it and does without them.
//
// REQUIRES, unchecked: this process has no other thread yet and ignores SIGPIPE.
absl::Status RunDaemon(const DaemonOptions& options);

}  // namespace parplan

#endif  // PARPLAN_PROFILER_AGENT_DAEMON_DAEMON_H_
