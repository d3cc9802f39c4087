// SPDX-License-Identifier: Apache-2.0
// How the C ABI looks inside org.magicube.internal. Typemaps only: what they apply to (opaque
// types, enums, structs with an INIT macro, headers) is listed by declarations.sh from the headers,
// so that a new operation needs no line here.
//
//   C                                        Java
//   opaque handle, data pointer, const char* long: the address, 0 for null
//   T* that a function writes                long[] of one element, or null
//   status that a function returns           void; MagicubeException unless it is SUCCESS
//   enum                                     int
//   struct                                   class with getters and setters, made from its INIT
%module Native

%{
#include "magicube/magicube.h"
#include "support.hpp"
%}

%include <stdint.i>
%include <enumtypeunsafe.swg>
%javaconst(1);

// Notes which functions are called, for the table of what the tests cover.
%exception {
    MAGICUBE_JNI_TRACE("$name")
    $action
}

// ---- typemaps ---------------------------------------------------------------------------------
%typemap(jni) void* ADDRESS "jlong"
%typemap(jtype, nopgcpp="1") void* ADDRESS "long"
%typemap(jstype) void* ADDRESS "long"
%typemap(javain) void* ADDRESS "$javainput"
%typemap(javaout) void* ADDRESS { return $jnicall; }
%typemap(in) void* ADDRESS %{ $1 = ($1_ltype)(uintptr_t)$input; %}
%typemap(out) void* ADDRESS %{ $result = (jlong)(uintptr_t)$1; %}
%typemap(memberin) void* ADDRESS %{ $1 = ($1_ltype)$input; %}
%typemap(freearg) void* ADDRESS ""
%typemap(argout) void* ADDRESS ""

%typemap(jni) void** OUT "jlongArray"
%typemap(jtype) void** OUT "long[]"
%typemap(jstype) void** OUT "long[]"
%typemap(javain) void** OUT "$javainput"
%typemap(in) void** OUT ($*1_ltype written) %{
    written = ($*1_ltype)0;
    $1 = $input ? &written : NULL;
%}
%typemap(argout) void** OUT {
    const jlong value = (jlong)written$argnum;
    if ($input) jenv->SetLongArrayRegion($input, 0, 1, &value);
}
%typemap(freearg) void** OUT ""

%define MAGICUBE_ADDRESS(TYPE)
%apply void* ADDRESS { TYPE };
%enddef
%define MAGICUBE_OUT(TYPE)
%apply void** OUT { TYPE };
%enddef

MAGICUBE_ADDRESS(void*)
MAGICUBE_ADDRESS(const void*)
MAGICUBE_ADDRESS(const char*)
MAGICUBE_ADDRESS(float*)
MAGICUBE_ADDRESS(const float*)
MAGICUBE_ADDRESS(uint8_t*)
MAGICUBE_ADDRESS(const uint8_t*)
MAGICUBE_ADDRESS(const int32_t*)
MAGICUBE_ADDRESS(const int64_t*)
MAGICUBE_ADDRESS(CUstream_st*)
MAGICUBE_OUT(int32_t*)
MAGICUBE_OUT(int64_t*)
MAGICUBE_OUT(size_t*)
MAGICUBE_OUT(void**)
MAGICUBE_OUT(const void**)
MAGICUBE_OUT(const int32_t**)
MAGICUBE_OUT(const uint8_t**)
MAGICUBE_OUT(CUstream_st**)
// Lists of addresses and of shapes, which Java lays out.
MAGICUBE_ADDRESS(void* const*)
MAGICUBE_ADDRESS(const void* const*)
MAGICUBE_ADDRESS(magicubeKroneckerShape_t*)
MAGICUBE_ADDRESS(const magicubeKroneckerShape_t*)
MAGICUBE_ADDRESS(double*)
// Arrays that a function fills, not numbers that it tells.
MAGICUBE_ADDRESS(int32_t* schedule)
MAGICUBE_ADDRESS(int32_t* col_indices)
MAGICUBE_ADDRESS(int32_t* block_col_indices)

%typemap(jni) magicubeStatus_t "void"
%typemap(jtype) magicubeStatus_t "void"
%typemap(jstype) magicubeStatus_t "void"
%typemap(javaout) magicubeStatus_t { $jnicall; }
%typemap(out) magicubeStatus_t %{
    if ($1 != MAGICUBE_STATUS_SUCCESS) {
        magicube_jni::throw_status(jenv, $1);
        return $null;
    }
%}
%typemap(jni) magicubeStatus_t status "jint"
%typemap(jtype) magicubeStatus_t status "int"
%typemap(jstype) magicubeStatus_t status "int"
%typemap(javain) magicubeStatus_t status "$javainput"

// Names of implementations: as many addresses as the array holds.
%typemap(jni) (const char** names, int32_t capacity) "jlongArray"
%typemap(jtype) (const char** names, int32_t capacity) "long[]"
%typemap(jstype) (const char** names, int32_t capacity) "long[]"
%typemap(javain) (const char** names, int32_t capacity) "$javainput"
%typemap(in) (const char** names, int32_t capacity) (magicube_jni::address_list list) %{
    list.resize(jenv, $input);
    $1 = ($1_ltype)list.data();
    $2 = list.size();
%}
%typemap(argout) (const char** names, int32_t capacity) %{ list$argnum.write(jenv, $input); %}
%typemap(freearg) (const char** names, int32_t capacity) ""

// Messages go to org.magicube.internal.LogBridge, or nowhere.
%typemap(jni) (magicubeLogCallback_t callback, void* user_data) "jboolean"
%typemap(jtype) (magicubeLogCallback_t callback, void* user_data) "boolean"
%typemap(jstype) (magicubeLogCallback_t callback, void* user_data) "boolean"
%typemap(javain) (magicubeLogCallback_t callback, void* user_data) "$javainput"
%typemap(in) (magicubeLogCallback_t callback, void* user_data) %{
    $1 = $input ? magicube_jni::forward_message : nullptr;
    $2 = nullptr;
%}

// ---- classes ----------------------------------------------------------------------------------
// Freed by close, never by a finalizer.
%typemap(javafinalize) SWIGTYPE ""
%typemap(javainterfaces) SWIGTYPE "NativeStruct"
%typemap(javacode) SWIGTYPE %{
  @Override
  public void close() {
    delete();
  }
%}
%define MAGICUBE_STRUCT(NAME, INIT)
%extend NAME {
    NAME() {
        const NAME initial = INIT;
        return new NAME(initial);
    }
}
%enddef
%pragma(java) jniclasscode=%{
  static {
    NativeLibrary.load();
  }
%}

// ---- what is not in the headers ---------------------------------------------------------------
%typemap(jni) jobject "jobject"
%typemap(jtype) jobject "Object"
%typemap(jstype) jobject "Object"
%typemap(javain) jobject "$javainput"
%typemap(javaout) jobject { return $jnicall; }
%typemap(in) jobject %{ $1 = $input; %}
%typemap(out) jobject %{ $result = $1; %}
%typemap(in, numinputs=0) JNIEnv* env %{ $1 = jenv; %}

namespace magicube_jni {
/* Address of a direct java.nio buffer's first byte; 0 for one without memory. */
void* buffer_address(JNIEnv* env, jobject buffer);
/* A java.nio.ByteBuffer over memory that the caller keeps alive. */
jobject buffer_over(JNIEnv* env, void* address, int64_t bytes);
/* The bytes of a nul-terminated string. */
jobject string_bytes(JNIEnv* env, const char* text);
/* Names the test whose calls the trace lists from here on; nothing without a trace. */
void trace_test(const char* name);
}

%include "declarations.i"
