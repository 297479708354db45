// Serves a job's reports over a unix socket, and keeps them in a journal. `parplan-sidecar run` has
// one.

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

// ExecutionService at `unix:PATH` while this object lives: a program that reports to a server can
// report here. A report answered with OK is on disk. Executions have the journal's names, and are
// read from the journal; `ListExecutions` is not implemented. Calls return the errors of
// WindowJournal, and INVALID_ARGUMENT for a window without a duration or steps, a rank or step
// below 0, and a message that names another execution than the first of its stream, as codes and
// messages without an `ErrorDetail`. Windows before one that is refused are kept.
class ReportService {
 public:
  // Called with windows that were stored and with the name of their execution, which begins with
  // that of its plan, on the threads of calls, perhaps several at once. REQUIRES: not empty.
  using Observer =
      std::function<void(const std::string& name, absl::Span<const v1::MeasuredWindow>)>;

  // Starts the service. `journal` must outlive it. The socket's owner and group may report.
  // INVALID_ARGUMENT (SPEC_INVALID) for a path that is empty or too long for a socket (107 bytes),
  // UNAVAILABLE without a reason if the socket can't be made.
  static absl::StatusOr<std::unique_ptr<ReportService>> Start(const std::string& socket_path,
                                                              WindowJournal& journal,
                                                              Observer observer);
  // Waits for the calls in progress, at most a second.
  ~ReportService();

 private:
  struct Server;
  explicit ReportService(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_REPORT_SERVICE_H_
