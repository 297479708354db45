#include "server/core/call_context.h"

#include <string>
#include <utility>

namespace parplan {

CallContext::CallContext(std::string request_id, absl::Duration deadline,
                         std::shared_ptr<const Caller> caller, const std::string& host)
    : request_id_(std::move(request_id)),
      deadline_(deadline),
      caller_(std::move(caller)),
      holder_(caller_->owner().empty() ? host : caller_->owner()) {}

std::shared_ptr<CallContext> CallContext::Create(std::string request_id, absl::Duration time_left,
                                                 const Clock& clock,
                                                 std::shared_ptr<const Caller> caller,
                                                 const std::string& host) {
  return std::shared_ptr<CallContext>(
      new CallContext(std::move(request_id), clock.Steady() + time_left, std::move(caller), host));
}

std::shared_ptr<CallContext> CallContext::OfItself() {
  return Create("", absl::InfiniteDuration());
}

void CallContext::Cancel() {
  std::map<int64_t, std::function<void()>> callbacks;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    callbacks.swap(callbacks_);
  }
  for (const auto& [registration, callback] : callbacks) callback();
}

bool CallContext::cancelled() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return cancelled_;
}

int64_t CallContext::OnCancel(std::function<void()> callback) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!cancelled_) {
      const int64_t registration = next_registration_++;
      callbacks_.emplace(registration, std::move(callback));
      return registration;
    }
  }
  callback();
  return 0;
}

void CallContext::RemoveOnCancel(int64_t registration) {
  std::function<void()> dropped;  // Destroyed outside the lock: it may own a flight.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = callbacks_.find(registration);
  if (found == callbacks_.end()) return;
  dropped = std::move(found->second);
  callbacks_.erase(found);
}

}  // namespace parplan
