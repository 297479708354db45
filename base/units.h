// The quantities the planner computes with: a size is `Bytes`, a span of time is `Seconds`, a rate
// of a link is `BusBandwidth`. Inside a search, where times, sizes and prices are terms of one sum,
// they are bare numbers in seconds and bytes (docs/adr/0018-what-the-house-review-would-remove.md).
//
//   const Seconds step = forward + backward * 2.0;
//   if (memory.Total() + Bytes::Ceil(share * 1e9) > budget) ...
//
// Sizes are exact 64-bit counts. Times are doubles in seconds: the search adds and compares
// millions of them, needs no clock, and must scale them by ratios without rounding to a tick
// (docs/adr/0002-seconds.md). Nothing counts in units of 2^30 bytes; importers convert sources that
// do.

#ifndef PARPLAN_BASE_UNITS_H_
#define PARPLAN_BASE_UNITS_H_

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace parplan {

// A number of bytes. It may be negative while something is subtracted from a budget. No operation
// checks for overflow.
class Bytes {
 public:
  constexpr Bytes() = default;
  static constexpr Bytes Of(int64_t count) { return Bytes(count); }
  // Rounds `count` up to a whole byte, so that memory is never understated. REQUIRES: `count` is
  // finite and from -2^63 to below 2^63, which is not checked.
  static Bytes Ceil(double count) { return Bytes(static_cast<int64_t>(std::ceil(count))); }
  // Returns the largest number, which stands for no limit.
  static constexpr Bytes Max() { return Bytes(std::numeric_limits<int64_t>::max()); }

  // Return the number of bytes; as a double it is rounded above 2^53.
  constexpr int64_t count() const { return count_; }
  constexpr double as_double() const { return static_cast<double>(count_); }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes(a.count_ + b.count_); }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes(a.count_ - b.count_); }
  friend constexpr Bytes operator*(Bytes a, int64_t n) { return Bytes(a.count_ * n); }

 private:
  explicit constexpr Bytes(int64_t count) : count_(count) {}
  int64_t count_ = 0;
};

// A span of time.
class Seconds {
 public:
  constexpr Seconds() = default;
  static constexpr Seconds Of(double value) { return Seconds(value); }
  // Makes a time from a number of milliseconds.
  static constexpr Seconds Milliseconds(double value) { return Seconds(value * 1e-3); }
  // A time longer than all others; sums with it stay infinite.
  static constexpr Seconds Infinite() { return Seconds(std::numeric_limits<double>::infinity()); }

  // Return the number of seconds, and of milliseconds.
  constexpr double value() const { return value_; }
  constexpr double milliseconds() const { return value_ * 1e3; }
  // Returns whether the time is a number and not infinite.
  bool is_finite() const { return std::isfinite(value_); }

  friend constexpr auto operator<=>(Seconds, Seconds) = default;
  constexpr Seconds& operator+=(Seconds other) {
    value_ += other.value_;
    return *this;
  }
  friend constexpr Seconds operator+(Seconds a, Seconds b) { return Seconds(a.value_ + b.value_); }
  friend constexpr Seconds operator-(Seconds a, Seconds b) { return Seconds(a.value_ - b.value_); }
  friend constexpr Seconds operator*(Seconds a, double factor) {
    return Seconds(a.value_ * factor);
  }
  friend constexpr Seconds operator*(double factor, Seconds a) {
    return Seconds(a.value_ * factor);
  }
  friend constexpr Seconds operator/(Seconds a, double divisor) {
    return Seconds(a.value_ / divisor);
  }
  friend constexpr double operator/(Seconds a, Seconds b) { return a.value_ / b.value_; }

 private:
  explicit constexpr Seconds(double value) : value_(value) {}
  double value_ = 0.0;
};

// The rate at which one link carries a collective, counted as in nccl-tests: message size divided
// by time, times the bus factor (2(n-1)/n for all-reduce of n ranks, (n-1)/n for all-gather,
// reduce-scatter and all-to-all, 1 for send-receive and broadcast). So it is comparable across
// numbers of ranks, unlike message size divided by time.
class BusBandwidth {
 public:
  static constexpr BusBandwidth BytesPerSecond(double value) { return BusBandwidth(value); }
  constexpr double bytes_per_second() const { return value_; }
  friend constexpr auto operator<=>(BusBandwidth, BusBandwidth) = default;

 private:
  explicit constexpr BusBandwidth(double value) : value_(value) {}
  double value_;
};

}  // namespace parplan

#endif  // PARPLAN_BASE_UNITS_H_
