// Pseudo-random numbers as a function of their purpose. Initial parameters and synthetic tokens
// come from it.

#ifndef PARPLAN_EXECUTOR_TRAINER_MIX_BITS_H_
#define PARPLAN_EXECUTOR_TRAINER_MIX_BITS_H_

#include <cstdint>

namespace parplan {

// Returns the output of SplitMix64: equal for equal inputs, unrelated for any others (Steele et al.
// 2014).
inline uint64_t MixBits(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace parplan

#endif  // PARPLAN_EXECUTOR_TRAINER_MIX_BITS_H_
