#include "server/rpc/method_names.h"

#include <google/protobuf/descriptor.h>

#include "parplan/v1/agent_service.pb.h"
#include "parplan/v1/calibration_service.pb.h"
#include "parplan/v1/execution_service.pb.h"
#include "parplan/v1/plan_service.pb.h"
#include "parplan/v1/profile_service.pb.h"

namespace parplan {

std::vector<std::string> MethodNames() {
  std::vector<std::string> names;
  // Each service has a file of its own, which one of its messages leads to.
  for (const google::protobuf::FileDescriptor* file :
       {v1::ConnectAgentRequest::descriptor()->file(),
        v1::UploadCalibrationRequest::descriptor()->file(),
        v1::CreateExecutionRequest::descriptor()->file(),
        v1::CreatePlanRequest::descriptor()->file(),
        v1::UploadProfileRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) {
        names.push_back(file->service(i)->method(j)->name());
      }
    }
  }
  return names;
}

}  // namespace parplan
