#include "tests/executor/device/cuda/fake_clique.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace parplan::fake {
namespace {

size_t SizeOf(ncclDataType_t type) {
  return type == ncclFloat64 ? 8 : type == ncclFloat32 ? 4 : type == ncclBfloat16 ? 2 : 1;
}

// Numbers are fp32 in the tests that look at them.
void Reduce(std::vector<float>& sum, const char* from, size_t count, ncclRedOp_t reduction) {
  const auto* const numbers = reinterpret_cast<const float*>(from);
  for (size_t i = 0; i < count; ++i) {
    sum[i] = reduction == ncclSum ? sum[i] + numbers[i] : std::max(sum[i], numbers[i]);
  }
}

// The collective that all ranks have begun. Ranks that call different ones never end, as on a GPU;
// false then.
bool Execute(const Launches& all) {
  const int size = static_cast<int>(all.size());
  const Call& first = all[0]->calls[0];
  for (const std::shared_ptr<Launch>& launch : all) {
    const Call& call = launch->calls[0];
    if (call.kind != first.kind || call.count != first.count || call.type != first.type)
      return false;
  }
  const size_t bytes = first.count * SizeOf(first.type);
  const bool is_number = first.type == ncclFloat32;
  if (first.kind == Kind::kAllReduce || first.kind == Kind::kReduceScatter) {
    const size_t count = first.count * (first.kind == Kind::kAllReduce ? 1 : size);
    if (is_number) {
      const auto* const begin = reinterpret_cast<const float*>(first.send);
      std::vector<float> sum(begin, begin + count);
      for (int r = 1; r < size; ++r) Reduce(sum, all[r]->calls[0].send, count, first.reduction);
      for (int r = 0; r < size; ++r) {
        const size_t offset = first.kind == Kind::kAllReduce ? 0 : r * first.count;
        std::memcpy(all[r]->calls[0].receive, sum.data() + offset, bytes);
      }
    }
  } else if (first.kind == Kind::kAllGather) {
    std::string whole;
    for (int r = 0; r < size; ++r) whole.append(all[r]->calls[0].send, bytes);
    for (int r = 0; r < size; ++r) {
      std::memcpy(all[r]->calls[0].receive, whole.data(), whole.size());
    }
  } else {
    const std::string told(all[first.peer]->calls[0].send, bytes);
    for (int r = 0; r < size; ++r) std::memcpy(all[r]->calls[0].receive, told.data(), bytes);
  }
  for (const std::shared_ptr<Launch>& launch : all) {
    launch->open_count = 0;
    Finish(*launch->item);
  }
  return true;
}

bool HasBegun(const std::shared_ptr<Launch>& launch) {
  return launch != nullptr && launch->item->has_begun && !launch->is_aborted;
}

void Close(Launch& launch) {
  if (--launch.open_count == 0) Finish(*launch.item);
}

// Ends the message `key` of the clique if both sides have begun it.
void Exchange(Clique& clique, const std::tuple<int, int, int>& key) {
  const auto found = clique.messages.find(key);
  if (found == clique.messages.end()) return;
  const Message& message = found->second;
  if (!HasBegun(message.sender) || !HasBegun(message.receiver)) return;
  std::memcpy(message.receive.receive, message.send.send,
              message.send.count * SizeOf(message.send.type));
  const Message done = message;
  clique.messages.erase(found);
  Close(*done.sender);
  Close(*done.receiver);
}

// Runs when a stream has come to `launch`.
void Begin(const std::shared_ptr<Clique>& clique, const std::shared_ptr<Launch>& launch,
           const std::vector<std::tuple<int, int, int>>& keys, int number) {
  if (launch->is_aborted) return Finish(*launch->item);
  if (number >= 0) {
    const Launches all = clique->collectives[number];
    if (std::all_of(all.begin(), all.end(), HasBegun) && Execute(all)) {
      clique->collectives.erase(number);
    }
    return;
  }
  for (const auto& key : keys) Exchange(*clique, key);
}

}  // namespace

void Enter(const std::shared_ptr<Clique>& clique, int rank, const std::shared_ptr<Launch>& launch) {
  launch->open_count = launch->calls.size();
  const Kind kind = launch->calls.front().kind;
  const bool is_message = kind == Kind::kSend || kind == Kind::kReceive;
  int number = -1;
  std::vector<std::tuple<int, int, int>> keys;
  if (!is_message) {
    number = clique->collective_counts[rank]++;
    clique->collectives[number].resize(clique->size);
    clique->collectives[number][rank] = launch;
  }
  for (const Call& call : launch->calls) {
    if (!is_message) break;
    const bool sends = call.kind == Kind::kSend;
    const std::pair<int, int> way = sends ? std::pair(rank, call.peer) : std::pair(call.peer, rank);
    const int count = clique->message_counts[{sends, way.first, way.second}]++;
    keys.emplace_back(way.first, way.second, count);
    Message& message = clique->messages[keys.back()];
    (sends ? message.sender : message.receiver) = launch;
    (sends ? message.send : message.receive) = call;
  }
  Item& item = *launch->item;
  item.name = is_message ? "messages" : "collective";
  item.is_open = true;
  item.run = [clique, keys, number, weak = std::weak_ptr(launch)] {
    if (const auto own = weak.lock()) Begin(clique, own, keys, number);
  };
  item.missing = [clique, keys, number] {
    std::vector<std::shared_ptr<Item>> missing;
    const auto add = [&](const std::shared_ptr<Launch>& other) {
      if (other != nullptr && !other->item->has_begun) missing.push_back(other->item);
    };
    if (number >= 0) {
      for (const auto& other : clique->collectives[number]) add(other);
    }
    for (const auto& key : keys) {
      const auto message = clique->messages.find(key);
      if (message == clique->messages.end()) continue;
      add(message->second.sender);
      add(message->second.receiver);
    }
    return missing;
  };
}

}  // namespace parplan::fake
