#include "server/rpc/credential_watch.h"

namespace parplan {

CredentialWatch::CredentialWatch(Authorizer& authorizer, const Clock& clock)
    : authorizer_(authorizer),
      clock_(clock),
      generation_(authorizer.generation()),
      thread_([this] { Loop(); }) {}

CredentialWatch::~CredentialWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

int64_t CredentialWatch::Add(Credential credential, std::shared_ptr<const Caller> caller,
                             EndStream end) {
  const absl::Time credential_end = credential.end;
  auto stream = std::make_shared<const Stream>(
      Stream{std::move(credential), std::move(caller), std::move(end)});
  const std::lock_guard<std::mutex> lock(mutex_);
  const int64_t number = ++last_number_;
  streams_.emplace(number, std::move(stream));
  if (credential_end != absl::InfiniteFuture()) ends_.emplace(credential_end, number);
  new_.push_back(number);
  return number;
}

bool CredentialWatch::Remove(int64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = streams_.find(number);
  if (found == streams_.end()) return false;
  ends_.erase({found->second->credential.end, number});
  streams_.erase(found);
  return true;
}

void CredentialWatch::Look() {
  const absl::Time now = clock_.Now();
  const int64_t generation = authorizer_.generation();
  std::vector<std::pair<int64_t, std::shared_ptr<const Stream>>> suspects;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (generation != generation_) {
      suspects.assign(streams_.begin(), streams_.end());
      generation_ = generation;
    } else {
      for (auto end = ends_.begin(); end != ends_.end() && end->first <= now; ++end) {
        suspects.emplace_back(end->second, streams_.at(end->second));
      }
      for (const int64_t number : new_) {
        const auto found = streams_.find(number);
        if (found != streams_.end()) suspects.push_back(*found);
      }
    }
    new_.clear();
  }
  // No lock is held meanwhile: a token takes some 0.1 ms, and streams end their calls, which
  // remove themselves.
  for (const auto& [number, stream] : suspects) {
    const absl::Status status = authorizer_.Recheck(stream->credential, *stream->caller, now);
    if (!status.ok() && Remove(number)) stream->end(status);
  }
}

void CredentialWatch::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_ending_) {
    changed_.wait_for(lock, absl::ToChronoMilliseconds(kInterval));
    if (is_ending_) return;
    lock.unlock();
    Look();
    lock.lock();
  }
}

}  // namespace parplan
