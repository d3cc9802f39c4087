// SPDX-License-Identifier: Apache-2.0
#include "support.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>

namespace magicube_jni {
namespace {

JavaVM* virtual_machine;
jclass exception_class;
jmethodID exception_constructor;
jclass bridge_class;
jmethodID bridge_message;

// Bytes, not a Java string: messages may quote paths of any encoding.
jbyteArray to_bytes(JNIEnv* env, const char* text) {
    const auto length = static_cast<jsize>(std::strlen(text));
    jbyteArray bytes = env->NewByteArray(length);
    if (bytes) env->SetByteArrayRegion(bytes, 0, length, reinterpret_cast<const jbyte*>(text));
    return bytes;
}

jclass find_class(JNIEnv* env, const char* name) {
    const jclass local = env->FindClass(name);
    return local ? static_cast<jclass>(env->NewGlobalRef(local)) : nullptr;
}

bool find_classes(JNIEnv* env) {
    exception_class = find_class(env, "org/magicube/MagicubeException");
    if (!exception_class) return false;
    exception_constructor = env->GetMethodID(exception_class, "<init>", "(I[B)V");
    if (!exception_constructor) return false;
    bridge_class = find_class(env, "org/magicube/internal/LogBridge");
    if (!bridge_class) return false;
    bridge_message = env->GetStaticMethodID(bridge_class, "message", "(I[B)V");
    return bridge_message != nullptr;
}

std::mutex trace_mutex;

std::ofstream& trace_file() {
    static std::ofstream file(std::getenv("MAGICUBE_JAVA_TRACE"), std::ios::app);
    return file;
}

}  // namespace

std::atomic<int> trace_generation{std::getenv("MAGICUBE_JAVA_TRACE") ? 1 : 0};

void trace_call(const char* function, std::atomic<int>& seen, int generation) {
    const std::lock_guard<std::mutex> lock(trace_mutex);
    if (seen.exchange(generation) != generation) trace_file() << "call " << function << std::endl;
}

void trace_test(const char* name) {
    const std::lock_guard<std::mutex> lock(trace_mutex);
    if (trace_generation == 0) return;
    ++trace_generation;
    trace_file() << "test " << name << std::endl;
}

void throw_status(JNIEnv* env, magicubeStatus_t status) {
    const jbyteArray message = to_bytes(env, magicubeGetLastErrorMessage());
    if (!message) return;  // OutOfMemoryError is pending
    const jobject exception =
        env->NewObject(exception_class, exception_constructor, static_cast<jint>(status), message);
    if (exception) env->Throw(static_cast<jthrowable>(exception));
}

void forward_message(magicubeLogLevel_t level, const char* message, void*) {
    JNIEnv* env = nullptr;
    // Threads of the library's pool are no threads of Java until now.
    const bool attached =
        virtual_machine->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_8) == JNI_OK;
    if (!attached && virtual_machine->AttachCurrentThreadAsDaemon(reinterpret_cast<void**>(&env),
                                                                  nullptr) != JNI_OK) {
        return;
    }
    const jbyteArray bytes = to_bytes(env, message);
    if (bytes) {
        env->CallStaticVoidMethod(bridge_class, bridge_message, static_cast<jint>(level), bytes);
        env->DeleteLocalRef(bytes);
    }
    // A message that cannot be queued is lost; the call that wrote it must not fail for that.
    if (env->ExceptionCheck()) env->ExceptionClear();
    if (!attached) virtual_machine->DetachCurrentThread();
}

void* buffer_address(JNIEnv* env, jobject buffer) {
    return env->GetDirectBufferAddress(buffer);
}

jobject buffer_over(JNIEnv* env, void* address, int64_t bytes) {
    return env->NewDirectByteBuffer(address, bytes);
}

jobject string_bytes(JNIEnv* env, const char* text) {
    return to_bytes(env, text ? text : "");
}

}  // namespace magicube_jni

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* machine, void*) {
    magicube_jni::virtual_machine = machine;
    JNIEnv* env = nullptr;
    if (machine->GetEnv(reinterpret_cast<void**>(&env), JNI_VERSION_1_8) != JNI_OK) return JNI_ERR;
    return magicube_jni::find_classes(env) ? JNI_VERSION_1_8 : JNI_ERR;
}
