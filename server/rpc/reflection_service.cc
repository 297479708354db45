#include "server/rpc/reflection_service.h"

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/slice.h>

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "server/rpc/reflection_answers.h"
#include "server/rpc/status_to_grpc.h"

namespace parplan {
namespace {

constexpr char kMethod[] = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// An answer has up to 100 KB, so that clients that read none hold 6 MB.
constexpr int kMaxStreams = 64;

constexpr absl::Duration kReflectionRetry = absl::Seconds(10);

}  // namespace

// One stream, which lives until gRPC is done with it. It reads or writes one message at a time.
class ReflectionService::Stream final
    : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static Stream* Start(ReflectionService& service, grpc::CallbackServerContext& context) {
    const auto stream = std::shared_ptr<Stream>(new Stream(service, context));
    stream->self_ = stream;
    if (++service.stream_count_ > kMaxStreams) {
      stream->Finish(ToGrpcStatus(WithRetryDelay(
          MakeError(absl::StatusCode::kResourceExhausted, Reason::kQueueFull,
                    absl::StrCat("the server has ", kMaxStreams,
                                 " streams of reflection; ask again when others have ended"),
                    {{"limit", absl::StrCat(kMaxStreams)}}),
          kReflectionRetry)));
    } else {
      stream->Read(service.rpc_.max_first_silence);
    }
    return stream.get();
  }

  void OnReadDone(bool ok) override {
    service_.rpc_.alarms.Remove(alarm_);
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    const absl::StatusOr<std::string> answer =
        WithoutExceptions([this] { return AnswerRequest(); });
    if (!answer.ok()) {
      Finish(ToGrpcStatus(answer.status()));
      return;
    }
    const grpc::Slice slice(*answer);
    answer_ = grpc::ByteBuffer(&slice, 1);
    CancelAfter(service_.rpc_.max_stream_silence);
    StartWrite(&answer_);
  }

  void OnWriteDone(bool ok) override {
    service_.rpc_.alarms.Remove(alarm_);
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    Read(service_.rpc_.max_stream_silence);
  }

  void OnCancel() override { was_cancelled_ = true; }

  void OnDone() override {
    service_.rpc_.alarms.Remove(alarm_);
    service_.rpc_.gate.CallEnded(peer_, was_cancelled_ && !state_->is_late);
    {
      const std::lock_guard<std::mutex> lock(state_->mutex);
      state_->context = nullptr;
    }
    --service_.stream_count_;
    self_.reset();
  }

 private:
  // The part that an alarm touches, which may ring while the stream ends.
  struct State {
    std::mutex mutex;
    grpc::CallbackServerContext* context = nullptr;  // Null once gRPC is done. Guarded by mutex.
    std::atomic<bool> is_late = false;
  };

  Stream(ReflectionService& service, grpc::CallbackServerContext& context)
      : service_(service), peer_(context.peer()), state_(std::make_shared<State>()) {
    state_->context = &context;
    service_.rpc_.gate.CallStarted(peer_);
  }

  absl::StatusOr<std::string> AnswerRequest() const {
    grpc::Slice whole;
    if (request_.Length() > kMaxReflectionRequestBytes) {
      return AnswerReflection(service_.services_,
                              std::string(kMaxReflectionRequestBytes + 1, '\0'));
    }
    if (!request_.DumpToSingleSlice(&whole).ok()) {
      return absl::InternalError("the server cannot read the request");
    }
    return AnswerReflection(
        service_.services_,
        absl::string_view(reinterpret_cast<const char*>(whole.begin()), whole.size()));
  }

  void Read(absl::Duration max_silence) {
    CancelAfter(max_silence);
    StartRead(&request_);
  }

  // Gives the client up if it has not asked, or read, by then.
  void CancelAfter(absl::Duration wait) {
    alarm_ = service_.rpc_.alarms.Set(wait, [state = state_] {
      const std::lock_guard<std::mutex> lock(state->mutex);
      if (state->context == nullptr) return;
      state->is_late = true;
      state->context->TryCancel();
    });
  }

  ReflectionService& service_;
  const std::string peer_;
  const std::shared_ptr<State> state_;
  // Used by the one reaction that is in progress.
  AlarmThread::Alarm alarm_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer answer_;
  std::atomic<bool> was_cancelled_ = false;
  std::shared_ptr<Stream> self_;
};

ReflectionService::ReflectionService(const RpcContext& rpc, std::vector<std::string> services)
    : rpc_(rpc), services_(std::move(services)) {
  services_.emplace_back("grpc.health.v1.Health");
  services_.emplace_back(kReflectionService);
  AddMethod(new grpc::internal::RpcServiceMethod(kMethod, grpc::internal::RpcMethod::BIDI_STREAMING,
                                                 nullptr));
  MarkMethodRawCallback(
      0,
      new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
          [this](grpc::CallbackServerContext* context) { return Stream::Start(*this, *context); }));
}

}  // namespace parplan
