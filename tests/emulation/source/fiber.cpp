// SPDX-License-Identifier: Apache-2.0
#include "source/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if !defined(__x86_64__)
#error "The emulated device switches contexts by x86-64 instructions"
#endif

// Saves what a called function must keep, and the stack pointer to *from; then the reverse with
// `to`. A new stack holds zeros for the registers and the address of its first function.
asm(R"(
.text
.p2align 4
.globl magicube_emulated_switch
.hidden magicube_emulated_switch
.type magicube_emulated_switch, @function
magicube_emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size magicube_emulated_switch, .-magicube_emulated_switch
)");
extern "C" void magicube_emulated_switch(void** from, void* to);

namespace emulated {
namespace {

constexpr size_t guard_bytes = 4096;

#if defined(__SANITIZE_ADDRESS__)
// Who switched away last, and where the stack of the operating system's thread lies.
fiber* left = nullptr;
const void* thread_stack = nullptr;
size_t thread_stack_bytes = 0;
#endif

}  // namespace

fiber::fiber(size_t stack_bytes) : stack_bytes_(stack_bytes) {
    void* memory = mmap(nullptr, stack_bytes + guard_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, guard_bytes, PROT_NONE) != 0) {
        std::fputs("emulated device: no memory for the stack of a thread\n", stderr);
        std::abort();
    }
    mapping_ = static_cast<char*>(memory);
    stack_ = mapping_ + guard_bytes;
}

fiber::~fiber() {
    if (mapping_) munmap(mapping_, stack_bytes_ + guard_bytes);
}

void fiber::reset(entry start) {
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(stack_, stack_bytes_);
    fake_stack_ = nullptr;
#endif
    // The stack pointer is 8 beyond a multiple of 16 at a function's first instruction.
    auto** top = reinterpret_cast<void**>(stack_ + stack_bytes_) - 1;
    *top = nullptr;
    *--top = reinterpret_cast<void*>(start);
    for (int i = 0; i < 6; ++i) *--top = nullptr;
    stack_pointer_ = top;
}

void fiber::switch_to(fiber& next) {
#if defined(__SANITIZE_ADDRESS__)
    left = this;
    __sanitizer_start_switch_fiber(&fake_stack_, next.stack_ ? next.stack_ : thread_stack,
                                   next.stack_ ? next.stack_bytes_ : thread_stack_bytes);
#endif
    magicube_emulated_switch(&stack_pointer_, next.stack_pointer_);
    finish_switch(fake_stack_);
}

void fiber::arrived() {
    finish_switch(nullptr);
}

// On the stack that was switched to.
void fiber::finish_switch([[maybe_unused]] void* fake_stack) {
#if defined(__SANITIZE_ADDRESS__)
    const void* bottom = nullptr;
    size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (left->stack_) return;
    thread_stack = bottom;
    thread_stack_bytes = bytes;
#endif
}

}  // namespace emulated
