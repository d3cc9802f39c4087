// SPDX-License-Identifier: Apache-2.0
// What the generated JNI functions call: exceptions, buffers, log messages and the trace.
#pragma once

#include <jni.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "magicube/magicube.h"

namespace magicube_jni {

// Throws MagicubeException with the status and this thread's last message.
void throw_status(JNIEnv* env, magicubeStatus_t status);

// Receives the library's log messages, on any thread.
void forward_message(magicubeLogLevel_t level, const char* message, void* user_data);

void* buffer_address(JNIEnv* env, jobject buffer);
jobject buffer_over(JNIEnv* env, void* address, int64_t bytes);
jobject string_bytes(JNIEnv* env, const char* text);

// An array of addresses between a long[] and a function that writes names.
class address_list {
  public:
    void resize(JNIEnv* env, jlongArray target) {
        if (target) names_.resize(static_cast<size_t>(env->GetArrayLength(target)));
    }
    const char** data() { return names_.empty() ? nullptr : names_.data(); }
    int32_t size() const { return static_cast<int32_t>(names_.size()); }
    void write(JNIEnv* env, jlongArray target) const {
        for (size_t i = 0; i < names_.size(); ++i) {
            const auto address = static_cast<jlong>(reinterpret_cast<uintptr_t>(names_[i]));
            env->SetLongArrayRegion(target, static_cast<jsize>(i), 1, &address);
        }
    }

  private:
    std::vector<const char*> names_;
};

// With MAGICUBE_JAVA_TRACE=FILE in the environment, the name of every function of the ABI that is
// called is appended to FILE as "call NAME", once after each "test NAME".
extern std::atomic<int> trace_generation;  // 0: no trace
void trace_call(const char* function, std::atomic<int>& seen, int generation);
void trace_test(const char* name);

}  // namespace magicube_jni

#define MAGICUBE_JNI_TRACE(function)                                                    \
    {                                                                                   \
        static std::atomic<int> seen{0};                                                \
        const int now = magicube_jni::trace_generation.load(std::memory_order_relaxed); \
        if (now != seen.load(std::memory_order_relaxed))                                \
            magicube_jni::trace_call(function, seen, now);                              \
    }
