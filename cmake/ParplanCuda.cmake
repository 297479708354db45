# The CUDA toolkit, NCCL and the language CUDA, for the one target that needs them.

# nvcc is seldom in the PATH.
if(NOT CMAKE_CUDA_COMPILER)
  find_program(PARPLAN_NVCC nvcc HINTS ENV CUDACXX PATHS /usr/local/cuda/bin /opt/cuda/bin)
  if(NOT PARPLAN_NVCC)
    message(FATAL_ERROR "PARPLAN_WITH_CUDA needs nvcc of the CUDA toolkit; put it in the PATH or "
                        "set CMAKE_CUDA_COMPILER")
  endif()
  set(CMAKE_CUDA_COMPILER "${PARPLAN_NVCC}" CACHE FILEPATH "")
endif()
# A build to test has machine code for Hopper, and intermediate code that newer GPUs' drivers
# compile. What is shipped has machine code for A100, L40S, H100, B200 and their kin too, which takes
# five times as long; toolkits before 12.8 do not know the last two.
option(PARPLAN_CUDA_FLEET "Compile kernels for all GPUs that are served, not for Hopper alone" OFF)
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90-real 90-virtual)
  if(PARPLAN_CUDA_FLEET)
    execute_process(COMMAND "${CMAKE_CUDA_COMPILER}" --version
      OUTPUT_VARIABLE parplan_nvcc_text COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" parplan_nvcc_release "${parplan_nvcc_text}")
    if(CMAKE_MATCH_1 VERSION_LESS 12.8)
      set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90-real 90-virtual)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80-real 89-real 90-real 100-real 120-real 120-virtual)
    endif()
  endif()
endif()
# CMake 3.25 does not know how to ask a new nvcc for C++20.
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
find_package(CUDAToolkit 12.0 REQUIRED)

# cuDNN's frontend computes attention where libcudnn.so.9 is found at run time. It consists of
# headers, which need cuDNN's own; `./parplan-dev` takes them from PyPI.
set(PARPLAN_CUDNN_FRONTEND "" CACHE PATH "Folder with cudnn_frontend.h; empty: build without cuDNN")
if(PARPLAN_CUDNN_FRONTEND)
  if(NOT EXISTS "${PARPLAN_CUDNN_FRONTEND}/cudnn_frontend.h")
    message(FATAL_ERROR "PARPLAN_CUDNN_FRONTEND: there is no cudnn_frontend.h in "
                        "${PARPLAN_CUDNN_FRONTEND}")
  endif()
  find_path(PARPLAN_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT PARPLAN_CUDNN_INCLUDE_DIR)
    message(FATAL_ERROR "PARPLAN_CUDNN_FRONTEND needs cudnn.h; set PARPLAN_CUDNN_INCLUDE_DIR, or "
                        "leave PARPLAN_CUDNN_FRONTEND empty")
  endif()
endif()
find_package(NCCL REQUIRED)
