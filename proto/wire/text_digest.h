// SHA-256 of a text that is made in parts, so that a large one is never in memory whole. The
// digests of this folder are made with it.

#ifndef PARPLAN_PROTO_WIRE_TEXT_DIGEST_H_
#define PARPLAN_PROTO_WIRE_TEXT_DIGEST_H_

#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace parplan {

// Used by one thread. A failure of OpenSSL, such as no memory, aborts.
class TextDigest {
 public:
  TextDigest();
  ~TextDigest();

  TextDigest(const TextDigest&) = delete;
  TextDigest& operator=(const TextDigest&) = delete;

  // Appends a part of the text.
  void Append(absl::string_view text);

  // Returns 64 hexadecimal digits. To be called once, at the end.
  std::string Hex();

 private:
  evp_md_ctx_st* const context_;
};

}  // namespace parplan

#endif  // PARPLAN_PROTO_WIRE_TEXT_DIGEST_H_
