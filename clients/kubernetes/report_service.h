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
// report here. A report answered with OK is on disk. Executions have the journal's names and, if
// the request has no `start_time`, that of its arrival; `GetExecution` answers from the journal.
// `FailExecution` closes an execution for good. If the request says `abandoned` it stays open and
// RUNNING, since more windows may come, and the sidecar abandons it at its own end.
// `ListExecutions` returns UNIMPLEMENTED with a message that says whom to ask, because the journal
// has only what its own job reported. Calls return the errors of WindowJournal, and
// INVALID_ARGUMENT for a window that lacks a duration or lacks steps, a rank or step below 0, and a
// message that names another execution than an earlier one of its stream (it may name none), as
// codes and messages without an `ErrorDetail`. Windows before a refused message are kept if the
// journal takes them. A window that is sent again is stored again. A `ConnectionGate` accepts 64
// connections, half of them of one user, and none beyond them while they have calls; one without a
// call for 10 s is closed, and one that makes more than 500 calls at once, and 100 a second in the
// long run. A
// stream that says nothing for 10 s is cancelled; the windows that came on it are kept.
class ReportService {
 public:
  // Called with windows that were stored, at least one and at most 256, and with the name of their
  // execution, which begins with the name of its plan. The span is valid during the call. Windows
  // that are sent again come again. Called on the threads of calls, perhaps several at once; the
  // call is answered after the observer returns, so it must not block for long. REQUIRES,
  // unchecked: not empty.
  using Observer =
      std::function<void(const std::string& name, absl::Span<const v1::MeasuredWindow>)>;

  // Starts the service. `journal` must outlive it. The path is that of a file, without `unix:`; a
  // socket that lies there is replaced unless a process listens on it, and the owner and the group
  // of the new one may report (mode 0660). Its file stays behind.
  // INVALID_ARGUMENT (SPEC_INVALID) for a path that is empty or too long for a socket (more than
  // 107 bytes), UNAVAILABLE with no `Reason` if the socket can't be made.
  static absl::StatusOr<std::unique_ptr<ReportService>> Start(const std::string& socket_path,
                                                              WindowJournal& journal,
                                                              Observer observer);
  // Gives the calls in progress a second, then cancels them, and waits until none is left. The
  // observer is not called afterwards.
  ~ReportService();

 private:
  struct Server;
  explicit ReportService(std::unique_ptr<Server> server);

  const std::unique_ptr<Server> server_;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_REPORT_SERVICE_H_
