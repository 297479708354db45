#include "executor/trainer/parameter_layout.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "executor/device/comm/collective_program.h"
#include "executor/device/kernels/mix_bits.h"

namespace parplan {
namespace {

// Standard deviations of initial values, those of GPT-2. Matrices that write to the residual stream
// have the smaller one.
constexpr double kDeviation = 0.02;
constexpr double kSmallDeviation = 0.005;

uint64_t HashOfName(const std::string& name) {
  uint64_t hash = 0;
  for (const char letter : name) hash = MixBits(hash ^ static_cast<unsigned char>(letter));
  return hash;
}

class LayoutMaker {
 public:
  LayoutMaker(int parts, int part) : parts_(parts), part_(part) {}

  void Add(const char* name, int64_t rows, int64_t columns, SplitAxis axis, InitialValue initial) {
    ParameterTensor tensor{.name = name,
                           .row_count = rows,
                           .column_count = columns,
                           .axis = axis,
                           .initial = initial,
                           .local_row_count = rows,
                           .local_column_count = columns};
    if (axis == SplitAxis::kRows) {
      tensor.first_row = PartBegin(rows, part_, parts_);
      tensor.local_row_count = PartBegin(rows, part_ + 1, parts_) - tensor.first_row;
    } else if (axis == SplitAxis::kColumns) {
      tensor.first_column = PartBegin(columns, part_, parts_);
      tensor.local_column_count = PartBegin(columns, part_ + 1, parts_) - tensor.first_column;
    }
    layout_.tensors.push_back(std::move(tensor));
  }

  ParameterLayout Make() {
    std::stable_partition(
        layout_.tensors.begin(), layout_.tensors.end(),
        [](const ParameterTensor& tensor) { return tensor.axis != SplitAxis::kNone; });
    for (ParameterTensor& tensor : layout_.tensors) {
      tensor.offset = layout_.size;
      layout_.size += tensor.local_size();
      if (tensor.axis != SplitAxis::kNone) layout_.first_shared = layout_.size;
    }
    return std::move(layout_);
  }

 private:
  const int parts_;
  const int part_;
  ParameterLayout layout_;
};

void AddNorm(const char* gain, const char* bias, int64_t hidden, bool has_bias,
             LayoutMaker& maker) {
  maker.Add(gain, 1, hidden, SplitAxis::kNone, InitialValue::kOne);
  if (has_bias) maker.Add(bias, 1, hidden, SplitAxis::kNone, InitialValue::kZero);
}

void AddTransformer(const LayerDefinition& layer, LayoutMaker& maker) {
  const int64_t hidden = layer.hidden_size;
  const int64_t query = int64_t{layer.attention_head_count} * layer.head_size;
  const int64_t key_value = int64_t{layer.key_value_head_count} * layer.head_size;
  const int64_t inner = layer.feed_forward_size;
  const bool is_gpt = layer.feed_forward_kind == FeedForwardKind::kGelu;
  const bool has_biases =
      is_gpt && layer.parameter_count > 2 * hidden * (query + key_value + inner) + 2 * hidden;
  // Matrices of one product are adjacent.
  maker.Add(tensor_names::kQuery, query, hidden, SplitAxis::kRows, InitialValue::kNormal);
  maker.Add(tensor_names::kKey, key_value, hidden, SplitAxis::kRows, InitialValue::kNormal);
  maker.Add(tensor_names::kValue, key_value, hidden, SplitAxis::kRows, InitialValue::kNormal);
  maker.Add(tensor_names::kProjection, hidden, query, SplitAxis::kColumns,
            InitialValue::kSmallNormal);
  if (is_gpt) {
    maker.Add(tensor_names::kFirst, inner, hidden, SplitAxis::kRows, InitialValue::kNormal);
  } else {
    maker.Add(tensor_names::kGate, inner, hidden, SplitAxis::kRows, InitialValue::kNormal);
    maker.Add(tensor_names::kUp, inner, hidden, SplitAxis::kRows, InitialValue::kNormal);
  }
  maker.Add(tensor_names::kSecond, hidden, inner, SplitAxis::kColumns, InitialValue::kSmallNormal);
  AddNorm(tensor_names::kAttentionNormGain, tensor_names::kAttentionNormBias, hidden, has_biases,
          maker);
  AddNorm(tensor_names::kFeedForwardNormGain, tensor_names::kFeedForwardNormBias, hidden,
          has_biases, maker);
  if (!has_biases) return;
  // Each element is a row, so that biases are split as the rows of their matrices are.
  maker.Add(tensor_names::kQueryBias, query, 1, SplitAxis::kRows, InitialValue::kZero);
  maker.Add(tensor_names::kValueBias, key_value, 1, SplitAxis::kRows, InitialValue::kZero);
  maker.Add(tensor_names::kFirstBias, inner, 1, SplitAxis::kRows, InitialValue::kZero);
  maker.Add(tensor_names::kProjectionBias, 1, hidden, SplitAxis::kNone, InitialValue::kZero);
  maker.Add(tensor_names::kSecondBias, 1, hidden, SplitAxis::kNone, InitialValue::kZero);
}

}  // namespace

const ParameterTensor& ParameterLayout::Find(absl::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(),
                   [&](const ParameterTensor& tensor) { return tensor.name == name; });
  PARPLAN_CHECK(found != tensors.end());
  return *found;
}

bool ParameterLayout::Has(absl::string_view name) const {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const ParameterTensor& tensor) { return tensor.name == name; });
}

ParameterLayout LayoutOfParameters(const LayerDefinition& layer, int tensor_parallel_degree,
                                   int tensor_rank) {
  LayoutMaker maker(tensor_parallel_degree, tensor_rank);
  if (IsTransformer(layer.kind)) {
    AddTransformer(layer, maker);
  } else {
    if (!layer.tied_embedding) {
      maker.Add(tensor_names::kTable, layer.vocabulary_size, layer.hidden_size, SplitAxis::kRows,
                InitialValue::kNormal);
    }
    const int64_t hidden = layer.hidden_size;
    const int64_t rest =
        layer.parameter_count - (layer.tied_embedding ? 0 : hidden * layer.vocabulary_size);
    if (layer.kind == LayerKind::kHead) {
      AddNorm(tensor_names::kNormGain, tensor_names::kNormBias, hidden, /*has_bias=*/rest > hidden,
              maker);
    } else if (rest >= hidden * layer.sequence_length) {
      maker.Add(tensor_names::kPositions, rest / hidden, hidden, SplitAxis::kNone,
                InitialValue::kSmallNormal);
    }
  }
  return maker.Make();
}

uint64_t InitialStream(uint64_t seed, int layer_index, const ParameterTensor& tensor) {
  return MixBits(seed ^ MixBits(static_cast<uint64_t>(layer_index) ^ HashOfName(tensor.name)));
}

double InitialDeviation(const ParameterTensor& tensor) {
  return tensor.initial == InitialValue::kNormal ? kDeviation : kSmallDeviation;
}

double InitialElement(uint64_t seed, int layer_index, const ParameterTensor& tensor, int64_t row,
                      int64_t column) {
  if (tensor.initial == InitialValue::kZero) return 0.0;
  if (tensor.initial == InitialValue::kOne) return 1.0;
  const auto place = static_cast<uint64_t>(row * tensor.column_count + column);
  return NormalNumber(InitialStream(seed, layer_index, tensor), place) * InitialDeviation(tensor);
}

}  // namespace parplan
