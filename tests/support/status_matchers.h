// Matchers of GoogleTest for absl::Status and absl::StatusOr:
//
//   EXPECT_OK(store.Commit());
//   ASSERT_OK_AND_ASSIGN(const Plan plan, FindPlan(problem));
//   EXPECT_THAT(Parse("-1"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("field")));
//   EXPECT_THAT(Parse("1"), IsOkAndHolds(1));
//
// Debian's Abseil has no matchers of its own.

#ifndef PARPLAN_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define PARPLAN_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace parplan {
namespace status_matchers_internal {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }

template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

// The message of a status as a std::string, which GoogleMock's string matchers
// take; absl::string_view is a type of its own on Debian.
inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

class StatusIsMatcher {
 public:
  StatusIsMatcher(testing::Matcher<absl::StatusCode> code, testing::Matcher<std::string> message)
      : code_(std::move(code)), message_(std::move(message)) {}

  template <typename StatusLike>
  bool MatchAndExplain(const StatusLike& actual, testing::MatchResultListener* listener) const {
    const absl::Status& status = StatusOf(actual);
    *listener << "whose status is " << status.ToString();
    return code_.Matches(status.code()) && message_.Matches(MessageOf(status));
  }

  void DescribeTo(std::ostream* out) const {
    *out << "has a status code that ";
    code_.DescribeTo(out);
    *out << " and a message that ";
    message_.DescribeTo(out);
  }

  void DescribeNegationTo(std::ostream* out) const {
    *out << "has another status code or message than: ";
    DescribeTo(out);
  }

 private:
  testing::Matcher<absl::StatusCode> code_;
  testing::Matcher<std::string> message_;
};

class IsOkMatcher {
 public:
  template <typename StatusLike>
  bool MatchAndExplain(const StatusLike& actual, testing::MatchResultListener* listener) const {
    const absl::Status& status = StatusOf(actual);
    if (!status.ok()) *listener << "whose status is " << status.ToString();
    return status.ok();
  }
  void DescribeTo(std::ostream* out) const { *out << "is OK"; }
  void DescribeNegationTo(std::ostream* out) const { *out << "is not OK"; }
};

template <typename Inner>
class IsOkAndHoldsMatcher {
 public:
  explicit IsOkAndHoldsMatcher(Inner inner) : inner_(std::move(inner)) {}

  template <typename Result>
  operator testing::Matcher<Result>() const {  // NOLINT: GoogleMock converts implicitly.
    return testing::Matcher<Result>(new Implementation<Result>(inner_));
  }

 private:
  template <typename Result>
  class Implementation : public testing::MatcherInterface<Result> {
   public:
    using Value = typename std::remove_cv_t<std::remove_reference_t<Result>>::value_type;

    explicit Implementation(const Inner& inner)
        : inner_(testing::SafeMatcherCast<const Value&>(inner)) {}

    bool MatchAndExplain(Result actual, testing::MatchResultListener* listener) const override {
      if (!actual.ok()) {
        *listener << "whose status is " << actual.status().ToString();
        return false;
      }
      return inner_.MatchAndExplain(*actual, listener);
    }
    void DescribeTo(std::ostream* out) const override {
      *out << "is OK and holds a value that ";
      inner_.DescribeTo(out);
    }
    void DescribeNegationTo(std::ostream* out) const override {
      *out << "is not OK or holds a value that ";
      inner_.DescribeNegationTo(out);
    }

   private:
    testing::Matcher<const Value&> inner_;
  };

  Inner inner_;
};

}  // namespace status_matchers_internal

inline auto IsOk() {
  return testing::MakePolymorphicMatcher(status_matchers_internal::IsOkMatcher());
}

inline auto StatusIs(testing::Matcher<absl::StatusCode> code,
                     testing::Matcher<std::string> message = testing::_) {
  return testing::MakePolymorphicMatcher(
      status_matchers_internal::StatusIsMatcher(std::move(code), std::move(message)));
}

template <typename Inner>
auto IsOkAndHolds(Inner&& inner) {
  return status_matchers_internal::IsOkAndHoldsMatcher<std::decay_t<Inner>>(
      std::forward<Inner>(inner));
}

}  // namespace parplan

#define EXPECT_OK(expression) EXPECT_THAT(expression, ::parplan::IsOk())
#define ASSERT_OK(expression) ASSERT_THAT(expression, ::parplan::IsOk())

#define PARPLAN_CONCATENATE_INNER(a, b) a##b
#define PARPLAN_CONCATENATE(a, b) PARPLAN_CONCATENATE_INNER(a, b)

// Declares or assigns `target` from a StatusOr; ends the test where it is an error.
#define ASSERT_OK_AND_ASSIGN(target, expression) \
  PARPLAN_ASSERT_OK_AND_ASSIGN_(PARPLAN_CONCATENATE(parplan_result_, __LINE__), target, expression)
#define PARPLAN_ASSERT_OK_AND_ASSIGN_(result, target, expression) \
  auto result = (expression);                                     \
  ASSERT_THAT(result, ::parplan::IsOk());                         \
  target = *std::move(result)

#endif  // PARPLAN_TESTS_SUPPORT_STATUS_MATCHERS_H_
