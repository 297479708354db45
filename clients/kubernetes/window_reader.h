// Reads a stream of windows like a file. `ReportService` does, on threads that may wait.

#ifndef PARPLAN_CLIENTS_KUBERNETES_WINDOW_READER_H_
#define PARPLAN_CLIENTS_KUBERNETES_WINDOW_READER_H_

#include <grpcpp/support/server_callback.h>

#include <condition_variable>
#include <mutex>

#include "parplan/v1/execution_service.pb.h"

namespace parplan::sidecar {

// The server's end of a stream; deletes itself when gRPC is done with it, some time after `Finish`.
// One thread reads.
class WindowReader final : public grpc::ServerReadReactor<v1::ReportMetricsRequest> {
 public:
  // Waits for a message. Returns false at the end of the stream.
  bool Read(v1::ReportMetricsRequest* message) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_read_ = false;
    }
    StartRead(message);
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return is_read_; });
    return is_good_;
  }

  void OnReadDone(bool is_good) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_read_ = true;
    is_good_ = is_good;
    changed_.notify_all();
  }
  void OnDone() override { delete this; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_read_ = false;
  bool is_good_ = false;
};

}  // namespace parplan::sidecar

#endif  // PARPLAN_CLIENTS_KUBERNETES_WINDOW_READER_H_
