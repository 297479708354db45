#include "clients/kubernetes/report_service.h"

#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "base/service/listen/call_counter.h"
#include "base/service/listen/connection_gate.h"
#include "base/service/listen/hand_over.h"
#include "base/service/listen/listening_sockets.h"
#include "base/status_macros.h"
#include "base/system/start_thread.h"
#include "clients/kubernetes/call_workers.h"
#include "clients/kubernetes/window_reader.h"
#include "parplan/v1/execution_service.grpc.pb.h"
#include "proto/wire/duration_wire.h"

namespace parplan::sidecar {
namespace {

// Windows that are written to disk together, and the bytes after which fewer are.
constexpr size_t kBatchSize = 256;
constexpr size_t kBatchBytes = size_t{1} << 20;

// The largest message that is taken. Servers take windows of 256 KiB unless they are set to take
// larger ones (`max_window_bytes`); a request decoded may take some 40 times its size.
constexpr int kMaxMessageBytes = 512 << 10;

// Memory of messages on their way, and threads for calls in progress, each of which takes one. One
// rank of a job reports, on one stream.
constexpr size_t kMaxTransportBytes = size_t{16} << 20;
constexpr int kMaxThreads = 16;
constexpr int kMaxConcurrentStreams = 32;

// Connections that speak, and those that say nothing yet: gRPC alone would take a descriptor for
// each and after the last one accept none ever again. One rank of a job has one connection; others
// are of ranks that ended and of tools. Not measured.
constexpr int kMaxConnections = 64;

// Calls on one connection: at once, and by second in the long run. A rank makes a few for a job and
// one for the windows of some time. gRPC keeps memory of those that their client resets: 20,000 on
// one connection took 334 MB for good.
constexpr double kMaxCalls = 500;
constexpr double kMaxCallsPerSecond = 100;

// For the settings of HTTP/2, until a connection without calls is closed, and until a client that
// is gone is found out. Clients open a new connection with their next call, and a client that
// watches health has a call.
constexpr int kHandshakeTimeoutMs = 10000;
constexpr int kMaxConnectionIdleMs = 10000;
constexpr int kKeepaliveTimeMs = 30000;
constexpr int kKeepaliveTimeoutMs = 15000;

// How long a stream of windows may say nothing. It occupies one of few threads meanwhile; reporters
// have their windows before they call.
constexpr std::chrono::seconds kMaxStreamSilence(10);

// The time that calls in progress have at the end. If there was none for 20 looks, which leaves the
// last answers 200 ms to be sent, those that are left watch health.
constexpr std::chrono::seconds kLastCalls(1);
constexpr std::chrono::milliseconds kQuietLook(10);
constexpr int kQuietLooks = 20;

// Bounds what a broken trainer, or another process of the pod, may make the sidecar hold.
void ConfigureLimits(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // gRPC inflates a message before it looks at its size, so a megabyte could become a gigabyte.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  grpc::ResourceQuota quota("parplan-sidecar");
  quota.Resize(kMaxTransportBytes);
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxConcurrentStreams);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kMaxConnectionIdleMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
}

ConnectionLimits Connections() {
  ConnectionLimits limits;
  limits.max_open_count = kMaxConnections;
  limits.max_silent_count = kMaxConnections;
  limits.max_cancelled_calls = kMaxCalls;
  limits.max_cancelled_calls_per_second = kMaxCallsPerSecond;
  return limits;
}

// Cancels streams that wait for a message for too long. Safe to use from any thread.
class SilenceWatch {
 public:
  SilenceWatch() : thread_([this] { Loop(); }) {}
  ~SilenceWatch() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  SilenceWatch(const SilenceWatch&) = delete;
  SilenceWatch& operator=(const SilenceWatch&) = delete;

  // Reads a message. Returns false at the end of the stream, also if this object cancelled it.
  template <typename Stream, typename Message>
  bool Read(grpc::CallbackServerContext* context, Stream* stream, Message* message) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      waiting_[context] = Clock::now() + kMaxStreamSilence;
    }
    const bool has_read = stream->Read(message);
    // Nothing cancels a context afterwards, which may be gone then.
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.erase(context);
    return has_read;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_for(lock, std::chrono::seconds(1), [this] { return is_ending_; })) {
      for (const auto& [context, deadline] : waiting_) {
        if (deadline < Clock::now()) context->TryCancel();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<grpc::CallbackServerContext*, Clock::time_point> waiting_;
  bool is_ending_ = false;
  // Starts after the others.
  std::thread thread_;
};

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

absl::Status Broken(const char* field, const char* rule) {
  return FieldError(Reason::kSpecInvalid, absl::StrCat("window.", field), rule);
}

// Refuses windows that no server takes before they are acknowledged; servers check more.
absl::Status CheckWindow(const v1::MeasuredWindow& window) {
  if (window.rank() < 0) return Broken("rank", "must be at least 0");
  if (window.first_step() < 0) return Broken("first_step", "must be at least 0");
  if (window.step_count() < 1) return Broken("step_count", "must be at least 1");
  const google::protobuf::Duration& step = window.median_step_duration();
  if (step.seconds() < 0 || step.nanos() < 0 || (step.seconds() == 0 && step.nanos() == 0)) {
    return Broken("median_step_duration", "must be above 0");
  }
  return absl::OkStatus();
}

grpc::Status AllBusy() {
  return grpc::Status(
      grpc::StatusCode::RESOURCE_EXHAUSTED,
      absl::StrCat("this sidecar has ", kMaxThreads,
                   " calls in progress, the most that it takes; report again later"));
}

// gRPC calls its methods as soon as it has read a call, on its own threads, and these hand it to
// others: a synchronous service lets calls pile up that the gate has not counted, 300 MB in a
// second.
class Service : public v1::ExecutionService::CallbackService {
 public:
  Service(WindowJournal& journal, ReportService::Observer observer)
      : journal_(journal), observer_(std::move(observer)), workers_(kMaxThreads) {}

  grpc::ServerUnaryReactor* CreateExecution(grpc::CallbackServerContext* context,
                                            const v1::CreateExecutionRequest* request,
                                            v1::Execution* execution) override {
    return Run(context, [=, this] {
      v1::CreateExecutionRequest kept = *request;
      // The server may hear of it after the plan has expired.
      if (!kept.has_start_time()) *kept.mutable_start_time() = TimestampToProto(absl::Now());
      const absl::StatusOr<std::string> name = journal_.Begin(kept);
      return name.ok() ? Answer(*name, execution) : ToGrpc(name.status());
    });
  }

  grpc::ServerReadReactor<v1::ReportMetricsRequest>* ReportMetrics(
      grpc::CallbackServerContext* context, v1::ReportMetricsResponse* response) override {
    auto* const stream = new WindowReader;  // Deletes itself.
    const bool runs =
        workers_.Run([=, this] { stream->Finish(TakeWindows(context, *stream, *response)); });
    if (!runs) stream->Finish(AllBusy());
    return stream;
  }

  grpc::ServerUnaryReactor* CompleteExecution(grpc::CallbackServerContext* context,
                                              const v1::CompleteExecutionRequest* request,
                                              v1::Execution* execution) override {
    return Run(context, [=, this] {
      return Close(request->name(), v1::Execution::SUCCEEDED, "", execution);
    });
  }

  grpc::ServerUnaryReactor* FailExecution(grpc::CallbackServerContext* context,
                                          const v1::FailExecutionRequest* request,
                                          v1::Execution* execution) override {
    return Run(context, [=, this] {
      // More windows may come; the journal abandons it at the server if none do.
      if (request->abandoned()) return Answer(request->name(), execution);
      return Close(request->name(), v1::Execution::FAILED, request->reason(), execution);
    });
  }

  grpc::ServerUnaryReactor* GetExecution(grpc::CallbackServerContext* context,
                                         const v1::GetExecutionRequest* request,
                                         v1::Execution* execution) override {
    return Run(context, [=, this] { return Answer(request->name(), execution); });
  }

  grpc::ServerUnaryReactor* ListExecutions(grpc::CallbackServerContext* context,
                                           const v1::ListExecutionsRequest*,
                                           v1::ListExecutionsResponse*) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(
        grpc::Status(grpc::StatusCode::UNIMPLEMENTED,
                     "this sidecar keeps the reports of its own job on the way to the server "
                     "and lists no executions; ask the server for those of a plan "
                     "(`planctl`), or this sidecar for one by its name (GetExecution)"));
    return reactor;
  }

  // Returns whether no call is in progress.
  bool is_idle() const { return workers_.is_idle(); }

 private:
  // Ends the call with what `handler` returns, which may wait for the disk.
  template <typename Handler>
  grpc::ServerUnaryReactor* Run(grpc::CallbackServerContext* context, Handler handler) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    if (!workers_.Run([=] { reactor->Finish(handler()); })) reactor->Finish(AllBusy());
    return reactor;
  }

  grpc::Status TakeWindows(grpc::CallbackServerContext* context, WindowReader& stream,
                           v1::ReportMetricsResponse& response) {
    std::string name;
    std::vector<v1::MeasuredWindow> batch;
    size_t batch_bytes = 0;
    v1::ReportMetricsRequest request;
    while (watch_.Read(context, &stream, &request)) {
      if (name.empty()) name = request.execution();
      if (!request.execution().empty() && request.execution() != name) {
        // Keeps the windows before it.
        (void)Keep(name, batch, response);
        return ToGrpc(FieldError(Reason::kSpecInvalid, "execution",
                                 "must be that of the first message, or empty"));
      }
      const absl::Status good = CheckWindow(request.window());
      if (!good.ok()) {
        // Keeps the windows before it.
        (void)Keep(name, batch, response);
        return ToGrpc(good);
      }
      batch_bytes += request.window().SpaceUsedLong();
      batch.push_back(std::move(*request.mutable_window()));
      // A message that was read into keeps its memory.
      request = v1::ReportMetricsRequest();
      if (batch.size() == kBatchSize || batch_bytes >= kBatchBytes) {
        batch_bytes = 0;
        const absl::Status kept = Keep(name, batch, response);
        if (!kept.ok()) return ToGrpc(kept);
      }
    }
    return ToGrpc(Keep(name, batch, response));
  }

  // Stores the windows of `batch` and empties it. Does nothing if there are none: a stream without
  // windows is no sign of the execution that it names.
  absl::Status Keep(const std::string& name, std::vector<v1::MeasuredWindow>& batch,
                    v1::ReportMetricsResponse& response) {
    if (batch.empty()) return absl::OkStatus();
    PARPLAN_RETURN_IF_ERROR(journal_.Append(name, batch));
    observer_(name, batch);
    response.set_stored_window_count(response.stored_window_count() +
                                     static_cast<int64_t>(batch.size()));
    batch.clear();
    return absl::OkStatus();
  }

  grpc::Status Close(const std::string& name, v1::Execution::State outcome,
                     const std::string& reason, v1::Execution* execution) {
    const absl::Status closed = journal_.Close(name, outcome, reason);
    return closed.ok() ? Answer(name, execution) : ToGrpc(closed);
  }

  grpc::Status Answer(const std::string& name, v1::Execution* execution) const {
    absl::StatusOr<v1::Execution> known = journal_.Get(name);
    if (!known.ok()) return ToGrpc(known.status());
    *execution = *std::move(known);
    return grpc::Status::OK;
  }

  WindowJournal& journal_;
  const ReportService::Observer observer_;
  SilenceWatch watch_;
  // Ends before the others, which its tasks use.
  CallWorkers workers_;
};

}  // namespace

struct ReportService::Server {
  // Outlives the server, whose calls it counts.
  std::unique_ptr<ConnectionGate> gate;
  std::unique_ptr<Service> service;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor;
  std::unique_ptr<grpc::Server> server;
};

absl::StatusOr<std::unique_ptr<ReportService>> ReportService::Start(const std::string& socket_path,
                                                                    WindowJournal& journal,
                                                                    Observer observer) {
  constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
  if (socket_path.empty() || socket_path.size() > kLongestPath) {
    return FieldError(Reason::kSpecInvalid, "--socket",
                      absl::StrCat("must be a path of 1 to ", kLongestPath, " bytes"));
  }
  const auto refused = [&socket_path](absl::string_view why) {
    return absl::UnavailableError(
        absl::StrCat("cannot make the socket ", socket_path, " (", why,
                     "); name another with --socket, in a folder that this user may write to"));
  };
  absl::StatusOr<ListeningSockets> sockets = Listen(absl::StrCat("unix:", socket_path));
  if (!sockets.ok()) return refused(sockets.status().message());
  // The trainer may run as another user of the pod's group.
  if (::chmod(socket_path.c_str(), 0660) != 0) return refused("its mode cannot be set");
  auto made = std::make_unique<Server>();
  made->gate = std::make_unique<ConnectionGate>(*std::move(sockets), Connections());
  made->service = std::make_unique<Service>(journal, std::move(observer));
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  // Reporters ask now and then whether the connection holds, as they do with a server.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  ConfigureLimits(builder);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> counters;
  counters.push_back(std::make_unique<CallCounters>(*made->gate, CallCounters::Idle::kWithoutCall));
  builder.experimental().SetInterceptorCreators(std::move(counters));
  made->acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(made->service.get());
  made->server = builder.BuildAndStart();
  if (made->server == nullptr) return refused("gRPC cannot start a server; its log says why");
  // The name that clients watch before they call any service (clients/cpp/channel.cc).
  made->server->GetHealthCheckService()->SetServingStatus("parplan.v1.PlanService", true);
  made->gate->Start(HandOverTo(*made->server, *made->acceptor), "parplan-reports");
  return std::unique_ptr<ReportService>(new ReportService(std::move(made)));
}

ReportService::ReportService(std::unique_ptr<Server> server) : server_(std::move(server)) {}

ReportService::~ReportService() {
  server_->gate->StopAccepting();
  std::atomic<bool> is_over = false;
  // A stream that watches health would else hold up the end for all of the time that calls have.
  std::thread closer = StartThread([this, &is_over] {
    for (int quiet = 0; quiet < kQuietLooks; quiet = server_->service->is_idle() ? quiet + 1 : 0) {
      if (is_over) return;
      std::this_thread::sleep_for(kQuietLook);
    }
    grpc_server_cancel_all_calls(server_->server->c_server());
  });
  server_->server->Shutdown(std::chrono::system_clock::now() + kLastCalls);
  is_over = true;
  if (closer.joinable()) closer.join();
}

}  // namespace parplan::sidecar
