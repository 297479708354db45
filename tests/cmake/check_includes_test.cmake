# Plants one source at a time in an empty tree and looks what CheckIncludes.cmake
# says under the project's own rules: each forbidden include must be caught, each
# allowed one let through.
cmake_minimum_required(VERSION 3.25)

# Checks a tree with `line` in the file `source`. `expected` is a regex of the
# complaint, or empty for none.
function(expect source line expected)
  file(REMOVE_RECURSE "${PLANTED}")
  file(WRITE "${PLANTED}/${source}" "// Planted.\n${line}\n")
  file(WRITE "${PLANTED}/base/beside.h" "// Included by others.\n")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -DROOT=${PLANTED} -DRULES=${ROOT}/cmake/include_rules.txt
            -P "${ROOT}/cmake/CheckIncludes.cmake"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(SEND_ERROR "${source} with '${line}' was refused:\n${output}")
  elseif(NOT expected STREQUAL "" AND result EQUAL 0)
    message(SEND_ERROR "${source} with '${line}' was let through")
  elseif(NOT output MATCHES "${expected}")
    message(SEND_ERROR "${source} with '${line}' gave another complaint:\n${output}")
  endif()
endfunction()

set(outside "is a forbidden header")
set(inside "is not among what .* may include")

expect(base/planted.h "#include <string>" "")
expect(planner/search/planted.cc "#include \"planner/model/plan.h\"" "")
expect(planner/search/planted.cc "#include \"absl/time/time.h\"" "")
expect(server/rpc/planted.cc "#include <grpcpp/grpcpp.h>" "")
expect(server/main.cc "#include \"server/rpc/service.h\"" "")
expect(proto/wire/planted.h "#include \"parplan/v1/plan.pb.h\"" "")
expect(tests/server/planted.cc "#include \"server/core/service.h\"" "")

foreach(header grpcpp/grpcpp.h google/protobuf/message.h spdlog/spdlog.h prometheus/counter.h
        openssl/evp.h fstream iostream filesystem thread mutex chrono random ctime
        absl/time/clock.h absl/synchronization/mutex.h)
  expect(planner/search/planted.cc "#include <${header}>" "${outside}")
endforeach()
expect(base/planted.cc "  #  include \"parplan/v1/plan.pb.h\"" "${outside}")
expect(planner/check/planted.cc "#include \"planner/find_plan.h\"" "${inside}")
expect(base/planted.cc "#include \"planner/model/plan.h\"" "${inside}")
expect(planner/model/planted.cc "#include \"tests/support/twin.h\"" "${inside}")
expect(server/core/planted.cc "#include \"server/rpc/service.h\"" "${inside}")
expect(server/core/planted.cc "#include <grpcpp/grpcpp.h>" "${outside}")
expect(server/store/planted.cc "#include \"parplan/v1/plan.grpc.pb.h\"\n#include \"server/core/a.h\""
       "${inside}")
expect(clients/cpp/planted.cc "#include \"server/core/a.h\"" "${inside}")
expect(clients/unheard_of/planted.cc "#include <string>" "its folder has no allow rule")
expect(base/planted.cc "#include \"beside.h\"" "from the root of the repository")

# Rules that let a folder of the top level include one above it are no rules.
file(WRITE "${PLANTED}/rules.txt" "allow planner\nallow clients/cpp profiler-agent/upload\n")
execute_process(
  COMMAND "${CMAKE_COMMAND}" -DROOT=${PLANTED} -DRULES=${PLANTED}/rules.txt
          -P "${ROOT}/cmake/CheckIncludes.cmake"
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
string(REGEX REPLACE "[ \n]+" " " output "${output}")
if(result EQUAL 0 OR NOT output MATCHES "clients/cpp may not include profiler-agent/upload")
  message(SEND_ERROR "A rule that points upwards was let through:\n${output}")
endif()
