# What is installed where, by component; one component is one Debian package
# (cmake/ParplanPackages.cmake). Read last, when every target is there.
#
#   DESTDIR=folder cmake --install build/release --component parplan-server
#
# Units and configuration have absolute paths: without DESTDIR they go to the machine's own.

if(CMAKE_INSTALL_PREFIX_INITIALIZED_TO_DEFAULT)
  set_property(CACHE CMAKE_INSTALL_PREFIX PROPERTY VALUE /usr)
endif()
include(GNUInstallDirs)

set(PARPLAN_UNIT_DIR /lib/systemd/system CACHE STRING "Folder of systemd units")
set(PARPLAN_CONFIG_DIR /etc/parplan CACHE STRING "Folder of configuration files")
set(PARPLAN_PLUGIN_DIR lib/parplan CACHE STRING "Folder of plugins for programs of others")
set(PARPLAN_PYTHON_DIR lib/python3/dist-packages CACHE STRING "Folder of Python packages")
set(parplan_examples_dir share/parplan/examples)
set(parplan_manual_dir "${PROJECT_BINARY_DIR}/manuals")
set(parplan_deploy "${PROJECT_SOURCE_DIR}/deploy")

# Manual pages and completion come from the programs themselves: `ninja parplan_manuals`.
find_program(PARPLAN_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
set(parplan_manual_programs "")

# Programs of a component, with its manual pages and completion where those were made.
function(parplan_install_programs component)
  foreach(program IN LISTS ARGN)
    if(NOT TARGET ${program})
      continue()
    endif()
    install(TARGETS ${program} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
      COMPONENT ${component})
    list(APPEND parplan_manual_programs ${program})
  endforeach()
  set(parplan_manual_programs "${parplan_manual_programs}" PARENT_SCOPE)
  foreach(folder IN ITEMS man bash-completion fish)
    install(DIRECTORY "${parplan_manual_dir}/${component}/${folder}/" DESTINATION share/${folder}
      COMPONENT ${component} OPTIONAL)
  endforeach()
endfunction()

function(parplan_install_files component destination)
  list(TRANSFORM ARGN PREPEND "${parplan_deploy}/" OUTPUT_VARIABLE files)
  install(FILES ${files} DESTINATION "${destination}" COMPONENT ${component})
endfunction()

# One file under another name.
function(parplan_install_as component path file)
  cmake_path(GET path PARENT_PATH folder)
  cmake_path(GET path FILENAME name)
  install(FILES "${parplan_deploy}/${file}" DESTINATION "${folder}" RENAME "${name}"
    COMPONENT ${component})
endfunction()

parplan_install_programs(parplan-server parplan-server)
parplan_install_files(parplan-server "${PARPLAN_UNIT_DIR}" server/parplan-server.service)
parplan_install_as(parplan-server lib/sysusers.d/parplan-server.conf packages/server/sysusers.conf)
parplan_install_files(parplan-server "${PARPLAN_CONFIG_DIR}" server/parplan-server.json)
parplan_install_files(parplan-server share/doc/parplan-server/examples
  server/parplan-server-tls.json)

parplan_install_files(parplan-server share/parplan/prometheus
  prometheus/alerts.yml prometheus/prometheus.yml prometheus/recording.yml)
parplan_install_files(parplan-server share/parplan/grafana/dashboards
  grafana/dashboards/fleet.json grafana/dashboards/plans.json grafana/dashboards/predictions.json
  grafana/dashboards/service.json)
parplan_install_files(parplan-server share/parplan/grafana/provisioning
  grafana/provisioning/dashboards.yml grafana/provisioning/datasources.yml)

parplan_install_programs(parplan-client planctl)
install(DIRECTORY "${parplan_deploy}/examples/" DESTINATION "${parplan_examples_dir}"
  COMPONENT parplan-client FILES_MATCHING PATTERN "*.json")

parplan_install_programs(parplan-agent parplan-agent parplan-agent-probe)
parplan_install_files(parplan-agent "${PARPLAN_UNIT_DIR}" agent/parplan-agent.service)
parplan_install_as(parplan-agent lib/sysusers.d/parplan-agent.conf packages/agent/sysusers.conf)
parplan_install_as(parplan-agent lib/tmpfiles.d/parplan-agent.conf packages/agent/tmpfiles.conf)
parplan_install_files(parplan-agent "${PARPLAN_CONFIG_DIR}" agent/parplan-agent.toml)
if(TARGET parplan_nccl_profiler)
  add_dependencies(parplan_unsanitized parplan_nccl_profiler)
  install(TARGETS parplan_nccl_profiler LIBRARY DESTINATION "${PARPLAN_PLUGIN_DIR}"
    COMPONENT parplan-agent)
endif()

parplan_install_programs(parplan-executor parplan-exec)
if(TARGET parplan_executor)
  install(TARGETS parplan_executor
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT libparplan-executor1
    NAMELINK_COMPONENT libparplan-executor-dev)
  install(FILES "${PROJECT_SOURCE_DIR}/executor/capi/parplan_executor.h"
    DESTINATION include/parplan COMPONENT libparplan-executor-dev)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/clients/python/parplan_executor"
    DESTINATION "${PARPLAN_PYTHON_DIR}" COMPONENT python3-parplan-executor
    FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
endif()

parplan_install_programs(parplan-sidecar parplan-sidecar)

# What runs inside Slurm's own programs; the hooks are planctl's. Sites differ, so configuration and
# scripts are examples.
if(TARGET spank_parplan)
  install(TARGETS spank_parplan LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/slurm-wlm"
    COMPONENT parplan-slurm)
  install(DIRECTORY "${parplan_deploy}/slurm/" DESTINATION share/doc/parplan-slurm/examples
    COMPONENT parplan-slurm)
endif()

if(PARPLAN_PYTHON AND parplan_manual_programs)
  set(arguments "")
  foreach(program IN LISTS parplan_manual_programs)
    list(APPEND arguments --program $<TARGET_FILE:${program}>)
  endforeach()
  add_custom_target(parplan_manuals ALL
    COMMAND "${PARPLAN_PYTHON}" -B "${parplan_deploy}/packages/make_manuals.py"
            --version ${PROJECT_VERSION} --out "${parplan_manual_dir}" ${arguments}
    DEPENDS ${parplan_manual_programs}
    COMMENT "Writing manual pages and completion"
    VERBATIM)
  add_dependencies(parplan_unsanitized parplan_manuals)
endif()

include(ParplanPackages)
