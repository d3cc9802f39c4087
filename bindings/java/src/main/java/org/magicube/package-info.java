// SPDX-License-Identifier: Apache-2.0

/**
 * Sparse low-precision matrix products on Tensor Cores and CPUs: the C library libmagicube under
 * names of Java.
 *
 * <p>A {@link org.magicube.Handle} names a device and carries settings. Data lie in
 * {@link org.magicube.Memory}: a direct buffer of java.nio, or memory of a device. A
 * {@link org.magicube.DenseMatrix} or {@link org.magicube.SparseMatrix} tells what they mean. An
 * operation such as {@link org.magicube.SpMM} turns a problem into a plan, once, and executes it
 * any number of times.
 *
 * <p>Objects that own something native are {@link java.lang.AutoCloseable}. What is not closed is
 * freed once it is unreachable. Closing twice does nothing; using what is closed throws
 * {@link java.lang.IllegalStateException}; closing what a call of another thread uses takes effect
 * when that call returns.
 *
 * <p>Errors: {@link java.lang.IllegalArgumentException} for arguments that this package refuses (a
 * heap buffer, memory that is too small, another device's memory), and
 * {@link org.magicube.MagicubeException}, with a status, for those that the library does. Either
 * message names the argument, its value and the rule. A null that is not allowed gives
 * {@link java.lang.NullPointerException}.
 */
package org.magicube;
