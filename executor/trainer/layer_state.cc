#include "executor/trainer/layer_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "executor/device/kernels/host_elements.h"

namespace parplan {
namespace {

// Every shard begins at a multiple of this. From addresses that are no multiple of 16 bytes NCCL
// and kernels move single elements; memory of GPUs is read in pieces of 128 bytes. Not measured.
constexpr int64_t kShardAlignment = 128;

}  // namespace

int64_t ShardSize(int64_t size, int64_t rank_count, int64_t element_size) {
  const int64_t step = kShardAlignment / element_size;
  const int64_t share = (size + rank_count - 1) / rank_count;
  return (share + step - 1) / step * step;
}

LayerState::LayerState(const LayerTools& tools, const ParameterLayout& layout, Communicator* group,
                       const OptimizerSettings& optimizer)
    : tools_(tools), layout_(layout), group_(group), optimizer_(optimizer) {
  const int64_t ranks = group_ == nullptr ? 1 : group_->size();
  shard_size_ = Shards(ShardingLevel::kOptimizer)
                    ? ShardSize(layout_.size, ranks, tools_.element_size())
                    : (layout_.size + ranks - 1) / ranks;
  padded_size_ = shard_size_ * ranks;
}

absl::StatusOr<std::unique_ptr<LayerState>> LayerState::Create(const LayerTools& tools,
                                                               const ParameterLayout& layout,
                                                               Communicator* gradient_group,
                                                               int layer_index, uint64_t seed,
                                                               const OptimizerSettings& optimizer) {
  std::unique_ptr<LayerState> state(new LayerState(tools, layout, gradient_group, optimizer));
  PARPLAN_RETURN_IF_ERROR(state->Fill(layer_index, seed));
  return state;
}

absl::Status LayerState::Fill(int layer_index, uint64_t seed) {
  LayerKernels& kernels = tools_.kernels();
  PARPLAN_ASSIGN_OR_RETURN(Array whole, tools_.Take(ArrayUse::kParameters, padded_size_));
  kernels.Zero(whole.data(), padded_size_);
  for (const ParameterTensor& tensor : layout_.tensors) {
    void* const data = tools_.At(whole.data(), tensor.offset);
    if (tensor.initial == InitialValue::kOne) {
      const std::vector<double> ones(tensor.local_size(), 1.0);
      PARPLAN_RETURN_IF_ERROR(WriteElements(kernels, kernels.type(), ones, data));
    } else if (tensor.initial != InitialValue::kZero) {
      kernels.FillNormal({.stream = InitialStream(seed, layer_index, tensor),
                          .deviation = InitialDeviation(tensor),
                          .column_count = tensor.column_count,
                          .first_row = tensor.first_row,
                          .first_column = tensor.first_column,
                          .part_row_count = tensor.local_row_count,
                          .part_column_count = tensor.local_column_count},
                         data);
    }
  }
  if (Shards(ShardingLevel::kParameters)) {
    PARPLAN_ASSIGN_OR_RETURN(parameters_, tools_.Take(ArrayUse::kParameters, shard_size_));
    kernels.CopyRows(tools_.At(whole.data(), group_->rank() * shard_size_), shard_size_,
                     parameters_.data(), shard_size_, 1, shard_size_);
  } else {
    parameters_ = std::move(whole);
    PARPLAN_ASSIGN_OR_RETURN(gradients_,
                             tools_.TakeZeroStatistics(ArrayUse::kGradients, padded_size_));
  }
  if (Shards(ShardingLevel::kGradients)) {
    gradients_.Reset();
    PARPLAN_ASSIGN_OR_RETURN(gradient_shard_,
                             tools_.TakeZeroStatistics(ArrayUse::kGradients, shard_size_));
  }
  return MakeOptimizerStates();
}

OptimizerSettings SettingsOf(Optimizer optimizer) {
  if (optimizer == Optimizer::kSgd) return SgdSettings{.momentum = 0.0};
  return AdamSettings{};
}

absl::Status LayerState::MakeOptimizerStates() {
  LayerKernels& kernels = tools_.kernels();
  const bool is_sharded = Shards(ShardingLevel::kOptimizer);
  const int64_t size = is_sharded ? shard_size_ : padded_size_;
  const auto* const sgd = std::get_if<SgdSettings>(&optimizer_);
  if (sgd == nullptr || sgd->momentum != 0.0) {
    PARPLAN_ASSIGN_OR_RETURN(first_moments_,
                             tools_.TakeZeroStatistics(ArrayUse::kOptimizerStates, size));
  }
  if (std::holds_alternative<AdamSettings>(optimizer_)) {
    PARPLAN_ASSIGN_OR_RETURN(second_moments_,
                             tools_.TakeZeroStatistics(ArrayUse::kOptimizerStates, size));
  }
  if (kernels.statistics_type() == kernels.type()) return absl::OkStatus();
  // Masters begin with the values of the rounded parameters.
  const bool is_part = is_sharded && !Shards(ShardingLevel::kParameters);
  const int64_t first = is_part ? group_->rank() * shard_size_ : 0;
  PARPLAN_ASSIGN_OR_RETURN(masters_, tools_.TakeStatistics(ArrayUse::kMasterParameters, size));
  kernels.ToStatistics(tools_.At(parameters_.data(), first), masters_.data(), size);
  return absl::OkStatus();
}

absl::Status LayerState::StartGatherInto(const void* shard, void* whole) {
  CollectiveCall call;
  call.operation = Operation::kAllGather;
  call.type = tools_.kernels().type();
  call.count = shard_size_;
  call.send = shard;
  call.receive = whole;
  PARPLAN_ASSIGN_OR_RETURN(gathering_, group_->Start(call));
  return absl::OkStatus();
}

absl::Status LayerState::AwaitGather() {
  if (gathering_ == nullptr) return absl::OkStatus();
  const absl::Status status = gathering_->Wait();
  gathering_.reset();
  return status;
}

absl::Status LayerState::StartGather() {
  if (!communicates_ahead() || !Shards(ShardingLevel::kParameters) || !gathered_.is_null()) {
    return absl::OkStatus();
  }
  // It lives through the rest of another layer's pass.
  PARPLAN_ASSIGN_OR_RETURN(
      gathered_, tools_.setting().pool->Take(ArrayUse::kGatheredParameters,
                                             Bytes::Of(padded_size_ * tools_.element_size()),
                                             Lifetime::kLasting));
  return StartGatherInto(parameters_.data(), gathered_.data());
}

absl::StatusOr<const void*> LayerState::Parameters() {
  PARPLAN_RETURN_IF_ERROR(AwaitGather());
  if (!Shards(ShardingLevel::kParameters)) return parameters_.data();
  if (gathered_.is_null()) {
    PARPLAN_ASSIGN_OR_RETURN(gathered_, tools_.Take(ArrayUse::kGatheredParameters, padded_size_));
    PARPLAN_RETURN_IF_ERROR(group_->AllGather(tools_.kernels().type(), parameters_.data(),
                                              gathered_.data(), shard_size_));
  }
  return gathered_.data();
}

void LayerState::Release() { gathered_.Reset(); }

absl::StatusOr<void*> LayerState::Gradients() {
  if (gradients_.is_null()) {
    // A passing array, although those that are scattered live into the next layer's pass: as a
    // lasting one it leaves holes between activations, and HeapMemory's plans need up to 1.8 %
    // more.
    PARPLAN_ASSIGN_OR_RETURN(
        gradients_, tools_.TakeZeroStatistics(ArrayUse::kGatheredParameters, padded_size_));
  }
  return gradients_.data();
}

absl::Status LayerState::SumShared() {
  if (!tools_.is_sequence_parallel() || layout_.size == layout_.first_shared) {
    return absl::OkStatus();
  }
  return tools_.setting().tensor->AllReduce(
      tools_.kernels().statistics_type(),
      tools_.StatisticAt(gradients_.data(), layout_.first_shared),
      layout_.size - layout_.first_shared);
}

absl::Status LayerState::EndBackward() {
  if (!Shards(ShardingLevel::kGradients)) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(SumShared());
  // Those of a micro-batch before come first.
  PARPLAN_RETURN_IF_ERROR(FinishScatter());
  leaving_gradients_ = std::move(gradients_);
  if (communicates_ahead()) {
    PARPLAN_ASSIGN_OR_RETURN(scattering_, group_->Start(Scatter(leaving_gradients_)));
    return absl::OkStatus();
  }
  PARPLAN_RETURN_IF_ERROR(group_->Run(Scatter(leaving_gradients_)));
  AddScattered();
  return absl::OkStatus();
}

CollectiveCall LayerState::Scatter(const Array& gradients) const {
  CollectiveCall call;
  call.operation = Operation::kReduceScatter;
  call.type = tools_.kernels().statistics_type();
  call.count = shard_size_;
  call.send = gradients.data();
  call.receive = tools_.StatisticAt(gradients.data(), group_->rank() * shard_size_);
  return call;
}

void LayerState::AddScattered() {
  const void* const part =
      tools_.StatisticAt(leaving_gradients_.data(), group_->rank() * shard_size_);
  tools_.kernels().AddStatistics(part, gradient_shard_.data(), shard_size_);
  leaving_gradients_.Reset();
}

absl::Status LayerState::FinishScatter() {
  if (scattering_ == nullptr) return absl::OkStatus();
  const absl::Status status = scattering_->Wait();
  scattering_.reset();
  PARPLAN_RETURN_IF_ERROR(status);
  AddScattered();
  return absl::OkStatus();
}

LayerState::~LayerState() {
  // The pool gives the buffers to others after this.
  AwaitGather().IgnoreError();
  if (scattering_ != nullptr) scattering_->Wait().IgnoreError();
  if (synchronization_ != nullptr) synchronization_->Wait().IgnoreError();
}

absl::Status LayerState::StartSynchronize() {
  is_synchronizing_ = true;
  if (Shards(ShardingLevel::kGradients)) return absl::OkStatus();
  PARPLAN_RETURN_IF_ERROR(SumShared());
  if (group_ == nullptr) return absl::OkStatus();
  CollectiveCall call = Scatter(gradients_);
  if (!Shards(ShardingLevel::kOptimizer)) {
    call.operation = Operation::kAllReduce;
    call.count = padded_size_;
    call.receive = gradients_.data();
  }
  PARPLAN_ASSIGN_OR_RETURN(synchronization_, group_->Start(call));
  return absl::OkStatus();
}

absl::Status LayerState::Synchronize() {
  if (!is_synchronizing_) PARPLAN_RETURN_IF_ERROR(StartSynchronize());
  is_synchronizing_ = false;
  PARPLAN_RETURN_IF_ERROR(FinishScatter());
  if (synchronization_ == nullptr) return absl::OkStatus();
  const absl::Status status = synchronization_->Wait();
  synchronization_.reset();
  return status;
}

absl::Status LayerState::AddUpWith(Communicator& other, const ParameterTensor& tensor) {
  PARPLAN_CHECK(!Shards(ShardingLevel::kOptimizer));
  return other.AllReduce(tools_.kernels().statistics_type(),
                         tools_.StatisticAt(gradients_.data(), tensor.offset), tensor.local_size());
}

absl::Status LayerState::Step(int64_t step) {
  LayerKernels& kernels = tools_.kernels();
  const bool is_sharded = Shards(ShardingLevel::kOptimizer);
  const int64_t first = is_sharded ? group_->rank() * shard_size_ : 0;
  const int64_t count = is_sharded ? shard_size_ : padded_size_;
  const void* const gradients = Shards(ShardingLevel::kGradients)
                                    ? gradient_shard_.data()
                                    : tools_.StatisticAt(gradients_.data(), first);
  void* const parameters = Shards(ShardingLevel::kParameters)
                               ? parameters_.data()
                               : tools_.At(parameters_.data(), first);
  if (const auto* const adam = std::get_if<AdamSettings>(&optimizer_)) {
    kernels.AdamStep(*adam, step, gradients, first_moments_.data(), second_moments_.data(),
                     masters_.data(), parameters, count);
  } else {
    kernels.SgdStep(std::get<SgdSettings>(optimizer_), gradients, first_moments_.data(),
                    masters_.data(), parameters, count);
  }
  if (Shards(ShardingLevel::kGradients)) {
    tools_.ZeroStatistics(gradient_shard_.data(), shard_size_);
  } else {
    tools_.ZeroStatistics(gradients_.data(), padded_size_);
  }
  if (!is_sharded || Shards(ShardingLevel::kParameters)) return absl::OkStatus();
  if (communicates_ahead()) return StartGatherInto(parameters, parameters_.data());
  return group_->AllGather(kernels.type(), parameters, parameters_.data(), shard_size_);
}

absl::StatusOr<std::vector<StatePart>> LayerState::Parts() {
  PARPLAN_RETURN_IF_ERROR(AwaitGather());
  const auto of = [this](StateKind kind, const Array& array, bool is_sharded, ElementType type) {
    const int64_t first = is_sharded ? std::min(layout_.size, group_->rank() * shard_size_) : 0;
    const int64_t end = is_sharded ? first + shard_size_ : layout_.size;
    return StatePart{.kind = kind,
                     .data = array.data(),
                     .first = first,
                     .count = std::min(end, layout_.size) - first,
                     .type = type};
  };
  const LayerKernels& kernels = tools_.kernels();
  std::vector<StatePart> parts = {
      of(StateKind::kParameters, parameters_, Shards(ShardingLevel::kParameters), kernels.type())};
  const bool shards_states = Shards(ShardingLevel::kOptimizer);
  const std::pair<StateKind, const Array*> states[] = {
      {StateKind::kMasters, &masters_},
      {StateKind::kFirstMoments, &first_moments_},
      {StateKind::kSecondMoments, &second_moments_}};
  for (const auto& [kind, array] : states) {
    if (array->is_null()) continue;
    parts.push_back(of(kind, *array, shards_states, kernels.statistics_type()));
  }
  return parts;
}

}  // namespace parplan
