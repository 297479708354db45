#include "server/audit/audit_record.h"

namespace parplan {
namespace {

class NullSink : public AuditSink {
 public:
  absl::Status Write(const AuditRecord& /*record*/) override { return absl::OkStatus(); }
};

}  // namespace

AuditSink& AuditSink::Null() {
  static auto& sink = *new NullSink;
  return sink;
}

}  // namespace parplan
