#include "executor/device/kernels/cpu_rotary.h"

#include <cmath>

namespace parplan {
namespace {

constexpr double kBase = 10000.0;

}  // namespace

template <typename T>
const T* CpuRotary<T>::Turns(int head_size, int64_t position_count) {
  std::vector<T>& turns = turns_[head_size];
  const int pairs = head_size / 2;
  if (static_cast<int64_t>(turns.size()) >= position_count * 2 * pairs) return turns.data();
  turns.clear();
  turns.reserve(position_count * 2 * pairs);
  for (int64_t position = 0; position < position_count; ++position) {
    const auto angle = [=](int pair) {
      return static_cast<double>(position) * std::pow(kBase, -2.0 * pair / head_size);
    };
    for (int pair = 0; pair < pairs; ++pair) {
      turns.push_back(static_cast<T>(std::cos(angle(pair))));
    }
    for (int pair = 0; pair < pairs; ++pair) {
      turns.push_back(static_cast<T>(std::sin(angle(pair))));
    }
  }
  return turns.data();
}

template <typename T>
void CpuRotary<T>::ApplyRotary(const RotaryShape& shape, bool inverse, T* x) {
  const int pairs = shape.head_size / 2;
  const T* const turns = Turns(shape.head_size, shape.first_position + shape.token_count);
  const T direction = inverse ? T(-1) : T(1);
  for (int64_t token = 0; token < shape.token_count; ++token) {
    const T* const turn = turns + (shape.first_position + token) * 2 * pairs;
    for (int64_t sample = 0; sample < shape.sample_count; ++sample) {
      T* head = x + (token * shape.sample_count + sample) * shape.row_stride;
      for (int h = 0; h < shape.head_count; ++h, head += shape.head_size) {
        for (int pair = 0; pair < pairs; ++pair) {
          const T cosine = turn[pair];
          const T sine = direction * turn[pairs + pair];
          const T first = head[pair];
          const T second = head[pairs + pair];
          head[pair] = first * cosine - second * sine;
          head[pairs + pair] = first * sine + second * cosine;
        }
      }
    }
  }
}

template class CpuRotary<float>;
template class CpuRotary<double>;

}  // namespace parplan
