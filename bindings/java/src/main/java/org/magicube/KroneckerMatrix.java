// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.magicube.internal.Native;

/**
 * A Kronecker-sparse factor, or a chain of them (butterfly, Monarch, block-diagonal, low rank). A
 * factor (a, b, c, d) has the support I_a (x) 1_{b x c} (x) I_d, the size (a b d) x (a c d) and
 * values W[a][b][c][d], row-major: K[(i b + j) d + l, (i c + k) d + l] = W[i, j, k, l]. All factors
 * of a chain have one type, and neighbours fit. What is here runs on the CPU.
 */
public final class KroneckerMatrix extends NativeObject {
    final boolean readOnly;
    final DataType type;
    /** Values of the factors, changed under enterChange alone; null: patterns alone. */
    final Memory[] values;
    private final long[] elements;

    /**
     * Shape of a factor.
     *
     * @param a number of diagonal blocks
     * @param b rows of a block of ones
     * @param c columns of a block of ones
     * @param d size of the identities in a block
     */
    public record Shape(long a, long b, long c, long d) {
        /** {@return the number of values} */
        public long elements() {
            return Shapes.times(Shapes.times(a, b), Shapes.times(c, d));
        }
    }

    /**
     * What two neighbours of a chain are to one another.
     *
     * @param chainable whether their product is again a factor
     * @param rank then, that of each block of the product; else 0
     * @param redundant whether the pair expresses no more than the one factor
     */
    public record Pair(boolean chainable, long rank, boolean redundant) {}

    private KroneckerMatrix(long address, DataType type, boolean readOnly, long[] elements,
            Memory[] values) {
        super(new Lifetime("KroneckerMatrix", address, Native::magicubeDestroyKronecker));
        this.type = type;
        this.readOnly = readOnly;
        this.elements = elements;
        this.values = values;
    }

    /**
     * Describes one factor.
     *
     * @param shape of the factor
     * @param values a b c d elements; null: pattern alone
     * @param type of the elements
     * @return the factor
     */
    public static KroneckerMatrix of(Shape shape, Memory values, DataType type) {
        boolean readOnly = SparseMatrix.isConst(values);
        long[] matrix = new long[1];
        try (Uses uses = new Uses()) {
            long v = values == null ? 0 : uses.memory(values);
            if (readOnly) {
                Native.magicubeCreateConstKronecker(matrix, shape.a, shape.b, shape.c, shape.d, v,
                        type.code);
            } else {
                Native.magicubeCreateKronecker(matrix, shape.a, shape.b, shape.c, shape.d, v,
                        type.code);
            }
        }
        return new KroneckerMatrix(matrix[0], type, readOnly, new long[] {shape.elements()},
                new Memory[] {values}).checked();
    }

    /**
     * Describes a chain.
     *
     * @param shapes of the factors, leftmost first
     * @param values of each factor; null: patterns alone. If one is read-only, so is the chain
     * @param type of the elements
     * @return the chain
     */
    public static KroneckerMatrix chain(List<Shape> shapes, List<Memory> values, DataType type) {
        int count = shapes.size();
        if (values != null && values.size() != count) {
            throw new IllegalArgumentException(
                    "values has " + values.size() + " entries; shapes has " + count);
        }
        Memory[] arrays = values == null ? new Memory[count] : values.toArray(new Memory[0]);
        boolean readOnly = values == null || values.stream().anyMatch(SparseMatrix::isConst);
        long[] matrix = new long[1];
        try (Uses uses = new Uses()) {
            long factors = uses.memory(pack(shapes));
            long list = values == null ? 0 : addresses(uses, arrays);
            if (readOnly) {
                Native.magicubeCreateConstKroneckerChain(matrix, count, factors, list, type.code);
            } else {
                Native.magicubeCreateKroneckerChain(matrix, count, factors, list, type.code);
            }
        }
        long[] elements = shapes.stream().mapToLong(Shape::elements).toArray();
        return new KroneckerMatrix(matrix[0], type, readOnly, elements, arrays).checked();
    }

    private KroneckerMatrix checked() {
        try {
            for (int i = 0; i < values.length; ++i) {
                check(i, values[i]);
            }
            return this;
        } catch (IllegalArgumentException tooSmall) {
            close();
            throw tooSmall;
        }
    }

    private void check(int factor, Memory memory) {
        if (memory != null) {
            memory.check("values[" + factor + "]", type.bytes(elements[factor]), type.width());
        }
    }

    /** Elements of a factor's values. */
    long elements(int factor) {
        return elements[factor];
    }

    /** A list of addresses in host memory, which lives as long as the uses. */
    static long addresses(Uses uses, Memory[] arrays) {
        long[] list = new long[arrays.length];
        for (int i = 0; i < list.length; ++i) {
            list[i] = arrays[i] == null ? 0 : uses.memory(arrays[i]);
        }
        return uses.memory(Memory.copyOf(list));
    }

    private static Memory pack(List<Shape> shapes) {
        long[] packed = new long[4 * shapes.size()];
        for (int i = 0; i < shapes.size(); ++i) {
            Shape shape = shapes.get(i);
            packed[4 * i] = shape.a;
            packed[4 * i + 1] = shape.b;
            packed[4 * i + 2] = shape.c;
            packed[4 * i + 3] = shape.d;
        }
        return Memory.copyOf(packed);
    }

    private static List<Shape> unpack(Memory memory) {
        long[] packed = memory.toLongs();
        List<Shape> shapes = new ArrayList<>();
        for (int i = 0; i < packed.length; i += 4) {
            shapes.add(new Shape(packed[i], packed[i + 1], packed[i + 2], packed[i + 3]));
        }
        return List.copyOf(shapes);
    }

    private static Memory room(long count) {
        return Memory.copyOf(new long[Math.toIntExact(4 * count)]);
    }

    /**
     * The factors of the dyadic butterfly of a size.
     *
     * @param log2Size logarithm of the size, 1 to 62
     * @return their shapes, leftmost first
     */
    public static List<Shape> butterfly(int log2Size) {
        long[] count = new long[1];
        Native.magicubeKroneckerButterflyShapes(log2Size, 0, 0, count);
        Memory shapes = room(count[0]);
        try (Uses uses = new Uses()) {
            Native.magicubeKroneckerButterflyShapes(log2Size, uses.memory(shapes), count[0], count);
        }
        return unpack(shapes);
    }

    /**
     * The two factors of a Monarch matrix.
     *
     * @param rows number of rows
     * @param cols number of columns
     * @param blocks divides cols
     * @param step divides rows
     * @param rank of the blocks
     * @return (1, rows / step, blocks rank, step) and (blocks, rank step, cols / blocks, 1)
     */
    public static List<Shape> monarch(long rows, long cols, long blocks, long step, long rank) {
        Memory shapes = room(2);
        try (Uses uses = new Uses()) {
            Native.magicubeKroneckerMonarchShapes(rows, cols, blocks, step, rank,
                    uses.memory(shapes));
        }
        return unpack(shapes);
    }

    private long[] get() {
        long[][] out = new long[4][1];
        try (Uses uses = new Uses()) {
            Native.magicubeKroneckerGet(uses.object(this), out[0], out[1], out[2], out[3]);
        }
        return new long[] {out[0][0], out[1][0], out[2][0], out[3][0]};
    }

    /** {@return the number of factors} */
    public int factors() {
        return (int) get()[0];
    }

    /** {@return the rows of the product} */
    public long rows() {
        return get()[1];
    }

    /** {@return the columns of the product} */
    public long cols() {
        return get()[2];
    }

    /** {@return the type of the values} */
    public DataType type() {
        return DataType.of(get()[3]);
    }

    /** {@return whether calls may not write the values} */
    public boolean isReadOnly() {
        return readOnly;
    }

    /**
     * Shape of a factor.
     *
     * @param factor which, from 0
     * @return its shape
     */
    public Shape shape(int factor) {
        Memory shape = room(1);
        try (Uses uses = new Uses()) {
            Native.magicubeKroneckerGetFactor(uses.object(this), factor, uses.memory(shape), null);
        }
        return unpack(shape).get(0);
    }

    /**
     * Values of a factor.
     *
     * @param factor which, from 0
     * @return its memory; null for a pattern alone
     */
    public Memory values(int factor) {
        try (Uses uses = new Uses()) {
            uses.object(this);
            return values[factor];
        }
    }

    /**
     * Points a factor at other values of the same shape.
     *
     * @param factor which, from 0
     * @param memory as many as before; not read-only, unless the chain is
     */
    public void setValues(int factor, Memory memory) {
        if (!readOnly && memory != null && memory.isReadOnly()) {
            throw new IllegalArgumentException(
                    "memory is read-only; make the matrix over read-only memory");
        }
        long matrix = lifetime.enterChange();
        try (Uses uses = new Uses()) {
            Objects.checkIndex(factor, values.length);
            check(factor, memory);
            long address = memory == null ? 0 : uses.memory(memory);
            if (readOnly) {
                Native.magicubeConstKroneckerSetValues(matrix, factor, address);
            } else {
                Native.magicubeKroneckerSetValues(matrix, factor, address);
            }
            values[factor] = memory;
        } finally {
            lifetime.exitChange();
        }
    }

    /**
     * What a factor and the next are to one another.
     *
     * @param factor the left one, from 0
     * @return whether they can be one, and what is lost
     */
    public Pair pair(int factor) {
        long[][] out = new long[3][1];
        try (Uses uses = new Uses()) {
            Native.magicubeKroneckerGetPair(uses.object(this), factor, out[0], out[1], out[2]);
        }
        return new Pair(out[0][0] != 0, out[1][0], out[2][0] != 0);
    }

    /**
     * The shape of the chain's product as one factor.
     *
     * @return the shape
     * @throws MagicubeException with INVALID_VALUE where neighbours are not chainable
     */
    public Shape productShape() {
        Memory shape = room(1);
        try (Uses uses = new Uses()) {
            Native.magicubeKroneckerProductShape(uses.object(this), uses.memory(shape));
        }
        return unpack(shape).get(0);
    }

    /** Address for a call that reads it. */
    static long read(Uses uses, KroneckerMatrix matrix, String name) {
        return uses.object(matrix, name, matrix.values);
    }

    /** Address for a call that writes its values. */
    static long write(Uses uses, KroneckerMatrix matrix, String name) {
        if (matrix.readOnly) {
            throw new IllegalArgumentException(
                    name + " is over read-only memory, or none; the call writes it");
        }
        return read(uses, matrix, name);
    }

    /**
     * Writes scale * [[1, 1], [1, -1]] into every block of a chain whose factors have b = c = 2.
     *
     * @param handle where
     * @param scale 1 / sqrt(2) makes a butterfly the orthonormal Hadamard matrix
     */
    public void fillHadamard(Handle handle, float scale) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeKroneckerFillHadamard(uses.handle(), write(uses, this, "this"), scale);
        }
    }

    /**
     * Writes the factor, or the product of the chain, as a dense matrix.
     *
     * @param handle where
     * @param dense of this size, in either order, written
     */
    public void toDense(Handle handle, DenseMatrix dense) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeKroneckerToDense(uses.handle(), read(uses, this, "this"),
                    uses.output(dense, "dense"));
        }
    }

    /**
     * Reads the values of this one factor from a dense matrix.
     *
     * @param handle where
     * @param dense of this size; outside the support all is 0, else INVALID_VALUE with the place
     */
    public void fromDense(Handle handle, DenseMatrix dense) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeDenseToKronecker(uses.handle(), uses.matrix(dense, "dense"),
                    write(uses, this, "this"));
        }
    }

    /**
     * This one factor as CSR with all its entries, zeros included.
     *
     * @param handle where
     * @param offsetType width of the offsets
     * @param valueType type of the values, which are left out if this has none
     * @return the matrix, which owns its arrays
     */
    public CsrMatrix toCsr(Handle handle, IndexType offsetType, DataType valueType) {
        long[] size = get();
        try (Uses uses = new Uses(handle);
                Conversion.Arrays made = new Conversion.Arrays(handle)) {
            long from = read(uses, this, "this");
            Memory offsets = made.allocate(size[1] + 1, 8 * offsetType.bytes());
            Memory columns = made.allocate(elements[0], 32);
            Memory csr = values[0] == null ? null : made.allocate(elements[0], valueType.width());
            Native.magicubeKroneckerToCsr(uses.handle(), from, offsetType.code, offsets.address,
                    columns.address, csr == null ? 0 : csr.address, valueType.code);
            return made.keep(CsrMatrix.of(size[1], size[2], elements[0], offsets, columns, csr,
                    offsetType, valueType));
        }
    }

    /**
     * Reads the values of this one factor from a CSR matrix; absent entries become 0.
     *
     * @param handle where
     * @param source of this size; outside the support all is 0, else INVALID_VALUE with the place
     */
    public void fromCsr(Handle handle, CsrMatrix source) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeCsrToKronecker(uses.handle(), uses.matrix(source, "source"),
                    write(uses, this, "this"));
        }
    }

    /**
     * Multiplies the factors of this chain.
     *
     * @param handle where
     * @param product one factor, of the shape that productShape tells, written
     */
    public void multiply(Handle handle, KroneckerMatrix product) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeKroneckerMultiply(uses.handle(), read(uses, this, "this"),
                    write(uses, product, "product"));
        }
    }

    /**
     * Writes the gradient of a factor's values into this: with Y = K X and dY the derivative of a
     * loss by Y, the sum over all vectors of dY times X at each place of the support.
     *
     * @param handle where
     * @param x the vectors, fp32, fp16 or bf16
     * @param dY of x's type
     * @param layout of both
     */
    public void gradient(Handle handle, DenseMatrix x, DenseMatrix dY, KroneckerMM.Layout layout) {
        try (Uses uses = new Uses(handle)) {
            Native.magicubeKroneckerGradient(uses.handle(), uses.matrix(x, "x"),
                    uses.matrix(dY, "dY"), layout.code, write(uses, this, "this"));
        }
    }
}
