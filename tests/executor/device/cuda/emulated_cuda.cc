#include "tests/executor/device/cuda/emulated_cuda.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace parplan::cuda {

EmulatedPlace emulated_place;

namespace {

constexpr int kWarp = 32;
constexpr size_t kStackBytes = size_t{256} << 10;

enum class FiberState { kReady, kAtBlock, kAtWarp, kDone };

struct Fiber {
  // Contexts for the start and for continuing: jumps are ten times as fast as context switches,
  // which ask the system for signal masks.
  ucontext_t context;
  jmp_buf place;
  bool has_begun = false;
  std::unique_ptr<char[]> stack;
  FiberState state = FiberState::kDone;
  uint32_t bits = 0;
  // Operands of MultiplyTiles.
  uint32_t a[4] = {};
  uint32_t b[2] = {};
  dim3 thread;
};

// One block at a time; fibers and their stacks serve all of them.
struct BlockRunner {
  std::vector<Fiber> fibers;
  jmp_buf scheduler;
  int running = 0;
  int count = 0;
  const std::function<void()>* kernel = nullptr;
  std::vector<char> shared;
};
BlockRunner runner;

void FiberMain() {
  (*runner.kernel)();
  runner.fibers[runner.running].state = FiberState::kDone;
  ::_longjmp(runner.scheduler, 1);
}

// Until the next `Yield` or the end.
[[gnu::noinline]] void Resume(int index) {
  Fiber& fiber = runner.fibers[index];
  runner.running = index;
  emulated_place.thread = fiber.thread;
  if (::_setjmp(runner.scheduler) != 0) return;
  if (fiber.has_begun) ::_longjmp(fiber.place, 1);
  fiber.has_begun = true;
  ::setcontext(&fiber.context);
}

[[gnu::noinline]] void Yield(FiberState state) {
  Fiber& own = runner.fibers[runner.running];
  own.state = state;
  if (::_setjmp(own.place) == 0) ::_longjmp(runner.scheduler, 1);
}

// Lets threads [first, last) go on where all that have not ended wait at the same barrier.
bool Release(int first, int last, FiberState state) {
  int waiting = 0;
  for (int i = first; i < last; ++i) {
    const FiberState each = runner.fibers[i].state;
    if (each == state) ++waiting;
    if (each != state && each != FiberState::kDone) return false;
  }
  for (int i = first; i < last; ++i) {
    if (runner.fibers[i].state == state) runner.fibers[i].state = FiberState::kReady;
  }
  return waiting > 0;
}

void RunBlock(bool reverses) {
  for (int i = 0; i < runner.count; ++i) {
    Fiber& fiber = runner.fibers[i];
    ::getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    ::makecontext(&fiber.context, FiberMain, 0);
    fiber.state = FiberState::kReady;
    fiber.has_begun = false;
  }
  while (true) {
    bool has_run = false;
    bool is_over = true;
    for (int k = 0; k < runner.count; ++k) {
      const int i = reverses ? runner.count - 1 - k : k;
      if (runner.fibers[i].state == FiberState::kReady) {
        Resume(i);
        has_run = true;
      }
      is_over = is_over && runner.fibers[i].state == FiberState::kDone;
    }
    if (is_over) return;
    bool is_released = Release(0, runner.count, FiberState::kAtBlock);
    for (int first = 0; first < runner.count; first += kWarp) {
      is_released |= Release(first, std::min(first + kWarp, runner.count), FiberState::kAtWarp);
    }
    if (!has_run && !is_released) {
      std::fprintf(stderr, "threads of a block wait at different barriers\n");
      std::abort();
    }
  }
}

}  // namespace

void RunEmulated(dim3 grid, dim3 block, int shared_bytes, bool reverses,
                 const std::function<void()>& kernel) {
  runner.kernel = &kernel;
  runner.count = static_cast<int>(block.x * block.y * block.z);
  if (static_cast<int>(runner.fibers.size()) < runner.count) runner.fibers.resize(runner.count);
  for (int i = 0; i < runner.count; ++i) {
    Fiber& fiber = runner.fibers[i];
    if (fiber.stack == nullptr) fiber.stack = std::make_unique<char[]>(kStackBytes);
    fiber.thread = dim3(i % block.x, i / block.x % block.y, i / (block.x * block.y));
  }
  // Memory that was never written is NaN.
  runner.shared.assign(shared_bytes + 16, '\xff');
  emulated_place.block_size = block;
  emulated_place.grid_size = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        emulated_place.block = dim3(x, y, z);
        RunBlock(reverses);
      }
    }
  }
}

void AwaitBlock() { Yield(FiberState::kAtBlock); }

uint32_t ExchangeBits(uint32_t bits, int lane) {
  const int own = runner.running;
  runner.fibers[own].bits = bits;
  Yield(FiberState::kAtWarp);
  const uint32_t result = runner.fibers[own / kWarp * kWarp + lane].bits;
  Yield(FiberState::kAtWarp);
  return result;
}

char* DynamicShared() {
  const auto address = reinterpret_cast<uintptr_t>(runner.shared.data());
  return reinterpret_cast<char*>((address + 15) / 16 * 16);
}

void MultiplyTiles(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  Fiber& own = runner.fibers[runner.running];
  std::copy_n(a, 4, own.a);
  std::copy_n(b, 2, own.b);
  Yield(FiberState::kAtWarp);
  const Fiber* const warp = &runner.fibers[runner.running / kWarp * kWarp];
  const auto half = [](uint32_t bits, int which) {
    return FromBfloat16(static_cast<uint16_t>(which == 0 ? bits : bits >> 16));
  };
  const auto a_at = [&](int row, int k) {
    const int lane = 4 * (row % 8) + k % 8 / 2;
    return half(warp[lane].a[(row >= 8 ? 1 : 0) + (k >= 8 ? 2 : 0)], k % 2);
  };
  const auto b_at = [&](int k, int column) {
    return half(warp[4 * column + k % 8 / 2].b[k >= 8 ? 1 : 0], k % 2);
  };
  const int g = runner.running % kWarp / 4;
  const int t = runner.running % kWarp % 4;
  for (int e = 0; e < 4; ++e) {
    const int row = g + e / 2 * 8;
    const int column = 2 * t + e % 2;
    for (int k = 0; k < 16; ++k) c[e] += a_at(row, k) * b_at(k, column);
  }
  // Before the next ones are put there.
  Yield(FiberState::kAtWarp);
}

}  // namespace parplan::cuda
