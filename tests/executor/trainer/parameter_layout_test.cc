#include "executor/trainer/parameter_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/planner/program/program_cases.h"

namespace parplan {
namespace {

// The parts of all ranks make every element of the whole once, but for what all of them
// have.
TEST(ParameterLayout, PartsMakeTheWhole) {
  std::vector<LayerDefinition> layers;
  for (const ModelSpec& model : {SmallGpt(1), SmallGpt2(1), SmallLlama(1)}) {
    layers.insert(layers.end(), model.layer_definitions().begin(), model.layer_definitions().end());
  }
  for (const LayerDefinition& layer : layers) {
    for (const int degree : {1, 2, 3, 4, 5, 6}) {
      if (IsTransformer(layer.kind) && 12 % degree != 0) continue;
      std::map<std::string, std::map<std::pair<int64_t, int64_t>, int>> holders;
      for (int rank = 0; rank < degree; ++rank) {
        const ParameterLayout layout = LayoutOfParameters(layer, degree, rank);
        int64_t next = 0;
        for (const ParameterTensor& tensor : layout.tensors) {
          EXPECT_EQ(tensor.offset, next);
          next += tensor.local_size();
          EXPECT_EQ(tensor.offset >= layout.first_shared, tensor.axis == SplitAxis::kNone);
          for (int64_t row = 0; row < tensor.local_row_count; ++row) {
            for (int64_t column = 0; column < tensor.local_column_count; ++column) {
              ++holders[tensor.name][{tensor.first_row + row, tensor.first_column + column}];
            }
          }
        }
        EXPECT_EQ(layout.size, next);
      }
      const ParameterLayout whole = LayoutOfParameters(layer, 1, 0);
      for (const ParameterTensor& tensor : whole.tensors) {
        const auto& held = holders[tensor.name];
        EXPECT_EQ(static_cast<int64_t>(held.size()), tensor.row_count * tensor.column_count);
        const int expected = tensor.axis == SplitAxis::kNone ? degree : 1;
        for (const auto& [unused, count] : held) ASSERT_EQ(count, expected) << tensor.name;
      }
    }
  }
}

// Layers have the parameters that plans are made for; GPT-2's keys have no bias.
TEST(ParameterLayout, CountsAreThoseOfTheDefinition) {
  for (const ModelSpec& model :
       {SmallGpt(1), SmallGpt(1, /*is_tied=*/true), SmallGpt2(1), SmallLlama(1), SmallBert(1)}) {
    for (const LayerDefinition& layer : model.layer_definitions()) {
      const ParameterLayout layout = LayoutOfParameters(layer, 1, 0);
      const int64_t missing = layout.Has("query_bias") ? layer.hidden_size : 0;
      EXPECT_EQ(layout.size, layer.parameter_count - missing);
    }
  }
  const ModelSpec gpt2 = SmallGpt2(1);
  EXPECT_TRUE(LayoutOfParameters(gpt2.layer(0), 1, 0).Has("positions"));
  EXPECT_TRUE(LayoutOfParameters(gpt2.layer(1), 1, 0).Has("second_bias"));
  EXPECT_TRUE(LayoutOfParameters(gpt2.layer(2), 1, 0).Has("norm_bias"));
}

// Matrices of one product lie together, so that they are one.
TEST(ParameterLayout, QueriesKeysAndValuesFollowOneAnother) {
  const ModelSpec model = SmallGpt(1);
  const ParameterLayout layout = LayoutOfParameters(model.layer_definitions()[1], 3, 1);
  const ParameterTensor& query = layout.Find("query");
  const ParameterTensor& key = layout.Find("key");
  EXPECT_EQ(key.offset, query.offset + query.local_size());
  EXPECT_EQ(layout.Find("value").offset, key.offset + key.local_size());
  EXPECT_FALSE(layout.Has("key_bias"));
}

TEST(InitialElement, IsNormalAndDependsOnEverything) {
  const ParameterTensor tensor{
      .name = "query", .row_count = 100, .column_count = 100, .initial = InitialValue::kNormal};
  double sum = 0.0;
  double squares = 0.0;
  for (int64_t row = 0; row < 100; ++row) {
    for (int64_t column = 0; column < 100; ++column) {
      const double value = InitialElement(1, 2, tensor, row, column);
      sum += value;
      squares += value * value;
    }
  }
  EXPECT_NEAR(sum / 1e4, 0.0, 1e-3);
  EXPECT_NEAR(std::sqrt(squares / 1e4), 0.02, 1e-3);
  ParameterTensor other = tensor;
  other.name = "key";
  const double value = InitialElement(1, 2, tensor, 3, 4);
  EXPECT_EQ(InitialElement(1, 2, tensor, 3, 4), value);
  EXPECT_NE(InitialElement(2, 2, tensor, 3, 4), value);
  EXPECT_NE(InitialElement(1, 3, tensor, 3, 4), value);
  EXPECT_NE(InitialElement(1, 2, other, 3, 4), value);
  EXPECT_NE(InitialElement(1, 2, tensor, 4, 3), value);
}

}  // namespace
}  // namespace parplan
