// SPDX-License-Identifier: Apache-2.0
package org.magicube;

/**
 * What executions of products bring for their epilogue. Setters return the object itself.
 *
 * @param <A> the class of the operation's arguments
 */
public abstract class ProductArgs<A extends ProductArgs<A>> extends Args<A> {
    Float alpha;
    Float beta;
    Memory alphaMemory;
    Memory betaMemory;
    Memory bias;

    ProductArgs() {}

    /**
     * Sets alpha.
     *
     * @param value 1 until set
     * @return this
     */
    public final A alpha(float value) {
        alpha = value;
        return self();
    }

    /**
     * Sets alpha, read as the handle's pointer mode says.
     *
     * @param value one float
     * @return this
     */
    public final A alpha(Memory value) {
        alphaMemory = value;
        return self();
    }

    /**
     * Sets beta.
     *
     * @param value 0 until set
     * @return this
     */
    public final A beta(float value) {
        beta = value;
        return self();
    }

    /**
     * Sets beta, read as the handle's pointer mode says.
     *
     * @param value one float
     * @return this
     */
    public final A beta(Memory value) {
        betaMemory = value;
        return self();
    }

    /**
     * Sets the bias.
     *
     * @param summands floats
     * @return this
     */
    public final A bias(Memory summands) {
        bias = summands;
        return self();
    }
}
