// Parsers of what strangers send, each time with another one of their allocations failing: memory
// that is refused is an error for the caller and nothing else. Sanitizers see whether it leaks.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json/json_text.h"
#include "proto/envelope/envelope_json.h"
#include "proto/wire/resource_name.h"
#include "server/access/policy.h"
#include "server/access/token_verifier.h"
#include "server/access/web_key_set.h"
#include "server/audit/audit_verifier.h"
#include "tests/server/access/token_signer.h"

namespace {

// Allocations of this thread that succeed before one fails.
constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
thread_local int64_t allocations_left = kAll;

void* Allocate(std::size_t size) noexcept {
  if (allocations_left != kAll && --allocations_left < 0) {
    allocations_left = kAll;
    return nullptr;
  }
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const memory = Allocate(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t& /*tag*/) noexcept {
  return Allocate(size);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept {
  std::free(memory);
}

namespace parplan {
namespace {

// A parser with an input that it takes; returns whether it took it.
struct Parser {
  std::string name;
  std::function<bool()> parse;
};

constexpr char kDigest[] = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

std::vector<Parser> Parsers() {
  const std::string line = absl::StrCat(
      R"({"sequence":7,"time":"2026-11-25T21:00:00.5Z","event":"call","decision":"allowed",)",
      R"("identity":"dns:slurm.example","role":"planner","method":"CreatePlan",)",
      R"("resource":"clusters/lab","job_id":"4711","plan":"","key_ids":["a","b"],)",
      R"("request_id":"r","previous":")", kDigest, "\"}");
  const std::string envelope =
      R"({"payload":"cGxhbg==","payloadType":"application/vnd.parplan.plan.v1",)"
      R"("signatures":[{"keyid":"key","sig":"c2lnbmF0dXJl"}]})";
  const std::vector<Grant> grants = {{.identities = {"spiffe://lab.example/{cluster}/job/{job}"},
                                      .role = "executor",
                                      .clusters = {},
                                      .nodes = {},
                                      .jobs = {}},
                                     {.identities = {"dns:slurm.lab.example"},
                                      .role = "planner",
                                      .clusters = {"west", "east"},
                                      .nodes = {},
                                      .jobs = {}}};
  const TokenSigner signer = EcSigner("key-of-the-cluster");
  const std::string key_set =
      absl::StrCat(R"({"keys":[)", signer.json, ",", RsaSigner("another-key").json, "]}");
  const auto verifier = std::make_shared<TokenVerifier>(
      TokenVerifier::Rules{.issuer = "https://kubernetes.default.svc", .audience = "parplan"},
      *WebKeySet::Create(key_set, "jwks"));
  const std::string token =
      MakeToken(signer, {{"alg", "ES256"}, {"kid", "key-of-the-cluster"}},
                {{"iss", "https://kubernetes.default.svc"},
                 {"aud", {"another-audience-of-the-token", "parplan"}},
                 {"sub", "system:serviceaccount:laboratory:trainer-of-models"},
                 {"exp", 2000},
                 {"kubernetes.io", {{"pod", {{"name", "trainer-of-models-0"}}}}}});
  return {
      {"TokenVerifier",
       [verifier, token] { return verifier->Verify(token, absl::FromUnixSeconds(1000)).ok(); }},
      {"WebKeySet", [key_set] { return WebKeySet::Create(key_set, "jwks").ok(); }},
      {"ReadJsonText",
       [] {
         return ReadJsonText(
                    R"({"a":[1,2.5,"text that is longer than a short one",null,{"b":[]}]})", "file")
             .ok();
       }},
      {"ReadAuditLine", [line] { return ReadAuditLine(line).ok(); }},
      {"EnvelopeFromJson", [envelope] { return EnvelopeFromJson(envelope).ok(); }},
      {"Policy", [grants] { return Policy::Create(grants, "grants").ok(); }},
      {"PlanName",
       [] {
         return PlanName::Parse("clusters/laboratory-of-the-west/plans/30404c464c2c3c3993cf8d2bf1")
             .ok();
       }},
  };
}

// How one run with a failing allocation ended.
enum class Outcome { kTook, kRefused, kNoMemory };

Outcome ParseWith(const Parser& parser, int64_t allocation_count) {
  allocations_left = allocation_count;
  Outcome outcome = Outcome::kNoMemory;
  try {
    outcome = parser.parse() ? Outcome::kTook : Outcome::kRefused;
  } catch (const std::bad_alloc&) {
  }
  return outcome;
}

TEST(ParserMemory, AnAllocationThatFailsIsAnErrorOfItsCallAlone) {
  for (const Parser& parser : Parsers()) {
    SCOPED_TRACE(parser.name);
    ASSERT_EQ(ParseWith(parser, kAll), Outcome::kTook);
    int64_t count = 0;
    int64_t without_memory = 0;
    while (true) {
      const Outcome outcome = ParseWith(parser, count);
      const bool failed = allocations_left == kAll;
      allocations_left = kAll;
      // Fewer allocations than were allowed: none failed.
      if (!failed) {
        EXPECT_EQ(outcome, Outcome::kTook);
        break;
      }
      without_memory += outcome == Outcome::kNoMemory ? 1 : 0;
      ++count;
      // The next call has its memory again.
      ASSERT_EQ(ParseWith(parser, kAll), Outcome::kTook) << count;
    }
    EXPECT_GT(without_memory, 0);
  }
}

}  // namespace
}  // namespace parplan
