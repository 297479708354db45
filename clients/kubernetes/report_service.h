// Takes a job's reports over a unix socket, as a server would, and keeps them in a journal.

#ifndef PARPLAN_CLIENTS_KUBERNETES_REPORT_SERVICE_H_
#define PARPLAN_CLIENTS_KUBERNETES_REPORT_SERVICE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "clients/kubernetes/window_journal.h"
#include "parplan/v1/execution.pb.h"

namespace parplan::sidecar {

// ExecutionService at `unix:PATH` while it lives: whoever can report to a server can report
// here. What it answers with OK is on disk. Executions have names of the journal's own; what is
// asked about them is answered from there, and `ListExecutions` is not implemented.
class ReportService {
 public:
  // Told of windows that were taken and of their execution's name, which begins with its plan's,
  // on the threads of calls.
  using Observer =
      std::function<void(const std::string& name, absl::Span<const v1::MeasuredWindow>)>;

  // `journal` outlives it. Whoever may write to the socket may report: its owner and its group.
  // INVALID_ARGUMENT (SPEC_INVALID) for a path too long for a socket, UNAVAILABLE where it can't
  // be made.
  static absl::StatusOr<std::unique_ptr<ReportService>> Start(const std::string& socket_path,
                                                              WindowJournal& journal,
                                                              Observer observer);
  // Ends after the calls in progress, within a second.
  ~ReportService();

 private:
  struct Server;
  explicit ReportService(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_REPORT_SERVICE_H_
