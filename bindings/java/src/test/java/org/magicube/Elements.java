// SPDX-License-Identifier: Apache-2.0
package org.magicube;

import java.util.Random;
import java.util.function.DoubleSupplier;

/** Elements of every type, as doubles, which hold them exactly. */
final class Elements {
    private Elements() {}

    static long min(DataType type) {
        switch (type) {
            case INT4: return -8;
            case INT8: return -128;
            case UINT8: return 0;
            case INT12: return -2048;
            case INT16: return -32768;
            default: return Integer.MIN_VALUE;
        }
    }

    static long max(DataType type) {
        return type == DataType.UINT8 ? 255 : -min(type) - 1;
    }

    /** Full-range integers; floating numbers of both signs and several magnitudes. */
    static double[] random(DataType type, Random random, int count) {
        double[] values = new double[count];
        for (int i = 0; i < count; ++i) {
            if (type.isInteger()) {
                long span = max(type) - min(type) + 1;
                values[i] = min(type) + Math.floorMod(random.nextLong(), span);
            } else {
                int mantissa = type == DataType.E4M3 ? random.nextInt(31) - 15
                        : random.nextInt(255) - 127;
                values[i] = mantissa * Math.scalb(1.0, -random.nextInt(5) - 3);
            }
        }
        return values;
    }

    static float[] floats(int count, DoubleSupplier next) {
        float[] values = new float[count];
        for (int i = 0; i < count; ++i) {
            values[i] = (float) next.getAsDouble();
        }
        return values;
    }

    static Memory pack(DataType type, double... values) {
        switch (type.bits()) {
            case 4: {
                byte[] bytes = new byte[(values.length + 1) / 2];
                for (int i = 0; i < values.length; ++i) {
                    bytes[i / 2] |= (byte) (((int) values[i] & 15) << (i % 2 * 4));
                }
                return Memory.copyOf(bytes);
            }
            case 8: {
                byte[] bytes = new byte[values.length];
                for (int i = 0; i < values.length; ++i) {
                    bytes[i] = (byte) (type == DataType.E4M3 ? toE4m3(values[i]) : (int) values[i]);
                }
                return Memory.copyOf(bytes);
            }
            case 16: {
                short[] shorts = new short[values.length];
                for (int i = 0; i < values.length; ++i) {
                    shorts[i] = (short) (type == DataType.FP16 ? toHalf((float) values[i])
                            : type == DataType.BF16 ? toBf16((float) values[i]) : (int) values[i]);
                }
                return Memory.copyOf(shorts);
            }
            default: {
                int[] ints = new int[values.length];
                for (int i = 0; i < values.length; ++i) {
                    ints[i] = type == DataType.FP32 ? Float.floatToRawIntBits((float) values[i])
                            : (int) values[i];
                }
                return Memory.copyOf(ints);
            }
        }
    }

    static double[] unpack(DataType type, Memory memory, int count) {
        double[] values = new double[count];
        byte[] bytes = memory.toBytes();
        for (int i = 0; i < count; ++i) {
            values[i] = element(type, bytes, i);
        }
        return values;
    }

    private static double element(DataType type, byte[] bytes, int i) {
        switch (type) {
            case INT4:
                return (byte) (bytes[i / 2] << (4 - i % 2 * 4)) >> 4;
            case INT8:
                return bytes[i];
            case UINT8:
                return bytes[i] & 255;
            case E4M3:
                return fromE4m3(bytes[i] & 255);
            case FP16:
                return fromHalf(word(bytes, 2 * i));
            case BF16:
                return Float.intBitsToFloat(word(bytes, 2 * i) << 16);
            case INT12:
            case INT16:
                return (short) word(bytes, 2 * i);
            default:
                int word = word(bytes, 4 * i) | word(bytes, 4 * i + 2) << 16;
                return type == DataType.FP32 ? Float.intBitsToFloat(word) : word;
        }
    }

    private static int word(byte[] bytes, int at) {
        return bytes[at] & 255 | (bytes[at + 1] & 255) << 8;
    }

    private static double fromE4m3(int bits) {
        int exponent = bits >> 3 & 15;
        int mantissa = bits & 7;
        double size = exponent == 0 ? Math.scalb(mantissa, -9)
                : Math.scalb(8 + mantissa, exponent - 10);
        return (exponent == 15 && mantissa == 7) ? Double.NaN : bits > 127 ? -size : size;
    }

    private static int toE4m3(double value) {
        for (int bits = 0; bits < 256; ++bits) {
            if (fromE4m3(bits) == value) {
                return bits;
            }
        }
        throw new IllegalArgumentException(value + " is no e4m3");
    }

    static double fromHalf(int bits) {
        int exponent = bits >> 10 & 31;
        int mantissa = bits & 1023;
        double size = exponent == 0 ? Math.scalb(mantissa, -24)
                : exponent < 31 ? Math.scalb(1024 + mantissa, exponent - 25)
                : mantissa == 0 ? Double.POSITIVE_INFINITY : Double.NaN;
        return (bits & 0x8000) != 0 ? -size : size;
    }

    /** To nearest even. */
    static int toHalf(float value) {
        int sign = Float.floatToRawIntBits(value) >>> 16 & 0x8000;
        double size = Math.abs((double) value);
        if (size >= 65520) {
            return sign | 0x7c00;
        }
        int exponent = Math.max(Math.getExponent(size), -14);
        long mantissa = (long) Math.rint(Math.scalb(size, 10 - exponent)); // 2048 carries over
        return sign | (int) (mantissa + ((long) (exponent + 14) << 10));
    }

    /** To nearest even. */
    static int toBf16(float value) {
        int bits = Float.floatToRawIntBits(value);
        return bits + 0x7fff + (bits >>> 16 & 1) >>> 16;
    }

    /** A float in another type, rounded or saturated as the library says. */
    static double convert(DataType type, float value) {
        switch (type) {
            case FP32:
                return value;
            case FP16:
                return fromHalf(toHalf(value));
            case BF16:
                return Float.intBitsToFloat(toBf16(value) << 16);
            default:
                return Math.max(min(type), Math.min(max(type), Math.rint(value) + 0.0)); // no -0
        }
    }
}
