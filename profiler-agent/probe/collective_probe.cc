#include "profiler-agent/probe/collective_probe.h"

#include <algorithm>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "profiler-agent/probe/probe_plan.h"

namespace parplan {
namespace {

// Operations that are timed together if one is shorter than a sample should be, and samples between
// two decisions of all ranks whether to go on, which are a collective themselves. Not measured.
constexpr int kMaxOperationsOfSample = 64;
constexpr int kSamplesAtOnce = 8;
// Operations alternate between two buffers, as in training: a message is not the one just sent, but
// was written shortly before. More buffers would fall out of a processor's caches.
constexpr int64_t kRotatedBytes = int64_t{32} << 20;
constexpr int kMaxRotation = 2;

}  // namespace

struct CollectiveProbe::Buffers {
  Array send;
  Array receive;
  int64_t message_bytes = 0;
  int rotation = 1;
  int64_t next = 0;

  void* Send(int64_t turn) const { return send.At(turn % rotation * message_bytes, 1); }
  void* Receive(int64_t turn) const { return receive.At(turn % rotation * message_bytes, 1); }
};

bool ShapeCovers(int participant_count, int rank_stride, int rank_count) {
  return participant_count >= 2 && rank_stride >= 1 &&
         rank_count % (int64_t{participant_count} * rank_stride) == 0;
}

std::vector<int> GroupOf(int participant_count, int rank_stride, int rank) {
  const int block = participant_count * rank_stride;
  const int first = rank / block * block + rank % rank_stride;
  std::vector<int> ranks(static_cast<size_t>(participant_count));
  for (int i = 0; i < participant_count; ++i) ranks[i] = first + i * rank_stride;
  return ranks;
}

CollectiveProbe::CollectiveProbe(RankContext& job, Device& device, LayerKernels& kernels,
                                 Communicator& control, const CollectiveProbeOptions& options)
    : job_(job),
      device_(device),
      kernels_(kernels),
      control_(control),
      options_(options),
      stopwatch_(device.MakeStopwatch()),
      pool_(device.memory()) {}

absl::StatusOr<Communicator*> CollectiveProbe::GroupFor(int participant_count, int rank_stride) {
  std::unique_ptr<Communicator>& group = groups_[{participant_count, rank_stride}];
  if (group == nullptr) {
    PARPLAN_ASSIGN_OR_RETURN(
        group, device_.MakeGroup(job_, absl::StrCat("probe ", rank_stride),
                                 GroupOf(participant_count, rank_stride, job_.rank())));
    PARPLAN_RETURN_IF_ERROR(group->Warm());
  }
  return group.get();
}

absl::Status CollectiveProbe::RunSome(Communicator& group, const CollectiveKey& key,
                                      Buffers& buffers, int count) {
  const int size = group.size();
  // On a GPU the speed of a reduction depends on the type, so it is that of training.
  const ElementType type = options_.is_asynchronous ? kernels_.type() : ElementType::kFloat32;
  const int64_t element_size = ElementSize(type);
  const int64_t whole = key.message_bytes / element_size;
  const int64_t share = whole / size;
  std::unique_ptr<PendingWork> last;
  for (int i = 0; i < count; ++i) {
    const int64_t turn = buffers.next++;
    CollectiveCall call;
    call.type = type;
    call.count = whole;
    call.send = buffers.Send(turn);
    call.receive = buffers.Receive(turn);
    switch (key.collective) {
      case Collective::kAllReduce:
        call.operation = Operation::kAllReduce;
        break;
      case Collective::kAllGather:
        // In place, as the executor does it.
        call.operation = Operation::kAllGather;
        call.count = share;
        call.send = static_cast<char*>(call.receive) + group.rank() * share * element_size;
        break;
      case Collective::kReduceScatter:
        call.operation = Operation::kReduceScatter;
        call.count = share;
        call.receive = static_cast<char*>(buffers.Send(turn)) + group.rank() * share * element_size;
        break;
      case Collective::kAllToAll:
        call.operation = Operation::kAllToAll;
        call.count = share;
        break;
      case Collective::kSendReceive: {
        const bool sends = group.rank() == turn % 2;
        call.operation = sends ? Operation::kSend : Operation::kReceive;
        call.peer = 1 - group.rank();
        break;
      }
      case Collective::kBroadcast:
        call.operation = Operation::kBroadcast;
        call.send = call.receive;
        call.peer = static_cast<int>(turn % size);
        break;
    }
    if (key.collective == Collective::kAllReduce) call.receive = buffers.Send(turn);
    if (!options_.is_asynchronous) {
      PARPLAN_RETURN_IF_ERROR(group.Run(call));
      continue;
    }
    PARPLAN_ASSIGN_OR_RETURN(last, group.Start(call));
  }
  // The operations of a group end in the order in which they were started.
  return last == nullptr ? absl::OkStatus() : last->Wait();
}

absl::Status CollectiveProbe::TakeSamples(Communicator& group, const CollectiveKey& key,
                                          Buffers& buffers, int operation_count, int count,
                                          std::vector<absl::Duration>& samples) {
  std::vector<double> seconds(static_cast<size_t>(count));
  for (double& sample : seconds) {
    stopwatch_->Start();
    PARPLAN_RETURN_IF_ERROR(RunSome(group, key, buffers, operation_count));
    stopwatch_->Stop();
    PARPLAN_ASSIGN_OR_RETURN(const absl::Duration elapsed, stopwatch_->Elapsed());
    sample = absl::ToDoubleSeconds(elapsed) / operation_count;
  }
  PARPLAN_RETURN_IF_ERROR(device_.Synchronize());
  PARPLAN_RETURN_IF_ERROR(
      control_.AllReduce(ElementType::kFloat64, seconds.data(), count, Reduction::kMax));
  // A duration of 0 comes from a coarse clock; profiles need positive times.
  for (const double sample : seconds) samples.push_back(absl::Seconds(std::max(sample, 1e-9)));
  return absl::OkStatus();
}

absl::StatusOr<TimeSpread> CollectiveProbe::Measure(const CollectiveKey& key) {
  if (!ShapeCovers(key.participant_count, key.rank_stride, job_.world_size())) {
    return FieldError(Reason::kSpecInvalid, "participant_count",
                      absl::StrCat("groups of ", key.participant_count, " ranks ", key.rank_stride,
                                   " apart do not cover all ", job_.world_size(), " ranks"));
  }
  if (key.collective == Collective::kSendReceive && key.participant_count != 2) {
    return FieldError(Reason::kSpecInvalid, "participant_count", "must be 2 for send and receive");
  }
  if (key.message_bytes < 1 ||
      key.message_bytes !=
          WholeMessageBytes(key.collective, key.participant_count, key.message_bytes)) {
    return FieldError(
        Reason::kSpecInvalid, "message_size_bytes",
        absl::StrCat(key.message_bytes, " bytes cannot be split into whole floats for ",
                     key.participant_count));
  }
  PARPLAN_ASSIGN_OR_RETURN(Communicator* const group,
                           GroupFor(key.participant_count, key.rank_stride));
  Buffers buffers;
  buffers.message_bytes = key.message_bytes;
  buffers.rotation =
      static_cast<int>(std::clamp<int64_t>(kRotatedBytes / key.message_bytes, 1, kMaxRotation));
  const Bytes all = Bytes::Of(key.message_bytes * buffers.rotation);
  PARPLAN_ASSIGN_OR_RETURN(buffers.send, pool_.Take(ArrayUse::kTransient, all));
  PARPLAN_ASSIGN_OR_RETURN(buffers.receive, pool_.Take(ArrayUse::kTransient, all));
  const int64_t element_count = all.count() / ElementSize(kernels_.type());
  kernels_.Zero(buffers.send.data(), element_count);
  kernels_.Zero(buffers.receive.data(), element_count);
  PARPLAN_RETURN_IF_ERROR(kernels_.Synchronize());
  PARPLAN_RETURN_IF_ERROR(control_.Barrier());

  // The first operations only warm up; the next two set the number of operations in a sample. It is
  // even, so that both sides have as many turns in each sample, unless one operation fills the
  // sample (then 1).
  std::vector<absl::Duration> samples;
  PARPLAN_RETURN_IF_ERROR(RunSome(*group, key, buffers, options_.warm_up_count));
  PARPLAN_RETURN_IF_ERROR(TakeSamples(*group, key, buffers, 2, 1, samples));
  const double wanted = absl::FDivDuration(options_.sample_time, samples.back());
  const int operation_count =
      wanted <= 1.0 ? 1
                    : 2 * std::clamp(static_cast<int>(wanted / 2), 1, kMaxOperationsOfSample / 2);
  samples.clear();

  absl::Duration taken;
  while (static_cast<int>(samples.size()) < options_.max_sample_count) {
    const size_t before = samples.size();
    // Long operations are sampled one by one, because a few of them use up the time limit.
    const int count = operation_count == 1 ? 1 : kSamplesAtOnce;
    PARPLAN_RETURN_IF_ERROR(TakeSamples(*group, key, buffers, operation_count, count, samples));
    for (size_t i = before; i < samples.size(); ++i) taken += samples[i] * operation_count;
    // All ranks have the same samples, so they decide alike.
    if (taken >= options_.time_limit && static_cast<int>(samples.size()) >= 3) break;
    if (static_cast<int>(samples.size()) < options_.min_sample_count) continue;
    if (MedianUncertainty(samples) <= SpreadOf(samples).median * options_.precision) break;
  }
  TimeSpread spread = SpreadOf(samples);
  spread.sample_count = static_cast<int>(samples.size());
  return spread;
}

}  // namespace parplan
