#include "base/service/listen/hand_over.h"

#include <grpcpp/server_posix.h>

namespace parplan {

ConnectionGate::HandOver HandOverTo(grpc::Server& server,
                                    grpc::experimental::ExternalConnectionAcceptor& acceptor) {
  return [&server, &acceptor](const NewConnection& connection) {
    if (connection.is_named_by_descriptor) {
      grpc::AddInsecureChannelFromFd(&server, connection.descriptor);
      return;
    }
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = connection.listener;
    parameters.fd = connection.descriptor;
    acceptor.HandleNewConnection(&parameters);
  };
}

}  // namespace parplan
