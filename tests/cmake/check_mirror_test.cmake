# Plants files in an empty tree and looks what CheckMirror.cmake says: folders that match must pass,
# each mismatch must be named.
cmake_minimum_required(VERSION 3.25)

# Checks a tree of the files in ARGN. `expected` is a regex of the complaint, or empty for none.
function(expect expected)
  file(REMOVE_RECURSE "${PLANTED}")
  file(MAKE_DIRECTORY "${PLANTED}")
  foreach(path IN LISTS ARGN)
    file(WRITE "${PLANTED}/${path}" "Planted.\n")
  endforeach()
  execute_process(
    COMMAND "${CMAKE_COMMAND}" -DROOT=${PLANTED} -P "${ROOT}/cmake/CheckMirror.cmake"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(expected STREQUAL "" AND NOT result EQUAL 0)
    message(SEND_ERROR "${ARGN} were refused:\n${output}")
  elseif(NOT expected STREQUAL "" AND result EQUAL 0)
    message(SEND_ERROR "${ARGN} were let through")
  elseif(NOT output MATCHES "${expected}")
    message(SEND_ERROR "${ARGN} gave another complaint:\n${output}")
  endif()
endfunction()

expect("")
expect("" base/a.cc base/json/b.h tests/CMakeLists.txt tests/base/a_test.cc
       tests/base/json/b_test.cc tests/base/json/data/b.json)
expect("" clients/python/a.py tests/clients/python/a_test.py
       tests/clients/python/__pycache__/a.pyc)
expect("" deploy/prometheus/rules.yml tests/deploy/prometheus/golden/rules.json)
expect("" tests/support/a.h tests/integration/replicas/a_test.py tests/fuzz/corpus/a/seed
       tests/benchmarks/prediction/a.py tests/gpu/a.cc)
expect("" proto/parplan/v1/a.proto proto/parplan/agent/v1/b.proto tests/proto/contract_test.cc)

# Tests without a counterpart.
expect("tests/base/text: there is no folder base/text" base/a.cc tests/base/a_test.cc
       tests/base/text/b_test.cc)
expect("tests/supporting: there is no folder supporting" tests/supporting/a.h)
expect("tests/none/data: there is no folder none;" tests/none/data/a.json)

# Sources without tests.
foreach(source base/a.cc planner/search/base/a.h executor/device/cuda/a.cu clients/python/a.py
        profiler-agent/main/main.cc studies/main/main.cc)
  cmake_path(GET source PARENT_PATH folder)
  expect("${folder}: has no test in tests/${folder};" "${source}")
  # Files that are no tests do not help, and neither does a test further down.
  expect("${folder}: has no test in" "${source}" "tests/${folder}/a_fixture.cc")
  expect("${folder}: has no test in" "${source}" "${folder}/b/a.cc" "tests/${folder}/b/a_test.cc")
  expect("" "${source}" "tests/${folder}/a_test.cc")
endforeach()
expect("proto/parplan/v1: has no test in tests/proto;" proto/parplan/v1/a.proto)
expect("proto/wire: has no test in tests/proto/wire;" proto/wire/a.cc tests/proto/contract_test.cc)

# All mismatches at once.
expect("base/text: there is.*server/core: has no test" tests/base/text/a_test.cc server/core/a.cc)
