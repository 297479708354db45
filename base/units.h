// Quantities the planner computes with. A bare number never crosses a public
// function: a size is `Bytes`, a span of time is `Seconds`, a rate is
// `BusBandwidth` or `AlgorithmBandwidth`.
//
// Sizes are exact 64-bit counts, times are doubles in seconds: the search adds
// and compares millions of them, needs no clock, and must scale them by
// ratios without rounding to a tick (docs/adr/0002-seconds.md). Nothing in this
// house counts in 2^30; where a source does, the importer converts.

#ifndef PARPLAN_BASE_UNITS_H_
#define PARPLAN_BASE_UNITS_H_

#include <algorithm>
#include <cmath>
#include <compare>
#include <cstdint>
#include <limits>

namespace parplan {

// A number of bytes. May be negative while a budget is being subtracted from.
class Bytes {
 public:
  constexpr Bytes() = default;
  static constexpr Bytes Of(int64_t count) { return Bytes(count); }
  // `count` rounded up to a whole byte: memory is never under-stated.
  static Bytes Ceil(double count) { return Bytes(static_cast<int64_t>(std::ceil(count))); }
  static constexpr Bytes Max() { return Bytes(std::numeric_limits<int64_t>::max()); }

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
  static constexpr Seconds Milliseconds(double value) { return Seconds(value * 1e-3); }
  static constexpr Seconds Infinite() { return Seconds(std::numeric_limits<double>::infinity()); }

  constexpr double value() const { return value_; }
  constexpr double milliseconds() const { return value_ * 1e3; }
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

namespace internal {

// Common body of the two bandwidths. `Tag` keeps them apart.
template <typename Tag>
class Rate {
 public:
  static constexpr Rate BytesPerSecond(double value) { return Rate(value); }
  static constexpr Rate GigabytesPerSecond(double value) { return Rate(value * 1e9); }
  constexpr double bytes_per_second() const { return value_; }
  friend constexpr auto operator<=>(Rate, Rate) = default;

 private:
  explicit constexpr Rate(double value) : value_(value) {}
  double value_;
};

}  // namespace internal

// Message size divided by elapsed time. Depends on the number of ranks.
using AlgorithmBandwidth = internal::Rate<struct AlgorithmBandwidthTag>;

// Algorithm bandwidth scaled to what one link carries, which makes it
// comparable across rank counts. The two are different types on purpose:
// confusing them is a factor-of-two error that no test of shapes will catch.
using BusBandwidth = internal::Rate<struct BusBandwidthTag>;

// Time to move `size` at `rate`. REQUIRES: rate > 0.
inline constexpr Seconds operator/(Bytes size, AlgorithmBandwidth rate) {
  return Seconds::Of(size.as_double() / rate.bytes_per_second());
}

}  // namespace parplan

#endif  // PARPLAN_BASE_UNITS_H_
